"""The Pareto frontier of an allocation: mean completion time against the hourly cost of the cluster.

The search solves clusters where the proven error is worst. It approximates the frontier by bisection between
solved points (Rote 1992; Ruzika & Wiecek 2005).
Along a grid of clusters (`formulations/allocation/cluster_grids.py`) the optimum can only fall, so two solved
clusters say about all between them that no plan beats the bound of the dearer one. The interval between two
clusters with the worst error is split until the error is as requested, or no cluster lies between, or the
time is up. It is split where the mean completion time is expected to fall in equal parts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Literal

from ...formulations.allocation.cluster_grids import (
    EQUALITY_TOLERANCE,
    ZERO,
    ClusterGrid,
    Interval,
    intervals,
    proven_error,
)
from ...formulations.allocation.formulation import AllocationFormulation
from ...formulations.allocation.plan import JobAllocation
from ...formulations.common.objective import Diagnosis
from ...instances.allocation.instance import AllocationInstance
from ...instances.common.errors import OutOfTimeError
from ..common.base import Clock, Outcome
from ..common.conclude import DEFAULT_DIAGNOSIS, conclude, diagnose_with, library_versions
from ..common.result import Limit, Result, SolveOptions
from .exact import AllocationExact, diagnose
from .frontier_result import AllocationFrontier, AllocationPoint, ClusterBound


@dataclass(frozen=True)
class FrontierSettings:
    """Constants of the search for the Pareto frontier.

    Attributes
    ----------
    error_per_gap
        Ratio of the requested error to the gap of a single cluster, unless a gap is requested.
    least_gap
        No cluster is solved to a smaller gap.
    aimed_share
        Share of the error at which splits aim, to spare the rest for the gaps of single clusters.
    parts_of_time
        The first solve of a cluster may take the remaining time divided by this.
    """

    error_per_gap: int = 100
    least_gap: float = 1e-9
    aimed_share: float = 0.97
    parts_of_time: int = 4


SETTINGS = FrontierSettings()


@dataclass(frozen=True)
class Bound:
    """The proven lower bounds on Σ ω t (weighted job-seconds) for one cluster of the grid.

    They are infinite where there is no plan.

    Attributes
    ----------
    limit
        What stopped the solve short of its gap.
    """

    claimed: float
    certified: float
    certificate: dict[str, Any] | None
    prices: dict[str, float] | None = None
    limit: Limit = "none"


@dataclass(frozen=True)
class Incumbent:
    """The best known plan for one cluster of the grid, with its capacities, hourly cost and Σ ω t."""

    value: float
    capacities: Mapping[str, float]
    rate: float
    plan: tuple[JobAllocation, ...]


class ClusterSearch:
    """State of the frontier search: bounds and best plans of the clusters that were solved.

    Parameters
    ----------
    grid
        The clusters; a step is the position of a cluster in it.
    options
        Time limit of the whole search; threads, seed and gap of each solve.
    error
        The requested ε.
    """

    def __init__(self, grid: ClusterGrid, options: SolveOptions, error: float, clock: Clock) -> None:
        self.grid, self.options, self.error, self.clock = grid, options, error, clock
        self.gap = (
            options.gap
            if "gap" in options.model_fields_set
            else max(error / SETTINGS.error_per_gap, SETTINGS.least_gap)
        )
        self.bounds: dict[Fraction, Bound] = {}
        self.incumbents: dict[Fraction, Incumbent] = {}
        self.current: AllocationPoint | None = None
        self.limit: Limit = "none"
        self._tried: set[Fraction] = set()
        self._same: dict[tuple[str, str | None, int, int], JobAllocation] = {}

    def run(self) -> None:
        """Solve clusters of the grid until the frontier's error is proven, or a limit stops the search."""
        try:
            self._solve_own_cluster()
            self._solve_extremes()
            while not self._stopped():
                step = self._next_step()
                if step is None:
                    break
                self.solve(step)
        except KeyboardInterrupt:
            self.limit = "interrupt"
        except OutOfTimeError:
            self.limit = "time"

    def _stopped(self) -> bool:
        if self.clock.expired and self.limit == "none":
            self.limit = "time"
        return self.limit != "none"

    def _solve_own_cluster(self) -> None:
        """Solve the instance's own cluster, and record its plan for the grid of clusters too."""
        grid = self.grid
        formulation = grid.own()
        result = self._solve_cluster(formulation)
        if result.plan is None or result.objective is None:
            return
        plan = self._with_shared_entries(result)
        incumbent = Incumbent(result.objective, grid.instance.resources, grid.own_rate(), plan)
        self.current = point_of(grid, incumbent, _bound_of(formulation, result))
        if grid.mix == "fixed" and grid.last >= 1:
            self._record(Fraction(1), formulation, result)
        elif grid.mix == "any":
            step, capacities = grid.place(grid.last, grid.used(formulation, plan))
            if not grid.formulation(step).violations(plan):
                self._update_incumbent(step, capacities, result.objective, plan)

    def _solve_extremes(self) -> None:
        """Solve the dearest cluster of the grid, and search for the cheapest feasible one."""
        grid, configs = self.grid, self.grid.wide
        bottom: Fraction | None = None
        if configs.counts.all():
            bottom = grid.lowest_with(configs.least(configs.demand).sum(axis=0))
        if grid.last not in self.bounds:
            self.solve(grid.last)
        if self._is_infeasible(grid.last) or bottom is None or bottom > grid.last or self._stopped():
            return
        if bottom > ZERO:
            self.solve(grid.previous(bottom))  # counting alone proves that it has no plan
        if bottom not in self.bounds:
            self.solve(bottom)
        if self._is_infeasible(bottom):
            grid.highest(self._solve_is_infeasible, bottom, min(self.incumbents, default=grid.last))

    def _solve_is_infeasible(self, step: Fraction) -> bool:
        if self._stopped():
            return False
        if step not in self.bounds:
            self.solve(step)
        return self._is_infeasible(step)

    def _is_infeasible(self, step: Fraction) -> bool:
        return math.isinf(self.bounds[step].claimed)

    def solve(self, step: Fraction) -> None:
        """Solve the cluster at a position of the grid; one solved before gets all the remaining time."""
        again = step in self.bounds
        formulation = self.grid.formulation(step)
        self._record(
            step, formulation, self._solve_cluster(formulation, 1 if again else SETTINGS.parts_of_time)
        )

    def _solve_cluster(
        self, formulation: AllocationFormulation, parts: int = SETTINGS.parts_of_time
    ) -> Result:
        """Return the exact solver's result for one cluster, within a fraction of the remaining time.

        It has no diagnosis.
        """
        left = self.clock.remaining_s
        limit = None if left is None else max(left / parts, 1e-3)
        options = self.options.model_copy(update={"gap": self.gap, "time_limit_s": limit})
        clock = Clock(limit)
        if formulation.elementary_infeasibility() is not None:
            outcome = Outcome(infeasible=True)
        else:
            outcome = AllocationExact().solve(formulation, options, clock)
        return conclude(formulation, "exact", options, outcome, clock.elapsed_s)

    def _record(self, step: Fraction, formulation: AllocationFormulation, result: Result) -> None:
        """Record the bound and the plan of a solved cluster, the plan also for a cheaper one that it fits."""
        if result.status == "infeasible":
            proven = _infeasibility_certified(formulation, result.certificate)
            certified = math.inf if proven else formulation.elementary_bounds()[0] or 0.0
            self.bounds[step] = Bound(math.inf, certified, result.certificate)
            return
        bound = _bound_of(formulation, result)
        self._update_bound(step, bound)
        if result.plan is None or result.objective is None:
            return
        plan = self._with_shared_entries(result)
        place, capacities = self.grid.place(step, self.grid.used(formulation, plan))
        if place != step:
            cheaper = self.grid.formulation(place)
            if cheaper.violations(plan):
                return
            # The dual prices prove at least as much for the cheaper cluster, which has less capacity.
            own = cheaper.certified_bounds(result.certificate)[0] or 0.0
            self._update_bound(place, replace(bound, claimed=max(bound.claimed, own), certified=own))
        self._update_incumbent(place, capacities, result.objective, plan)

    def _update_bound(self, step: Fraction, bound: Bound) -> None:
        """Record the bound on a cluster's Σ ω t, unless a better one is known."""
        before = self.bounds.get(step)
        if before is None or bound.certified > before.certified or bound.claimed > before.claimed:
            self.bounds[step] = bound

    def _update_incumbent(
        self, step: Fraction, capacities: Mapping[str, float], value: float, plan: tuple[JobAllocation, ...]
    ) -> None:
        """Record a plan if it is the best one yet of its cluster, and belongs to that cluster."""
        before, rate = self.incumbents.get(step), self.grid.cost_of(capacities)
        better = before is None or value < before.value
        if better and self.grid.step_of(rate, capacities) == step:
            self.incumbents[step] = Incumbent(value, capacities, rate, plan)

    def _with_shared_entries(self, result: Result) -> tuple[JobAllocation, ...]:
        """Return the plan of a result, with one shared object for equal entries of all plans (memory)."""
        entries = []
        for entry in result.plan or ():
            assert isinstance(entry, JobAllocation)
            key = entry.job, entry.variant, entry.ps, entry.workers
            entries.append(self._same.setdefault(key, entry))
        return tuple(entries)

    def values(self) -> dict[Fraction, float]:
        """Return Σ ω t of the best plan of each cluster, by the cluster's position in the grid."""
        return {step: found.value for step, found in self.incumbents.items()}

    def _next_step(self) -> Fraction | None:
        """Return the grid position of the cluster to solve next, None if none can lower the error."""
        values = self.values()
        certified = intervals(self.grid, values, {x: bound.certified for x, bound in self.bounds.items()})
        claimed = intervals(self.grid, values, {x: bound.claimed for x, bound in self.bounds.items()})
        pairs = zip(certified, claimed, strict=True)
        for interval, believed in sorted(pairs, key=lambda pair: -pair[0].error):
            if interval.error <= self.error:
                return None
            if believed.error <= self.error and self._own_gap(interval) > self.error / 2:
                continue  # the certificate of the dearest step is too weak for splits to help
            step = self._split(interval)
            if step is not None:
                return step
        return None

    def _split(self, interval: Interval) -> Fraction | None:
        """Return the grid position at which to split an interval of clusters, None if none helps."""
        own = self.bounds.get(interval.high)
        if own is not None and own.limit == "time" and self._own_gap(interval) > self.error / 2:
            return interval.high
        if interval.low >= interval.high:
            return None
        low, high = interval.low, interval.high
        dearest = self.grid.previous(high)
        if low not in self._tried and self._is_flat(interval):
            self._tried.add(low)
            return dearest  # the whole fall may be at the dearest step, which a single solve shows
        if low == ZERO or interval.point is None or interval.bound <= 0:
            amount = (low + high) / 2
        else:
            # Completion times fall about geometrically: equal ratios of cost give equal ratios of time.
            falls = math.log(interval.value / interval.bound)
            parts = (
                2
                if not self.error
                else max(2, math.ceil(falls / -math.log1p(-SETTINGS.aimed_share * self.error)))
            )
            amount = low * Fraction(float(high / low) ** (parts // 2 / parts))
        step = self.grid.at_most(amount)
        return min(max(step, low), dearest)

    def _is_flat(self, interval: Interval) -> bool:
        """Return whether the best plan for the clusters below an interval belongs to a cheaper one."""
        below = self.grid.previous(interval.low) if interval.low > ZERO else ZERO
        return interval.point is not None and interval.point < below in self.bounds

    def _own_gap(self, interval: Interval) -> float:
        """Return the relative gap between the best plan and the bound of an interval's dearest cluster."""
        value = min(
            (f.value for step, f in self.incumbents.items() if step <= interval.high), default=math.inf
        )
        return 1.0 if math.isinf(value) or not value else 1 - interval.bound / value


def weighted_mean_s(total: float, grid: ClusterGrid) -> float | None:
    """Return the weighted mean completion time in seconds by Σ ω t, None where that is infinite."""
    return None if math.isinf(total) else total / grid.weight


def point_of(grid: ClusterGrid, incumbent: Incumbent, bound: Bound | None) -> AllocationPoint:
    """Return the frontier point of a plan, with bounds capped at its value, which rounding may exceed."""
    if bound is not None:
        claimed, certified = min(bound.claimed, incumbent.value), min(bound.certified, incumbent.value)
        bound = replace(bound, claimed=claimed, certified=certified)
    return AllocationPoint(
        rate_usd_per_hour=incumbent.rate,
        capacities=dict(incumbent.capacities),
        mean_completion_s=incumbent.value / grid.weight,
        bound_s=None if bound is None else weighted_mean_s(bound.claimed, grid),
        certified_bound_s=None if bound is None else weighted_mean_s(bound.certified, grid),
        prices=None if bound is None else bound.prices,
        certificate=None if bound is None else bound.certificate,
        plan=incumbent.plan,
    )


def _bound_of(formulation: AllocationFormulation, result: Result) -> Bound:
    """Return the bounds on Σ ω t from the result of a solve that did not end as infeasible.

    Where a bound exceeds the plan by rounding, the result has the plan's value. The plan may belong to a
    cheaper step, so that the bound of this one is what its certificate proves.
    """
    claimed, certified = result.bound or 0.0, result.certified_bound or 0.0
    if certified == result.objective:
        certified = formulation.certified_bounds(result.certificate)[0] or 0.0
    return Bound(max(claimed, certified), certified, result.certificate, result.prices, result.limit)


def _infeasibility_certified(formulation: AllocationFormulation, certificate: object) -> bool:
    if formulation.elementary_infeasibility() is not None:
        return True
    bound = formulation.certified_bounds(certificate)[0]
    return bound is not None and math.isinf(bound)


MAX_DIAGNOSED = 20_000
"""Most configurations of a cluster for which an elastic model computes the missing capacity."""


def find_allocation_frontier(
    instance: AllocationInstance,
    grid: ClusterGrid,
    options: SolveOptions,
    error: float,
    clock: Clock,
    assumptions: tuple[str, ...] = (),
) -> AllocationFrontier:
    """Return the Pareto frontier of mean completion time and hourly cost, with its proven error ε.

    Parameters
    ----------
    grid
        The clusters of the instance and their prices.
    error
        ε: for every cluster there is to be a point that costs no more, and whose mean completion time, less
        the part ε, is no longer.
    assumptions
        Assumptions beside those of the grid.
    """
    search = ClusterSearch(grid, options, error, clock)
    search.run()
    status, limit = _status(search), search.limit
    if status == "partial" and limit == "none":  # that of a single solve left the error unproven, if any
        limit = next((bound.limit for bound in search.bounds.values() if bound.limit != "none"), "none")
    steps = _undominated(search.incumbents)
    values = search.values()
    certified = {
        step: min(bound.certified, values.get(step, math.inf)) for step, bound in search.bounds.items()
    }
    return AllocationFrontier(
        instance=instance.name,
        instance_sha256=instance.sha256(),
        mix=grid.mix,
        status=status,
        limit=limit,
        error=error,
        certified_error=proven_error(grid, values, certified) if search.incumbents else None,
        most_usd_per_hour=grid.most_usd,
        prices_usd_per_hour=grid.prices,
        weight=grid.weight,
        points=tuple(
            point_of(grid, search.incumbents[step], search.bounds.get(step)) for step in reversed(steps)
        ),
        others=tuple(_other_bounds(search, steps)),
        current=search.current,
        assumptions=(*assumptions, *grid.assumptions()),
        runtime_s=clock.elapsed_s,
        options=options,
        versions=library_versions(),
        diagnosis=_diagnosis(search) if status == "infeasible" else None,
    )


def _undominated(incumbents: Mapping[Fraction, Incumbent]) -> list[Fraction]:
    """Return the grid positions of the plans that no plan of a cheaper cluster beats, cheapest first."""
    steps: list[Fraction] = []
    for step in sorted(incumbents):
        if not steps or incumbents[step].value < incumbents[steps[-1]].value * (1 - EQUALITY_TOLERANCE):
            steps.append(step)
    return steps


def _status(search: ClusterSearch) -> Literal["complete", "partial", "infeasible"]:
    if not search.incumbents:
        # With a limit there may not even have been time to see which clusters there are.
        return "infeasible" if search.limit == "none" else "partial"
    claimed = {step: bound.claimed for step, bound in search.bounds.items()}
    error = proven_error(search.grid, search.values(), claimed)
    return "complete" if error is not None and error <= search.error else "partial"


def _other_bounds(search: ClusterSearch, points: list[Fraction]) -> list[ClusterBound]:
    """Return the bounds of further clusters on which the frontier's proven error rests, dearest first."""
    grid, kept = search.grid, []
    claimed = certified = -math.inf
    for step in sorted(search.bounds, reverse=True):
        bound = search.bounds[step]
        better = bound.claimed > claimed or bound.certified > certified
        claimed, certified = max(claimed, bound.claimed), max(certified, bound.certified)
        if better and step not in points:
            none = math.isinf(bound.claimed)
            capacities = grid.cluster(step).resources
            kept.append(
                ClusterBound(
                    rate_usd_per_hour=grid.rate(step),
                    capacities=capacities if grid.mix == "fixed" else grid.unpriced(),
                    no_plan=none,
                    bound_s=weighted_mean_s(bound.claimed, grid),
                    certified_bound_s=weighted_mean_s(bound.certified, grid),
                    certificate=bound.certificate,
                )
            )
    return kept


def _diagnosis(search: ClusterSearch) -> Diagnosis:
    """Return the diagnosis of the dearest cluster of the grid, which is infeasible."""
    formulation = search.grid.formulation(search.grid.last)
    known = formulation.elementary_infeasibility()
    if known is None and len(formulation.configurations.cost) <= MAX_DIAGNOSED:
        return diagnose_with(diagnose, formulation, patience_s=search.clock.remaining_s)
    return known or DEFAULT_DIAGNOSIS
