"""The frontier of a staging instance (cost against throughput): verification, table, plot and page."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from ...formulations.common.objective import within
from ...formulations.staging.formulation import StagingFormulation, formulation_of
from ...formulations.staging.stages import Corner, Plan
from ...instances.staging.instance import StagingInstance
from ...solvers.common.result import Result
from ...solvers.staging.frontier import Frontier, FrontierPoint, find_frontier, frontier_point
from ..findings import Findings, FrontierCheck, broken_constraints, figure_faults
from ..kind import FrontierKind
from ..reports.frontier_page import FrontierNotes, FrontierPage, Place, Plot
from ..reports.page import (
    Cell,
    CellColumn,
    Column,
    Context,
    ScriptData,
    Table,
    figure_column,
    instance_facts,
    seconds,
    table_of,
    text_column,
    usd,
)
from ..reports.plot_style import Figure, line_at, marker, note, place_on, plot_of, plot_text, spread_axis
from ..reports.text import duration, figure, percent, short
from ..verification import check_infeasible
from .plan import PlanDrawing, axis_of, figures_of, limits_facts, stages_text, types_table


class StagingFrontierCheck(FrontierCheck):
    """Verification of a staging frontier: plans, figures and the certified error."""

    default_error = 1e-4
    slack = 0.0
    proves = "what the certificate proves is"
    instance: StagingInstance
    frontier: Frontier

    @cached_property
    def formulation(self) -> StagingFormulation:
        """The formulation of the instance."""
        return formulation_of(self.instance)

    @property
    def most(self) -> str:
        """The limit on the cost of plans."""
        most = self.frontier.most_usd
        return "" if most is None else f" of at most {most:g} USD"

    @property
    def narrower(self) -> str:
        """The same text where it is below the instance's own limit."""
        own = math.inf if self.instance.cost_limit_usd is None else self.instance.cost_limit_usd
        return self.most if self.most_usd < own else ""

    @property
    def most_usd(self) -> float:
        """The limit on the cost of plans, infinite if there is none."""
        return math.inf if self.frontier.most_usd is None else self.frontier.most_usd

    def check_infeasible(self, findings: Findings) -> None:
        """Check the claim that no plan is within the cost limit of the search, and its diagnosis."""
        formulation, frontier = self.formulation, self.frontier

        def counts(plan: Plan) -> bool:
            return within(frontier_point(formulation, tuple(plan)).cost_usd, self.most_usd)

        proven = formulation.check.proves_none(frontier.most_usd, frontier.certificate)
        words = "the prices of the certificate prove that there is no plan" if proven else None
        check_infeasible(findings, formulation, words, frontier.diagnosis, frontier.versions, counts)

    def head_faults(self) -> Iterator[str]:
        """Yield a fault if the certificate has not the form that it must have; its steps are points."""
        self.grid = self.frontier.points
        malformed = self.formulation.certificate_fault({"intervals": self.frontier.certificate})
        if malformed is not None:
            yield f"certificate: {malformed}"

    def record_faults(self, place: str, record: FrontierPoint) -> Iterator[str]:
        """Yield faults of a plan, then of the figures that are stored with it."""
        broken = broken_constraints(place, self.formulation, record.plan)
        yield from broken
        if broken:
            return
        derived = frontier_point(self.formulation, record.plan)
        for field in sorted(set(FrontierPoint.model_fields) - {"plan"}):
            yield from figure_faults(f"{place}.{field}", getattr(record, field), getattr(derived, field))

    def more_faults(self) -> Iterator[str]:
        """Yield a fault if a plan is dearer than the limit of the search."""
        if not all(within(point.cost_usd, self.most_usd) for point in self.frontier.points):
            yield f"points: there are plans dearer than most_usd, {self.most_usd:g}"

    def proven(self) -> float | None:
        """Return the error that the certificate proves, None if it proves none."""
        # The stored figures were compared with the plans before.
        frontier, points = self.frontier, self.frontier.points
        corners = [Corner(point.stage_time_s, point.cost_usd) for point in points]
        limits = frontier.error, frontier.most_usd, frontier.certificate
        return self.formulation.check.certified_error(corners, *limits) if corners else None


def frontier_notes(frontier: Frontier) -> FrontierNotes:
    """Return the footnotes of the frontier's text table: cost limit and certified error."""
    most = "" if frontier.most_usd is None else f" of at most {figure(frontier.most_usd)} USD"
    return FrontierNotes(
        none="no plan exists",
        uncertified=f"not certified: that no plan{most} is faster than the fastest point",
        certified=f"certified: every plan{most} is matched by a point as fast that costs at most "
        f"{percent(frontier.certified_error)} more",
    )


CLOSE = 1e-6
"""Relative excess cost up to which a plan counts as lying on the frontier."""


