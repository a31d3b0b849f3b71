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
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ....instances.common.arrays import Floats, Ints, narrow
from ....instances.staging.instance import Layer, StagingInstance
from ...common.clock import check_time, time_is_up
from ...common.objective import loosened
from ..stages import MAX_UNITS, check_segment_count
from .kernels import least_costs, paths_through_segments, segment_parts, shortest_path
from .path_enumeration import MAX_ARCS, Arcs, Network, no_path_below


@dataclass(frozen=True)
class Segments:
    """Table of the possible stages (segments), ordered by last layer, then type, then first layer.

    Attributes
    ----------
    layers
        L, the number of layers.
    price, limit
        USD per hour and unit, and available units (at most what a stage may have); shape (T,).
    first, last, type
        First layer, last layer and type of each segment, shape (n,).
    serial, parallel, comm_serial, comm_parallel
        S, A, S' and A' with the transfer [s per probe batch], shape (n,).
    """

    layers: int
    price: Floats
    limit: Floats
    first: Ints
    last: Ints
    type: Ints
    serial: Floats
    parallel: Floats
    comm_serial: Floats
    comm_parallel: Floats

    def only(self, keep: Ints) -> Segments:
        """Return the table of the segments (possible stages) at the given indices."""
        columns = ("first", "last", "type", "serial", "parallel", "comm_serial", "comm_parallel")
        return replace(self, **{name: getattr(self, name)[keep] for name in columns})

    def time_s(self, units: Floats) -> Floats:
        """Return the stage time ET [s] of each segment on the given number of devices, (n,) or (B, n)."""
        compute = self.serial + self.parallel / units
        return np.maximum(compute, self.comm_serial + self.comm_parallel / units)


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
    hardware, layers = instance.types, instance.layers
    room = np.array([math.inf if one.memory_gib is None else loosened(one.memory_gib) for one in hardware])
    own = _layer_parts(layers, [one.name for one in hardware])
    memory = np.array([[layer.memory_on(one.name) for one in hardware] for layer in layers])
    columns = segment_parts(own, memory, room, _transfer_s(instance), last_s)
    return Segments(
        len(layers),
        np.array([one.price_usd_per_hour for one in hardware]),
        np.array([MAX_UNITS if one.limit is None else min(one.limit, MAX_UNITS) for one in hardware], float),
        *columns,
    )


def _layer_parts(layers: Sequence[Layer], names: Sequence[str]) -> Floats:
    """Return parts S, A, S', A' of each layer's time [s] on each type, (L, T, 4); S is ∞ if it cannot run."""
    parts = np.zeros((len(layers), len(names), 4))
    for row, layer in zip(parts, layers, strict=True):
        shares = layer.compute_parallel, layer.communication_parallel
        alpha, beta = (
            np.array([one.get(name, 0.0) for name in names]) if isinstance(one, dict) else one
            for one in shares
        )
        computing = np.array([layer.compute_s.get(name, 0.0) for name in names])
        communicating = np.array([layer.communication_s.get(name, 0.0) for name in names])
        row[:, 0], row[:, 1] = computing * (1 - alpha), computing * alpha
        row[:, 2], row[:, 3] = communicating * (1 - beta), communicating * beta
        row[[name not in layer.compute_s for name in names]] = math.inf, 0.0, 0.0, 0.0
    return parts


def _transfer_s(instance: StagingInstance) -> Floats:
    """Return the transfer time D [s] of the input of a stage, for each first layer, shape (L,)."""
    received = np.zeros(len(instance.layers))
    if instance.link_gbit_per_s is not None:
        bytes_per_s = instance.link_gbit_per_s * 1e9 / 8
        received[1:] = [layer.output_bytes / bytes_per_s for layer in instance.layers[:-1]]
    return received


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
class _UnprovenInterval:
    """An interval of stage times not proven by dual prices, its bound, and the segments left.

    The segments are None if they are too many.
    """

    interval: Interval
    bound: float
    segments: Ints | None


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
        open_: list[_UnprovenInterval] = []
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
                    left = None if len(useful) > MAX_ARCS or not len(self.limits.capacity) else useful
                    open_.append(_UnprovenInterval(interval, self._cost_bound(interval, bound, own), left))
        return [(one.interval, one.bound) for one in open_ if not self._proves_by_enumeration(one)]

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

    def _proves_by_enumeration(self, given: _UnprovenInterval) -> bool:
        """Return whether enumeration of the remaining segments' paths proves none to be below the cutoff."""
        if given.segments is None or self.work_left <= 0 or time_is_up():
            return False
        interval, own = given.interval, self.segments.only(given.segments)
        units, cost = self._least(interval, own)
        usable = np.isfinite(cost)
        one = own.only(np.flatnonzero(usable))
        consumption = units[usable] * self.limits.weight[:, one.type]
        arcs = Arcs(one.first, one.last + 1, one.type, cost[usable], consumption)
        types = self.types if self.alternating else 0
        network = Network(arcs, self.segments.layers, types, self.limits.capacity)
        cutoff = interval.cutoff if interval.counts_cost else math.inf
        answer, work = no_path_below(network, interval.prices, cutoff, self.work_left)
        self.work_left -= work
        return answer is True


def _union(intervals: Sequence[Interval]) -> Interval:
    """Return the union of consecutive intervals of stage times, with the middle one's dual prices."""
    middle = intervals[len(intervals) // 2]
    cutoff = max(interval.cutoff for interval in intervals)
    return Interval(intervals[0].low, intervals[-1].high, middle.prices, middle.counts_cost, cutoff)
