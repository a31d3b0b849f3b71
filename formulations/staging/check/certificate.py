"""The check of staging certificates: intervals of the stage time, dual prices for each, and a cutoff.

Every plan has a stage time in one of the intervals. For each interval the check proves, with its prices and
without trusting any solver, that no plan in it beats the cutoff; where prices alone do not prove it, the few
remaining segments are enumerated. An interval without proof keeps its price bound, and the least of these
bounds is certified.

The certificate of a frontier, a list of intervals as for a single plan, proves by how much a plan can beat
the points of the frontier. In the interval that begins at stage time a, a plan is relevant if it costs less
than the cheapest point that is as fast as a, less the part ε. Where no point is so fast, every plan within
the maximum cost is relevant.

That limited devices allow no faster plan of a graph is proven by a dynamic programme from all groups of
layers downwards. Its states are ideals with the units of each type that the stages after them use, each stage
with the fewest units that are fast enough. If the empty ideal is not reached within the limits, there is no
plan as fast. The only input from a solver is the stage time.
"""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ....instances.common.arrays import Flags, Floats, Ints
from ....instances.staging.instance import StagingInstance
from ...common.clock import check_time
from ...common.compiled import compiled
from ...common.objective import loosened
from ..certificate import (
    CUTOFF_MARGIN,
    CertifiedInterval,
    StagingCertificate,
    limited_types,
    read_certificate,
)
from ..stages import Corner
from .graph_stages import DerivedGraph, derive_graph, derive_graph_segments, stage_buffers, stages_ending_at
from .interval_bounds import MAX_WORK, Interval, IntervalBounds, Limits, derive_segments, unit_types

LIMIT_TOLERANCE = 1e-12
"""Relative widening of limits beyond those of the check of plans, as sums may round differently."""
MIN_PRICE = 1e-100
"""Threshold below which a price counts as 0, so that no product in a sum underflows."""


GRAPH_TIME_FACTOR = 1 - 2e-11
"""Factor on the stage times of the points of a graph's frontier, for the rounding of their sums."""
MAX_FRONTIER_WORK = 3_000_000_000
"""Maximum number of bounds of the enumerations for a frontier, as much work as dozens of single plans."""


