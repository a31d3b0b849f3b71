"""The frontier of an allocation (mean completion time against hourly cost): search, verification, table."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from fractions import Fraction

from ...formulations.allocation.cluster_grids import (
    CONTRADICTION_TOLERANCE,
    EQUALITY_TOLERANCE,
    ClusterGrid,
    Mix,
    cluster_grid_of,
    intervals,
    proven_error,
)
from ...formulations.allocation.configurations import BUDGET
from ...formulations.allocation.formulation import AllocationFormulation
from ...formulations.common.objective import agree
from ...instances.allocation.instance import AllocationInstance
from ...instances.common.errors import OptionError, TooLargeError
from ...instances.common.fields import LARGEST, unknown_names
from ...solvers.allocation.frontier import find_allocation_frontier
from ...solvers.allocation.frontier_result import AllocationFrontier, AllocationPoint, ClusterBound
from ...solvers.common.base import Clock
from ...solvers.common.result import SolveOptions
from ..findings import Findings, FrontierCheck, figure_faults, order_faults
from ..kind import FrontierNotes
from ..reports.text import TextColumn, figure, percent
from ..verification import check_infeasible


def find(
    instance: AllocationInstance,
    options: SolveOptions,
    error: float,
    most_usd: float | None,
    mix: Mix = "fixed",
    prices: Mapping[str, float] | None = None,
) -> AllocationFrontier:
    """Return the Pareto frontier of mean completion time against hourly cluster cost; see `pareto`.

    Raises
    ------
    OptionError
        If a setting has no meaning here.
    """
    given = prices or {}
    clock = Clock(options.time_limit_s)
    if mix not in ("fixed", "any"):
        raise OptionError(f"mix is {mix!r}; allowed: fixed, any")
    for _, what in unknown_names(given, instance.resources, "prices", "resource", "resources"):
        raise OptionError(f"price: {what}")
    for name, price in given.items():
        if not 0 <= price <= LARGEST:
            raise OptionError(f"the price of {name} is {price:g}; it must be at least 0 and at most 1e15")
    priced = {**instance.prices_usd_per_hour, **given}
    if not any(priced.values()):
        raise OptionError(
            f"{instance.name}: no resource has a price, so clusters do not differ in cost; give "
            "prices_usd_per_hour in the instance, or prices here, on the command line --price NAME=USD "
            f"(resources: {', '.join(instance.resources)})"
        )
    if not any(instance.table().weight):
        raise OptionError(f"{instance.name}: every job has weight 0, so there is no mean completion time")
    assumed = [
        f"{name} costs {price:g} USD/h, as given; not from the instance" for name, price in given.items()
    ]
    grid = cluster_grid_of(instance, mix, priced, most_usd)
    return find_allocation_frontier(instance, grid, options, error, clock, tuple(assumed))


HOUR = 3600.0


def cost_limit_text(frontier: AllocationFrontier) -> str:
    """Return the limit on the USD per hour of the clusters searched as text; empty without a limit."""
    most = frontier.most_usd_per_hour
    return "" if most is None else f" of at most {figure(most)} USD/h"


class AllocationFrontierCheck(FrontierCheck):
    """Verification of an allocation frontier: plans, figures, bounds and the certified error.

    The clusters are derived from the instance and the stored prices, the bounds from the certificates, and
    the error from both, independently of the solver.

    Attributes
    ----------
    values, bounds
        Σ ω t of the plan, and certified bound, by step of the cluster grid.
    unproven
        Number of clusters that are claimed to have no plan without proof.
    """

    # Each point is a plan for all jobs, and a curve that falls to a tenth takes 230 points for 1 %.
    default_error = 1e-2
    instance: AllocationInstance
    frontier: AllocationFrontier

    def __init__(self, instance: AllocationInstance, frontier: AllocationFrontier) -> None:
        super().__init__(instance, frontier)
        self.most = self.narrower = cost_limit_text(frontier)
        self.grid: ClusterGrid | None = None
        self.values: dict[Fraction, float] = {}
        self.bounds: dict[Fraction, float] = {}
        self.unproven = 0

    def faults(self) -> Iterator[str]:
        """Yield a message for each fault in the stored points, bounds and certified error."""
        frontier = self.frontier
        unknown = sorted(set(frontier.prices_usd_per_hour) - set(self.instance.resources))
        if unknown or not any(frontier.prices_usd_per_hour.values()):
            yield f"prices_usd_per_hour: {f'unknown resource {unknown[0]!r}' if unknown else 'none is given'}"
            return
        try:
            prices, most = frontier.prices_usd_per_hour, frontier.most_usd_per_hour
            grid = self.grid = cluster_grid_of(self.instance, frontier.mix, prices, most)
            last = grid.last
        except (OptionError, TooLargeError) as error:
            yield str(error)
            return
        self.shared = grid.formulation(last).shared_tables()
        yield from figure_faults("weight", frontier.weight, grid.weight)
        wrong = [fault for i, point in enumerate(frontier.points) for fault in self._point(grid, i, point)]
        wrong += [fault for i, other in enumerate(frontier.others) for fault in self._other(grid, i, other)]
        yield from wrong
        yield from self._current(grid)
        if any(step > last for step in self.values):
            yield "points: there are clusters beyond the dearest one that matters"
        yield from order_faults(frontier)
        yield from () if wrong else self._error_faults(grid)

    def _error_faults(self, grid: ClusterGrid) -> Iterator[str]:
        if any(interval.contradicts for interval in intervals(grid, self.values, self.bounds)):
            yield "the certificates exclude a plan that is there, so one of them is wrong"
        proven = proven_error(grid, self.values, self.bounds) if self.values else None
        stored = self.frontier.certified_error
        if stored is not None and (proven is None or proven > stored + 2 * EQUALITY_TOLERANCE):
            yield f"certified_error is stored as {stored}; what the certificates prove is {proven}"

    def _point(self, grid: ClusterGrid, index: int, point: AllocationPoint) -> Iterator[str]:
        place = f"points[{index}]"
        step = grid.step_of(point.rate_usd_per_hour, point.capacities)
        if step is None:
            yield f"{place} is no cluster of the mix {grid.mix}: its capacities or hourly cost are wrong"
            return
        formulation = grid.formulation(step)
        faults = list(_plan_faults(grid, formulation, place, point))
        yield from faults
        if not faults:
            used = grid.place(step, grid.used(formulation, point.plan))[1]
            for name, amount in used.items():
                if not agree(amount, point.capacities.get(name, -1.0)):
                    yield f"{place}.capacities.{name} is {point.capacities.get(name)}; it must be {amount}"
            rate = point.rate_usd_per_hour
            yield from figure_faults(
                f"{place}.rate_usd_per_hour", rate, grid.cost_of(used), "its cluster costs"
            )
            self.values[step] = formulation.evaluate(point.plan)[0]
            self.bounds[step] = min(_certified(formulation, point), self.values[step])

    def _other(self, grid: ClusterGrid, index: int, other: ClusterBound) -> Iterator[str]:
        place = f"others[{index}]"
        step = grid.step_of(other.rate_usd_per_hour, other.capacities)
        if step is None:
            yield f"{place} is no cluster of the mix {grid.mix}: its capacities or hourly cost are wrong"
            return
        rate = other.rate_usd_per_hour
        yield from figure_faults(f"{place}.rate_usd_per_hour", rate, grid.rate(step), "the step is")
        formulation = grid.formulation(step)
        yield from _certificate_faults(formulation, place, other)
        bound = _certified(formulation, other)
        if other.no_plan and other.bound_s is not None:
            yield f"{place} has no plan and yet a bound_s"
        if other.no_plan and any(reached <= step for reached in self.values):
            yield f"{place} has no plan, although there is a point that costs no more"
        self.unproven += other.no_plan and not math.isinf(bound)
        yield from _bound_faults(place, other, bound, math.inf, grid.weight)
        self.bounds[step] = max(bound, self.bounds.get(step, -math.inf))

    def _current(self, grid: ClusterGrid) -> Iterator[str]:
        point = self.frontier.current
        if point is None:
            return
        if point.capacities != grid.instance.resources:
            yield "current.capacities is not the instance's own cluster"
        else:
            rate = point.rate_usd_per_hour
            yield from figure_faults("current.rate_usd_per_hour", rate, grid.own_rate(), "it costs")
        yield from _plan_faults(grid, grid.own(), "current", point)

    def check_infeasible(self, findings: Findings) -> None:
        """Check the claim that even the most expensive cluster has no plan, and its diagnosis."""
        assert self.grid is not None
        last, frontier = self.grid.last, self.frontier
        proven = any(math.isinf(bound) for step, bound in self.bounds.items() if step >= last)
        words = f"not even the dearest cluster{self.most} has a plan" if proven else None
        check_infeasible(findings, self.grid.formulation(last), words, frontier.diagnosis, frontier.versions)

    def claimed(self) -> Iterator[str]:
        """Yield the claims of the solver that the check does not confirm."""
        if self.unproven:
            yield f"that {self.unproven} clusters have no plan"
        frontier = self.frontier
        records: list[AllocationPoint | ClusterBound] = [*frontier.points, *frontier.others]
        records += [] if frontier.current is None else [frontier.current]
        beyond = sum(not _same(record.bound_s, record.certified_bound_s) for record in records)
        if beyond:
            yield f"the bounds bound_s of {beyond} clusters, which are higher than the certified ones"

    def given(self) -> Iterator[str]:
        """Yield a note on each price of the search (USD per hour) that differs from the instance's."""
        priced = self.instance.prices_usd_per_hour
        for name, price in self.frontier.prices_usd_per_hour.items():
            if price != priced.get(name, 0.0):
                yield f"that {name} costs {price:g} USD/h, which is not what the instance says"