@dataclass(frozen=True)
class Baseline:
    """The plan of another solver, compared with the frontier.

    Attributes
    ----------
    cheapest_usd
        Cost of the cheapest point that is at least as fast; None if there is none.
    """

    solver: str
    point: FrontierPoint
    cheapest_usd: float | None
    runtime_s: float

    @property
    def dearer(self) -> float | None:
        """The plan's relative excess cost over the cheapest point as fast; None if unknown."""
        if not self.cheapest_usd:
            return None
        return max(0.0, self.point.cost_usd / self.cheapest_usd - 1)

    @property
    def words(self) -> str:
        """The relative excess cost as text."""
        if self.dearer is None:
            return "–"
        return "on the frontier" if self.dearer <= CLOSE else percent(self.dearer)


def _names(baselines: Sequence[Baseline], x: Figure) -> list[str]:
    """Return the plot label of each plan; the first of several nearly equal plans has the names of all."""
    low, high = x["range"]
    names = [""] * len(baselines)
    places = [place_on(x, b.point.throughput_samples_per_s) for b in baselines]
    for n, baseline in enumerate(baselines):
        first = next(
            k
            for k in range(n + 1)
            if abs(places[k] - places[n]) <= 0.05 * (high - low)
            and math.isclose(baselines[k].point.cost_usd, baseline.point.cost_usd, rel_tol=0.05)
            and (names[k] or k == n)
        )
        names[first] = ", ".join(part for part in (names[first], plot_text(baseline.solver)) if part)
    return names


def _limits(x: Figure, y: Figure, floor: float | None, limit: float | None) -> Figure:
    """Return the plot's lines at the throughput floor and the cost limit, with their labels."""
    shapes, notes = [], []
    if floor is not None:
        shapes.append(line_at("x", floor))
        at = {"x": place_on(x, floor), "y": 1, "yref": "paper"}
        notes.append(note(f"floor {short(floor)}", xanchor="left", yanchor="top", **at))
    if limit is not None:
        shapes.append(line_at("y", limit, "dot"))
        at = {"x": 1, "xref": "paper", "y": place_on(y, limit)}
        notes.append(note(f"cost limit {usd(limit)}", xanchor="right", yanchor="bottom", **at))
    return {"shapes": shapes, "annotations": notes}


STAGES = Column("units and types, in the order of the layers", wide=True)


