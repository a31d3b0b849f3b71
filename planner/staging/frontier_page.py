"""The page of a staging frontier: the plot, the plan of each point, and all points as a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ...formulations.staging.formulation import StagingFormulation
from ...instances.staging.instance import StagingInstance
from ...solvers.common.result import Result
from ...solvers.staging.frontier import describe
from ...solvers.staging.frontier_result import Frontier, FrontierPoint
from ..output.text import percent
from ..reports.page import render
from ..reports.provenance import Facts, claims, headline, instance_facts, provenance, usd
from ..reports.tables import Cell, Column, Table, number, seconds
from ..reports.text import counted, duration, short
from ..verification.findings import Verification
from .frontier_figure import Baseline, frontier_figure, near_limit
from .stages import PlanDrawing, in_short, limits_facts, types_table

MOST_POINTS = 1500
"""A page shows at most so many points of a frontier."""


def staging_frontier_page(
    instance: StagingInstance,
    frontier: Frontier,
    results: Sequence[Result],
    checked: Verification | None,
) -> str:
    """Return the page of a frontier of cost against throughput."""
    points = thinned(frontier.points)
    drawing, baselines = PlanDrawing(instance), list(_baselines(instance, frontier, results))
    sections = [("plot", "Frontier"), ("plan", "Plan of a point"), ("table", "All points")] if points else []
    if baselines:
        sections.append(("baselines", "Other methods"))
    sections += [("hardware", "Types and limits"), ("about", "The instance")]
    today = _today(instance, len(points))
    data: dict[str, Any] = {"figures": {}}
    if points:
        data["figures"]["frontier"], at = frontier_figure(instance, points, today, baselines)
        data["chain"] = drawing.data()
        data["choice"] = {
            "plot": "frontier",
            **at,
            "today": today,
            "start": today,
            "points": [_choice(drawing, point, index, len(points)) for index, point in enumerate(points)],
        }
    return render(
        "frontier.html.j2",
        scripts=("choose.js", "chain.js"),
        data=data,
        title=instance.name,
        kicker="Staging: cost against throughput",
        verdict=headline(frontier.status, frontier.limit, checked),
        claimed=claims(checked),
        lead=_lead(frontier),
        sections=sections,
        certified=list(_certified(frontier, len(points))),
        diagnosis=frontier.diagnosis,
        count=len(points),
        today=today,
        today_words=_today_words(instance),
        keys=_keys(instance, points, baselines) if points else [],
        points=_points_table(points),
        baselines=_baseline_table(baselines),
        without_plan=[f"{r.solver}: {r.status}" for r in results if r.plan is None],
        types=types_table(instance, points[today].plan if points else None),
        limits=[*limits_facts(instance), *_most(frontier)],
        about=instance_facts(instance),
        assumptions=instance.assumptions,
        footer=provenance(frontier),
    )


def thinned(points: Sequence[FrontierPoint]) -> list[FrontierPoint]:
    """Return at most `MOST_POINTS` points, evenly from the first to the last."""
    if len(points) <= MOST_POINTS:
        return list(points)
    step = (len(points) - 1) / (MOST_POINTS - 1)
    return [points[round(index * step)] for index in range(MOST_POINTS)]


def _today(instance: StagingInstance, count: int) -> int:
    """Return which point the instance's own objective picks; its limits hold for all points."""
    return count - 1 if instance.objective == "cost" else 0


def _today_words(instance: StagingInstance) -> str:
    floor = instance.throughput_floor_samples_per_s
    if instance.objective == "cost":
        kept = "" if floor is None else f" that keeps the floor of {short(floor)} samples/s"
        return f"the cheapest plan{kept}"
    limit = instance.cost_limit_usd
    return "the fastest plan" + ("" if limit is None else f" within the cost limit of {usd(limit)}")


def _lead(frontier: Frontier) -> str:
    if not frontier.points:
        return "There is no point."
    fast, cheap = frontier.points[0], frontier.points[-1]
    if len(frontier.points) == 1:
        return f"One plan beats all others: {_figures(fast)}."
    return f"{counted(len(frontier.points), 'plan')}, from {_figures(fast)} to {_figures(cheap)}."


def _figures(point: FrontierPoint) -> str:
    return f"{short(point.throughput_samples_per_s, 5)} samples/s for {usd(point.cost_usd, 5)}"