def _same(a: float | None, b: float | None) -> bool:
    return a is b if a is None or b is None else agree(a, b)


def _plan_faults(
    grid: ClusterGrid, formulation: AllocationFormulation, place: str, point: AllocationPoint
) -> Iterator[str]:
    """Yield faults of the plan of one cluster, then of the point's stored figures, prices and bounds."""
    broken = formulation.violations(point.plan)
    yield from (f"{place}: broken constraint: {violation}" for violation in broken)
    if broken:
        return
    if formulation.finish(point.plan) != point.plan:
        yield f"{place}.plan: the jobs are not in the order of the instance, or one has no completion_s"
    value = formulation.evaluate(point.plan)[0]
    yield from figure_faults(f"{place}.mean_completion_s", point.mean_completion_s, value / grid.weight)
    yield from _certificate_faults(formulation, place, point)
    if point.prices is not None and point.prices != (point.certificate or {}).get("prices"):
        yield f"{place}.prices are not those of its certificate"
    bound = _certified(formulation, point)
    if bound > value * (1 + CONTRADICTION_TOLERANCE):
        yield f"{place}.certificate: it would exclude the plan of {place}"
    yield from _bound_faults(place, point, min(bound, value), value, grid.weight)


def _certificate_faults(
    formulation: AllocationFormulation, place: str, record: AllocationPoint | ClusterBound
) -> Iterator[str]:
    fault = None if record.certificate is None else formulation.certificate_fault(record.certificate)
    if fault:
        yield f"{place}.certificate.{fault}"