class CertificateCheck:
    """Derives the bounds that certificates prove for one staging instance, independently of solvers.

    Attributes
    ----------
    cost_factor
        κ: USD per second of stage time and USD/h.
    slowest_s
        Largest stage time within the throughput floor; may be infinite.
    most_usd
        Largest cost within the cost limit; may be infinite.
    """

    def __init__(self, instance: StagingInstance) -> None:
        floor = instance.throughput_floor_samples_per_s
        self.instance = instance
        self.cost_factor = instance.training.total / (3600 * instance.probe_batch)
        self.slowest_s = _widened(None if floor is None else instance.probe_batch / floor)
        self.most_usd = _widened(instance.cost_limit_usd)

    def cost_bound(self, given: StagingCertificate) -> float:
        """Return the lower bound on the cost of training that the certificate proves, in USD.

        It is infinite if the certificate proves that there is no plan.
        """
        cutoff = self.most_usd if given.cutoff is None else given.cutoff
        unproven = self.unproven(given.intervals, self.slowest_s, lambda _: cutoff)
        return min([math.inf if given.cutoff is None else cutoff, *(bound for _, bound in unproven)])

    def stage_time_bound(self, claimed_s: float | None, given: StagingCertificate) -> float:
        """Return the lower bound on the slowest stage time that the certificate proves [s per probe batch].

        It is infinite if the certificate proves that there is no plan.

        Parameters
        ----------
        claimed_s
            The cutoff as a stage time; None for the claim that there is no plan.
        """
        last = self.slowest_s if claimed_s is None else math.nextafter(claimed_s, 0.0)
        if self._has_only_device_limits() and not given.intervals:
            if not proves_no_faster_plan(self.instance, last):
                return 0.0
            return math.inf if claimed_s is None else claimed_s
        unproven = self.unproven(given.intervals, last, lambda _: self.most_usd)
        return min([math.inf if claimed_s is None else claimed_s, *(one.low for one, _ in unproven)])

    def certified_error(
        self,
        corners: Sequence[Corner],
        error: float,
        most_usd: float | None,
        data: Any,
        most_work: int | None = None,
    ) -> float | None:
        """Return the proven relative error of Pareto points (stage time, cost), up to cost `most_usd`.

        Parameters
        ----------
        corners
            By rising stage time, each the point of a feasible plan.
        error
            The claimed error ε.
        most_usd
            Maximum cost of relevant plans; None for no maximum.
        data
            The intervals of the certificate, plain data.
        most_work
            Maximum number of bounds that the enumeration evaluates; at most three thousand million.

        Returns
        -------
        error
            The claimed one, or a larger one that is proven; None if none is, or the data are malformed.
        """
        given = read_certificate(self.instance, {"intervals": data})
        if isinstance(given, str):
            return None
        # Stage times of a graph are sums over sets, whose rounding depends on the order of addition.
        as_fast = GRAPH_TIME_FACTOR if self.instance.is_graph else 1.0
        times = [corner.time_s * as_fast for corner in corners]
        least = [*itertools.accumulate((corner.cost_usd for corner in corners), min)]
        limits = [self.instance.cost_limit_usd, most_usd]
        most = min((loosened(limit) for limit in limits if limit is not None), default=math.inf)

        def cheapest(low: float) -> float:
            at = bisect.bisect_right(times, low)
            return least[at - 1] if at else math.inf

        def cutoff(low: float) -> float:
            return min(cheapest(low) * (1 - error - CUTOFF_MARGIN), most)

        work = MAX_FRONTIER_WORK if most_work is None else min(MAX_FRONTIER_WORK, most_work)
        worst = error
        for interval, bound in self.unproven(given.intervals, self.slowest_s, cutoff, work):
            reference = cheapest(interval.low)
            if math.isinf(reference):
                return None
            worst = max(worst, 1 - bound / reference)
        return worst

    def proves_none(self, most_usd: float | None, data: Any) -> bool:
        """Return whether the intervals prove that no plan costs at most `most_usd`, or that none exists."""
        given = read_certificate(self.instance, {"intervals": data})
        if isinstance(given, str):
            return False
        cutoff = min(self.most_usd, _widened(most_usd))
        return not self.unproven(given.intervals, self.slowest_s, lambda _: cutoff)

    def unproven(
        self,
        given: Sequence[CertifiedInterval],
        last_s: float,
        cutoff: Callable[[float], float],
        most_work: int = MAX_WORK,
    ) -> list[tuple[Interval, float]]:
        """Return the intervals of stage times that are not proven, each with a lower bound on plan cost.

        Parameters
        ----------
        last_s
            The largest relevant stage time. Times beyond the given intervals form one more, without prices.
        cutoff
            Cutoff as a function of the lower end of an interval: a cheaper plan would refute the claim.
        most_work
            Maximum number of bounds that the enumerations of all intervals evaluate together.
        """
        limits, names = self._limits(), limited_types(self.instance)
        intervals: list[Interval] = []
        low = 0.0
        for interval in given:
            if low > last_s:
                break
            prices = [interval.prices.get(name, 0.0) for name in names]
            if self.instance.hourly_budget_usd is not None:
                prices.append(interval.budget_price)
            known = np.array(prices)
            known[known < MIN_PRICE] = 0.0
            high = min(interval.until_s, last_s)
            intervals.append(Interval(low, high, known, interval.counts_cost, cutoff(low)))
            # The next float, so that no stage time lies between two intervals.
            low = math.nextafter(interval.until_s, math.inf)
        if low <= last_s:
            intervals.append(Interval(low, last_s, np.zeros(len(limits.capacity)), True, cutoff(low)))
        alternating = self.instance.stage_rule == "maximal_runs"
        segments = (derive_graph_segments if self.instance.is_graph else derive_segments)(
            self.instance, last_s
        )
        return IntervalBounds(segments, self.cost_factor, limits, alternating, most_work).unproven(intervals)

    def _has_only_device_limits(self) -> bool:
        """Return whether only device counts, memory and throughput floor restrict the plans of a graph."""
        instance = self.instance
        money = instance.cost_limit_usd is not None or instance.hourly_budget_usd is not None
        return instance.is_graph and not money and all(one.limit is not None for one in instance.types)

    def _limits(self) -> Limits:
        """Return the capacity constraints: a row for each limited hardware type, one for the budget."""
        hardware, budget = unit_types(self.instance), self.instance.hourly_budget_usd
        limited = np.isfinite(hardware.limit)
        weight, capacity = np.eye(len(limited))[limited], hardware.limit[limited]
        if budget is not None:
            weight = np.vstack([weight, hardware.price])
            # Counts are integers and need no margin, unlike sums of money.
            capacity = np.append(capacity, loosened(budget) * (1 + LIMIT_TOLERANCE))
        return Limits(weight, capacity)


