"""Branch and bound over the stage time: intervals, the bound of each, and how open ones are split.

Within an interval the least cost of a segment bounds its true cost (`intervals.py`), so a shortest path
bounds every plan. Limits enter by a Lagrangian dual (Handler & Zang 1980), and what that leaves open of an
interval is settled on a core of few segments, by labels. Segments that reduced costs exclude are dropped from
a group of intervals for good (reduced-cost fixing).

The Lagrangian dual over paths prices the scarce units within one interval of the stage time:

    D(y) = min over paths of Σ (cost + y·consumption) − y·limit,  y ≥ 0

is concave, and an evaluation is one shortest path (Handler & Zang 1980), so cutting planes (Kelley 1960) need
some dozens of paths. With costs left out, any y with D(y) > 0 proves that the units do not suffice at all.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ...formulations.staging.formulation import StagingFormulation
from ...instances.common.arrays import Floats, Ints
from ...instances.common.errors import OutOfTimeError
from ..backends.highs import CuttingPlaneModel
from ..common.base import Clock, Trace
from ..common.result import Limit
from ..common.search_control import report_progress
from .core import MOST_COLUMNS, Core, core_of, narrow_core
from .intervals import Candidate, Incumbent, Interval, Limits, Segments
from .labelling import search_labels

SEGMENTS_AT_ONCE = 1 << 21
MOST_AT_ONCE = 4
"""Segments times intervals, and intervals, that are worked on together."""
HALVED_ABOVE_RATIO = 1.5
"""Intervals whose ends have a greater ratio are halved before they are split at breakpoints."""
QUARTERED_ABOVE = 0.4
"""Intervals whose bound misses the cutoff by more than this times the logarithm of the ratio of their
ends, relatively, are split into four parts: half of one would miss it too."""
NEVER_SPLIT_BELOW_RATIO = 1 + 1e-13
"""Ratio of the ends below which an interval is not split: it is hardly wider than rounding."""
MOST_KEPT_SHARE = 0.7
FEW_SEGMENTS = 2000
"""Segments are dropped only where no more than this part remains, and never where there are so few."""
SHORTAGE = 1e-6
"""The value by which priced units must exceed all limits to prove that they do not suffice."""
CORE_AT_ANY_WIDTH = 400
CORE_BELOW_RATIO = 1.02
"""Columns of a core that is solved in an interval of any width; ratio of the ends below which all are."""
FIRST_COLUMNS = (1000, 4000, 16_000, None)
FIRST_CORE_S = 10.0
"""Columns of the cores in which a first plan is searched, the last with all; seconds for each but the
last."""
BEAMS = (200, 2000)
"""Beam widths of the labelling, labels of a layer, that are tried in turn before all labels are."""
CORE_S = 6.0
"""Seconds for a core."""
LOOKED_AT_ONCE = 1 << 16
"""Segments among which the slowest is searched at a time."""
BOX_GROWTH = 8.0
"""Factor by which the box of prices grows if the best ones lie at its edge."""
ROUNDING_MARGIN = 1e-13
"""Relative to the terms that are added up."""
MOST_ROUNDS = 300
"""Evaluations of D."""
PRICE_TOLERANCE = 1e-7
"""Relative distance to the best possible bound at which prices count as best."""
ROUGH_SHARE_OF_WIDTH = 0.05
"""In an interval whose target is out of reach they count as best at this part of its relative width: the
interval is split, and its parts improve them."""


@dataclass(frozen=True)
class DualSolution:
    """Dual prices of the limits, the bound that they prove, and the paths of stages of all evaluations.

    Attributes
    ----------
    prices
        Shape (R,).
    bound
        D at these prices; infinite if there is no path at all.
    paths
        The segments of each path, latest last.
    """

    prices: Floats
    bound: float
    paths: list[Ints]


def solve_dual(segments: Segments, interval: Interval, target: float, clock: Clock) -> DualSolution:
    """Return dual prices that maximise an interval's Lagrangian bound, or the first that reach the target.

    Parameters
    ----------
    target
        A bound of this is enough.
    """
    oracle = _Oracle(segments, interval)
    best = oracle.at(interval.prices)
    # The prices of the interval that was split are a good start, and may also be worse than none.
    if interval.prices.any():
        best = max(best, oracle.at(np.zeros_like(interval.prices)), key=lambda answer: answer[1])
    reference = target if interval.counts_cost and math.isfinite(target) else max(1.0, abs(best[1]))
    # The box of prices: at its edge all units of a limit are worth four times the target.
    high = np.maximum(4 * reference / np.maximum(segments.limits.capacity, 1.0), 2 * best[0])
    width = (interval.high - interval.low) / max(interval.high, 1e-300)
    rough = max(PRICE_TOLERANCE, ROUGH_SHARE_OF_WIDTH * width)
    for _ in range(MOST_ROUNDS):
        if best[1] >= target or clock.expired or math.isinf(best[1]):
            break
        prices, above = oracle.envelope.maximize(*best, np.zeros_like(high), high)
        # `above`: by how much D can still rise within the box.
        enough = rough if best[1] + above < target else PRICE_TOLERANCE
        if above <= enough * max(abs(best[1]), reference):
            edge = best[0] >= high * (1 - 1e-6)
            if not edge.any() or high.max() > 1e12 * reference:
                break
            # The best prices may lie beyond the box.
            high = np.where(edge, BOX_GROWTH * high, high)
            continue
        best = max(best, oracle.at(prices), key=lambda answer: answer[1])
    return DualSolution(*best, oracle.paths)


class _Oracle:
    """Evaluates the dual function D of an interval; keeps the supergradient and path of each evaluation."""

    def __init__(self, segments: Segments, interval: Interval) -> None:
        self.segments, self.interval = segments, interval
        self.envelope = CuttingPlaneModel()
        self.paths: list[Ints] = []

    def at(self, prices: Floats) -> tuple[Floats, float]:
        """Return the given dual prices with the value of D there, in USD, rounded down."""
        segments, interval = self.segments, self.interval
        weight = segments.weight(interval, prices)
        shortest, arrival = segments.forward(weight)
        if math.isinf(shortest):
            return prices, math.inf
        path = segments.cheapest(weight, arrival)
        self.paths.append(path)
        self.envelope.constants.append(float(interval.cost[path].sum()))
        consumption = segments.consumption(path, interval.units[path])
        self.envelope.slopes.append(consumption - segments.limits.capacity)
        spare = float(prices @ segments.limits.capacity)
        return prices, shortest - spare - ROUNDING_MARGIN * (abs(shortest) + spare)


@dataclass(eq=False)
class Group:
    """Neighbouring open intervals of stage times, and the candidate stages of better plans in them."""

    segments: Segments
    intervals: list[Interval]

    @property
    def bound(self) -> float:
        """Least bound of the group's intervals in USD."""
        return min(interval.bound for interval in self.intervals)


