"""A reference solution of a synthetic model, so that limits and floors can be drawn around it.

At a fixed time τ of the slowest stage, a segment of layers on a type needs the least k ≥ 1 units with
max(S + A/k, S' + A'/k) ≤ τ, and the cheapest plan is a shortest path over (layer, type) in which neighbours
differ in type. Prices that are raised on types with much of the work and lowered on those with little
spread the plan over all types.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..common.arrays import Floats, Ints

ROUNDS = 40
"""Of raising and lowering prices until a plan is spread over all types."""


@dataclass(frozen=True)
class Parts:
    """What decides the time of a stage, in seconds per probe batch, and whether it fits.

    Attributes
    ----------
    serial, parallel, comm_serial, comm_parallel
        S, A, S' and A' of each layer on each type, shape (L, T).
    transfer
        Seconds in which one unit receives the input of each layer, shape (L,).
    memory, room
        Memory of each layer, shape (L,), and of a unit of each type, shape (T,); infinite: not checked.
    """

    serial: Floats
    parallel: Floats
    comm_serial: Floats
    comm_parallel: Floats
    transfer: Floats
    memory: Floats
    room: Floats

    def units(self, first: int, last: int, slowest_s: float) -> Floats:
        """Return the units of the segments from `first` or later to `last`, by first layer and type.

        They are infinite where no number of units will do.
        """

        def sums(column: Floats) -> Floats:
            return np.cumsum(column[first : last + 1][::-1], axis=0)[::-1]

        held = sums(self.memory)
        compute = _least_units(sums(self.parallel), slowest_s - sums(self.serial))
        received = sums(self.comm_parallel) + self.transfer[first : last + 1, None]
        units = np.maximum(compute, _least_units(received, slowest_s - sums(self.comm_serial)))
        # Sums in another order must not overfill a unit that was drawn to hold just these layers.
        return np.where(held[:, None] <= self.room * (1 + 1e-12), units, np.inf)

    def stage_s(self, first: int, last: int, unit_type: int, units: int) -> float:
        """Return the time of one stage."""
        columns = (self.serial, self.parallel, self.comm_serial, self.comm_parallel)
        serial, parallel, waiting, moved = (
            float(column[first : last + 1, unit_type].sum()) for column in columns
        )
        moved += float(self.transfer[first])
        return max(serial + parallel / units, waiting + moved / units)


def _least_units(parallel: Floats, left_s: Floats) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(left_s > 0, np.maximum(1, np.ceil(parallel / left_s - 1e-9)), np.inf)


@dataclass(frozen=True)
class Stage:
    """Layers `first` to `last` on units of a type, all by number."""

    first: int
    last: int
    unit_type: int
    units: int


def cheapest_path(parts: Parts, prices: Floats, slowest_s: float) -> list[Stage] | None:
    """Return the plan of least price at a time of the slowest stage; None where there is none."""
    layers, types = parts.serial.shape
    cost = np.zeros((layers + 1, types))
    cost[1:] = np.inf
    start = np.zeros((layers, types), dtype=np.int64)
    units = np.zeros((layers, types))
    # before[i, t]: the least cost of the layers before i whose last stage is on another type than t.
    before, previous = np.zeros((layers + 1, types)), np.full((layers + 1, types), -1)
    first = 0
    for last in range(layers):
        needed = parts.units(first, last, slowest_s)
        possible = np.isfinite(needed).any(axis=1)
        if not possible.any():
            return None
        # A segment that no type can run stays impossible as it grows.
        skipped = int(np.argmax(possible))
        first, needed = first + skipped, needed[skipped:]
        total = before[first : last + 1] + needed * prices
        chosen = np.argmin(total, axis=0)
        start[last] = first + chosen
        cost[last + 1] = total[chosen, np.arange(types)]
        units[last] = needed[chosen, np.arange(types)]
        best = int(np.argmin(cost[last + 1]))
        before[last + 1], previous[last + 1] = cost[last + 1, best], best
        others = np.delete(cost[last + 1], best)
        second = int(np.argmin(others)) if len(others) else -1
        before[last + 1, best] = others[second] if len(others) else np.inf
        previous[last + 1, best] = second + (second >= best) if len(others) else -1
    unit_type = int(np.argmin(cost[layers]))
    if not np.isfinite(cost[layers, unit_type]):
        return None
    stages: list[Stage] = []
    end = layers
    while end:
        first = int(start[end - 1, unit_type])
        stages.append(Stage(first, end - 1, unit_type, int(units[end - 1, unit_type])))
        unit_type, end = int(previous[first, unit_type]), first
    return stages[::-1]


def reachable_time(parts: Parts, prices: Floats, slowest_s: float) -> float:
    """Return a time at which there is a plan: the given one, or the next longer one of a coarse grid."""
    while cheapest_path(parts, prices, slowest_s) is None:
        slowest_s *= 1.3
    return slowest_s


def used(stages: list[Stage], types: int) -> Ints:
    """Return the units of each type that a plan uses."""
    counts = np.zeros(types, dtype=np.int64)
    for stage in stages:
        counts[stage.unit_type] += stage.units
    return counts


def spread_path(parts: Parts, prices: Floats, slowest_s: float) -> list[Stage]:
    """Return a plan that uses as many types as it can, each for about the same money.

    It is the cheapest for some other prices, so no other plan has as few units of every type.
    """
    types = len(prices)
    raised = prices.copy()
    best: list[Stage] = []
    best_score = (-1, 0.0)
    for turn in range(ROUNDS):
        stages = cheapest_path(parts, raised, slowest_s)
        if stages is None:
            break
        money = used(stages, types) * prices
        share = money / money.sum()
        score = (int((money > 0).sum()), -float(share.max()))
        if score > best_score:
            best, best_score = stages, score
        wanted = 1.0 / types
        # Steps shrink, so that the split of the money settles.
        raised *= np.exp(np.clip((share - wanted) / wanted, -1, 1) * 0.3 / (1 + turn / 10))
    return best
