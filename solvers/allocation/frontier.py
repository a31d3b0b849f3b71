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
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, ClassVar, Literal

from ...formulations.allocation.cluster_grids import ZERO, ClusterGrid, Mix, certified_total, cluster_grid_of
from ...formulations.allocation.formulation import AllocationFormulation
from ...formulations.allocation.plan import JobAllocation
from ...formulations.common.frontier import Interval, intervals, proven_error, undominated
from ...formulations.common.objective import Diagnosis
from ...instances.allocation.instance import AllocationInstance
from ...instances.common.base import figure
from ...instances.common.errors import OptionError
from ...instances.common.fields import (
    LARGEST,
    Amounts,
    Fields,
    Many,
    ManyNamed,
    Model,
    Positive,
    unknown_names,
)
from ..common.base import Clock, Outcome
from ..common.conclude import DEFAULT_DIAGNOSIS, conclude, diagnose_with
from ..common.result import AnyFrontier, Limit, Result, SolveOptions
from ..frontier import FrontierSearch
from .exact import AllocationExact, diagnose

ROUNDS = 400
"""Rounds of the search for placements on the servers of a single cluster, for each job."""
LEAST_GAP = 1e-9
"""No cluster is solved to a smaller gap."""
AIMED_SHARE = 0.97
"""Share of the error at which splits aim, to spare the rest for the gaps of single clusters."""
PARTS_OF_TIME = 4
"""The first solve of a cluster may take the remaining time divided by this."""
MAX_DIAGNOSED = 20_000
"""Most configurations of a cluster for which an elastic model computes the missing capacity."""


class AllocationPoint(Model):
    """One cluster, and the best plan for it that was found.

    Attributes
    ----------
    rate_usd_per_hour
        What the whole cluster costs, used or not.
    capacities
        Units of each resource in it.
    mean_completion_s
        Σ ω_j t_j / Σ ω_j of the plan.
    bound_s, certified_bound_s
        Below which no plan for this cluster can be: as the method proved, and as our own check derives.
    prices, certificate
        λ of each resource in weighted job-seconds per unit, and from what the check derives the bound.
    """

    rate_usd_per_hour: float
    capacities: ManyNamed[str, float]
    mean_completion_s: float
    bound_s: float | None = None
    certified_bound_s: float | None = None
    prices: ManyNamed[str, float] | None = None
    certificate: Fields | None = None
    plan: Many[JobAllocation]

    @property
    def cluster(self) -> str:
        """The capacities as text."""
        return ", ".join(f"{figure(amount)} {name}" for name, amount in self.capacities.items())


class ClusterBound(Model):
    """The bound of a cluster that is no point, because another one is better or it has no plan.

    Attributes
    ----------
    rate_usd_per_hour, capacities
        As of a point; with the mix `any` the hourly cost, and only the resources without a price.
    no_plan
        Whether the cluster is too small for any plan.
    bound_s, certified_bound_s, certificate
        As of a point; without bounds where there is no plan.
    """

    rate_usd_per_hour: float
    capacities: ManyNamed[str, float]
    no_plan: bool = False
    bound_s: float | None = None
    certified_bound_s: float | None = None
    certificate: Fields | None = None


class AllocationFrontier(AnyFrontier):
    """The result of a search over clusters; JSON and back without loss.

    Attributes
    ----------
    mix
        `fixed`: every cluster is the instance's, scaled; `any`: any amounts of the resources with a price.
    status
        `complete`: the error is proven; `partial`: a limit stopped the search; `infeasible`: no plan at all.
    error, certified_error
        ε: for every such cluster there is a point that costs no more and whose mean completion time, less
        the part ε, is no longer than that of any plan for the cluster; as asked for, and as the check
        derives. None where the check cannot rule out plans for clusters cheaper than the cheapest point.
    most_usd_per_hour
        Dearer clusters were not looked at; None: all were.
    prices_usd_per_hour
        Of one unit of each resource: those of the document, unless others were given.
    weight
        Σ ω_j, which turns weighted job-seconds into seconds of the mean.
    points
        From the dearest and fastest to the cheapest.
    others
        Clusters that are no points, and on which the error rests too.
    current
        The instance's own cluster, where it has a plan.
    """

    slow: ClassVar[str] = "mean_completion_s"
    dear: ClassVar[str] = "rate_usd_per_hour"
    called: ClassVar[str] = "clusters"
    titles: ClassVar[Mapping[str, str]] = {
        "cluster": "cluster",
        "USD/h": "rate_usd_per_hour",
        "mean completion, s": "mean_completion_s",
    }
    figures: ClassVar[tuple[str, ...]] = (
        "rate_usd_per_hour",
        "mean_completion_s",
        "bound_s",
        "certified_bound_s",
    )

    kind: Literal["allocation"] = "allocation"
    mix: Literal["fixed", "any"] = "fixed"
    most_usd_per_hour: Positive | None = None
    prices_usd_per_hour: Amounts = {}
    weight: float = 1.0
    points: Many[AllocationPoint] = ()
    others: Many[ClusterBound] = ()
    current: AllocationPoint | None = None
    assumptions: Many[str] = ()

    def _frame_row(self, point: AllocationPoint) -> Fields:
        """Return the figures of a point, with one column per capacity and price."""
        prices = point.prices or {}
        capacities = {f"capacity.{name}": amount for name, amount in point.capacities.items()}
        dual = {f"price.{name}": prices.get(name) for name in point.capacities}
        return super()._frame_row(point) | capacities | dual


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
    certificate: Fields | None
    prices: dict[str, float] | None = None
    limit: Limit = "none"