def _certified(formulation: AllocationFormulation, record: AllocationPoint | ClusterBound) -> float:
    """Return the certified lower bound on the weighted sum of completion times (s); inf if infeasible."""
    if formulation.elementary_infeasibility() is not None:
        return math.inf
    return formulation.certified_bounds(record.certificate)[0] or 0.0


def _bound_faults(
    place: str, record: AllocationPoint | ClusterBound, bound: float, value: float, weight: float
) -> Iterator[str]:
    """Yield faults of the stored lower bounds (s), given the derived bound and the plan's value."""
    stored, certified = record.bound_s, record.certified_bound_s
    if certified is not None:
        yield from figure_faults(f"{place}.certified_bound_s", certified, bound / weight)
    if stored is not None and certified is not None and stored < certified * (1 - 1e-9):
        yield f"{place}.bound_s is stored as {stored:.10g}, below the certified bound"
    if stored is not None and stored * weight > value * (1 + 1e-9):
        yield f"{place}: the plan is better than the stored bound_s"


def columns(frontier: AllocationFrontier) -> list[TextColumn[AllocationPoint]]:
    """Return the columns of the text table of the frontier's points (clusters)."""
    unit, scale = _unit(frontier)

    def saved(point: AllocationPoint) -> str:
        worth = _worth(point, frontier)[0]
        return "–" if worth is None else f"{worth / scale:.3g}"

    return [
        ("USD/h", True, lambda p: figure(round(p.rate_usd_per_hour, 6), 6)),
        (f"mean completion, {unit}", True, lambda p: figure(round(p.mean_completion_s / scale, 6), 6)),
        (f"1 USD/h more saves about, {unit}", True, saved),
        ("scarcest", False, lambda p: _worth(p, frontier)[1]),
        ("cluster", False, _cluster),
    ]


