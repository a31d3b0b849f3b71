"""Stages of a pipeline: the entries of a plan, and the time of consecutive layers on k units of a type.

A stage's compute time is S + A/k and its communication time S' + A'/k, where S is the serial and A the
parallel part (Amdahl 1967; HeterPS 2023, eq. 1-4). The parts of a stage are sums over its layers.

The table for the solvers has the stage times of every segment, a run of consecutive layers on one type.
Parts are added from the first layer to the last, so that the table and the evaluation of a single stage
give the same floating-point numbers. The check derives its own (`check/interval_bounds.py`).
"""

from __future__ import annotations

import bisect
import itertools
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, NamedTuple, Self

import numpy as np

from ...instances.common.arrays import Floats, Ints
from ...instances.common.errors import TooLargeError, first_names
from ...instances.common.fields import Checked, Complaint, Count, Name, PositiveCount, entries
from ...instances.staging.instance import MAX_LAYERS, Layer, StagingInstance, figure_on
from ..common.clock import check_time
from ..common.compiled import compiled_without_arrays
from ..common.formulation import PlanEntry
from ..common.objective import TOLERANCE, loosened


class Stage(PlanEntry, Checked):
    """Layers, counted from 0, on `units` units of one type.

    Attributes
    ----------
    first_layer, last_layer
        In a chain the layers between, both included, are those of the stage.
    layers
        In a graph all layers of the stage, ascending; None where they are consecutive.
    """

    omitted = "layers"

    first_layer: Count
    last_layer: Count
    layers: Annotated[tuple[Count, ...] | None, *entries(MAX_LAYERS)] = None
    type: Name
    units: PositiveCount

    def _complaints(self) -> Iterable[Complaint]:
        if self.layers is None:
            return
        if any(a >= b for a, b in itertools.pairwise(self.layers)):
            yield "layers", "have to rise"
        elif not self.layers or (self.layers[0], self.layers[-1]) != (self.first_layer, self.last_layer):
            yield "layers", "have to go from first_layer to last_layer"

    @property
    def members(self) -> Sequence[int]:
        """Indices of all layers of the stage."""
        return range(self.first_layer, self.last_layer + 1) if self.layers is None else self.layers


Plan = Sequence[Stage]
"""The entries of a plan, or some of them."""


def units_of(plan: Plan) -> Counter[str]:
    """Return how many units of each type a plan has."""
    units = Counter[str]()
    for stage in plan:
        units[stage.type] += stage.units
    return units


def stage_of(layers: Sequence[int], name: str, units: int) -> Stage:
    """Return the stage of the given ascending layers of a graph on devices of one hardware type."""
    return Stage(first_layer=layers[0], last_layer=layers[-1], layers=tuple(layers), type=name, units=units)


class Column(NamedTuple):
    """A possible stage, a column of the compact MILP model; `type` is the index of the hardware type."""

    first: int
    last: int
    type: int
    units: int
    time_s: float


@dataclass(frozen=True)
class Corner:
    """A point of the Pareto front: stage time [s per probe batch] and cost [USD]."""

    time_s: float
    cost_usd: float


Parts = tuple[float, float, float, float]
"""Parts S, A of compute and S', A' of communication, with the transfer; no stage has an infinite S."""
MAX_UNITS = 10**9
"""Maximum number of units of one stage; plans with more are malformed."""
MAX_SEGMENTS = 30_000_000
"""Maximum number of segments of all types; the arrays of a search take about 200 bytes for each."""


def check_segment_count(instance: StagingInstance) -> None:
    """Raise an error if the segments (possible stages) of an instance would not fit into memory.

    Raises
    ------
    TooLargeError
        If there are more than thirty million.
    """
    size, types = len(instance.layers), len(instance.types)
    count = size * (size + 1) // 2 * types
    if count > MAX_SEGMENTS:
        raise TooLargeError(
            f"{size} layers on {types} types make {count:,} possible stages, and at most {MAX_SEGMENTS:,} "
            "are allowed; merge layers, or leave out types that others beat"
        )


MAX_NAMED_LAYERS = 5
"""Maximum number of layers listed by name in one reason."""


def layer_names_text(layers: Sequence[Layer]) -> str:
    """Return a text with the names of the first few layers, and how many more there are."""
    return first_names([repr(layer.name) for layer in layers], MAX_NAMED_LAYERS)


