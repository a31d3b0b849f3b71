"""Stage times: how long a run of layers takes on k units of a type, for every run at once.

A stage's compute time is S + A/k and its communication time S' + A'/k, where S is the serial and A the
parallel part (Amdahl). The parts of a run of layers are sums over its layers, added from the first to the
last, so that the arrays here and the evaluation of a single stage give the same floating-point numbers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, reduce
from operator import add

import numpy as np

from ...instances.common.arrays import Floats, Ints
from ...instances.common.errors import TooLargeError
from ...instances.staging.instance import Layer, StagingInstance
from ..common.clock import check_time
from ..common.tolerance import TOLERANCE, within

MOST_UNITS = 10**9
"""Of one stage; plans with more are refused as malformed."""
MOST_RUNS = 30_000_000
"""Runs of layers, one for each type; all arrays of a search take some 200 bytes for each."""


def _share(shares: float | dict[str, float], name: str) -> float:
    return shares.get(name, 0.0) if isinstance(shares, dict) else shares


def layer_parts(layer: Layer, name: str) -> tuple[float, float, float, float]:
    """Return S, A, S', A' of one layer on one type [s per probe batch]; infinite where it cannot run."""
    compute = layer.compute_s.get(name, math.inf)
    communication = layer.communication_s.get(name, 0.0)
    alpha, beta = _share(layer.compute_parallel, name), _share(layer.communication_parallel, name)
    if math.isinf(compute):
        return math.inf, 0.0, 0.0, 0.0
    return compute * (1 - alpha), compute * alpha, communication * (1 - beta), communication * beta


def transfer_s(instance: StagingInstance, first: int) -> float:
    """Return the seconds in which one unit receives the input of a stage that starts at layer `first`."""
    if first == 0 or instance.link_gbit_per_s is None:
        return 0.0
    return instance.layers[first - 1].output_bytes / (instance.link_gbit_per_s * 1e9 / 8)


def stage_time_s(instance: StagingInstance, first: int, last: int, name: str, units: int) -> float:
    """Return ET of the stage of layers `first` to `last` on `units` units [s per probe batch].

    ET = max(S + A/k, S' + (A' + transfer)/k), HeterPS eq. 1–4 with the receiving stage's transfer.
    """
    parts = [layer_parts(layer, name) for layer in instance.layers[first : last + 1]]
    # Not sum(): from Python 3.12 on it rounds otherwise than adding one after another does.
    serial, parallel, comm_serial, comm_parallel = (
        reduce(add, column) for column in zip(*parts, strict=True)
    )
    compute = serial + parallel / units
    communication = comm_serial + (comm_parallel + transfer_s(instance, first)) / units
    return float(max(compute, communication))


@dataclass(frozen=True)
class StageTable:
    """The parts of every run of layers on every type, ordered by last layer, first layer and type.

    Attributes
    ----------
    layers
        L, how many there are.
    serial, parallel, comm_serial, comm_parallel
        S, A, S' and A' with the transfer, shape (n,) with n = L(L + 1)/2·T; S is infinite where the run
        cannot be a stage.
    price, limit
        Shape (T,): USD per hour and unit; units there are, infinite where there is no limit.
    """

    layers: int
    serial: Floats
    parallel: Floats
    comm_serial: Floats
    comm_parallel: Floats
    price: Floats
    limit: Floats

    @cached_property
    def first(self) -> Ints:
        """First layer of each run, shape (n,)."""
        firsts = [np.arange(last + 1) for last in range(self.layers)]
        return np.repeat(np.concatenate(firsts), len(self.price))

    @cached_property
    def last(self) -> Ints:
        """Last layer of each run, shape (n,)."""
        kinds = len(self.price)
        return np.repeat(np.arange(self.layers), np.arange(1, self.layers + 1) * kinds)

    @cached_property
    def kind(self) -> Ints:
        """Type of each run, shape (n,)."""
        kinds = len(self.price)
        return np.tile(np.arange(kinds), len(self.serial) // kinds)

    def index(self, first: int, last: int, kind: int) -> int:
        """Return the place of a run in the arrays."""
        return (last * (last + 1) // 2 + first) * len(self.price) + kind

    def by_type(self) -> Ints:
        """Return the places of all runs by last layer, then type, then first layer, shape (n,)."""
        kinds, ordered = len(self.price), np.arange(len(self.serial))
        for last in range(self.layers):
            own = slice(self.index(0, last, 0), self.index(0, last + 1, 0))
            ordered[own] = ordered[own].reshape(-1, kinds).T.ravel()
        return ordered

    def parts(self, first: int, last: int, kind: int) -> tuple[float, float, float, float]:
        """Return S, A, S' and A' of one run."""
        at = self.index(first, last, kind)
        compute = float(self.serial[at]), float(self.parallel[at])
        return *compute, float(self.comm_serial[at]), float(self.comm_parallel[at])

    def time_s(self, units: Floats | Ints | int) -> Floats:
        """Return ET of every run, with this number of units or one for each, shape (n,)."""
        compute = self.serial + self.parallel / units
        result: Floats = np.maximum(compute, self.comm_serial + self.comm_parallel / units)
        return result

    def run_time_s(self, first: int, last: int, kind: int, units: int) -> float:
        """Return ET of one run."""
        serial, parallel, comm_serial, comm_parallel = self.parts(first, last, kind)
        return max(serial + parallel / units, comm_serial + comm_parallel / units)

    def fewest_units(self, first: int, last: int, kind: int, time_s: float) -> int | None:
        """Return the smallest k ≥ 1 with ET(k) ≤ time_s, up to rounding, or None.

        The ceiling of A/(τ − S) is one too many at many exact breakpoints, so it is corrected by the
        very time that counts.
        """
        parts = self.parts(first, last, kind)
        need = 1
        for serial, parallel in (parts[:2], parts[2:]):
            if not within(serial, time_s):
                return None
            if parallel > 0:
                room = time_s * (1 + TOLERANCE) - serial
                if room <= 0:
                    return None
                need = max(need, min(math.ceil(parallel / room), MOST_UNITS + 1))
        while need > 1 and within(self.run_time_s(first, last, kind, need - 1), time_s):
            need -= 1
        while not within(self.run_time_s(first, last, kind, need), time_s):
            need += 1
            if need > self.limit[kind] or need > MOST_UNITS:
                return None
        return need if need <= min(self.limit[kind], MOST_UNITS) else None


def stage_table(instance: StagingInstance) -> StageTable:
    """Return the parts of every run; runs that a unit's memory cannot hold have infinite time.

    Raises
    ------
    TooLargeError
        If there are more than thirty million runs.
    """
    size, kinds = len(instance.layers), instance.types
    count = size * (size + 1) // 2 * len(kinds)
    if count > MOST_RUNS:
        raise TooLargeError(
            f"{size} layers on {len(kinds)} types make {count:,} possible stages, and at most {MOST_RUNS:,} "
            "are allowed; merge layers, or leave out types that others beat"
        )
    single = np.array([[layer_parts(layer, kind.name) for kind in kinds] for layer in instance.layers])
    memory = np.array([layer.memory_gib for layer in instance.layers])
    room = np.array([math.inf if kind.memory_gib is None else kind.memory_gib for kind in kinds])
    most = np.where(np.isinf(room), math.inf, room + TOLERANCE * np.maximum(room, 1e-9))
    parts = np.empty((4, count // len(kinds), len(kinds)))
    lasts = np.arange(size)
    for first in range(size):
        check_time()
        own = np.cumsum(single[first:], axis=0)
        own[:, :, 3] += transfer_s(instance, first)
        own[np.cumsum(memory[first:])[:, None] > most] = math.inf
        parts[:, lasts[first:] * (lasts[first:] + 1) // 2 + first] = own.transpose(2, 0, 1)
    serial, *others = parts.reshape(4, count)
    # An impossible run is infinite in its serial part alone, so that no inf − inf can arise.
    impossible = np.isinf(serial)
    for column in others:
        column[impossible] = 0.0
    limit = np.array([math.inf if kind.limit is None else float(kind.limit) for kind in kinds])
    price = np.array([kind.price_usd_per_hour for kind in kinds])
    return StageTable(size, serial, others[0], others[1], others[2], price, limit)
