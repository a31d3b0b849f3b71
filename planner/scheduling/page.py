"""What the page of a schedule shows: its figures, the queue and what is in use over time, and who waited."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, cast

import numpy as np

from ...formulations.common.tolerance import rounded_up
from ...formulations.scheduling.formulation import SchedulingFormulation
from ...formulations.scheduling.plan import Segment, SegmentTable
from ...formulations.scheduling.price_grid import PriceGrid
from ...formulations.scheduling.usage import Usage, usage_over_time
from ...instances.common.arrays import Floats, Ints
from ...instances.scheduling.instance import SchedulingInstance
from ...solvers.common.result import Result
from ..changes import leading
from ..reports.plot_style import Figure, axis, colour, layout, shown
from ..reports.tables import Cell, CellColumn, Column, Table, number, seconds, table_of
from ..reports.text import short, unit_of_time
from .plan import facts
from .waits import Waits

MOST_POINTS = 1_000
"""Of a curve over time; between them the largest values count."""
FEW_WAIT = 5
MOST_BARS = 60
"""So many jobs can be told apart in a Gantt chart."""
TICKS = {
    **{f"{n} s": n for n in (1, 2, 5, 10, 20, 30)},
    **{f"{n} min": 60 * n for n in (1, 2, 5, 10, 20, 30)},
    **{f"{n} h": 3600 * n for n in (1, 2, 5, 10)},
    **{
        f"{n:,} day{'s' if n > 1 else ''}": 86400 * n for k in range(9) for n in (10**k, 2 * 10**k, 5 * 10**k)
    },
}
"""On a logarithmic axis of times."""
MOST_TICKS = 9
MOST_JOBS = 50
"""Jobs in the table of those that waited longest."""


def scheduling_parts(instance: SchedulingInstance, result: Result) -> dict[str, Any]:
    """Return the context of `plan_scheduling.html.j2`."""
    about = [
        ("objective", instance.objective.replace("_", " ")),
        ("jobs", f"{len(instance.jobs):,}"),
        ("cluster", ", ".join(f"{amount:,g} {name}" for name, amount in instance.pool.items())),
        ("preemption", instance.preemption),
    ]
    if result.plan is None:
        return {"scripts": (), "data": {"figures": {}}, "sections": [], "about": about}
    plan = cast("tuple[Segment, ...]", result.plan)
    formulation = SchedulingFormulation(instance)
    segments = formulation.segments(plan)
    usage = usage_over_time(instance, segments)
    resource = leading(instance.pool)
    r = list(instance.pool).index(resource)
    figures = {
        "queue": _queue(usage),
        "use": _use(usage, r, resource),
        "times": _times(segments.completion_s - instance.table().arrival_s),
    }
    grid = None if result.certificate is None else formulation.price_grid(result.certificate)
    if isinstance(grid, PriceGrid) and grid.price[:, r].any():
        figures["price"] = _price(grid, r, resource, usage)
    if len(instance.jobs) <= MOST_BARS:
        figures["gantt"] = _gantt(instance, segments)
    return {
        "scripts": (),
        "data": {"figures": figures},
        "heights": {name: figure["layout"]["height"] for name, figure in figures.items()},
        "sections": [
            ("figures", "How jobs fare"),
            ("time", "Over time"),
            ("waited", "Who waited most, and why"),
        ],
        "about": about,
        "summary": [*facts(formulation.metrics(plan)), *_worth(result)],
        "resource": resource,
        "waited": _waited(instance, segments, Waits(instance, segments, usage, r), shown(resource)),
    }


def _worth(result: Result) -> Iterator[tuple[str, str]]:
    """Yield what one more unit of each resource saves, where prices say it."""
    for name, price in (result.prices or {}).items():
        yield f"one more {name} saves at most", f"{short(rounded_up(price))} s a job, and the certified gap"


def thinned(at_s: Floats, values: Floats) -> tuple[Floats, Floats]:
    """Return at most `MOST_POINTS` points of a step function: the largest value of each stretch of time."""
    if len(at_s) <= MOST_POINTS:
        return at_s, values
    edges = np.linspace(at_s[0], at_s[-1], MOST_POINTS)
    first = np.unique(np.searchsorted(at_s, edges, side="right") - 1)
    return at_s[first], np.maximum.reduceat(values, first)


def _steps(usage: Usage, values: Floats, index: int, name: str, unit: tuple[float, str]) -> Figure:
    at_s, kept = thinned(usage.at_s, values.astype(float))
    return {
        "type": "scatter",
        "mode": "lines",
        "name": name,
        "x": np.round((at_s - usage.at_s[0]) / unit[0], 5).tolist(),
        "y": np.round(kept, 5).tolist(),
        "line": {"shape": "hv", "color": colour(index), "width": 1.5},
        "hovertemplate": f"%{{y:,}} {name} after %{{x:,}} {unit[1]}<extra></extra>",
    }


def _queue(usage: Usage) -> Figure:
    """Return how many jobs wait over time."""
    unit = unit_of_time(float(usage.at_s[-1] - usage.at_s[0]))
    curve = _steps(usage, usage.waiting.astype(float), 0, "jobs wait", unit)
    # Ticks at halves of a job make no sense.
    ticks = {"dtick": 1} if usage.waiting.max(initial=0) <= FEW_WAIT else {}
    x, y = axis(f"time [{unit[1]}]"), axis("jobs that wait", rangemode="tozero", **ticks)
    return {"data": [curve], "layout": layout(x, y, 300)}


def _use(usage: Usage, r: int, resource: str) -> Figure:
    """Return how much of a resource is used, and how much there is, over time."""
    unit = unit_of_time(float(usage.at_s[-1] - usage.at_s[0]))
    name = shown(resource)
    there = _steps(usage, usage.capacity[:, r], 1, f"{name} there", unit)
    used = _steps(usage, usage.used[:, r], 0, f"{name} in use", unit)
    x, y = axis(f"time [{unit[1]}]"), axis(f"{name} in use", rangemode="tozero")
    return {"data": [there, used], "layout": layout(x, y, 300)}


def _price(grid: PriceGrid, r: int, resource: str, usage: Usage) -> Figure:
    """Return what a unit of a resource is worth over time, by the prices that prove the bound."""
    first, last = float(usage.at_s[0]), float(usage.at_s[-1])
    unit = unit_of_time(last - first)
    inside = (grid.edges_s > first) & (grid.edges_s < last)
    at_s = np.concatenate([[first], grid.edges_s[inside], [last]])
    kept_s, kept = thinned(at_s, grid.at(at_s)[:, r])
    name = shown(resource)
    curve = {
        "type": "scatter",
        "mode": "lines",
        "x": np.round((kept_s - first) / unit[0], 5).tolist(),
        "y": [float(f"{value:.5g}") for value in kept.tolist()],
        "line": {"shape": "hv", "color": colour(2), "width": 1.5},
        "hovertemplate": f"one {name} more for a second saves at most %{{y:.4g}} job-seconds<extra></extra>",
    }
    x, y = axis(f"time [{unit[1]}]"), axis(f"price of one {name}", rangemode="tozero")
    return {"data": [curve], "layout": layout(x, y, 300)}


def _gantt(instance: SchedulingInstance, segments: SegmentTable) -> Figure:
    """Return when each job waits and runs, a line for each, the first at the top."""
    jobs = instance.table()
    order = np.argsort(jobs.arrival_s, kind="stable")
    line = np.empty(len(jobs), dtype=int)
    line[order] = np.arange(len(jobs))
    begin = float(jobs.arrival_s.min())
    unit = unit_of_time(float(segments.completion_s.max() - begin))
    there = _bars(np.arange(len(jobs)), jobs.arrival_s, segments.completion_s, line, begin, unit[0])
    runs = _bars(segments.job, segments.start_s, segments.end_s, line, begin, unit[0])
    looks = [
        ("there, and waits", there, {"color": "@edge", "width": 2}),
        ("runs", runs, {"color": "@s0", "width": 8}),
    ]
    traces = [
        {"type": "scatter", "mode": "lines", "name": name, "x": x, "y": y, "line": look, "hoverinfo": "skip"}
        for name, (x, y), look in looks
    ]
    names = [shown(jobs.names[j]) for j in order.tolist()]
    y_axis = axis(
        "",
        tickvals=list(range(len(names))),
        ticktext=names,
        range=[len(names) - 0.5, -0.5],
        tickfont={"size": 10, "color": "@muted"},
    )
    return {"data": traces, "layout": layout(axis(f"time [{unit[1]}]"), y_axis, 90 + 15 * len(names))}


def _bars(
    job: Ints, start_s: Floats, end_s: Floats, line: Ints, begin: float, unit: float
) -> tuple[list[float | None], list[int | None]]:
    """Return the ends of lines, with a gap after each."""
    x: list[float | None] = []
    y: list[int | None] = []
    for j, start, end in zip(job.tolist(), start_s.tolist(), end_s.tolist(), strict=True):
        x += [round((start - begin) / unit, 5), round((end - begin) / unit, 5), None]
        y += [int(line[j]), int(line[j]), None]
    return x, y


def _times(times: Floats) -> Figure:
    """Return the distribution of the completion times, which differ by orders of magnitude."""
    ordered = np.sort(times)
    unit = unit_of_time(float(ordered[-1]))
    places = np.unique(np.linspace(0, len(ordered) - 1, MOST_POINTS).astype(int))
    curve = {
        "type": "scatter",
        "mode": "lines",
        "x": np.round(ordered[places], 3).tolist(),
        "y": np.round(100 * (places + 1) / len(ordered), 3).tolist(),
        "customdata": np.round(ordered[places] / unit[0], 6).tolist(),
        "line": {"shape": "hv", "color": colour(0), "width": 1.5},
        "hovertemplate": f"%{{y}} % within %{{customdata:,}} {unit[1]}<extra></extra>",
    }
    return {
        "data": [curve],
        "layout": layout(
            _time_axis(float(ordered[0]), float(ordered[-1])),
            axis("share of the jobs [%]", range=[0, 102]),
            300,
        ),
    }


def _time_axis(least_s: float, most_s: float) -> Figure:
    """Return a logarithmic axis of completion times in seconds, with ticks that people read."""
    ticks = [(name, at_s) for name, at_s in TICKS.items() if least_s <= at_s <= most_s]
    if len(ticks) > MOST_TICKS:
        ticks = [(name, at_s) for name, at_s in ticks if name.split()[0].replace(",", "").strip("0") == "1"]
    names, values = [name for name, _ in ticks], [at_s for _, at_s in ticks]
    return axis("completion time", type="log", tickvals=values, ticktext=names)


def _waited(instance: SchedulingInstance, segments: SegmentTable, why: Waits, resource: str) -> Table:
    """Return the jobs that waited longest, with the reason."""
    jobs = instance.table()
    times = segments.completion_s - jobs.arrival_s
    waits = times - segments.running_s
    longest: Sequence[int] = np.argsort(-waits, kind="stable")[:MOST_JOBS].tolist()
    columns: list[CellColumn[int]] = [
        (Column("job"), lambda j: Cell(jobs.names[j])),
        (Column("tasks", True), lambda j: number(float(jobs.tasks[j]))),
        (Column("arrives [s]", True), lambda j: number(float(jobs.arrival_s[j]), 9)),
        (Column("needs", True), lambda j: seconds(float(jobs.duration_s[j]))),
        (Column("waits", True), lambda j: seconds(float(waits[j]))),
        (Column("slowdown", True), lambda j: number(float(times[j] / jobs.duration_s[j]), 4)),
        (Column("why", wide=True), lambda j: Cell(why.of(j).reason(resource) if waits[j] > 0 else "–")),
    ]
    if jobs.tenants:
        tenant = Column("tenant")
        columns.insert(
            1, (tenant, lambda j: Cell(jobs.tenants[jobs.tenant[j]] if jobs.tenant[j] >= 0 else "–"))
        )
    return table_of("longest", "Jobs that waited longest", longest, columns)