def memory_text(instance: StagingInstance, layers: Sequence[Layer]) -> str:
    """Return a sentence on the layers that fit on no device, with the numbers of the worst one."""
    shares = [
        min(
            (layer.memory_on(one.name) / one.memory_gib, layer.memory_on(one.name), one.memory_gib, one.name)
            for one in instance.types
            if one.name in layer.compute_s and one.memory_gib is not None
        )
        for layer in layers
    ]
    farthest = max(range(len(layers)), key=lambda index: shares[index][0])
    _, needed, room, name = shares[farthest]
    figures = f"needs {needed:g} GiB, and a unit of {name} has {room:g}"
    if len(layers) == 1:
        return f"layer {layers[0].name!r} fits no device: it {figures}"
    return (
        f"{len(layers)} layers fit no device: {layer_names_text(layers)}; {layers[farthest].name!r} {figures}"
    )


def incompatible_layers_text(layers: Sequence[tuple[str, set[str]]]) -> str:
    """Return a text that names two layers without a common type, or else the first and last layer."""
    for (one, able), (other, others) in itertools.combinations(layers, 2):
        if not able & others:
            return f"{one!r} and {other!r}"
    return f"{layers[0][0]!r} to {layers[-1][0]!r}"


class Hardware(NamedTuple):
    """The hardware types of an instance as arrays, shape (T,).

    Attributes
    ----------
    price
        USD per hour and unit.
    limit, most
        Units that there are, infinite where nothing limits them, and units that one stage may have.
    room_gib
        Memory of a unit with its tolerance, infinite where it is not checked.
    """

    price: Floats
    limit: Floats
    most: Floats
    room_gib: Floats


def hardware_of(instance: StagingInstance) -> Hardware:
    """Return prices, limits and memory of the hardware types of an instance as arrays."""
    price, limit, room = np.array(
        [
            (
                one.price_usd_per_hour,
                math.inf if one.limit is None else one.limit,
                math.inf if one.memory_gib is None else loosened(one.memory_gib),
            )
            for one in instance.types
        ]
    ).T.copy()
    most = min(MAX_UNITS, instance.most_units_per_stage or MAX_UNITS)
    return Hardware(price, limit, np.minimum(limit, most), room)


def memory_of_layers(instance: StagingInstance) -> Floats:
    """Return the memory that each layer needs on a unit of each hardware type [GiB], shape (L, T)."""
    return np.array([[layer.memory_on(one.name) for one in instance.types] for layer in instance.layers])


def parts_of_layers(instance: StagingInstance) -> Floats:
    """Return parts S, A, S', A' of the time [s] of every layer on every type, shape (L, T, 4).

    S is infinite, and the other parts are 0, where a layer cannot run on a type.
    """
    parts = np.zeros((len(instance.layers), len(instance.types), 4))
    parts[:, :, 0] = math.inf
    for row, layer in zip(parts, instance.layers, strict=True):
        for t, hardware in enumerate(instance.types):
            name = hardware.name
            if name in layer.compute_s:
                compute, moved = layer.compute_s[name], figure_on(layer.communication_s, name)
                alpha = figure_on(layer.compute_parallel, name)
                beta = figure_on(layer.communication_parallel, name)
                row[t] = compute * (1 - alpha), compute * alpha, moved * (1 - beta), moved * beta
    return parts


def received_s(instance: StagingInstance) -> Floats:
    """Return the time [s] for one device to receive the input of a stage from each layer on, shape (L,)."""
    received = np.zeros(len(instance.layers))
    if instance.link_gbit_per_s is not None:
        sent = np.array([layer.output_bytes for layer in instance.layers])
        received[1:] = sent[:-1] / (instance.link_gbit_per_s * 1e9 / 8)
    return received


def parts_time_s(parts: Parts, units: float) -> float:
    """Return the stage time ET = max(S + A/k, S' + A'/k) [s] on k devices."""
    compute = parts[0] + parts[1] / units
    communication = parts[2] + parts[3] / units
    return compute if compute >= communication else communication


compiled_time_s = compiled_without_arrays(parts_time_s)
"""The same for calls from compiled loops."""


def min_units(parts: Parts, time_s: float, most: int) -> int:
    """Return the minimum number of devices k ≤ `most` with ET(k) ≤ time_s; 0 if `most` do not suffice.

    Rounding is left to the caller.

    The ceiling of A/(τ − S) can be one off at an exact breakpoint, so ET itself corrects it.
    """
    serial, parallel, comm_serial, comm_parallel = parts
    if serial == math.inf or serial > time_s or comm_serial > time_s:
        return 0
    need = 1
    for fixed, shared in ((serial, parallel), (comm_serial, comm_parallel)):
        if shared > 0:
            if fixed >= time_s or shared > most * (time_s - fixed) * (1 + TOLERANCE):
                return 0
            need = max(need, math.ceil(shared / (time_s - fixed)))
    while need > 1 and parts_time_s(parts, need - 1) <= time_s:
        need -= 1
    while need <= most and parts_time_s(parts, need) > time_s:
        need += 1
    return need if need <= most else 0