@dataclass(frozen=True)
class Incumbent:
    """The best known plan for one cluster of the grid, with its capacities, hourly cost and Σ ω t."""

    value: float
    capacities: Mapping[str, float]
    rate: float
    plan: tuple[JobAllocation, ...]


@dataclass
class ClusterSearch(FrontierSearch):
    """Search over the clusters of a grid; a step is the position of a cluster in it.

    Attributes
    ----------
    known, incumbents
        Bounds and best plans, by step.
    current
        The instance's own cluster, where it has a plan.
    """

    grid: ClusterGrid
    known: dict[Fraction, Bound] = field(default_factory=dict, kw_only=True)
    incumbents: dict[Fraction, Incumbent] = field(default_factory=dict, kw_only=True)
    current: AllocationPoint | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        self._tried: set[Fraction] = set()
        self._same: dict[Any, Any] = {}

    def begin(self) -> None:
        """Solve the instance's own cluster, the dearest one, and the cheapest one that has a plan."""
        self._solve_own_cluster()
        self._solve_extremes()

    def _solve_own_cluster(self) -> None:
        """Solve the instance's own cluster, and record its plan for the grid of clusters too."""
        grid = self.grid
        formulation = AllocationFormulation(grid.instance)
        result = self._solve_cluster(formulation)
        if result.plan is None or result.objective is None:
            return
        plan = self._with_shared_entries(result)
        own = grid.instance.resources
        incumbent = Incumbent(result.objective, own, grid.cost_of(own), plan)
        self.current = point_of(grid, incumbent, _bound_of(formulation, result))
        if grid.mix == "fixed" and grid.last >= 1:
            self._record(Fraction(1), formulation, result)
        elif grid.mix == "any":
            step, capacities = grid.place(grid.last, formulation, plan)
            if not grid.formulation(step).violations(plan):
                self._update_incumbent(step, capacities, result.objective, plan)

    def _solve_extremes(self) -> None:
        """Solve the dearest cluster of the grid, and search for the cheapest feasible one."""
        grid, configs = self.grid, self.grid.wide
        bottom: Fraction | None = None
        if configs.counts.all():
            bottom = grid.lowest_with(configs.least(configs.demand).sum(axis=0))
        if grid.last not in self.known:  # also where the time is over, so that there are points
            self.solve(grid.last)
        if self._is_infeasible(grid.last) or bottom is None or bottom > grid.last or self.is_stopped():
            return
        if bottom > ZERO:
            self.solve(grid.previous(bottom))  # counting alone proves that it has no plan
        if bottom not in self.known:
            self.solve(bottom)
        if self._is_infeasible(bottom):
            grid.highest(self._is_infeasible, bottom, min(self.incumbents, default=grid.last))

    def _is_infeasible(self, step: Fraction) -> bool:
        """Return whether a cluster, which is solved if it was not, has no plan."""
        if step not in self.known and not self.is_stopped():
            self.solve(step)
        return step in self.known and math.isinf(self.known[step].claimed)

    def solve(self, step: Fraction) -> None:
        """Solve the cluster at a position of the grid; one solved before gets all the remaining time."""
        formulation = self.grid.formulation(step)
        parts = 1 if step in self.known else PARTS_OF_TIME
        self._record(step, formulation, self._solve_cluster(formulation, parts))

    def _solve_cluster(self, formulation: AllocationFormulation, parts: int = PARTS_OF_TIME) -> Result:
        """Return the exact solver's result for one cluster, within a fraction of the remaining time.

        It has no diagnosis.
        """
        left, gap = self.clock.remaining_s, self.options.gap
        limit = None if left is None else max(left / parts, 1e-3)
        if "gap" not in self.options.model_fields_set:
            gap = max(self.error / self.grid.error_per_gap, LEAST_GAP)
        options = self.options.model_copy(update={"gap": gap, "time_limit_s": limit})
        clock = Clock(limit)
        if formulation.elementary_infeasibility() is not None:
            outcome = Outcome(infeasible=True)
        else:
            outcome = AllocationExact(rounds=ROUNDS).solve(formulation, options, clock)
        return conclude(formulation, "exact", options, outcome, clock.elapsed_s)

    def _record(self, step: Fraction, formulation: AllocationFormulation, result: Result) -> None:
        """Record the bound and the plan of a solved cluster, the plan also for a cheaper one that it fits."""
        if result.status == "infeasible":
            certified = certified_total(formulation, result.certificate)
            self.known[step] = Bound(math.inf, certified, result.certificate)
            return
        bound = _bound_of(formulation, result)
        self._update_bound(step, bound)
        if result.plan is None or result.objective is None:
            return
        plan = self._with_shared_entries(result)
        place, capacities = self.grid.place(step, formulation, plan)
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
        before = self.known.get(step)
        if before is None or bound.certified > before.certified or bound.claimed > before.claimed:
            self.known[step] = bound

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
        return tuple(self._same.setdefault(entry, entry) for entry in result.plan or ())

    def values(self) -> dict[Fraction, float]:
        """Return Σ ω t of the best plan of each cluster."""
        return {step: found.value for step, found in self.incumbents.items()}

    def bounds(self) -> dict[Fraction, float]:
        """Return the certified bound of each cluster, capped at its value, which rounding may exceed."""
        values = self.values()
        return {step: min(bound.certified, values.get(step, math.inf)) for step, bound in self.known.items()}

    def claimed(self) -> dict[Fraction, float]:
        """Return the bound of each cluster as the method proved it."""
        return {step: bound.claimed for step, bound in self.known.items()}

    def proven(self) -> float | None:
        """Return the error that is proven, None without a plan."""
        return super().proven() if self.incumbents else None

    def next_step(self) -> Fraction | None:
        """Return the grid position of the cluster to solve next, None if none can lower the error."""
        values = self.values()
        certified = intervals(self.grid, values, self.bounds())
        pairs = zip(certified, intervals(self.grid, values, self.claimed()), strict=True)
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
        low: Fraction = interval.low
        high: Fraction = interval.high
        own = self.known.get(high)
        if own is not None and own.limit == "time" and self._own_gap(interval) > self.error / 2:
            return high
        if low >= high:
            return None
        dearest = self.grid.previous(high)
        if low not in self._tried and self._is_flat(interval):
            self._tried.add(low)
            return dearest  # the whole fall may be at the dearest step, which a single solve shows
        if low == ZERO or interval.point is None or interval.bound <= 0:
            amount = (low + high) / 2
        else:
            # Completion times fall about geometrically: equal ratios of cost give equal ratios of time.
            falls = math.log(interval.value / interval.bound)
            parts = 2 if not self.error else max(2, math.ceil(falls / -math.log1p(-AIMED_SHARE * self.error)))
            amount = low * Fraction(float(high / low) ** (parts // 2 / parts))
        step = self.grid.at_most(amount)
        return min(max(step, low), dearest)

    def _is_flat(self, interval: Interval) -> bool:
        """Return whether the best plan for the clusters below an interval belongs to a cheaper one."""
        below = self.grid.previous(interval.low) if interval.low > ZERO else ZERO
        return interval.point is not None and interval.point < below in self.known

    def _own_gap(self, interval: Interval) -> float:
        """Return the relative gap between the best plan and the bound of an interval's dearest cluster."""
        values = (found.value for step, found in self.incumbents.items() if step <= interval.high)
        return replace(interval, value=min(values, default=math.inf)).error


def bound_facts(grid: ClusterGrid, bound: Bound, most: float = math.inf) -> Fields:
    """Return the fields of a record on a bound, capped at a value, which rounding may exceed."""
    claimed, certified = (
        None if math.isinf(total) else total / grid.weight
        for total in (min(bound.claimed, most), min(bound.certified, most))
    )
    return {"bound_s": claimed, "certified_bound_s": certified, "certificate": bound.certificate}


def point_of(grid: ClusterGrid, incumbent: Incumbent, bound: Bound | None) -> AllocationPoint:
    """Return the frontier point of a plan."""
    known = {} if bound is None else bound_facts(grid, bound, incumbent.value) | {"prices": bound.prices}
    return AllocationPoint(
        rate_usd_per_hour=incumbent.rate,
        capacities=dict(incumbent.capacities),
        mean_completion_s=incumbent.value / grid.weight,
        plan=incumbent.plan,
        **known,
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


def find_frontier(
    instance: AllocationInstance,
    options: SolveOptions,
    error: float,
    most_usd: float | None,
    *,
    mix: Mix = "fixed",
    prices: Mapping[str, float] | None = None,
) -> AllocationFrontier:
    """Return the Pareto frontier of mean completion time and hourly cost, with its proven error ε.

    Parameters
    ----------
    error
        ε: for every cluster there is to be a point that costs no more, and whose mean completion time, less
        the part ε, is no longer.
    most_usd
        Largest cost of a cluster, in USD per hour.
    mix
        `fixed` scales the instance's cluster, `any` takes any amounts of what has a price.
    prices
        USD per hour of one unit, by resource; they go before those of the instance.

    Raises
    ------
    OptionError
        If a setting has no meaning here.
    """
    clock, given = Clock(options.time_limit_s), prices or {}
    priced = {**instance.prices_usd_per_hour, **given}
    if mix not in ("fixed", "any"):
        raise OptionError(f"mix is {mix!r}; allowed: fixed, any")
    for _, what in unknown_names(given, instance.resources, "prices", "resource", "resources"):
        raise OptionError(f"price: {what}")
    for name, price in given.items():
        if not 0 <= price <= LARGEST:
            raise OptionError(f"the price of {name} is {price:g}; it must be at least 0 and at most 1e15")
    if not any(priced.values()):
        raise OptionError(
            f"{instance.name}: no resource has a price, so clusters do not differ in cost; give "
            "prices_usd_per_hour in the instance, or prices here, on the command line --price NAME=USD "
            f"(resources: {', '.join(instance.resources)})"
        )
    if not any(instance.table().weight):
        raise OptionError(f"{instance.name}: every job has weight 0, so there is no mean completion time")
    assumed = (f"{name} costs {usd:g} USD/h, as given; not from the instance" for name, usd in given.items())
    grid = cluster_grid_of(instance, mix, priced, most_usd)
    search = ClusterSearch(instance, grid, options, error, clock)
    search.run()
    status, steps, known = _status(search), undominated(search.values()), search.known
    if status == "partial" and search.limit == "none":  # that of a single solve left the error unproven
        search.limit = next((bound.limit for bound in known.values() if bound.limit != "none"), "none")
    said = {"status": status, "diagnosis": _diagnosis(search) if status == "infeasible" else None}
    return AllocationFrontier(
        **search.facts() | said,
        mix=grid.mix,
        most_usd_per_hour=grid.most_usd,
        prices_usd_per_hour=grid.prices,
        weight=grid.weight,
        points=tuple(point_of(grid, search.incumbents[step], known.get(step)) for step in reversed(steps)),
        others=tuple(_other_bounds(search, steps)),
        current=search.current,
        assumptions=(*assumed, *grid.assumptions()),
    )


def _status(search: ClusterSearch) -> Literal["complete", "partial", "infeasible"]:
    if not search.incumbents:
        # With a limit there may not even have been time to see which clusters there are.
        return "infeasible" if search.limit == "none" else "partial"
    error = proven_error(search.grid, search.values(), search.claimed())
    return "complete" if error is not None and error <= search.error else "partial"


def _other_bounds(search: ClusterSearch, points: list[Fraction]) -> Iterator[ClusterBound]:
    """Yield the bounds of further clusters on which the frontier's proven error rests, dearest first."""
    grid, claimed, certified = search.grid, -math.inf, -math.inf
    for step, bound in sorted(search.known.items(), reverse=True):
        better = bound.claimed > claimed or bound.certified > certified
        claimed, certified = max(claimed, bound.claimed), max(certified, bound.certified)
        if better and step not in points:
            yield ClusterBound(
                rate_usd_per_hour=grid.rate(step),
                capacities=grid.cluster(step).resources if grid.mix == "fixed" else grid.unpriced(),
                no_plan=math.isinf(bound.claimed),
                **bound_facts(grid, bound),
            )


def _diagnosis(search: ClusterSearch) -> Diagnosis:
    """Return the diagnosis of the dearest cluster of the grid, which is infeasible."""
    formulation = search.grid.formulation(search.grid.last)
    known = formulation.elementary_infeasibility()
    if known is None and len(formulation.configurations.cost) <= MAX_DIAGNOSED:
        return diagnose_with(diagnose, formulation, patience_s=search.clock.remaining_s)
    return known or DEFAULT_DIAGNOSIS
