"""Stage times: how long a run of layers takes on k units of a type, for every run at once.

A stage's compute time is S + A/k and its communication time S' + A'/k, where S is the serial and A the
parallel part (Amdahl). The parts of a run of layers are sums over its layers, added from the first to the
last, so that the arrays here and the evaluation of a single stage give the same floating-point numbers.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..instances.staging import Layer, StagingInstance
from .base import TOLERANCE, within

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


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
    serial, parallel, comm_serial, comm_parallel = (sum(column) for column in zip(*parts, strict=True))
    compute = serial + parallel / units
    communication = comm_serial + (comm_parallel + transfer_s(instance, first)) / units
    return float(max(compute, communication))


@dataclass(frozen=True)
class StageTable:
    """The parts of every run of layers on every type; arrays of shape (L, L, T), first ≤ last.

    Attributes
    ----------
    serial, parallel, comm_serial, comm_parallel
        S, A, S' and A' with the transfer; infinite S where the run cannot be a stage.
    price, limit
        Shape (T,): USD per hour and unit; units there are, infinite where there is no limit.
    """

    serial: Floats
    parallel: Floats
    comm_serial: Floats
    comm_parallel: Floats
    price: Floats
    limit: Floats

    def time_s(self, units: Ints | int) -> Floats:
        """Return ET of every run with this number of units, shape (L, L, T)."""
        compute = self.serial + self.parallel / units
        result: Floats = np.maximum(compute, self.comm_serial + self.comm_parallel / units)
        return result

    def run_time_s(self, first: int, last: int, kind: int, units: int) -> float:
        """Return ET of one run."""
        at = first, last, kind
        compute = self.serial[at] + self.parallel[at] / units
        return float(max(compute, self.comm_serial[at] + self.comm_parallel[at] / units))

    def fewest_units(self, first: int, last: int, kind: int, time_s: float) -> int | None:
        """Return the smallest k ≥ 1 with ET(k) ≤ time_s, up to rounding, or None.

        The ceiling of A/(τ − S) is one too many at many exact breakpoints, so it is corrected by the
        very time that counts.
        """
        at = first, last, kind
        need = 1
        for serial, parallel in (
            (self.serial[at], self.parallel[at]),
            (self.comm_serial[at], self.comm_parallel[at]),
        ):
            if not within(float(serial), time_s):
                return None
            if parallel > 0:
                room = time_s * (1 + TOLERANCE) - float(serial)
                if room <= 0:
                    return None
                need = max(need, min(math.ceil(float(parallel) / room), 10**15))
        while need > 1 and within(self.run_time_s(first, last, kind, need - 1), time_s):
            need -= 1
        while not within(self.run_time_s(first, last, kind, need), time_s):
            need += 1
            if need > self.limit[kind] or need > 10**15:
                return None
        return need if need <= self.limit[kind] else None


def stage_table(instance: StagingInstance) -> StageTable:
    """Return the parts of every run; runs that a unit's memory cannot hold have infinite time."""
    size, kinds = len(instance.layers), instance.types
    parts = np.full((4, size, size, len(kinds)), math.inf)
    for t, kind in enumerate(kinds):
        single = np.array([layer_parts(layer, kind.name) for layer in instance.layers])
        for first in range(size):
            parts[:, first, first:, t] = np.cumsum(single[first:], axis=0).T
            parts[3, first, first:, t] += transfer_s(instance, first)
            if kind.memory_gib is not None:
                held = np.array(
                    list(itertools.accumulate(layer.memory_gib for layer in instance.layers[first:]))
                )
                over = held > kind.memory_gib + TOLERANCE * max(kind.memory_gib, 1e-9)
                parts[0, first, first:, t][over] = math.inf
    # An impossible run is infinite in its serial part alone, so that no inf − inf can arise.
    for index in (1, 2, 3):
        parts[index][np.isinf(parts[0])] = 0.0
    return StageTable(
        parts[0],
        parts[1],
        parts[2],
        parts[3],
        np.array([kind.price_usd_per_hour for kind in kinds]),
        np.array([math.inf if kind.limit is None else float(kind.limit) for kind in kinds]),
    )
