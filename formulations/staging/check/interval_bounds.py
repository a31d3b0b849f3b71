"""The check's bound on every plan whose stage time lies in an interval, at given dual prices.

A plan with stage time τ in [a, b] uses each of its segments with k units, ET(k) ≤ τ, so with at least k(b),
the fewest for b. It pays κ·π·k·τ for it, and because k·ET(k) does not fall with k that is at least
κ·π·k(b)·max(a, ET(k(b))). With prices y ≥ 0 on what units consume of the limits, a shortest path at these
costs, less y·limit, is a Lagrangian bound on the plan's cost (Handler & Zang 1980); leaving costs out, a
positive one shows that there is no plan.

Fewest units are rounded down, never up; sums get a margin on the side that weakens the bound.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ....instances.common.arrays import Floats, Ints
from ...common.clock import check_time
from .path_enumeration import Arcs, Network, none_below
from .segments import Segments

MARGIN = 1e-12
"""Relative to everything that is added up: the rounding of a sum."""
UNDERESTIMATE = 1e-9
"""Units are first underestimated by this part, then corrected by the very time that counts."""
CHUNK = 1 << 15
"""Counts worked on at a time, so that they stay in the processor's cache."""
MOST_WORK = 300_000_000
"""Bounds that the enumerations of all intervals may evaluate together, which takes half a minute at most."""
AT_ONCE = 200_000
"""Segments times intervals that are evaluated together."""


