"""The frontier of an allocation (mean completion time against hourly cost): verification, table and page."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from functools import cached_property

from ...formulations.allocation.cluster_grids import ClusterGrid, certified_total, cluster_grid_of
from ...formulations.allocation.configurations import BUDGET
from ...formulations.allocation.formulation import AllocationFormulation
from ...formulations.common.frontier import CONTRADICTION_TOLERANCE, EQUALITY_TOLERANCE, intervals
from ...formulations.common.objective import agree
from ...instances.allocation.instance import AllocationInstance
from ...instances.common.errors import OptionError, TooLargeError
from ...solvers.allocation.frontier import AllocationFrontier, AllocationPoint, ClusterBound, find_frontier
from ..findings import Findings, FrontierCheck, broken_constraints, certificate_faults, figure_faults
from ..kind import FrontierKind
from ..reports.frontier_page import MAX_POINTS, FrontierNotes, FrontierPage, Plot, lower_steps
from ..reports.page import (
    CellColumn,
    Context,
    ScriptData,
    figure_column,
    instance_facts,
    jobs_fact,
    seconds,
    share,
    text_column,
)
from ..reports.plot_style import plot_text
from ..reports.text import duration, figure, percent, short
from ..verification import check_infeasible, differs


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
    unproven
        Number of clusters that are claimed to have no plan without proof.
    """

    # Each point is a plan for all jobs, and a curve that falls to a tenth takes 230 points for 1 %.
    default_error = 1e-2
    slack = 2 * EQUALITY_TOLERANCE
    unproven = 0
    instance: AllocationInstance
    frontier: AllocationFrontier

    @property
    def most(self) -> str:
        """The limit on the hourly cost of clusters."""
        return cost_limit_text(self.frontier)

    narrower = most

    def head_faults(self) -> Iterator[str]:
        """Set the grid of clusters; yield faults in the prices and the weight."""
        prices, most = self.frontier.prices_usd_per_hour, self.frontier.most_usd_per_hour
        unknown = sorted(set(prices) - set(self.instance.resources))
        if unknown or not any(prices.values()):
            yield f"prices_usd_per_hour: {f'unknown resource {unknown[0]!r}' if unknown else 'none is given'}"
            return
        try:
            grid = cluster_grid_of(self.instance, self.frontier.mix, prices, most)
            self.shared = grid.formulation(grid.last).shared_tables()
        except (OptionError, TooLargeError) as error:
            yield str(error)
            return
        if grid.most_usd != most:
            yield f"most_usd_per_hour: is missing; the clusters of servers end at {grid.most_usd:g} USD/h"
            return
        self.grid: ClusterGrid = grid
        yield from figure_faults("weight", self.frontier.weight, grid.weight)

    def record_faults(self, place: str, record: AllocationPoint | ClusterBound) -> Iterator[str]:
        """Yield faults of a cluster: its place in the grid, its plan if it has one, and its bounds."""
        grid, rate = self.grid, record.rate_usd_per_hour
        step = grid.step_of(rate, record.capacities)
        if step is None:
            yield f"{place} is no cluster of the mix {grid.mix}: its capacities or hourly cost are wrong"
            return
        formulation = grid.formulation(step)
        bound, value = certified_total(formulation, record.certificate), math.inf
        if isinstance(record, ClusterBound):
            yield from figure_faults(f"{place}.rate_usd_per_hour", rate, grid.rate(step), "the step is")
            yield from self._bound_faults(place, formulation, record, bound, value)
            if record.no_plan and record.bound_s is not None:
                yield f"{place} has no plan and yet a bound_s"
            if record.no_plan and any(reached <= step for reached in self.values):
                yield f"{place} has no plan, although there is a point that costs no more"
            self.unproven += record.no_plan and not math.isinf(bound)
        else:
            wrong = [*self._plan_faults(place, formulation, record, bound)]
            yield from wrong
            if wrong:
                return
            used = grid.place(step, formulation, record.plan)[1]
            for name, amount in used.items():
                if not agree(amount, record.capacities.get(name, -1.0)):
                    yield f"{place}.capacities.{name} is {record.capacities.get(name)}; it must be {amount}"
            cost = grid.cost_of(used)
            yield from figure_faults(f"{place}.rate_usd_per_hour", rate, cost, "its cluster costs")
            self.values[step] = value = formulation.evaluate(record.plan)[0]
        self.bounds[step] = max(min(bound, value), self.bounds.get(step, -math.inf))

    def _plan_faults(
        self, place: str, formulation: AllocationFormulation, point: AllocationPoint, bound: float
    ) -> Iterator[str]:
        """Yield faults of the plan of one cluster, then of the point's stored figures, prices and bounds."""
        broken = broken_constraints(place, formulation, point.plan)
        yield from broken
        if broken:
            return
        if formulation.finish(point.plan) != point.plan:
            yield f"{place}.plan: the jobs are not in the order of the instance, or one has no completion_s"
        value = formulation.evaluate(point.plan)[0]
        mean = value / self.grid.weight
        yield from figure_faults(f"{place}.mean_completion_s", point.mean_completion_s, mean)
        if point.prices is not None and point.prices != (point.certificate or {}).get("prices"):
            yield f"{place}.prices are not those of its certificate"
        if bound > value * (1 + CONTRADICTION_TOLERANCE):
            yield f"{place}.certificate: it would exclude the plan of {place}"
        yield from self._bound_faults(place, formulation, point, min(bound, value), value)

    def _bound_faults(
        self,
        place: str,
        formulation: AllocationFormulation,
        record: AllocationPoint | ClusterBound,
        bound: float,
        value: float,
    ) -> Iterator[str]:
        """Yield faults of a certificate and of lower bounds (s), given the derived bound and the value."""
        yield from certificate_faults(place, formulation, record.certificate)
        stored, certified, weight = record.bound_s, record.certified_bound_s, self.grid.weight
        if certified is not None:
            yield from figure_faults(f"{place}.certified_bound_s", certified, bound / weight)
        if stored is not None and certified is not None and stored < certified * (1 - 1e-9):
            yield f"{place}.bound_s is stored as {stored:.10g}, below the certified bound"
        if stored is not None and stored * weight > value * (1 + 1e-9):
            yield f"{place}: the plan is better than the stored bound_s"

    def more_faults(self) -> Iterator[str]:
        """Yield faults of the instance's own cluster, and one for clusters that do not matter."""
        grid, point = self.grid, self.frontier.current
        if point is not None:
            if point.capacities != grid.instance.resources:
                yield "current.capacities is not the instance's own cluster"
            else:
                rate, cost = point.rate_usd_per_hour, grid.cost_of(point.capacities)
                yield from figure_faults("current.rate_usd_per_hour", rate, cost, "it costs")
            own = AllocationFormulation(grid.instance)
            yield from self._plan_faults("current", own, point, certified_total(own, point.certificate))
        if any(step > grid.last for step in self.values):
            yield "points: there are clusters beyond the dearest one that matters"

    def error_faults(self) -> Iterator[str]:
        """Yield faults of the certified error, and of certificates that contradict plans."""
        if any(interval.contradicts for interval in intervals(self.grid, self.values, self.bounds)):
            yield "the certificates exclude a plan that is there, so one of them is wrong"
        yield from super().error_faults()

    def check_infeasible(self, findings: Findings) -> None:
        """Check the claim that even the most expensive cluster has no plan, and its diagnosis."""
        last, frontier = self.grid.last, self.frontier
        proven = any(math.isinf(bound) for step, bound in self.bounds.items() if step >= last)
        words = f"not even the dearest cluster{self.most} has a plan" if proven else None
        check_infeasible(findings, self.grid.formulation(last), words, frontier.diagnosis, frontier.versions)

    def claimed(self) -> Iterator[str]:
        """Yield the claims of the solver that the check does not confirm."""
        if self.unproven:
            yield f"that {self.unproven} clusters have no plan"
        frontier = self.frontier
        records = [*self.records().values(), *([frontier.current] if frontier.current else [])]
        beyond = sum(differs(record.bound_s, record.certified_bound_s) for record in records)
        if beyond:
            yield f"the bounds bound_s of {beyond} clusters, which are higher than the certified ones"

    def given(self) -> Iterator[str]:
        """Yield a note on each price of the search (USD per hour) that differs from the instance's."""
        priced = self.instance.prices_usd_per_hour
        for name, price in self.frontier.prices_usd_per_hour.items():
            if price != priced.get(name, 0.0):
                yield f"that {name} costs {price:g} USD/h, which is not what the instance says"


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
    scarcest = max(worth, key=worth.__getitem__)
    if not worth[scarcest] > 0:
        return 0.0, "nothing"
    total = worth[BUDGET] if frontier.mix == "any" else math.fsum(worth.values())
    name = "USD/h" if scarcest == BUDGET else scarcest
    return (total / spent / frontier.weight if spent > 0 else None), name