def _certified(frontier: Frontier, shown: int) -> Iterator[str]:
    """Yield what is proven, a sentence each."""
    most = "" if frontier.most_usd is None else f" that costs at most {usd(frontier.most_usd)}"
    if frontier.status == "infeasible":
        yield "It is proven that no plan exists."
        return
    if frontier.certified_error is not None:
        error = percent(frontier.certified_error)
        yield (
            f"Certified by our own check, which trusts no solver: for every feasible plan{most} there is a "
            f"point at least as fast that costs at most {error} more."
        )
    elif frontier.points:
        yield f"Not certified: that no plan{most} is faster than the fastest point."
    if frontier.status == "complete":
        error = percent(frontier.error)
        yield f"The search ended by itself; what it leaves out saves less than {error} of the cost."
    else:
        stopped = "" if frontier.limit == "none" else f" ({frontier.limit} limit)"
        yield f"The search was stopped{stopped}: points are plans, but better ones may be missing."
    if shown < len(frontier.points):
        yield f"{shown:,} of {len(frontier.points):,} points are on this page, evenly chosen."


def _most(frontier: Frontier) -> Facts:
    return [] if frontier.most_usd is None else [("dearer plans were left out", usd(frontier.most_usd))]


def _choice(drawing: PlanDrawing, point: FrontierPoint, index: int, count: int) -> dict[str, Any]:
    """Return the figures and the plan of a point, as the script shows them."""
    return {
        "x": point.throughput_samples_per_s,
        "y": point.cost_usd,
        "words": f"Point {index + 1} of {count}: {_figures(point)}",
        "figures": {
            "is-throughput": f"{short(point.throughput_samples_per_s, 6)} samples/s",
            "is-cost": usd(point.cost_usd),
            "is-time": duration(point.time_s),
            "is-rate": f"{short(point.rate_usd_per_hour, 6)} USD/h",
            "is-slowest": duration(point.stage_time_s),
        },
        **drawing.plan(point.plan),
    }


def _points_table(points: Sequence[FrontierPoint]) -> Table:
    columns = [
        Column("point", True),
        Column("samples/s", True),
        Column("USD", True),
        Column("training", True),
        Column("USD/h", True),
        Column("slowest stage", True),
        Column("stages", True),
        Column("units and types, in the order of the layers", wide=True),
    ]
    rows = [
        [
            number(index + 1),
            number(point.throughput_samples_per_s),
            number(point.cost_usd),
            seconds(point.time_s),
            number(point.rate_usd_per_hour),
            seconds(point.stage_time_s),
            number(len(point.plan)),
            Cell(in_short(point.plan)),
        ]
        for index, point in enumerate(points)
    ]
    return Table("points", "Points of the frontier, from the fastest to the cheapest", columns, rows)


def _baselines(
    instance: StagingInstance, frontier: Frontier, results: Sequence[Result]
) -> Iterator[Baseline]:
    formulation = StagingFormulation(instance)
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
    columns = [
        Column("method"),
        Column("samples/s", True),
        Column("USD", True),
        Column("USD on the frontier", True, "for a plan at least as fast"),
        Column("dearer by", True),
        Column("time to solve", True),
        Column("units and types, in the order of the layers", wide=True),
    ]
    rows = [
        [
            Cell(baseline.solver),
            number(baseline.point.throughput_samples_per_s),
            number(baseline.point.cost_usd),
            number(baseline.cheapest_usd),
            Cell(baseline.words, baseline.dearer),
            seconds(baseline.runtime_s),
            Cell(in_short(baseline.point.plan)),
        ]
        for baseline in baselines
    ]
    return Table("methods", "Plans of other methods, against the frontier", columns, rows)


def _keys(
    instance: StagingInstance, points: Sequence[FrontierPoint], baselines: Sequence[Baseline]
) -> list[tuple[str, str]]:
    """Return the legend of the plot: (mark, words)."""
    keys = [("line", "least cost at which a throughput can be had"), ("star", _today_words(instance))]
    keys.append(("ring", "the point whose plan is shown below"))
    if baselines:
        keys.append(("diamond", "plans of other methods"))
    if instance.throughput_floor_samples_per_s is not None:
        keys.append(("dashes", "throughput floor"))
    near = ["cost limit"] if near_limit(instance, points) else []
    near += ["hourly budget"] if instance.hourly_budget_usd is not None else []
    if near:
        keys.append(("dots", " and ".join(near)))
    return keys