@dataclass(frozen=True)
class Interval:
    """Stage times from `low` to `high`, both included, and the claim about them.

    Attributes
    ----------
    prices
        Dual price of each limit, shape (R,).
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
    """What units of each type consume of each limit, shape (R, T), and its capacity, shape (R,)."""

    weight: Floats
    capacity: Floats


class IntervalBounds:
    """Proves intervals.

    Parameters
    ----------
    cost_factor
        κ: USD per second of stage time and USD/h.
    alternating
        Whether neighbouring stages have to differ in type.
    most_work
        Bounds that the enumerations of all intervals may evaluate together.
    """

    def __init__(
        self,
        segments: Segments,
        cost_factor: float,
        limits: Limits,
        alternating: bool,
        most_work: int = MOST_WORK,
    ) -> None:
        self.segments, self.limits, self.alternating = segments, limits, alternating
        self.types = len(segments.price)
        self.rate = cost_factor * segments.price
        self.work_left = most_work

    def unproven(self, intervals: Sequence[Interval]) -> list[tuple[Interval, float]]:
        """Return the intervals that could not be shown, each with a bound on the cost of a plan in it.

        Where there is much to do, neighbouring intervals are first tried together: an interval far from the
        cutoff needs no part of its own, and a segment too dear for the union is too dear for each part.
        """
        found = []
        pending = [(list(intervals), np.arange(len(self.segments.first)))] if intervals else []
        while pending:
            group, own = pending.pop()
            if len(group) > 1 and len(group) * len(own) > AT_ONCE:
                union = _union(group)
                bounds, weight, arrival = self._bounds([union], own)
                if bounds[0] < union.cutoff:
                    rest, middle = self._useful(union, own, weight[0], arrival[0]), len(group) // 2
                    pending += [(group[:middle], rest), (group[middle:], rest)]
                continue
            bounds, weight, arrival = self._bounds(group, own)
            for i, interval in enumerate(group):
                if bounds[i] < interval.cutoff:
                    rest = self._useful(interval, own, weight[i], arrival[i])
                    if not self._enumerated(interval, rest):
                        found.append((interval, self._fallback(interval, bounds[i], own)))
        return found

    def _fallback(self, interval: Interval, bound: float, own: Ints) -> float:
        """Return the bound of an interval that was not shown; where only units counted, without prices."""
        if interval.counts_cost:
            return bound
        free = replace(interval, prices=np.zeros_like(interval.prices), counts_cost=True)
        return self._bounds([free], own)[0][0]

    def fewest_units(self, own: Ints, time_s: Floats) -> Floats:
        """Return a lower bound on the units of each segment at stage times τ, infinite where none suffice.

        Parameters
        ----------
        own
            Which segments, shape (n,).
        time_s
            τ, shape (B,).

        Returns
        -------
        units
            Shape (B, n).
        """
        result = np.empty((len(time_s), len(own)))
        time_s = time_s[:, None]
        size = max(1, CHUNK // len(time_s))
        for start in range(0, len(own), size):
            check_time()
            part = self.segments.only(own[start : start + size])
            # Where S is all of τ but rounding, the quotient must stay an underestimate: its divisor grows.
            tiny = np.maximum(1e-15 * time_s, 1e-300)
            least = np.maximum(
                part.parallel / (np.maximum(time_s - part.serial, 0.0) + tiny),
                part.comm_parallel / (np.maximum(time_s - part.comm_serial, 0.0) + tiny),
            )
            units = np.maximum(np.ceil(least * (1 - UNDERESTIMATE)), 1.0)
            # One more unit only where these are shown to be too slow.
            for _ in range(2):
                units += part.time_s(units) > time_s
            too_slow = (part.serial > time_s) | (part.comm_serial > time_s)
            units[too_slow | (units > self.segments.limit[part.type])] = np.inf
            result[:, start : start + size] = units
        return result

    def _least(self, intervals: Sequence[Interval], own: Ints) -> tuple[Floats, Floats]:
        """Return the fewest units and the least cost of each segment in each interval, shapes (B, n)."""
        part = self.segments.only(own)
        low = np.array([[interval.low] for interval in intervals])
        counts = np.array([[float(interval.counts_cost)] for interval in intervals])
        units = self.fewest_units(own, np.array([interval.high for interval in intervals]))
        able = np.isfinite(units)
        units[~able] = 1.0
        cost = self.rate[part.type] * counts * units * np.maximum(part.time_s(units), low)
        return units, np.where(able, cost, np.inf)

    def _bounds(self, intervals: Sequence[Interval], own: Ints) -> tuple[list[float], Floats, Floats]:
        """Return the Lagrangian bounds, rounded down, the priced costs, and the arrivals of `_forward`.

        A bound is infinite if there is no plan, and −∞ if nothing is shown.
        """
        units, cost = self._least(intervals, own)
        unit_price = np.array([interval.prices for interval in intervals]) @ self.limits.weight
        weight: Floats = cost + unit_price[:, self.segments.type[own]] * units
        shortest, arrival = self._forward(own, weight)
        found = []
        for interval, least in zip(intervals, shortest.tolist(), strict=True):
            spare = float(interval.prices @ self.limits.capacity)
            bound = least - spare - MARGIN * (least + spare) if math.isfinite(least) else math.inf
            if not interval.counts_cost:
                # Without costs the sign alone is a proof: a feasible plan has a value of at most 0.
                bound = math.inf if bound > 0 else -math.inf
            found.append(bound)
        return found, weight, arrival

    def _useful(self, interval: Interval, own: Ints, weight: Floats, arrival: Floats) -> Ints:
        """Return the segments that a plan below the cutoff may use: the others are fixed by reduced cost."""
        spare = float(interval.prices @ self.limits.capacity)
        threshold = (interval.cutoff if interval.counts_cost else 0.0) + spare
        through = self._around(own, weight, arrival) + weight
        near = through * (1 - MARGIN) - MARGIN * spare <= threshold + MARGIN * abs(threshold)
        kept: Ints = own[near & np.isfinite(through)]
        return kept

    def _forward(self, own: Ints, weight: Floats) -> tuple[Floats, Floats]:
        """Return the least weight of a path of all layers, and of one that ends before each layer.

        Shapes (B,) and (B, L + 1, T): of paths that may go on with a type.
        """
        segments, count = self.segments, len(weight)
        last, first, unit_type = segments.last[own], segments.first[own], segments.type[own]
        arrival = np.full((count, segments.layers + 1, self.types), np.inf)
        arrival[:, 0] = 0.0
        shortest = np.full(count, np.inf)
        # Segments of one type that end at one layer stand together.
        begin = np.flatnonzero(np.diff(last * self.types + unit_type, prepend=-1))
        group = unit_type[begin]
        for layer, mine in _slices(last[begin]):
            check_time()
            here = slice(begin[mine.start], begin[mine.stop] if mine.stop < len(begin) else len(own))
            ways = weight[:, here] + arrival[:, first[here], unit_type[here]]
            ending = np.full((count, self.types), np.inf)
            ending[:, group[mine]] = np.minimum.reduceat(ways, begin[mine] - here.start, axis=1)
            if layer == segments.layers - 1:
                shortest = ending.min(axis=1)
            arrival[:, layer + 1] = self._neighbours(ending)
        return shortest, arrival

    def _around(self, own: Ints, weight: Floats, arrival: Floats) -> Floats:
        """Return the least weight of the rest of a path through each segment, shape (n,)."""
        segments = self.segments
        first, last, unit_type = segments.first[own], segments.last[own], segments.type[own]
        remaining = np.full((segments.layers + 1, self.types), np.inf)
        remaining[segments.layers] = 0.0
        order = np.argsort(first, kind="stable")
        for layer, place in reversed(list(_slices(first[order]))):
            check_time()
            here = order[place]
            beginning = np.full(self.types, np.inf)
            np.minimum.at(
                beginning, unit_type[here], weight[here] + remaining[last[here] + 1, unit_type[here]]
            )
            remaining[layer] = self._neighbours(beginning[None])[0]
        result: Floats = arrival[first, unit_type] + remaining[last + 1, unit_type]
        return result

    def _neighbours(self, least: Floats) -> Floats:
        """Return for each type the least over the types that may be its neighbour, shape (B, T)."""
        if not self.alternating:
            return np.repeat(least.min(axis=1, keepdims=True), self.types, axis=1)
        # Every type but the cheapest may follow the cheapest; that one follows the second cheapest.
        rows, best = np.arange(len(least)), least.argmin(axis=1)
        result = np.repeat(least[rows, best][:, None], self.types, axis=1)
        without = least.copy()
        without[rows, best] = np.inf
        result[rows, best] = without.min(axis=1)
        return result

    def _enumerated(self, interval: Interval, own: Ints) -> bool:
        """Enumerate all paths of the segments that are left; return whether none is below the cutoff."""
        if not len(self.limits.capacity):
            return False  # without limits the shortest path is the best plan, and enumeration finds no other
        units, cost = self._least([interval], own)
        usable = np.isfinite(cost[0])
        part = self.segments.only(own[usable])
        consumption = units[0][usable] * self.limits.weight[:, part.type]
        arcs = Arcs(part.first, part.last + 1, part.type, cost[0][usable], consumption)
        types = self.types if self.alternating else 0
        network = Network(arcs, self.segments.layers, types, self.limits.capacity)
        cutoff = interval.cutoff if interval.counts_cost else math.inf
        answer, work = none_below(network, interval.prices, cutoff, self.work_left)
        self.work_left -= work
        return answer is True


def _union(intervals: Sequence[Interval]) -> Interval:
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