def frontier_notes(frontier: AllocationFrontier) -> FrontierNotes:
    """Return the footnotes of the frontier's text table: current cluster, assumptions, certified error."""
    most = cost_limit_text(frontier)
    open_ = f"how far plans could be below the points{most}"
    if frontier.certified_error is None:
        open_ = f"that clusters{most} without a point have no plan"
    return FrontierNotes(
        none=f"no cluster{most} has a plan",
        about=(*frontier.assumptions, *_current_cluster_note(frontier)),
        uncertified=f"not certified: {open_}",
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
    mean, rate = duration(now.mean_completion_s), figure(round(now.rate_usd_per_hour, 6), 6)
    text = f"the instance's own cluster: {rate} USD/h, mean {mean}"
    cheaper = rate_of_cheaper_point(frontier, now)
    yield text + ("" if cheaper is None else f"; {figure(round(cheaper, 6), 6)} USD/h would be as fast")


def lower_bound_steps(
    instance: AllocationInstance, frontier: AllocationFrontier
) -> list[tuple[float, float]]:
    """Return the corners (USD/h, s) of the step function of lower bounds on the mean completion time.

    The bound of a cluster holds for all cheaper ones down to the next one with a bound. Left of the first
    corner it is proven that there is no plan, or nothing is known.
    """
    prices, most = frontier.prices_usd_per_hour, frontier.most_usd_per_hour
    listed: list[AllocationPoint | ClusterBound] = [*frontier.points, *frontier.others]
    records = {record.rate_usd_per_hour: record for record in listed}
    bounds = {rate: _bound(record) for rate, record in records.items()}
    try:
        grid = cluster_grid_of(instance, frontier.mix, prices, most)

        def after(rate: float) -> float:
            step = grid.step_of(rate, records[rate].capacities)
            return rate if step is None else max(rate, grid.rate(grid.next(step)))

        return lower_steps(bounds, after)
    except (OptionError, TooLargeError):
        # Where the cluster above begins is not known: too early.
        return lower_steps(bounds, lambda rate: rate)


def _bound(record: AllocationPoint | ClusterBound) -> float:
    """Return the lower bound on the mean of a cluster, the certified one if there is one."""
    if isinstance(record, ClusterBound) and record.no_plan:
        return math.inf
    return (record.bound_s if record.certified_bound_s is None else record.certified_bound_s) or 0.0


def cluster_text(point: AllocationPoint) -> str:
    """Return the amounts of a cluster's resources as text."""
    return ", ".join(f"{short(amount, 5)} {name}" for name, amount in point.capacities.items())


MAX_ENTRIES = 2_000_000
"""Most entries of all plans shown together; summing them up takes some seconds."""
MIX = {
    "fixed": "the cluster as it is, scaled",
    "any": "any amounts of the resources that have a price",
}


class AllocationFrontierPage(FrontierPage):
    """The page of a frontier of mean completion time against the hourly cost of the cluster."""

    template = "allocation_frontier.html.j2"
    script = "cluster.js"
    sentences = staticmethod(frontier_notes)
    kicker = "Allocation: mean completion time against the cost of the cluster"
    noun = "cluster"
    order = "from the dearest to the cheapest"
    # From right to left: where a cluster can no longer be had, up to the mean of the next.
    line_shape = "vh"
    instance: AllocationInstance
    frontier: AllocationFrontier
    points: list[AllocationPoint]

    @cached_property
    def formulation(self) -> AllocationFormulation:
        """The formulation of the instance."""
        return AllocationFormulation(self.instance)

    @property
    def prices(self) -> Mapping[str, float]:
        """USD per hour of one unit of each resource."""
        return self.frontier.prices_usd_per_hour or self.instance.prices_usd_per_hour

    def most_points(self) -> int:
        """Return the maximum number of points of the frontier shown on the page."""
        return max(50, min(MAX_POINTS, MAX_ENTRIES // len(self.instance.jobs)))

    def today(self) -> float:
        """Return the hourly cost of the current cluster."""
        now = self.frontier.current
        return -math.inf if now is None else now.rate_usd_per_hour

    def hover(self, point: AllocationPoint) -> list[str]:
        """Return cost, mean completion time and cluster."""
        mean = f"mean completion {duration(point.mean_completion_s)}"
        return [f"{short(point.rate_usd_per_hour)} USD/h", mean, plot_text(cluster_text(point))]

    def text(self, point: AllocationPoint) -> str:
        """Return the mean completion time and the cost of a point as text."""
        mean = duration(point.mean_completion_s)
        return f"mean completion {mean} for {short(point.rate_usd_per_hour, 5)} USD/h"

    def figure(self) -> Plot:
        """Return the plot of mean completion time against cost."""
        unit, name = self.unit
        lower = [(rate, mean / unit) for rate, mean in lower_bound_steps(self.instance, self.frontier)]
        titles = "cost of the cluster [USD/h]", f"mean completion time [{name}]"
        return self.plot(titles, lower, today=self.frontier.current)

    def data(self) -> ScriptData:
        """Return the index of the column with usage bars in the table of resources, for the script."""
        return {"used": 3}

    def choice(self, point: AllocationPoint) -> ScriptData:
        """Return a point's figures by HTML element id, and its rows of the table of resources."""
        placed = sum(entry.placed for entry in point.plan)
        figures = {
            "is-rate": f"{short(point.rate_usd_per_hour)} USD/h",
            "is-mean": duration(point.mean_completion_s),
            "is-bound": duration(point.bound_s),
            "is-gap": percent(_gap(point)),
            "is-placed": f"{placed:,} of {len(point.plan):,}",
        }
        return {"figures": figures, "resources": self._resources(point)}

    def _resources(self, point: AllocationPoint) -> list[ScriptData]:
        """Return the rows of the table of resources: cells in the order of its columns, and utilisation."""
        rows, used = [], self.formulation.usage(point.plan)
        for name, amount in point.capacities.items():
            today, taken = self.instance.resources.get(name, 0.0), used.get(name, 0.0)
            busy = min(1.0, taken / amount) if amount else 0.0
            cells = [
                short(amount),
                f"{100 * amount / today:.0f} %" if today else "–",
                short(amount * self.prices[name]) if self.prices.get(name) else "–",
                f"{short(taken)}, {100 * busy:.0f} %",
                _saving_text(self.frontier, point, name),
            ]
            rows.append({"name": name, "cells": cells, "share": round(busy, 4)})
        if (point.prices or {}).get(BUDGET):
            spent = short(point.rate_usd_per_hour)
            cells = [spent, "–", spent, "–", _saving_text(self.frontier, point, BUDGET)]
            rows.append({"name": "budget [USD/h]", "cells": cells, "share": None})
        return rows

    @staticmethod
    def columns(frontier: AllocationFrontier) -> list[CellColumn[AllocationPoint]]:
        """Return the columns of the table of points: costs, means, bounds, what more is worth, clusters."""
        return [
            figure_column("USD/h", "rate_usd_per_hour"),
            figure_column("mean completion", "mean_completion_s", seconds),
            figure_column("bound", "bound_s", seconds),
            figure_column("gap", _gap, share),
            figure_column("1 USD/h more saves about", lambda p: _worth(p, frontier)[0], seconds),
            text_column("scarcest", lambda p: _worth(p, frontier)[1]),
            text_column("cluster", cluster_text, wide=True),
        ]

    def context(self) -> Context:
        """Return the template's variables: prices and facts of the instance."""
        instance, frontier = self.instance, self.frontier
        prices = [(f"price of {name}", f"{short(usd)} USD/h per unit") for name, usd in self.prices.items()]
        jobs, clusters = jobs_fact(instance), ("clusters", MIX[frontier.mix])
        return {
            "has_current": frontier.current is not None,
            "has_bounds": any(point.bound_s is not None for point in self.points),
            "about": [*instance_facts(instance), jobs, clusters, *prices],
        }


def _gap(point: AllocationPoint) -> float | None:
    return None if point.bound_s is None else max(0.0, 1 - point.bound_s / point.mean_completion_s)


def _saving_text(frontier: AllocationFrontier, point: AllocationPoint, name: str) -> str:
    """Return the saving by one more unit as text: its dual price, and the distance to the lower bound."""
    if point.prices is None:
        return "–"
    price = point.prices.get(name, 0.0) / frontier.weight
    rest = 0.0 if point.bound_s is None else max(0.0, point.mean_completion_s - point.bound_s)
    if price <= 0 and rest <= 1e-9 * point.mean_completion_s:
        return "nothing"
    return duration(price) + (f" + {duration(rest)}" if rest > 1e-3 * price else "")


FRONTIER = FrontierKind(
    model=AllocationFrontier,
    find=find_frontier,
    settings={"mix": "a mix", "prices": "a price"},
    check=AllocationFrontierCheck,
    page=AllocationFrontierPage,
)