def _unit(frontier: AllocationFrontier) -> tuple[str, float]:
    """Return the unit in which mean completion times are shown (`h` or `s`), and its length in seconds."""
    long = frontier.points and frontier.points[0].mean_completion_s >= HOUR
    return ("h", HOUR) if long else ("s", 1.0)


def _worth(point: AllocationPoint, frontier: AllocationFrontier) -> tuple[float | None, str]:
    """Return the dual price of 1 USD/h (reduction of the mean, in s), and the scarcest resource's name.

    The mix `fixed` scales the whole cluster: doubling it saves Σ_r λ_r C_r, and one USD/h more saves the
    part of this that it is of the cluster's cost.
    """
    if not point.prices:
        return None, "–"
    worth = {name: price * point.capacities.get(name, 1.0) for name, price in point.prices.items()}
    spent = point.rate_usd_per_hour
    if frontier.mix == "any":
        worth[BUDGET] = point.prices.get(BUDGET, 0.0) * spent
    scarcest = max(worth, key=lambda name: worth[name])
    if not worth[scarcest] > 0:
        return 0.0, "nothing"
    total = worth[BUDGET] if frontier.mix == "any" else math.fsum(worth.values())
    name = "USD/h" if scarcest == BUDGET else scarcest
    return (total / spent / frontier.weight if spent > 0 else None), name


def _cluster(point: AllocationPoint) -> str:
    return ", ".join(f"{figure(round(amount, 6))} {name}" for name, amount in point.capacities.items())


def frontier_notes(frontier: AllocationFrontier) -> FrontierNotes:
    """Return the footnotes of the frontier's text table: current cluster, assumptions, certified error."""
    most = cost_limit_text(frontier)
    return FrontierNotes(
        none=f"no plan exists{most}",
        about=(*frontier.assumptions, *_current_cluster_note(frontier)),
        uncertified=f"not certified: that clusters{most} without a point have no plan",
        certified=f"certified: for every cluster{most} there is a point that costs no more, and no "
        f"plan for it has a mean more than {percent(frontier.certified_error)} below the point's",
    )


def rate_of_cheaper_point(frontier: AllocationFrontier, now: AllocationPoint) -> float | None:
    """Return the minimum USD/h of a point as fast as the current cluster; None if that is not cheaper."""
    slowest = now.mean_completion_s * (1 + 1e-9)
    rates = [point.rate_usd_per_hour for point in frontier.points if point.mean_completion_s <= slowest]
    cheapest = min(rates, default=math.inf)
    return cheapest if cheapest < now.rate_usd_per_hour * (1 - 1e-9) else None


def _current_cluster_note(frontier: AllocationFrontier) -> Iterator[str]:
    """Yield a line on the current cluster's hourly cost and mean, and on a cheaper one as fast, if any."""
    now = frontier.current
    if now is None:
        return
    unit, scale = _unit(frontier)
    mean, rate = figure(now.mean_completion_s / scale, 6), figure(round(now.rate_usd_per_hour, 6), 6)
    text = f"the instance's own cluster: {rate} USD/h, mean {mean} {unit}"
    cheaper = rate_of_cheaper_point(frontier, now)
    yield text + ("" if cheaper is None else f"; {figure(round(cheaper, 6), 6)} USD/h would be as fast")