@dataclass(frozen=True)
class StageTable:
    """Table of the parts of stage time of possible stages, by last layer, type and first layer.

    In a chain it has every segment, a run of consecutive layers, on every type. In a graph the ideals take
    the place of the boundaries between layers: a stage from ideal i to ideal j has `first` = i and `last` =
    j - 1.

    Attributes
    ----------
    layers
        L, the number of layers in a chain, or of ideals less one.
    first, last, type
        First and last layer and index of the hardware type of each stage, shape (n,).
    serial, parallel, comm_serial, comm_parallel
        S, A, S' and A' with transfers [s per probe batch], shape (n,); S is infinite where no stage can be.
    """

    columns: ClassVar[tuple[str, ...]] = (
        *("first", "last", "type"),
        *("serial", "parallel", "comm_serial", "comm_parallel"),
    )
    """The fields that have an entry for each stage."""

    layers: int
    first: Ints
    last: Ints
    type: Ints
    serial: Floats
    parallel: Floats
    comm_serial: Floats
    comm_parallel: Floats

    def only(self, keep: Ints) -> Self:
        """Return the table of the stages at the given indices."""
        return replace(self, **{name: getattr(self, name)[keep] for name in self.columns})

    def index(self, first: int, last: int, unit_type: int) -> int:
        """Return the index of a stage in the arrays of the table; -1 if it is missing."""

        def place(at: int) -> tuple[int, int, int]:
            return self.last[at], self.type[at], self.first[at]

        wanted = last, unit_type, first
        at = bisect.bisect_left(range(len(self.first)), wanted, key=place)
        return at if at < len(self.first) and place(at) == wanted else -1

    def parts(self, first: int, last: int, unit_type: int) -> Parts:
        """Return the parts S, A, S' and A' [s] of the time of one stage; a missing one cannot be."""
        at = self.index(first, last, unit_type)
        if at < 0:
            return math.inf, 0.0, 0.0, 0.0
        return (
            float(self.serial[at]),
            float(self.parallel[at]),
            float(self.comm_serial[at]),
            float(self.comm_parallel[at]),
        )

    def time_s(self, units: Floats | Ints | int) -> Floats:
        """Return the time ET [s] of every stage on so many devices, one number or of shape (n,) or (B, n)."""
        compute, communication = self.parallel / units, self.comm_parallel / units
        compute += self.serial
        communication += self.comm_serial
        return np.maximum(compute, communication, out=compute)


def stage_table(instance: StagingInstance, single: Floats) -> StageTable:
    """Return the table of all segments (possible stages); those that exceed the memory take ∞ time.

    Parameters
    ----------
    single
        The parts of the layers' times, as `parts_of_layers` returns them.

    Raises
    ------
    TooLargeError
        If there are more than thirty million segments.
    """
    check_segment_count(instance)
    room, memory = hardware_of(instance).room_gib[:, None], memory_of_layers(instance)
    received = received_s(instance)
    size, types = memory.shape
    count, end = size * (size + 1) // 2 * types, 0
    places, parts = np.empty((3, count), np.int32), np.empty((4, count))
    # Sums for the segments that end with a layer, by type and first layer: each grows by one layer.
    sums, memory_sums = np.zeros((4, types, size)), np.zeros((types, size))
    for last in range(size):
        check_time()
        sums[:, :, : last + 1] += single[last].T[:, :, None]
        memory_sums[:, : last + 1] += memory[last, :, None]
        begin, end = end, end + types * (last + 1)
        first, _, kind = places[:, begin:end].reshape(3, types, last + 1)
        first[:], kind[:], places[1, begin:end] = np.arange(last + 1), np.arange(types)[:, None], last
        own = parts[:, begin:end].reshape(4, types, last + 1)
        own[:] = sums[:, :, : last + 1]
        own[3] += received[: last + 1]
        # An impossible segment is infinite in its serial part alone, so that no inf − inf can arise.
        impossible = (memory_sums[:, : last + 1] > room) | np.isinf(own[0])
        if impossible.any():
            own[0][impossible], own[1:, impossible] = math.inf, 0.0
    return StageTable(size, *places, *parts)
