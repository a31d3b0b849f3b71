"""The checker's own bound on every plan whose stage time lies in an interval, at given prices.

A plan with stage time τ in [a, b] uses each of its runs of layers with k units, ET(k) ≤ τ, so with at least
k(b), the fewest for b. It pays κ·π·k·τ for it, and because k·ET(k) does not fall with k that is at least
κ·π·k(b)·max(a, ET(k(b))). With prices y ≥ 0 on what units take of the limits, a shortest path at these costs,
less y·limit, is a bound on the plan's cost; leaving costs out, a positive one shows that there is no plan.

Everything is evaluated here from the table of stage times alone. Fewest units are rounded down, never up;
sums get a margin on the side that weakens the bound.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ...instances.common.arrays import Floats, Ints
from ..common.clock import check_time
from .path_enumeration import Chains, Options, none_below
from .stage_times import MOST_UNITS, StageTable

MARGIN = 1e-12
"""Relative to everything that is added up: the rounding of a sum."""
FEWER = 1e-9
"""Units are first underestimated by this part, then corrected by the very time that counts."""
CHUNK = 1 << 15
"""Counts worked on at a time."""
MOST_WORK = 300_000_000
"""Bounds that the searches of all intervals may evaluate together, which takes half a minute at most."""
AT_ONCE = 200_000
"""Runs times intervals that are evaluated together."""


@dataclass(frozen=True)
class Interval:
    """Stage times from `low` to `high`, both included, and what is to be shown there.

    Attributes
    ----------
    prices
        Of each limit, shape (R,).
    counts_cost
        Whether costs are added; else only units are.
    cutoff
        It is to be shown that no plan in the interval costs less [USD]; infinite: that there is none.
    """

    low: float
    high: float
    prices: Floats
    counts_cost: bool
    cutoff: float


@dataclass(frozen=True)
class Limits:
    """What units take, and what there is: `weight` of shape (R, T), `most` of shape (R,)."""

    weight: Floats
    most: Floats


class Cover:
    """Proves intervals.

    Parameters
    ----------
    cost_factor
        κ: USD per second of stage time and USD/h.
    apart
        Whether neighbouring stages have to differ in type.
    most_work
        Bounds that the searches of all intervals may evaluate together.
    """

    def __init__(
        self,
        table: StageTable,
        cost_factor: float,
        limits: Limits,
        apart: bool,
        most_work: int = MOST_WORK,
    ) -> None:
        self.table, self.limits, self.apart = table, limits, apart
        self.kinds = len(table.price)
        self.rate = cost_factor * table.price
        self.work_left = most_work

    def unproven(self, intervals: Sequence[Interval]) -> list[tuple[Interval, float]]:
        """Return the intervals that could not be shown, each with a bound on the cost of a plan in it.

        Where there is much to do, neighbouring intervals are first tried together: what is far from the
        cutoff needs no cutting up, and what no plan below the cutoff can use there is not looked at again.
        """
        table, found = self.table, []
        order = table.by_type()
        pending = [(list(intervals), order[np.isfinite(table.serial[order])])] if intervals else []
        while pending:
            group, runs = pending.pop()
            if len(group) > 1 and len(group) * len(runs) > AT_ONCE:
                whole = _joined(group)
                bounds, weight, reach = self._bounds([whole], runs)
                if bounds[0] < whole.cutoff:
                    rest, middle = self._useful(whole, runs, weight[0], reach[0]), len(group) // 2
                    pending += [(group[:middle], rest), (group[middle:], rest)]
                continue
            bounds, weight, reach = self._bounds(group, runs)
            for i, interval in enumerate(group):
                if bounds[i] < interval.cutoff:
                    rest = self._useful(interval, runs, weight[i], reach[i])
                    if not self._searched(interval, rest):
                        found.append((interval, self._fallback(interval, bounds[i], runs)))
        return found

    def _fallback(self, interval: Interval, bound: float, runs: Ints) -> float:
        """Return the bound of an interval that was not shown; where only units counted, without prices."""
        if interval.counts_cost:
            return bound
        free = replace(interval, prices=np.zeros_like(interval.prices), counts_cost=True)
        return self._bounds([free], runs)[0][0]

    def _units(self, runs: Ints, time_s: Floats) -> Floats:
        """Return counts that no faster use of a run falls below, infinite where there is none.

        Shape (B, n) for times of shape (B,).
        """
        table, result = self.table, np.empty((len(time_s), len(runs)))
        time_s = time_s[:, None]
        size = max(1, CHUNK // len(time_s))
        for start in range(0, len(runs), size):
            check_time()
            own = runs[start : start + size]
            serial, parallel = table.serial[own], table.parallel[own]
            comm_serial, comm_parallel = table.comm_serial[own], table.comm_parallel[own]
            tiny = np.maximum(1e-15 * time_s, 1e-300)
            least = np.maximum(
                parallel / (np.maximum(time_s - serial, 0.0) + tiny),
                comm_parallel / (np.maximum(time_s - comm_serial, 0.0) + tiny),
            )
            units = np.maximum(np.ceil(least * (1 - FEWER)), 1.0)
            for _ in range(2):
                time = np.maximum(serial + parallel / units, comm_serial + comm_parallel / units)
                units += time > time_s
            most = np.minimum(table.limit[table.kind[own]], MOST_UNITS)
            units[(serial > time_s) | (comm_serial > time_s) | (units > most)] = np.inf
            result[:, start : start + size] = units
        return result

    def _least(self, intervals: Sequence[Interval], runs: Ints) -> tuple[Floats, Floats]:
        """Return the fewest units and the least cost of each run in each interval, shapes (B, n)."""
        table = self.table
        low = np.array([[interval.low] for interval in intervals])
        counts = np.array([[float(interval.counts_cost)] for interval in intervals])
        units = self._units(runs, np.array([interval.high for interval in intervals]))
        able = np.isfinite(units)
        units[~able] = 1.0
        compute = table.serial[runs] + table.parallel[runs] / units
        time = np.maximum(compute, table.comm_serial[runs] + table.comm_parallel[runs] / units)
        cost = self.rate[table.kind[runs]] * counts * units * np.maximum(time, low)
        return units, np.where(able, cost, np.inf)

    def _weights(self, intervals: Sequence[Interval], runs: Ints) -> Floats:
        """Return the priced cost of each run in each interval, shape (B, n)."""
        units, cost = self._least(intervals, runs)
        unit = np.array([interval.prices for interval in intervals]) @ self.limits.weight
        weight: Floats = cost + unit[:, self.table.kind[runs]] * units
        return weight

    def _bounds(self, intervals: Sequence[Interval], runs: Ints) -> tuple[list[float], Floats, Floats]:
        """Return the price bounds, rounded down, with the weights of the runs and of the ways to each layer.

        A bound is infinite if there is no plan, and −∞ if nothing is shown.
        """
        weight = self._weights(intervals, runs)
        whole, reach = self._forward(runs, weight)
        found = []
        for interval, least in zip(intervals, whole.tolist(), strict=True):
            spare = float(interval.prices @ self.limits.most)
            bound = least - spare - MARGIN * (least + spare) if math.isfinite(least) else math.inf
            if not interval.counts_cost:
                bound = math.inf if bound > 0 else -math.inf
            found.append(bound)
        return found, weight, reach

    def _useful(self, interval: Interval, runs: Ints, weight: Floats, reach: Floats) -> Ints:
        """Return the runs that a plan below the cutoff may use in an interval."""
        spare = float(interval.prices @ self.limits.most)
        edge = (interval.cutoff if interval.counts_cost else 0.0) + spare
        through = self._beside(runs, weight, reach) + weight
        near = through * (1 - MARGIN) - MARGIN * spare <= edge + MARGIN * abs(edge)
        kept: Ints = runs[near & np.isfinite(through)]
        return kept

    def _forward(self, runs: Ints, weight: Floats) -> tuple[Floats, Floats]:
        """Return the least weight of whole chains, and of those that end before each layer.

        Shapes (B,) and (B, L + 1, T): of chains that may go on with a type.
        """
        table, count = self.table, len(weight)
        last, first, kind = table.last[runs], table.first[runs], table.kind[runs]
        reach = np.full((count, table.layers + 1, self.kinds), np.inf)
        reach[:, 0] = 0.0
        whole = np.full(count, np.inf)
        # Runs of one type that end at one layer stand together.
        begin = np.flatnonzero(np.diff(last * self.kinds + kind, prepend=-1))
        group = kind[begin]
        for layer, mine in _slices(last[begin]):
            check_time()
            own = slice(begin[mine.start], begin[mine.stop] if mine.stop < len(begin) else len(runs))
            ways = weight[:, own] + reach[:, first[own], kind[own]]
            arrive = np.full((count, self.kinds), np.inf)
            arrive[:, group[mine]] = np.minimum.reduceat(ways, begin[mine] - own.start, axis=1)
            if layer == table.layers - 1:
                whole = arrive.min(axis=1)
            reach[:, layer + 1] = self._others(arrive)
        return whole, reach

    def _beside(self, runs: Ints, weight: Floats, reach: Floats) -> Floats:
        """Return the least weight of what goes before and after each run, shape (n,)."""
        table = self.table
        first, last, kind = table.first[runs], table.last[runs], table.kind[runs]
        rest = np.full((table.layers + 1, self.kinds), np.inf)
        rest[table.layers] = 0.0
        order = np.argsort(first, kind="stable")
        for layer, place in reversed(list(_slices(first[order]))):
            check_time()
            own = order[place]
            leave = np.full(self.kinds, np.inf)
            np.minimum.at(leave, kind[own], weight[own] + rest[last[own] + 1, kind[own]])
            rest[layer] = self._others(leave[None])[0]
        result: Floats = reach[first, kind] + rest[last + 1, kind]
        return result

    def _others(self, least: Floats) -> Floats:
        """Return for each type the least over the types that may be its neighbour, shape (B, T)."""
        if not self.apart:
            return np.repeat(least.min(axis=1, keepdims=True), self.kinds, axis=1)
        rows, best = np.arange(len(least)), least.argmin(axis=1)
        result = np.repeat(least[rows, best][:, None], self.kinds, axis=1)
        without = least.copy()
        without[rows, best] = np.inf
        result[rows, best] = without.min(axis=1)
        return result

    def _searched(self, interval: Interval, runs: Ints) -> bool:
        """Look through all chains of the runs that are left; return whether none is below the cutoff."""
        if not len(self.limits.most):
            return False  # the shortest path has said all there is to say
        units, cost = self._least([interval], runs)
        table, usable = self.table, np.isfinite(cost[0])
        kept = runs[usable]
        taken = units[0][usable] * self.limits.weight[:, table.kind[kept]]
        options = Options(table.first[kept], table.last[kept] + 1, table.kind[kept], cost[0][usable], taken)
        chains = Chains(options, table.layers, self.kinds if self.apart else 0, self.limits.most)
        cutoff = interval.cutoff if interval.counts_cost else math.inf
        answer, work = none_below(chains, interval.prices, cutoff, self.work_left)
        self.work_left -= work
        return answer is True


def _joined(intervals: Sequence[Interval]) -> Interval:
    """Return one interval over several, at the prices of the one in the middle."""
    middle = intervals[len(intervals) // 2]
    cutoff = max(interval.cutoff for interval in intervals)
    return Interval(intervals[0].low, intervals[-1].high, middle.prices, middle.counts_cost, cutoff)


def _slices(sorted_layers: Ints) -> Iterator[tuple[int, slice]]:
    """Yield each layer that occurs, and where."""
    layers, starts = np.unique(sorted_layers, return_index=True)
    edges = [*starts.tolist(), len(sorted_layers)]
    for layer, start, end in zip(layers.tolist(), edges, edges[1:], strict=False):
        yield layer, slice(start, end)