class StagingFrontierPage(FrontierPage):
    """The page of a frontier of cost against throughput."""

    template = "frontier.html.j2"
    script = "chain.js"
    sentences = staticmethod(frontier_notes)
    kicker = "Staging: cost against throughput"
    noun = "plan"
    order = "from the fastest to the cheapest"
    instance: StagingInstance
    frontier: Frontier
    points: list[FrontierPoint]

    def __init__(self, instance: StagingInstance, frontier: Frontier, results: Sequence[Result] = ()) -> None:
        super().__init__(instance, frontier, results)
        self.plans, self.baselines = PlanDrawing(instance), list(_baselines(instance, frontier, results))
        # The cost limit is drawn where it is near the points.
        limit, costs = instance.cost_limit_usd, [point.cost_usd for point in self.points]
        near = limit is not None and bool(costs) and limit <= 1.5 * max(costs)
        self.limit = limit if near else None

    def today(self) -> float:
        """Return what the instance's own objective spends: all points are feasible for it."""
        return -math.inf if self.instance.objective == "cost" else math.inf

    def place(self, point: FrontierPoint) -> Place:
        """Return the throughput and the cost of a point."""
        return point.throughput_samples_per_s, point.cost_usd

    # From the fastest to the cheapest: along at the cost of the faster point, then down.
    trade = place

    def hover(self, point: FrontierPoint) -> list[str]:
        """Return throughput, cost, time and stages."""
        return [
            f"{short(point.throughput_samples_per_s, 6)} samples/s",
            usd(point.cost_usd),
            f"{short(point.rate_usd_per_hour, 6)} USD/h for {duration(point.time_s)}",
            plot_text(stages_text(point.plan, 4)),
        ]

    def text(self, point: FrontierPoint) -> str:
        """Return the throughput and the cost of a point as text."""
        return f"{short(point.throughput_samples_per_s, 5)} samples/s for {usd(point.cost_usd, 5)}"

    def figure(self) -> Plot:
        """Return the plot of cost against throughput."""
        instance, budget = self.instance, self.instance.hourly_budget_usd
        floor, limits = instance.throughput_floor_samples_per_s, [] if self.limit is None else [self.limit]
        every = [*self.points, *(baseline.point for baseline in self.baselines)]
        speeds = [point.throughput_samples_per_s for point in every]
        x = spread_axis("throughput [samples/s]", [*speeds, *([] if floor is None else [floor])])
        y = spread_axis("cost of the training [USD]", [*(point.cost_usd for point in every), *limits])
        traces = [self.line(), *([self._others(x)] if self.baselines else [])]
        at = {"line": 0, "star": len(traces), "ring": len(traces) + 1}
        traces += [self.star(self.points[self.start], plot_text("today's choice")), self.ring()]
        if budget is not None:
            traces.append(self._budget(budget, min(speeds), max(speeds)))
        return plot_of(traces, x, y, 460, **_limits(x, y, floor, self.limit)), at

    def _others(self, x: Figure) -> Figure:
        """Return the trace of other solvers' plans, each labelled on the side where there is room."""
        points, middle, gap = (
            [baseline.point for baseline in self.baselines],
            sum(x["range"]) / 2,
            "\u00a0" * 4,
        )
        left = [place_on(x, point.throughput_samples_per_s) > middle for point in points]
        return {
            **self.marks(points, [plot_text(baseline.solver) for baseline in self.baselines]),
            "mode": "markers+text",
            "text": [
                name + gap if end else gap + name
                for name, end in zip(_names(self.baselines, x), left, strict=True)
            ],
            "textposition": ["middle left" if end else "middle right" for end in left],
            "textfont": {"color": "@muted", "size": 12},
            "cliponaxis": False,
            "marker": marker("diamond", "@s1", 12),
        }

    def _budget(self, budget: float, low: float, high: float) -> Figure:
        """Return the curve of total cost (USD) against throughput at which the hourly budget is spent.

        Feasible plans lie below.
        """
        hours = self.instance.training.total / 3600
        at = [low * (high / low) ** (step / 60) for step in range(61)]
        return {
            "type": "scatter",
            "mode": "lines+text",
            "text": ["hourly budget", *[""] * 60],
            "textposition": "top right",
            "textfont": {"color": "@muted", "size": 12},
            "x": at,
            "y": [budget * hours / speed for speed in at],
            "line": {"color": "@muted", "width": 1.5, "dash": "dot"},
            "hovertemplate": f"hourly budget of {short(budget)} USD/h<extra></extra>",
        }

    def data(self) -> ScriptData:
        """Return the names of hardware types and layers, for the script."""
        return {"chain": self.plans.data()}

    def choice(self, point: FrontierPoint) -> ScriptData:
        """Return the figures and the stages of a point, for the script."""
        places = ("is-throughput", "is-cost", "is-time", "is-rate", "is-slowest")
        words = [words for _, words in figures_of(point)]
        return {"figures": dict(zip(places, words, strict=True)), **self.plans.plan(point.plan)}

    @staticmethod
    def columns(frontier: Frontier) -> list[CellColumn[FrontierPoint]]:
        """Return the columns of the table of points: throughput, cost, time, USD/h and stages."""
        del frontier
        return [
            figure_column("samples/s", "throughput_samples_per_s"),
            figure_column("USD", "cost_usd"),
            figure_column("training", "time_s", seconds),
            figure_column("USD/h", "rate_usd_per_hour"),
            figure_column("slowest stage", "stage_time_s", seconds),
            figure_column("stages", lambda p: len(p.plan)),
            (STAGES, lambda p: Cell(stages_text(p.plan))),
        ]

    def context(self) -> Context:
        """Return the template's variables: baselines, types, limits and facts of the instance."""
        instance, points, most = self.instance, self.points, self.frontier.most_usd
        near = [] if self.limit is None else ["cost limit"]
        near += ["hourly budget"] if instance.hourly_budget_usd is not None else []
        left_out = [] if most is None else [("dearer plans were left out", usd(most))]
        return {
            "today": _today_words(instance),
            "has_floor": instance.throughput_floor_samples_per_s is not None,
            "limits_drawn": " and ".join(near),
            "baselines": _baseline_table(self.baselines),
            "without_plan": [f"{r.solver}: {r.status}" for r in self.results if r.plan is None],
            "axis": axis_of(instance),
            "types": types_table(instance, points[self.start].plan if points else None),
            "limits": [*limits_facts(instance), *left_out],
            "about": instance_facts(instance),
        }


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
        point = frontier_point(formulation, result.plan)  # type: ignore[arg-type]
        as_fast = [
            p.cost_usd
            for p in frontier.points
            if p.throughput_samples_per_s >= point.throughput_samples_per_s * (1 - 1e-9)
        ]
        yield Baseline(result.solver, point, min(as_fast, default=None), result.runtime_s)


def _baseline_table(baselines: Sequence[Baseline]) -> Table | None:
    if not baselines:
        return None
    return table_of(
        "methods",
        "Plans of other methods, against the frontier",
        baselines,
        [
            text_column("method", "solver"),
            figure_column("samples/s", "point.throughput_samples_per_s"),
            figure_column("USD", "point.cost_usd"),
            figure_column("USD on the frontier", "cheapest_usd", note="for a plan at least as fast"),
            (Column("dearer by", True), lambda b: Cell(b.words, b.dearer)),
            figure_column("time to solve", "runtime_s", seconds),
            (STAGES, lambda b: Cell(stages_text(b.point.plan))),
        ],
    )


FRONTIER = FrontierKind(
    model=Frontier,
    find=find_frontier,
    check=StagingFrontierCheck,
    page=StagingFrontierPage,
    baselines=("single-type", "greedy", "genetic"),
)
