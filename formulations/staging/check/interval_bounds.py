"""Lower bounds of the check on the cost of plans with a stage time in an interval, by dual prices.

A plan with stage time τ in [a, b] uses each of its segments with k units, ET(k) ≤ τ, so with at least k(b),
the fewest for b. It pays κ·π·k·τ for it, and because k·ET(k) does not fall with k that is at least
κ·π·k(b)·max(a, ET(k(b))). With prices y ≥ 0 on what units consume of the limits, a shortest path at these
costs, less y·limit, is a Lagrangian bound on the plan's cost (Handler & Zang 1980); without costs, a
positive one proves that there is no plan.

Fewest units are rounded down, never up; sums get a margin on the side that weakens the bound.

The parts of every segment of layers on every type are derived from docs/problems/staging.md, independently of
the solvers' table. A stage on k units takes ET(k) = max(S + A/k, S' + A'/k). Each part is a sum over the
layers of the stage, so the segments that end with a layer are those that end with the layer before, each one
layer longer, and the layer alone.

The loops are separate from those of the solvers, so that both share no error; only ET(k) itself is shared, by
which plans are evaluated too. Sums and quotients are rounded as written: without `fastmath` the compiler may
not reorder them, and it does not fuse a product into a sum.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from ....instances.common.arrays import Floats, Ints, narrow
from ....instances.staging.instance import StagingInstance, figure_on
from ...common.clock import check_time, time_is_up
from ...common.compiled import compiled, compiled_without_arrays
from ...common.objective import loosened
from ..stages import MAX_UNITS, Hardware, StageTable, check_segment_count, compiled_time_s
from .path_enumeration import MAX_ARCS, Network, neighbour_minima, no_path_below


def unit_types(instance: StagingInstance) -> Hardware:
    """Return figures of the hardware types of an instance, read for the check alone."""
    types, most = instance.types, min(MAX_UNITS, instance.most_units_per_stage or MAX_UNITS)
    limit = np.array([math.inf if one.limit is None else one.limit for one in types])
    room = [math.inf if one.memory_gib is None else loosened(one.memory_gib) for one in types]
    price = np.array([one.price_usd_per_hour for one in types], dtype=float)
    return Hardware(price, limit, np.minimum(limit, float(most)), np.array(room))


@dataclass(frozen=True)
class Segments(StageTable):
    """Table of the possible stages (segments), which the check fills itself.

    Attributes
    ----------
    price, limit
        USD per hour and unit, and available units (at most what a stage may have); shape (T,).
    """

    price: Floats
    limit: Floats

    def only(self, keep: Ints) -> Self:
        """Return the table of the segments (possible stages) at the given indices."""
        columns = {name: getattr(self, name)[keep] for name in self.columns}
        return replace(self, **columns)


def derive_segments(instance: StagingInstance, last_s: float = math.inf) -> Segments:
    """Return the table of an instance's segments (possible stages) that fit into a device's memory.

    Parameters
    ----------
    last_s
        Segments that are slower on any number of units are left out.

    Raises
    ------
    TooLargeError
        If there are more than thirty million.
    """
    check_segment_count(instance)
    check_time()
    hardware, own = unit_types(instance), layer_parts(instance)
    memory = np.array([[layer.memory_on(one.name) for one in instance.types] for layer in instance.layers])
    layers, types = memory.shape
    received = np.zeros(layers)
    if instance.link_gbit_per_s is not None:
        bytes_per_s = instance.link_gbit_per_s * 1e9 / 8
        received[1:] = [layer.output_bytes / bytes_per_s for layer in instance.layers[:-1]]
    most = layers * (layers + 1) // 2 * types
    # 32 bits halve the memory to be read later; the pages beyond the last segment are never used.
    ends, parts, count = np.empty((3, most), np.int32), np.empty((4, most)), 0
    # Running sums for each first layer: one addition for each layer, in the order of the layers.
    sums, memory_sums = np.zeros((4, types, layers)), np.zeros((types, layers))
    for last in range(layers):
        sums[:, :, : last + 1] += own[last].T[:, :, np.newaxis]
        memory_sums[:, : last + 1] += memory[last, :, np.newaxis]
        # A layer that a type cannot run makes S of every longer segment infinite too.
        able = np.isfinite(sums[0]) & (sums[0] <= last_s) & (sums[2] <= last_s)
        able &= memory_sums <= hardware.room_gib[:, np.newaxis]
        unit_type, first = np.nonzero(able[:, : last + 1])
        new = slice(count, count + len(first))
        ends[0, new], ends[1, new], ends[2, new] = first, last, unit_type
        parts[:, new] = sums[:, unit_type, first]
        parts[3, new] += received[first]
        count = new.stop
    return Segments(layers, *(*ends[:, :count], *parts[:, :count], hardware.price, hardware.most))


def layer_parts(instance: StagingInstance) -> Floats:
    """Return parts S, A, S', A' of each layer's time [s] on each type, (L, T, 4); S is ∞ if it cannot run.

    S + A/k is compute time, S' + A'/k communication time, on k devices.
    """
    parts = np.zeros((len(instance.layers), len(instance.types), 4))
    for row, layer in zip(parts, instance.layers, strict=True):
        for own, hardware in zip(row, instance.types, strict=True):
            name = hardware.name
            alpha = figure_on(layer.compute_parallel, name)
            beta = figure_on(layer.communication_parallel, name)
            if name in layer.compute_s:
                c, d = layer.compute_s[name], layer.communication_s.get(name, 0.0)
                own[:] = c * (1 - alpha), c * alpha, d * (1 - beta), d * beta
            else:
                own[0] = math.inf
    return parts


UNDERESTIMATE = 1e-9
"""Relative underestimate of the fewest units, before they are corrected by exact stage times."""


@compiled_without_arrays
def least_costs(
    unit_type: Ints,
    serial: Floats,
    parallel: Floats,
    comm_serial: Floats,
    comm_parallel: Floats,
    limit: Floats,
    rate: Floats,
    low: float,
    high: float,
    counts_cost: bool,
    units: Floats,
    cost: Floats,
) -> None:
    """Compute lower bounds on the devices and cost of segments at stage times in [low, high].

    Parameters
    ----------
    limit, rate
        Available units, and κ·π, of each type.
    units, cost
        Output of shape (n,); infinite cost, and one unit, where no units suffice.
    """
    # Where S equals τ up to rounding, a larger divisor keeps the quotient an underestimate.
    tiny, near, late = max(1e-15 * high, 1e-300), high * (1 - 1e-14), False
    # These loops but the second have no branches, so that the compiler does several segments in one step.
    for i in range(len(serial)):
        left, comm_left = high - serial[i] + tiny, high - comm_serial[i] + tiny
        # One division for the larger quotient; a rounding that picks the other is within the underestimate.
        computes = parallel[i] * comm_left >= comm_parallel[i] * left
        quotient = (parallel[i] if computes else comm_parallel[i]) / (left if computes else comm_left)
        need = max(np.ceil(quotient * (1 - UNDERESTIMATE)), 1.0)
        # One division for both parts; the last digit of the time matters only near `high`, below.
        part = 1.0 / need
        time = max(serial[i] + parallel[i] * part, comm_serial[i] + comm_parallel[i] * part)
        units[i], cost[i] = need, time
        late |= time > near
    if late:
        for i in range(len(serial)):
            # One more unit only where these are shown to be too slow.
            if cost[i] > near:
                parts = serial[i], parallel[i], comm_serial[i], comm_parallel[i]
                cost[i] = compiled_time_s(parts, units[i])
                for _ in range(2):
                    if cost[i] <= high or serial[i] > high or comm_serial[i] > high:
                        break
                    units[i] += 1.0
                    cost[i] = compiled_time_s(parts, units[i])
    for i in range(len(serial)):
        t = np.uint32(unit_type[i])
        able = (units[i] <= limit[t]) & (serial[i] <= high) & (comm_serial[i] <= high)
        paid = rate[t] * units[i] * max(cost[i], low) if counts_cost else 0.0
        cost[i] = paid if able else np.inf
        units[i] = units[i] if able else 1.0


@compiled
def shortest_path(
    first: Ints,
    last: Ints,
    unit_type: Ints,
    weight: Floats,
    alternating: bool,
    arrival: Floats,
) -> float:
    """Return the minimum weight of a path through all layers, and compute those of paths to each layer.

    Parameters
    ----------
    first, last, unit_type, weight
        Segments by rising last layer, shape (n,); infinite weight where they cannot be used.
    arrival
        Output, shape (T, L + 1): weights of paths that may go on with a type; at first infinite, but 0 before
        the first layer.
    """
    shortest, i = np.inf, np.uint64(0)
    for layer in range(arrival.shape[1] - 1):
        shortest = np.inf
        while i < len(last) and last[i] == layer:
            # Unsigned, so that indices are not checked for negative values.
            t = np.uint32(unit_type[i])
            arriving = weight[i] + arrival[t, np.uint32(first[i])]
            arrival[t, layer + 1] = min(arrival[t, layer + 1], arriving)
            shortest = min(shortest, arriving)
            i += np.uint64(1)
        neighbour_minima(arrival[:, layer + 1], alternating)
    return shortest


@compiled
def paths_through_segments(
    first: Ints,
    last: Ints,
    unit_type: Ints,
    weight: Floats,
    arrival: Floats,
    alternating: bool,
    remaining: Floats,
    result: Floats,
) -> None:
    """Compute the minimum weight of a complete path through each segment, shape (n,).

    Parameters
    ----------
    remaining
        Output, shape (T, L + 1): minimum weights of paths from a layer on; at first infinite, but 0 after the
        last layer. An entry collects the paths that begin there, until all of them are processed.
    """
    i, layers = len(last) - 1, arrival.shape[1] - 1
    for layer in range(layers, 0, -1):
        if layer < layers:
            neighbour_minima(remaining[:, layer], alternating)
        while i >= 0 and last[i] == layer - 1:
            t, f = np.uint32(unit_type[i]), np.uint32(first[i])
            onward = weight[i] + remaining[t, layer]
            remaining[t, f] = min(remaining[t, f], onward)
            result[i] = arrival[t, f] + onward
            i -= 1


ROUNDING_MARGIN = 1e-12
"""Rounding margin of a sum, relative to the sum of absolute values."""
MAX_WORK = 1_000_000_000
"""Maximum number of bounds in the enumerations of all intervals, half a minute of work."""
SPLIT_PARTS = 4
"""Number of parts into which an unproven group of intervals is split."""
GROUPING_SIZE = 200_000
"""Maximum number of segments times intervals that are evaluated without grouping."""


@dataclass(frozen=True)
class Interval:
    """A closed interval of stage times [s] from `low` to `high`, and the claim about its plans.

    Attributes
    ----------
    prices
        Dual price of each limit, shape (R,).
    counts_cost
        Whether costs are included; otherwise only units count.
    cutoff
        Claimed lower bound on the cost of plans in the interval [USD]; infinite claims that there is none.
    """

    low: float
    high: float
    prices: Floats
    counts_cost: bool
    cutoff: float


@dataclass(frozen=True)
class Limits:
    """Capacity constraints: consumption by a device of each type, shape (R, T), and capacity, shape (R,)."""

    weight: Floats
    capacity: Floats


class IntervalBounds:
    """Proves claims on intervals of stage times by Lagrangian bounds and enumeration of paths.

    Parameters
    ----------
    cost_factor
        κ: USD per second of stage time and USD/h.
    alternating
        Whether neighbouring stages have to differ in type.
    most_work
        Maximum number of bounds that the enumerations of all intervals evaluate together.
    """

    def __init__(
        self,
        segments: Segments,
        cost_factor: float,
        limits: Limits,
        alternating: bool,
        most_work: int = MAX_WORK,
    ) -> None:
        self.segments, self.limits, self.alternating = segments, limits, alternating
        self.types = len(segments.price)
        self.rate = cost_factor * segments.price
        self.work_left = most_work
        # All intervals reuse these arrays: new memory pages would take as long as the sums.
        self._room = np.empty((3, len(segments.first)))

    def unproven(self, intervals: Sequence[Interval]) -> list[tuple[Interval, float]]:
        """Return the intervals of stage times that are not proven, each with a lower bound on plan cost.

        Many neighbouring intervals are first tried as a union: one far from the cutoff needs no separate
        bound, and a segment too dear for the union is too dear for each part. Intervals not proven by prices
        are enumerated while there is time; their bounds by prices hold in any case.
        """
        open_: list[tuple[Interval, float, Ints | None]] = []
        everything = narrow(np.arange(len(self.segments.first)))
        pending = [(list(intervals), self.segments, everything)] if intervals else []
        while pending:
            group, own, position = pending.pop()
            check_time()
            if len(group) > 1 and len(group) * len(own.first) > GROUPING_SIZE:
                union = _union(group)
                bound, weight, arrival = self._bound(union, own)
                if bound < union.cutoff:
                    keep, size = self._useful(union, own, weight, arrival), -(-len(group) // SPLIT_PARTS)
                    rest = own.only(keep), position[keep]
                    pending += [(group[i : i + size], *rest) for i in range(0, len(group), size)]
                continue
            for interval in group:
                bound, weight, arrival = self._bound(interval, own)
                if bound < interval.cutoff:
                    useful = position[self._useful(interval, own, weight, arrival)]
                    # Too many segments are not kept: there may be very many intervals.
                    few = len(useful) <= MAX_ARCS and len(self.limits.capacity)
                    open_.append((interval, self._cost_bound(interval, bound, own), useful if few else None))
        return [(one, bound) for one, bound, left in open_ if not self._proves_by_enumeration(one, left)]

    def _cost_bound(self, interval: Interval, bound: float, own: Segments) -> float:
        """Return the lower bound on cost [USD] in an unproven interval.

        Without dual prices where the claim was only that the devices do not suffice.
        """
        if interval.counts_cost:
            return bound
        free = replace(interval, prices=np.zeros_like(interval.prices), counts_cost=True)
        return self._bound(free, own)[0]

    def _least(self, interval: Interval, own: Segments) -> tuple[Floats, Floats]:
        """Return lower bounds on the devices and on the cost of each segment in an interval of stage times.

        Returns
        -------
        units, cost
            Shape (n,); infinite cost, and one unit, where no units suffice. Valid until the next call.
        """
        parts = own.serial, own.parallel, own.comm_serial, own.comm_parallel
        ends = interval.low, interval.high, interval.counts_cost
        units, cost, _ = self._room[:, : len(own.first)]
        least_costs(own.type, *parts, own.limit, self.rate, *ends, units, cost)
        return units, cost

    def _bound(self, interval: Interval, own: Segments) -> tuple[float, Floats, Floats]:
        """Return the Lagrangian bound in an interval, segment weights, and shortest paths to each layer.

        The bound is infinite if there is no plan, and −∞ if nothing is proven.
        """
        units, weight = self._least(interval, own)
        if interval.prices.any():
            weight += (interval.prices @ self.limits.weight)[own.type] * units
        arrival = np.full((self.types, own.layers + 1), np.inf)
        arrival[:, 0] = 0.0
        shortest = shortest_path(own.first, own.last, own.type, weight, self.alternating, arrival)
        spare = float(interval.prices @ self.limits.capacity)
        bound = (
            shortest - spare - ROUNDING_MARGIN * (shortest + spare) if math.isfinite(shortest) else math.inf
        )
        if not interval.counts_cost:
            # Without costs the sign alone is a proof: a feasible plan has a value of at most 0.
            bound = math.inf if bound > 0 else -math.inf
        return bound, weight, arrival

    def _useful(self, interval: Interval, own: Segments, weight: Floats, arrival: Floats) -> Ints:
        """Return the indices of the segments that reduced-cost fixing keeps for plans below the cutoff."""
        spare = float(interval.prices @ self.limits.capacity)
        threshold = (interval.cutoff if interval.counts_cost else 0.0) + spare
        value = self._room[2, : len(own.first)]
        remaining = np.full_like(arrival, np.inf)
        remaining[:, -1] = 0.0
        arcs = own.first, own.last, own.type, weight
        paths_through_segments(*arcs, arrival, self.alternating, remaining, value)
        most = (threshold + ROUNDING_MARGIN * (abs(threshold) + spare)) / (1 - 2 * ROUNDING_MARGIN)
        return np.flatnonzero(value <= min(most, sys.float_info.max))

    def _proves_by_enumeration(self, interval: Interval, left: Ints | None) -> bool:
        """Return whether enumeration of the remaining segments' paths proves none to be below the cutoff."""
        if left is None or self.work_left <= 0 or time_is_up():
            return False
        own = self.segments.only(left)
        units, cost = self._least(interval, own)
        usable = np.isfinite(cost)
        one = own.only(np.flatnonzero(usable))
        consumption = units[usable] * self.limits.weight[:, one.type]
        arcs = one.first, one.last + 1, one.type, cost[usable], consumption
        types = self.types if self.alternating else 0
        network = Network(*arcs, self.segments.layers, types, self.limits.capacity)
        cutoff = interval.cutoff if interval.counts_cost else math.inf
        answer, work = no_path_below(network, interval.prices, cutoff, self.work_left)
        self.work_left -= work
        return answer is True


def _union(intervals: Sequence[Interval]) -> Interval:
    """Return the union of consecutive intervals of stage times, with the middle one's dual prices."""
    middle = intervals[len(intervals) // 2]
    cutoff = max(interval.cutoff for interval in intervals)
    return Interval(intervals[0].low, intervals[-1].high, middle.prices, middle.counts_cost, cutoff)
