"""Stages of a pipeline: the entries of a plan, and the time of consecutive layers on k units of a type.

A stage's compute time is S + A/k and its communication time S' + A'/k, where S is the serial and A the
parallel part (Amdahl 1967; HeterPS 2023, eq. 1-4). The parts of a stage are sums over its layers.

The table for the solvers has the stage times of every segment, a run of consecutive layers on one type.
Parts are added from the first layer to the last, so that the table and the evaluation of a single stage
give the same floating-point numbers. The check derives its own (`check/interval_bounds.py`).
"""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from operator import add
from typing import Annotated, Any

import numpy as np
from pydantic import Field, SerializerFunctionWrapHandler, model_serializer

from ...instances.common.arrays import Floats, Ints, narrow
from ...instances.common.errors import TooLargeError
from ...instances.common.fields import Checked, Complaint, Count, Name, PositiveCount, validated_in_batches
from ...instances.staging.instance import MAX_LAYERS, Layer, StagingInstance
from ..common.clock import check_time
from ..common.objective import TOLERANCE, loosened


class Stage(Checked):
    """Layers, counted from 0, on `units` units of one type.

    Attributes
    ----------
    first_layer, last_layer
        In a chain the layers between, both included, are those of the stage.
    layers
        In a graph all layers of the stage, ascending; None where they are consecutive.
    """

    first_layer: Count
    last_layer: Count
    layers: Annotated[
        tuple[Count, ...] | None, Field(max_length=MAX_LAYERS), validated_in_batches(MAX_LAYERS)
    ] = None
    type: Name
    units: PositiveCount

    def _complaints(self) -> Iterable[Complaint]:
        if self.layers is None:
            return
        if any(a >= b for a, b in itertools.pairwise(self.layers)):
            yield "layers", "have to rise"
        elif not self.layers or (self.layers[0], self.layers[-1]) != (self.first_layer, self.last_layer):
            yield "layers", "have to go from first_layer to last_layer"

    @model_serializer(mode="wrap")
    def _as_before(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Return the plain data without empty `layers`, so that plans of chains keep their form and hash."""
        data: dict[str, Any] = handler(self)
        if self.layers is None:
            data.pop("layers", None)
        return data

    @property
    def members(self) -> Sequence[int]:
        """Indices of all layers of the stage."""
        return range(self.first_layer, self.last_layer + 1) if self.layers is None else self.layers


def stage_of(layers: Sequence[int], name: str, units: int) -> Stage:
    """Return the stage of the given ascending layers of a graph on devices of one hardware type."""
    return Stage(first_layer=layers[0], last_layer=layers[-1], layers=tuple(layers), type=name, units=units)


@dataclass(frozen=True)
class Column:
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


def _parallel_share(shares: float | dict[str, float], name: str) -> float:
    return shares.get(name, 0.0) if isinstance(shares, dict) else shares


def layer_parts(layer: Layer, name: str) -> Parts:
    """Return S, A, S', A' of a layer's time on a type [s per probe batch]; S is ∞ if it cannot run."""
    compute = layer.compute_s.get(name, math.inf)
    communication = layer.communication_s.get(name, 0.0)
    alpha, beta = (
        _parallel_share(layer.compute_parallel, name),
        _parallel_share(layer.communication_parallel, name),
    )
    if math.isinf(compute):
        return math.inf, 0.0, 0.0, 0.0
    return compute * (1 - alpha), compute * alpha, communication * (1 - beta), communication * beta


def parts_of_layers(instance: StagingInstance) -> Floats:
    """Return parts S, A, S', A' of the time [s] of every layer on every type, shape (L, T, 4)."""
    names, layers = [hardware.name for hardware in instance.types], instance.layers
    compute = np.array([[layer.compute_s.get(name, math.inf) for name in names] for layer in layers])
    able = np.isfinite(compute)
    compute[~able] = 0.0
    moved = np.array([[layer.communication_s.get(name, 0.0) for name in names] for layer in layers])
    moved[~able] = 0.0
    alpha = _parallel_shares([layer.compute_parallel for layer in layers], names)
    beta = _parallel_shares([layer.communication_parallel for layer in layers], names)
    serial = np.where(able, compute * (1 - alpha), math.inf)
    return np.stack([serial, compute * alpha, moved * (1 - beta), moved * beta], axis=2)


def _parallel_shares(shares: Sequence[float | dict[str, float]], names: Sequence[str]) -> Floats:
    """Return the fraction of each layer's time that is parallel, on each type, shape (L, T)."""
    return np.array(
        [
            [own.get(name, 0.0) for name in names] if isinstance(own, dict) else [own] * len(names)
            for own in shares
        ]
    )


def transfer_s(instance: StagingInstance, first: int) -> float:
    """Return the time [s] for one device to receive the input of a stage that starts at `first`."""
    if first == 0 or instance.link_gbit_per_s is None:
        return 0.0
    return instance.layers[first - 1].output_bytes / (instance.link_gbit_per_s * 1e9 / 8)


def parts_time_s(parts: Parts, units: float) -> float:
    """Return the stage time ET = max(S + A/k, S' + A'/k) [s] on k devices."""
    compute = parts[0] + parts[1] / units
    communication = parts[2] + parts[3] / units
    return compute if compute >= communication else communication


def min_units(parts: Parts, time_s: float, most: int) -> int:
    """Return the minimum number of devices k ≤ `most` with ET(k) ≤ time_s; 0 if `most` do not suffice.

    Rounding is left to the caller.

    The ceiling of A/(τ − S) can be one off at an exact breakpoint, so ET itself corrects it.
    """
    serial, parallel, comm_serial, comm_parallel = parts
    if serial == math.inf or serial > time_s or comm_serial > time_s:
        return 0
    need = 1
    if parallel > 0:
        if serial >= time_s or parallel > most * (time_s - serial) * (1 + TOLERANCE):
            return 0
        need = math.ceil(parallel / (time_s - serial))
    if comm_parallel > 0:
        if comm_serial >= time_s or comm_parallel > most * (time_s - comm_serial) * (1 + TOLERANCE):
            return 0
        need = max(need, math.ceil(comm_parallel / (time_s - comm_serial)))
    need = max(need, 1)
    while need > 1 and parts_time_s(parts, need - 1) <= time_s:
        need -= 1
    while parts_time_s(parts, need) > time_s:
        need += 1
        if need > most:
            return 0
    return need if need <= most else 0


def stage_time_s(instance: StagingInstance, first: int, last: int, name: str, units: int) -> float:
    """Return the time ET [s per probe batch] of the stage of layers `first` to `last` on `units` devices.

    ET = max(S + A/k, S' + (A' + transfer)/k), HeterPS eq. 1-4 with the receiving stage's transfer.
    """
    parts = [layer_parts(layer, name) for layer in instance.layers[first : last + 1]]
    # Not sum(): from Python 3.12 on it rounds differently from adding one after another.
    serial, parallel, comm_serial, comm_parallel = (
        reduce(add, column) for column in zip(*parts, strict=True)
    )
    received = comm_parallel + transfer_s(instance, first)
    return float(parts_time_s((serial, parallel, comm_serial, received), units))


@dataclass(frozen=True)
class TimeTable(ABC):
    """Table of the parts of stage time of stages, by index.

    Attributes
    ----------
    layers
        L, the number of places in the order of layers.
    serial, parallel, comm_serial, comm_parallel
        S, A, S' and A' with transfers [s per probe batch], shape (n,); S is infinite where no stage can be.
    price, limit
        USD per hour and unit, and the units that one stage may have; shape (T,).
    """

    layers: int
    serial: Floats
    parallel: Floats
    comm_serial: Floats
    comm_parallel: Floats
    price: Floats
    limit: Floats

    @abstractmethod
    def index(self, first: int, last: int, unit_type: int) -> int:
        """Return the index of a stage in the arrays of the table; -1 if it is missing."""

    def parts(self, first: int, last: int, unit_type: int) -> Parts:
        """Return the parts S, A, S' and A' [s] of the time of one stage; a missing one cannot be."""
        at = self.index(first, last, unit_type)
        if at < 0:
            return math.inf, 0.0, 0.0, 0.0
        compute = float(self.serial[at]), float(self.parallel[at])
        return *compute, float(self.comm_serial[at]), float(self.comm_parallel[at])

    def time_s(self, units: Floats | Ints | int) -> Floats:
        """Return the time ET [s] of every stage, for one number of devices or one for each, shape (n,)."""
        compute = self.serial + self.parallel / units
        result: Floats = np.maximum(compute, self.comm_serial + self.comm_parallel / units)
        return result


class StageTable(TimeTable):
    """Table of every segment of layers, by last layer, type and first layer, n = L(L + 1)/2·T.

    Where nothing limits a type, its limit is infinite.
    """

    def places(self, position: Ints) -> tuple[Ints, Ints, Ints]:
        """Return the first layers, last layers and type indices of the segments at the given indices.

        Parameters
        ----------
        position
            Rising indices of the segments in the arrays, shape (k,).
        """
        every = np.arange(self.layers + 1)
        starts = every * (every + 1) // 2 * len(self.price)
        last = np.repeat(every[:-1], np.diff(np.searchsorted(position, starts)))
        within = position - starts[last]
        kind = within // (last + 1)
        first = within - kind * (last + 1)
        return narrow(first), narrow(last), narrow(kind)

    @cached_property
    def _places(self) -> tuple[Ints, Ints, Ints]:
        return self.places(np.arange(len(self.serial)))

    @property
    def first(self) -> Ints:
        """First layer of each segment (possible stage), shape (n,)."""
        return self._places[0]

    @property
    def last(self) -> Ints:
        """Last layer of each segment (possible stage), shape (n,)."""
        return self._places[1]

    @property
    def type(self) -> Ints:
        """Index of the hardware type of each segment (possible stage), shape (n,)."""
        return self._places[2]

    def index(self, first: int, last: int, unit_type: int) -> int:
        """Return the index of a segment (possible stage) in the arrays of the table."""
        return last * (last + 1) // 2 * len(self.price) + unit_type * (last + 1) + first


def stage_table(instance: StagingInstance, single: Floats | None = None) -> StageTable:
    """Return the table of all segments (possible stages); those that exceed the memory take ∞ time.

    Parameters
    ----------
    single
        `parts_of_layers` of the instance, if they are known.

    Raises
    ------
    TooLargeError
        If there are more than thirty million segments.
    """
    check_segment_count(instance)
    size, types = len(instance.layers), instance.types
    count = size * (size + 1) // 2 * len(types)
    single = parts_of_layers(instance) if single is None else single
    memory = np.array([[layer.memory_on(one.name) for one in types] for layer in instance.layers])
    room = np.array([math.inf if one.memory_gib is None else loosened(one.memory_gib) for one in types])
    received = np.array([transfer_s(instance, first) for first in range(size)])
    parts, end = np.empty((4, count)), 0
    # Sums for the segments that end with a layer, by type and first layer: each grows by one layer.
    sums, memory_sums = np.zeros((4, len(types), size)), np.zeros((len(types), size))
    for last in range(size):
        check_time()
        sums[:, :, : last + 1] += single[last].T[:, :, None]
        memory_sums[:, : last + 1] += memory[last, :, None]
        begin, end = end, end + len(types) * (last + 1)
        own = parts[:, begin:end].reshape(4, len(types), last + 1)
        own[:] = sums[:, :, : last + 1]
        own[3] += received[: last + 1]
        # An impossible segment is infinite in its serial part alone, so that no inf − inf can arise.
        impossible = (memory_sums[:, : last + 1] > room[:, None]) | np.isinf(own[0])
        if impossible.any():
            own[0][impossible], own[1:, impossible] = math.inf, 0.0
    serial, *others = parts
    limit = np.array([math.inf if hardware.limit is None else float(hardware.limit) for hardware in types])
    price = np.array([hardware.price_usd_per_hour for hardware in types])
    return StageTable(size, serial, others[0], others[1], others[2], price, limit)