def _widened(limit: float | None) -> float:
    """Return the largest amount within a limit and its tolerance; infinite without a limit."""
    return math.inf if limit is None else loosened(limit) * (1 + LIMIT_TOLERANCE)


MAX_STATES = 60_000_000
"""Maximum number of states: ideals times combinations of used units, one byte each."""
MAX_TIME_S = 1e200
"""Finite substitute for an infinite stage time, for the product with 0 units."""


def proves_no_faster_plan(instance: StagingInstance, slowest_s: float) -> bool:
    """Return whether it is proven that no plan has a stage time of at most `slowest_s`.

    False if the graph is too large for the proof.

    Raises
    ------
    TooLargeError
        If there are too many ideals.
    """
    limits = np.array([one.limit or 0 for one in instance.types])
    states = math.prod((limits + 1).tolist())
    graph = derive_graph(instance)
    ideals = len(graph.inside)
    if ideals * states > MAX_STATES:
        return False
    step = np.array([math.prod((limits[:t] + 1).tolist()) for t in range(len(limits))])
    used = np.array([np.arange(states) // s % (limit + 1) for s, limit in zip(step, limits, strict=True)])
    left = limits[:, None] - used
    needed, offered = _weighted_work(graph, left)
    reached = np.zeros((ideals, states), dtype=np.bool_)
    reached[-1, 0] = True
    room = stage_buffers(graph)
    for end in range(ideals - 1, 0, -1):
        check_time()
        # A state is pruned if the units left cannot do the work before its ideal in the time.
        fits = (needed[:, end, None] <= min(slowest_s, MAX_TIME_S) * offered * (1 + 1e-9)).all(axis=0)
        reached[end] &= fits
        if reached[end].any():
            count = stages_ending_at(graph, end, slowest_s, *room)
            _mark_reached(graph, reached, left, step, end, slowest_s, count, *room)
    return not reached[0].any()


def _weighted_work(graph: DerivedGraph, left: Ints) -> tuple[Floats, Floats]:
    """Return the weighted work inside each ideal, and the weighted capacity of the devices left.

    With any weights y ≥ 0 of the types, stages of at most τ seconds on k_t units do Σ_b min_t y_t (S + A)_bt
    ≤ τ Σ_t y_t k_t. One weight vector for each type has its least times relative to every other type.
    """
    work = graph.parts[:, :, 0] + graph.parts[:, :, 1]
    needed, offered = [], []
    for own in range(work.shape[1]):
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = work[:, own, None] / work
            ratio[~np.isfinite(ratio) | np.isinf(work)] = np.inf
            weights = ratio.min(axis=0)
            least = np.fmin.reduce(work * weights, axis=1)
        if not np.isfinite(weights).all():
            continue
        # A group that no type can run is in no stage.
        least[~np.isfinite(least)] = 0.0
        needed.append(graph.inside @ least)
        offered.append(weights @ left)
    return np.array(needed).reshape(-1, len(graph.inside)), np.array(offered).reshape(-1, left.shape[1])


@compiled
def _mark_reached(
    graph: DerivedGraph,
    reached: Flags,
    left: Ints,
    step: Ints,
    end: int,
    slowest: float,
    count: int,
    start: Ints,
    kind: Ints,
    parts: Floats,
) -> None:
    """Mark the states (ideal, devices used) that are reached by stages ending with an ideal."""
    here = np.flatnonzero(reached[end])
    for row in range(count):
        t = kind[row]
        serial, parallel, waiting, moved = parts[row, 0], parts[row, 1], parts[row, 2], parts[row, 3]
        units = 1
        while (
            max(serial + parallel / units, waiting + moved / units) * (1 - 1e-12) > slowest
            and units < graph.units[t]
        ):
            units += 1
        for state in here:
            if left[t, state] >= units:
                reached[start[row], state + units * step[t]] = True
