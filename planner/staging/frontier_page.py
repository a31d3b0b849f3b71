"""The page of a staging frontier: the plot, the plan of each point, and all points as a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ...formulations.staging.graphs.formulation import formulation_of
from ...instances.staging.instance import StagingInstance
from ...solvers.common.result import Result
from ...solvers.staging.frontier import describe
from ...solvers.staging.frontier_result import Frontier, FrontierPoint
from ..output.text import percent
from ..reports.frontier_page import FrontierPage
from ..reports.plot_style import Figure
from ..reports.provenance import instance_facts, usd
from ..reports.tables import Cell, CellColumn, Column, Table, number, seconds, table_of
from ..reports.text import short
from .frontier_figure import DRAWING, Baseline, frontier_figure, near_limit
from .stages import PlanDrawing, axis_of, figures_of, in_short, limits_facts, types_table

STAGES = Column("units and types, in the order of the layers", wide=True)


class StagingFrontierPage(FrontierPage):
    """The page of a frontier of cost against throughput."""

    template = "frontier.html.j2"
    script = "chain.js"
    kicker = "Staging: cost against throughput"
    noun = "plan"
    order = "from the fastest to the cheapest"
    drawing = DRAWING
    instance: StagingInstance
    frontier: Frontier
    points: list[FrontierPoint]

    def __init__(self, instance: StagingInstance, frontier: Frontier, results: Sequence[Result] = ()) -> None:
        super().__init__(instance, frontier, results)
        self.plans, self.baselines = PlanDrawing(instance), list(_baselines(instance, frontier, results))

    def first_chosen(self) -> int:
        """Return which point the instance's own objective picks; its limits hold for all points."""
        return len(self.points) - 1 if self.instance.objective == "cost" else 0

    def figures(self, point: FrontierPoint) -> str:
        """Return throughput and cost."""
        return f"{short(point.throughput_samples_per_s, 5)} samples/s for {usd(point.cost_usd, 5)}"

    def trade(self, point: FrontierPoint) -> tuple[float, float]:
        """Return throughput and cost."""
        return point.throughput_samples_per_s, point.cost_usd

    def proven(self) -> tuple[str, str, str, str]:
        """Return what is said of the proof; see the base class."""
        frontier = self.frontier
        most = "" if frontier.most_usd is None else f" that costs at most {usd(frontier.most_usd)}"
        return (
            "It is proven that no plan exists.",
            f"Certified by our own check, which trusts no solver: for every feasible plan{most} there is a "
            f"point at least as fast that costs at most {percent(frontier.certified_error)} more.",
            f"Not certified: that no plan{most} is faster than the fastest point.",
            f"The search ended by itself; what it leaves out saves less than {percent(frontier.error)} of "
            "the cost.",
        )

    def figure(self) -> tuple[Figure, dict[str, int]]:
        """Return the plot of cost against throughput."""
        return frontier_figure(self.instance, self.points, self.start, self.baselines)

    def data(self) -> dict[str, Any]:
        """Return names of types and layers."""
        return {"chain": self.plans.data()}

    def choice(self, point: FrontierPoint) -> dict[str, Any]:
        """Return the figures and the stages of a point."""
        places = ("is-throughput", "is-cost", "is-time", "is-rate", "is-slowest")
        words = [words for _, words in figures_of(point)]
        return {"figures": dict(zip(places, words, strict=True)), **self.plans.plan(point.plan)}

    def columns(self) -> list[CellColumn[FrontierPoint]]:
        """Return figures and plan."""
        return [
            (Column("samples/s", True), lambda p: number(p.throughput_samples_per_s)),
            (Column("USD", True), lambda p: number(p.cost_usd)),
            (Column("training", True), lambda p: seconds(p.time_s)),
            (Column("USD/h", True), lambda p: number(p.rate_usd_per_hour)),
            (Column("slowest stage", True), lambda p: seconds(p.stage_time_s)),
            (Column("stages", True), lambda p: number(len(p.plan))),
            (STAGES, lambda p: Cell(in_short(p.plan))),
        ]

    def context(self) -> dict[str, Any]:
        """Return today's choice, other methods, types and limits."""
        instance, points, most = self.instance, self.points, self.frontier.most_usd
        sections = (
            [("plot", "Frontier"), ("plan", "Plan of a point"), ("table", "All points")] if points else []
        )
        sections.append(("certified", "What is certified"))
        sections += [("baselines", "Other methods")] if self.baselines else []
        left_out = [] if most is None else [("dearer plans were left out", usd(most))]
        return {
            "sections": [*sections, ("hardware", "Types and limits"), ("about", "The instance")],
            "keys": self._keys() if points else [],
            "baselines": _baseline_table(self.baselines),
            "without_plan": [f"{r.solver}: {r.status}" for r in self.results if r.plan is None],
            "axis": axis_of(instance),
            "types": types_table(instance, points[self.start].plan if points else None),
            "limits": [*limits_facts(instance), *left_out],
            "about": instance_facts(instance),
        }

    def _keys(self) -> list[tuple[str, str]]:
        """Return the legend of the plot: (mark, words)."""
        instance = self.instance
        keys = [("line", "least cost at which a throughput can be had"), ("star", _today_words(instance))]
        keys.append(("ring", "the point whose plan is shown below"))
        if self.baselines:
            keys.append(("diamond", "plans of other methods"))
        if instance.throughput_floor_samples_per_s is not None:
            keys.append(("dashes", "throughput floor"))
        near = ["cost limit"] if near_limit(instance, self.points) else []
        near += ["hourly budget"] if instance.hourly_budget_usd is not None else []
        if near:
            keys.append(("dots", " and ".join(near)))
        return keys


def _today_words(instance: StagingInstance) -> str:
    floor = instance.throughput_floor_samples_per_s
    if instance.objective == "cost":
        kept = "" if floor is None else f" that keeps the floor of {short(floor)} samples/s"
        return f"the cheapest plan{kept}"
    limit = instance.cost_limit_usd
    return "the fastest plan" + ("" if limit is None else f" within the cost limit of {usd(limit)}")


def _baselines(
    instance: StagingInstance, frontier: Frontier, results: Sequence[Result]
) -> Iterator[Baseline]:
    formulation = formulation_of(instance)
    for result in results:
        if result.plan is None:
            continue
        point = describe(formulation, result.plan)  # type: ignore[arg-type]
        as_fast = [
            p.cost_usd
            for p in frontier.points
            if p.throughput_samples_per_s >= point.throughput_samples_per_s * (1 - 1e-9)
        ]
        yield Baseline(result.solver, point, min(as_fast, default=None), result.runtime_s)


def _baseline_table(baselines: Sequence[Baseline]) -> Table | None:
    if not baselines:
        return None
    columns: list[CellColumn[Baseline]] = [
        (Column("method"), lambda b: Cell(b.solver)),
        (Column("samples/s", True), lambda b: number(b.point.throughput_samples_per_s)),
        (Column("USD", True), lambda b: number(b.point.cost_usd)),
        (
            Column("USD on the frontier", True, "for a plan at least as fast"),
            lambda b: number(b.cheapest_usd),
        ),
        (Column("dearer by", True), lambda b: Cell(b.words, b.dearer)),
        (Column("time to solve", True), lambda b: seconds(b.runtime_s)),
        (STAGES, lambda b: Cell(in_short(b.point.plan))),
    ]
    return table_of("methods", "Plans of other methods, against the frontier", baselines, columns)
