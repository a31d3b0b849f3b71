"""The checker's own bound on every plan whose stage time lies in an interval, at given prices.

A plan with stage time τ in [a, b] uses each of its runs of layers with k units, ET(k) ≤ τ. Let k(τ) be the
fewest. Either k ≥ k(a), or k(b) ≤ k < k(a). Because k·ET(k) does not fall with k, a run with at least k units
costs at least κ·π·k·max(a, ET(k)), so these are two ways, and every use of a run is one or dearer. With
prices y ≥ 0 on what units take of the limits, a shortest path over the cheaper of both, less y·limit, is a
bound on the plan's cost; leaving costs out, a positive one shows that there is no plan.

Everything is evaluated here from the table of stage times alone. Fewest units are rounded down, never up;
sums get a margin on the side that weakens the bound.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .chain_exhaustion import Chains, Options, none_below
from .stage_times import MOST_UNITS, Floats, Ints, StageTable

MARGIN = 1e-12
"""Relative to everything that is added up: the rounding of a sum."""
FEWER = 1e-9
"""Units are first underestimated by this part, then corrected by the very time that counts."""
CHUNK = 1 << 15
"""Runs worked on at a time."""


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


@dataclass(frozen=True)
class _Ways:
    """How the runs can be used in an interval at least; arrays of shape (n,)."""

    fast_units: Floats
    fast_cost: Floats
    slow_units: Floats
    slow_cost: Floats


class Cover:
    """Proves intervals one after another.

    Parameters
    ----------
    cost_factor
        κ: USD per second of stage time and USD/h.
    apart
        Whether neighbouring stages have to differ in type.
    """

    def __init__(self, table: StageTable, cost_factor: float, limits: Limits, apart: bool) -> None:
        self.table, self.limits, self.apart = table, limits, apart
        self.kinds = len(table.price)
        self.rate = cost_factor * table.price

    def unproven(self, intervals: Sequence[Interval]) -> list[tuple[Interval, float]]:
        """Return the intervals that could not be shown, each with a bound on the cost of a plan in it.

        Neighbouring intervals are first tried together: what is far from the cutoff needs no cutting up,
        and what no plan below the cutoff can use there is not looked at again in the parts.
        """
        found: list[tuple[Interval, float]] = []
        able = np.flatnonzero(np.isfinite(self.table.serial))
        pending: list[tuple[int, int, Ints]] = [(0, len(intervals), able)] if intervals else []
        while pending:
            start, end, runs = pending.pop()
            whole = _joined(intervals[start:end])
            bound, rest = self._bound(whole, runs)
            if bound >= whole.cutoff:
                continue
            if end - start > 1:
                middle = (start + end) // 2
                pending += [(start, middle, rest), (middle, end, rest)]
            elif not self._searched(whole, rest):
                found.append((whole, bound if whole.counts_cost else -math.inf))
        return found

    def _units(self, runs: Ints, time_s: float) -> Floats:
        """Return a count that no faster use of a run falls below, infinite where there is none."""
        table, result = self.table, np.empty(len(runs))
        for start in range(0, len(runs), CHUNK):
            own = runs[start : start + CHUNK]
            serial, parallel = table.serial[own], table.parallel[own]
            comm_serial, comm_parallel = table.comm_serial[own], table.comm_parallel[own]
            tiny = max(1e-15 * time_s, 1e-300)
            least = np.maximum(
                parallel / (np.maximum(time_s - serial, 0.0) + tiny),
                comm_parallel / (np.maximum(time_s - comm_serial, 0.0) + tiny),
            )
            units = np.maximum(np.ceil(least * (1 - FEWER)), 1.0)
            for _ in range(2):
                time = np.maximum(serial + parallel / units, comm_serial + comm_parallel / units)
                units += time > time_s
            never = (serial > time_s) | (comm_serial > time_s) | (units > table.limit[table.kind[own]])
            units[never | (units > MOST_UNITS)] = np.inf
            result[start : start + CHUNK] = units
        return result

    def _ways(self, interval: Interval, runs: Ints) -> _Ways:
        table, low = self.table, interval.low
        rate = self.rate[table.kind[runs]] * interval.counts_cost
        sides = []
        for end in (low, interval.high):
            units = self._units(runs, end)
            able = np.isfinite(units)
            units[~able] = 1.0
            compute = table.serial[runs] + table.parallel[runs] / units
            time = np.maximum(compute, table.comm_serial[runs] + table.comm_parallel[runs] / units)
            sides += [units, np.where(able, rate * units * np.maximum(time, low), np.inf)]
        return _Ways(*sides)

    def _bound(self, interval: Interval, runs: Ints) -> tuple[float, Ints]:
        """Return the price bound, rounded down, and the runs that a plan below the cutoff may use."""
        ways = self._ways(interval, runs)
        unit = interval.prices @ self.limits.weight[:, self.table.kind[runs]]
        weight = np.minimum(ways.fast_cost + unit * ways.fast_units, ways.slow_cost + unit * ways.slow_units)
        used = np.isfinite(weight)
        runs, weight = runs[used], weight[used]
        reach, whole = self._forward(runs, weight)
        if math.isinf(whole):
            return math.inf, runs[:0]
        spare = float(interval.prices @ self.limits.most)
        bound = whole - spare - MARGIN * (whole + spare)
        if not interval.counts_cost:
            bound = math.inf if bound > 0 else -math.inf
        edge = (interval.cutoff if interval.counts_cost else 0.0) + spare
        if bound >= interval.cutoff:
            return bound, runs[:0]
        through = self._beside(runs, weight, reach) + weight
        near = through * (1 - MARGIN) - MARGIN * spare <= edge + MARGIN * abs(edge)
        return bound, runs[near & np.isfinite(through)]

    def _forward(self, runs: Ints, weight: Floats) -> tuple[Floats, float]:
        """Return the least weight of chains that end before each layer and may go on with each type."""
        table, size = self.table, self.table.layers
        reach = np.full((size + 1, self.kinds), np.inf)
        reach[0] = 0.0
        last, first, kind = table.last[runs], table.first[runs], table.kind[runs]
        layers, starts = np.unique(last, return_index=True)
        arrive, whole = np.empty(self.kinds), math.inf
        for layer, start, end in _slices(layers, starts, len(runs)):
            own = slice(start, end)
            arrive.fill(math.inf)
            np.minimum.at(arrive, kind[own], weight[own] + reach[first[own], kind[own]])
            if layer == size - 1:
                whole = float(arrive.min())
            self._spread(arrive, reach[layer + 1])
        return reach, whole

    def _beside(self, runs: Ints, weight: Floats, reach: Floats) -> Floats:
        """Return the least weight of what goes before and after each run."""
        table, size = self.table, self.table.layers
        first, last, kind = table.first[runs], table.last[runs], table.kind[runs]
        order = np.argsort(first, kind="stable")
        rest = np.full((size + 1, self.kinds), np.inf)
        rest[size] = 0.0
        layers, starts = np.unique(first[order], return_index=True)
        for layer, start, end in reversed(_slices(layers, starts, len(runs))):
            own = order[start:end]
            leave = np.full(self.kinds, math.inf)
            np.minimum.at(leave, kind[own], weight[own] + rest[last[own] + 1, kind[own]])
            self._spread(leave, rest[layer])
        result: Floats = reach[first, kind] + rest[last + 1, kind]
        return result

    def _spread(self, least: Floats, onward: Floats) -> None:
        """Set for each type the least over the types that may be its neighbour."""
        best = int(least.argmin())
        onward.fill(least[best])
        if self.apart:
            least[best] = math.inf
            onward[best] = least.min()

    def _searched(self, interval: Interval, runs: Ints) -> bool:
        """Look through all chains of the runs that are left; return whether none is below the cutoff."""
        if not len(self.limits.most):
            return False  # the shortest path has said all there is to say
        ways = self._ways(interval, runs)
        both = np.concatenate([runs, runs])
        cost = np.concatenate([ways.fast_cost, ways.slow_cost])
        usable = np.isfinite(cost)
        usable[: len(runs)] &= (ways.fast_cost < ways.slow_cost) | (ways.fast_units < ways.slow_units)
        both, table = both[usable], self.table
        options = Options(
            table.first[both],
            table.last[both] + 1,
            table.kind[both],
            cost[usable],
            np.concatenate([ways.fast_units, ways.slow_units])[usable]
            * self.limits.weight[:, table.kind[both]],
        )
        chains = Chains(options, table.layers, self.kinds if self.apart else 0, self.limits.most)
        cutoff = interval.cutoff if interval.counts_cost else math.inf
        return none_below(chains, interval.prices, cutoff) is True


def _joined(intervals: Sequence[Interval]) -> Interval:
    """Return one interval over several, at the prices of the one in the middle."""
    middle = intervals[len(intervals) // 2]
    cutoff = max(interval.cutoff for interval in intervals)
    return Interval(intervals[0].low, intervals[-1].high, middle.prices, middle.counts_cost, cutoff)


def _slices(layers: Ints, starts: Ints, count: int) -> list[tuple[int, int, int]]:
    """Return for each layer where its runs begin and end."""
    edges = [*starts.tolist(), count]
    return list(zip(layers.tolist(), edges, edges[1:], strict=False))