class Search:
    """Branch and bound over intervals of the slowest stage time, for the plan or plans of an incumbent.

    Parameters
    ----------
    formulation
        Its floor, limits, memory and budgets hold; its objective is ignored.

    Attributes
    ----------
    limit
        What stopped the search; `none` if every interval is closed.
    """

    def __init__(self, formulation: StagingFormulation, incumbent: Incumbent, clock: Clock) -> None:
        self.formulation, self.incumbent, self.clock = formulation, incumbent, clock
        self.slowest_s = _slowest_stage_time(formulation)
        self.fastest_s = formulation.fastest_s
        self.groups: list[Group] = []
        self.closed: list[Interval] = []
        self.trace: Trace = []
        self.build_s = 0.0
        self.limit: Limit = "none"
        self.least_open: float | None = None

    def run(self) -> list[Interval]:
        """Split intervals of the stage time until all are closed or the time is up.

        Returns
        -------
        intervals
            A cover of the stage times, from fast to slow, with the bound of each.

        Raises
        ------
        OutOfTimeError
            If the time is up before there are intervals, and no plan is known.
        """
        try:
            with self.clock.enforced():
                segments = Segments.of(self.formulation, self.slowest_s)
        except OutOfTimeError:
            if not self.incumbent.has_plan:
                raise
            self.limit = "time"
            return [self._unexamined()]
        self.build_s = self.clock.elapsed_s
        if self.fastest_s > self.slowest_s or not len(segments):
            return []
        try:
            infeasible = self._first_plan(segments) if len(segments.limits) else None
            if infeasible is not None:
                return [infeasible]
            self._examine(segments, self._first_intervals(segments))
        except (KeyboardInterrupt, OutOfTimeError) as stop:
            # Half-examined intervals prove nothing: one interval without a bound covers all stage times.
            self.limit, self.closed, self.groups = limit_of(stop), [self._unexamined()], []
        while self.groups and self.limit == "none":
            if self.clock.expired:
                self.limit = "time"
                break
            self._step()
            if self.groups and self.formulation.instance.objective == "cost":
                self.least_open = min(group.bound for group in self.groups)
                self._report_progress()
        intervals = self.closed + [interval for group in self.groups for interval in group.intervals]
        return sorted(intervals, key=lambda interval: interval.low)

    def _step(self) -> None:
        """Split the open intervals of one group, and bound their parts."""
        # The fastest where only that can hold the optimum, else the one of least bound.
        leftmost = self.incumbent.leftmost_first
        group = min(self.groups, key=lambda own: own.intervals[0].low if leftmost else own.bound)
        before = list(self.groups), list(self.closed)
        try:
            self.groups.remove(group)
            still = self._still_open(group.intervals)
            chosen, others = (still[:1], still[1:]) if leftmost else (still, [])
            if others:
                self.groups.append(Group(group.segments, others))
            splittable = [one for one in chosen if _splittable(one)]
            self.closed += [one for one in chosen if not _splittable(one)]
            self._examine(group.segments, self._split(group.segments, splittable))
        except (KeyboardInterrupt, OutOfTimeError) as stop:
            # The cover from before the step is still valid.
            self.groups, self.closed = before
            self.limit = limit_of(stop)

    def _unexamined(self) -> Interval:
        """Return one interval of all stage times, without a bound, candidate stages or prices."""
        limits, nothing = len(Limits.of(self.formulation)), np.empty(0)
        return Interval(self.fastest_s, self.slowest_s, nothing, nothing, np.zeros(limits))

    def _still_open(self, intervals: Sequence[Interval]) -> list[Interval]:
        """Return the intervals whose bound is below the cutoff; close the others."""
        still: list[Interval] = []
        for interval in intervals:
            (still if self._is_open(interval) else self.closed).append(interval)
        return still

    def _is_open(self, interval: Interval) -> bool:
        """Return whether the bound of an interval is below its cutoff."""
        return interval.bound < self.incumbent.cutoff(interval.low)

    def _first_intervals(self, segments: Segments) -> list[Interval]:
        """Return intervals of equal ratio of their ends that together cover all stage times."""
        # Stage times that hardly differ make one interval.
        count = _batch_size(segments) if self.slowest_s > 1.001 * self.fastest_s else 1
        low = max(self.fastest_s, self.slowest_s * 1e-12)
        ends = np.geomspace(low, self.slowest_s, count + 1)
        ends[0], ends[-1] = self.fastest_s, self.slowest_s
        starts = [float(ends[0]), *np.nextafter(ends[1:-1], np.inf).tolist()]
        none = np.zeros(len(segments.limits))
        return [
            segments.interval(low, high, none) for low, high in zip(starts, ends[1:].tolist(), strict=True)
        ]

    def _split(self, segments: Segments, intervals: Sequence[Interval]) -> list[Interval]:
        """Return two parts of each interval of stage times, or four where two would surely stay open."""
        parts = []
        for interval in intervals:
            cutoff, far = self.incumbent.cutoff(interval.low), False
            # Prices are improved from half to half.
            if math.isfinite(cutoff) and interval.low > 0 and not interval.prices.any():
                # The bound is too far below the cutoff for halving to close the interval.
                missing = 1 - interval.bound / cutoff
                far = missing > QUARTERED_ABOVE * math.log(interval.high / interval.low)
            for half in self._halves(segments, interval):
                parts += self._halves(segments, half) if far and _splittable(half) else [half]
        return parts

    def _halves(self, segments: Segments, interval: Interval) -> list[Interval]:
        """Return the faster and the slower part of an interval of stage times."""
        point = self._split_point(interval)
        # The slower part keeps its end and so its units; only the faster part needs new ones.
        faster = segments.interval(interval.low, math.nextafter(point, 0.0), interval.prices)
        slower = segments.later(interval, point)
        faster.halve, faster.bound, slower.bound = not interval.halve, interval.bound, interval.bound
        return [faster, slower]

    def _report_progress(self) -> None:
        """Report the incumbent's objective value and the latest bound on all plans."""
        if self.trace:
            value = self.trace[-1][1]
            known = None if self.least_open is None or value is None else min(self.least_open, value)
            report_progress(self.formulation.objectives[0], value, known)

    def _split_point(self, interval: Interval) -> float:
        """Return the stage time at which to split an interval; it belongs to the slower part."""
        middle = math.sqrt(max(interval.low, interval.high * 1e-12) * interval.high)
        middle = max(middle, math.nextafter(interval.low, math.inf))
        best = self.incumbent.best
        if interval.halve:
            return middle
        # At the incumbent's stage time: the part before it can only hold faster plans.
        if best is not None and interval.low < best.time_s <= interval.high:
            return best.time_s
        if interval.high < HALVED_ABOVE_RATIO * interval.low and len(interval.breakpoints):
            return float(interval.breakpoints[np.abs(interval.breakpoints - middle).argmin()])
        return middle

    def _examine(self, segments: Segments, intervals: Sequence[Interval]) -> None:
        """Bound intervals of the stage time, and form new groups of those that stay open."""
        size = _batch_size(segments)
        for start in range(0, len(intervals), size):
            batch = intervals[start : start + size]
            if self.clock.expired:  # what is not examined keeps the bound of the interval that was split
                self.groups.append(Group(segments, list(batch)))
                continue
            constrained = []
            for interval in batch:
                weight = segments.weight(interval, interval.prices)
                shortest, interval.arrival = segments.forward(weight)
                spare = float(interval.prices @ segments.limits.capacity)
                interval.bound = max(interval.bound, shortest - spare)
                if self._is_open(interval):
                    path = segments.cheapest(weight, interval.arrival)
                    interval.breakpoints = segments.breakpoints(interval, path)
                    self._try(segments, interval, path)
                    # Where the cheapest path keeps the limits, no prices can raise the bound.
                    if interval.prices.any() or not segments.fits(path, interval.units[path]):
                        constrained.append(interval)
            for interval in sorted(constrained, key=lambda one: one.bound):
                if self.clock.expired:
                    break
                # Plans found since may have settled it.
                if self._is_open(interval):
                    self._raise_bound(segments, interval)
            still = self._still_open(batch)
            if still and (len(segments) < FEW_SEGMENTS or self.clock.expired):
                self.groups.append(Group(segments, still))
            elif still:
                self.groups.append(self._reduced(segments, still))

    def _raise_bound(self, segments: Segments, interval: Interval) -> None:
        """Raise an interval's bound by dual prices on scarce units, and by its core if that is small."""
        interval.arrival = None
        cutoff = self.incumbent.cutoff(interval.low)
        priced = interval
        if math.isinf(cutoff):
            # Any plan is of interest, whatever its cost: only a shortage of units can close the interval.
            priced = interval.without_costs()
            short = solve_dual(segments, priced, SHORTAGE, self.clock)
            priced.prices = short.prices
            if short.bound >= SHORTAGE:
                interval.prices, interval.counts_cost, interval.bound = short.prices, False, math.inf
                return
        dual = solve_dual(segments, interval, cutoff, self.clock)
        interval.prices, interval.bound = dual.prices, max(interval.bound, dual.bound)
        for path in dual.paths:
            self._try(segments, interval, path)
        if not self._is_open(interval) or self.clock.expired:
            return
        interval.breakpoints = segments.breakpoints(interval, dual.paths[-1])
        core = core_of(segments, priced, priced.prices, cutoff if priced is interval else SHORTAGE)
        # In a wide interval a core proves little: splitting pays more, unless the core is tiny.
        wide = interval.high > CORE_BELOW_RATIO * interval.low
        if len(core) <= (CORE_AT_ANY_WIDTH if wide else MOST_COLUMNS):
            self._solve_core(segments, interval, core, priced.prices, cutoff, self.clock.at_most(CORE_S))
            if math.isinf(interval.bound) and self.incumbent.any_cost:
                interval.prices, interval.counts_cost = priced.prices, priced.counts_cost

    def _solve_core(
        self, segments: Segments, interval: Interval, core: Core, prices: Floats, cutoff: float, clock: Clock
    ) -> bool:
        """Raise an interval's bound by its core; return whether a path within the limits was found."""
        any_plan = math.isinf(cutoff)
        short = SHORTAGE if any_plan else cutoff
        core, bound = narrow_core(segments, interval, core, prices, short, clock, float(not any_plan))
        if core.complete and (not any_plan or not len(core)):
            # What the core leaves out reaches the cutoff.
            interval.bound = max(interval.bound, min(bound, cutoff))
        if not len(core):
            return False
        # A path that a beam finds shows that the interval cannot be closed.
        answer = search_labels(segments, interval, core, prices, cutoff, clock, BEAMS)
        if core.complete:
            # What the core leaves out reaches the cutoff.
            interval.bound = max(interval.bound, min(answer.bound, cutoff))
        if answer.path is None:
            return False
        interval.breakpoints = segments.breakpoints(interval, answer.path)
        self._try(segments, interval, answer.path)
        return True

    def _first_plan(self, segments: Segments) -> Interval | None:
        """Search for a first plan at the slowest stage time, or for proof that there is none.

        A plan that is fast enough for a shorter stage time keeps all limits at the slowest too.

        Returns
        -------
        infeasible
            One interval of all stage times if it is proven that there is no plan, else None.
        """
        slowest = self.slowest_s
        interval = segments.interval(slowest, slowest, np.zeros(len(segments.limits)))
        weight = segments.weight(interval, interval.prices)
        shortest, arrival = segments.forward(weight)
        if math.isfinite(shortest):
            self._try(segments, interval, segments.cheapest(weight, arrival))
        if self.incumbent.has_plan:
            return None
        priced = interval.without_costs()
        short = solve_dual(segments, priced, SHORTAGE, self.clock)
        priced.prices = short.prices
        infeasible = replace(priced, low=self.fastest_s, bound=math.inf)
        if short.bound >= SHORTAGE:
            return infeasible
        dual = solve_dual(segments, interval, math.inf, self.clock)
        interval.prices, interval.bound = dual.prices, dual.bound
        for path in (*short.paths, *dual.paths):
            self._try(segments, interval, path)
        for most in FIRST_COLUMNS:
            if self.incumbent.has_plan or self.clock.expired:
                break
            core = core_of(segments, interval, interval.prices, math.inf, most)
            if len(core) > MOST_COLUMNS:
                break
            clock = self.clock.at_most(FIRST_CORE_S) if most else self.clock
            success = self._solve_core(segments, interval, core, interval.prices, math.inf, clock)
            if core.complete:
                return infeasible if not success and math.isinf(interval.bound) else None
        return None

    def _reduced(self, segments: Segments, intervals: list[Interval]) -> Group:
        """Return a group of intervals without the stages that no better plan in any of them can use."""
        alive = np.zeros(len(segments), dtype=bool)
        for interval in intervals:
            weight = segments.weight(interval, interval.prices)
            if interval.arrival is None:
                interval.arrival = segments.forward(weight)[1]
            through = segments.through(weight, interval.arrival)
            interval.arrival = None
            # Up to the best cost itself, not only the cutoff, so that bounds without the others still hold.
            most = self.incumbent.cutoff(interval.low) / self.incumbent.close_enough
            alive |= through < most + float(interval.prices @ segments.limits.capacity)
        if alive.mean() > MOST_KEPT_SHARE:
            return Group(segments, intervals)
        keep = np.flatnonzero(alive)
        for interval in intervals:
            interval.units, interval.cost = interval.units[keep], interval.cost[keep]
        return Group(segments.only(keep), intervals)

    def _try(self, segments: Segments, interval: Interval, path: Ints) -> None:
        """Update the incumbent with a path's plans whose stage times are breakpoints in the interval."""
        times = segments.only(path)
        units = times.fewest_units(np.append(interval.breakpoints, interval.high))
        units = units[np.isfinite(units).all(axis=1)]
        taus = times.time_s(units).max(axis=1)
        costs = taus * (units @ segments.rate[path])
        position = segments.position[path]
        for time, cost, count in zip(taus.tolist(), costs.tolist(), units, strict=True):
            if not segments.fits(path, count):
                continue
            improves = self.incumbent.update(Candidate(time, cost, position, count))
            if improves and self.incumbent.best is not None:
                formulation = self.formulation
                cheapest = formulation.instance.objective == "cost"
                value = cost if cheapest else formulation.of_stage_time(time)
                self.trace.append((self.clock.elapsed_s, value, None))
                self._report_progress()


def _splittable(interval: Interval) -> bool:
    return interval.high > interval.low * NEVER_SPLIT_BELOW_RATIO


def limit_of(stop: BaseException) -> Limit:
    """Return the limit that an exception stands for, which stopped a search."""
    return "time" if isinstance(stop, OutOfTimeError) else "interrupt"


def _batch_size(segments: Segments) -> int:
    """Return the number of intervals of the stage time that are bounded together."""
    return max(1, min(MOST_AT_ONCE, SEGMENTS_AT_ONCE // len(segments)))


def _slowest_stage_time(formulation: StagingFormulation) -> float:
    """Return the slowest stage time to search in seconds: of the floor, or of any stage on one unit."""
    latest, table, longest = formulation.latest_s, formulation.table, 0.0
    # The longest segments come last: mostly the first part decides.
    for end in range(len(table.serial), 0, -LOOKED_AT_ONCE):
        part = slice(max(0, end - LOOKED_AT_ONCE), end)
        computing = table.serial[part] + table.parallel[part]
        single = np.maximum(computing, table.comm_serial[part] + table.comm_parallel[part])
        longest = max(longest, float(np.max(single, initial=0.0, where=np.isfinite(single))))
        if longest >= latest:
            break
    return min(latest, longest)
