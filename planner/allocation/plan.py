"""Output of allocation plans: text table, plain data and HTML page."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, cast

import numpy as np

from ...formulations.allocation.configurations import BUDGET, resource_limits
from ...formulations.allocation.formulation import AllocationFormulation
from ...formulations.allocation.plan import JobAllocation, Plan
from ...instances.allocation.instance import AllocationInstance
from ...solvers.common.result import Result
from ..changes import (
    leading_resource,
)
from ..reports.page import (
    Cell,
    CellColumn,
    Column,
    Context,
    Facts,
    Table,
    figure_column,
    jobs_fact,
    number,
    placed_cell,
    seconds,
    table_of,
    text_column,
)
from ..reports.plot_style import (
    COLOURS,
    Figure,
    axis,
    colour,
    markers,
    plot_of,
    plot_text,
    spread_axis,
    symbol,
)
from ..reports.servers import ServersInUse
from ..reports.text import TextColumn, counted, duration, number_column, plain_column, short, unit_of_time
from .placement import FEW, placement_text, remarks, servers_in_use

LONG_S = 1000.0
"""Completion times from this many seconds on are shown with one decimal."""


def columns(instance: AllocationInstance, entries: Plan) -> list[TextColumn[JobAllocation]]:
    """Return the columns of the text table of a plan."""
    del instance
    digits = 1 if max(entry.completion_s or 0.0 for entry in entries) >= LONG_S else 3
    return [
        plain_column("job", "job"),
        ("placed", False, lambda e: "yes" if e.placed else "no"),
        plain_column("variant", "variant"),
        number_column("ps", "ps", str),
        number_column("workers", "workers", str),
        ("seconds", True, lambda e: f"{e.completion_s or 0.0:,.{digits}f}"),
        *(
            [plain_column("servers", partial(placement_text, most=FEW))]
            if any(entry.placement for entry in entries)
            else ()
        ),
    ]


def as_data(instance: AllocationInstance, plan: Plan) -> dict[str, Any]:
    """Return the configurations of placed jobs, and the reasons of unplaced jobs, by name as plain data."""
    jobs = {entry.job: entry.model_dump(exclude={"job", "placed"}) for entry in plan if entry.placed}
    return {"jobs": jobs, "unplaced": dict(left_out(instance, plan))}


def left_out(instance: AllocationInstance, plan: Plan) -> Iterator[tuple[str, str]]:
    """Yield pairs of job and reason for the jobs not placed; the reason is only that none is given."""
    del instance
    return ((entry.job, "no reason is given") for entry in plan if not entry.placed)


MAX_JOBS = 3000
MAX_NAMED = 40
"""Most jobs drawn as bars with names; more of them are drawn as points."""
LONGEST_NAME = 32
"""Most characters of a name beside its bar."""
MANY = 12
"""Most servers of a job in the table of the page."""
MAX_ADVISED = 20_000
"""Most jobs of an instance for which purchasing advice is derived from all configurations."""
HOUR = 3600.0
NAMES = {BUDGET: "hourly budget [USD]"}


def allocation_parts(instance: AllocationInstance, result: Result) -> Context:
    """Return the variables of `plan_allocation.html.j2`, the template of a result's page."""
    plan = cast("tuple[JobAllocation, ...]", result.plan or ())
    names, limits = resource_limits(instance)
    amounts = dict(zip(names, limits.tolist(), strict=True))
    lead = leading_resource(names)
    amounts = {lead: amounts[lead], **amounts}
    shown_jobs = shown_rows(plan)
    used = AllocationFormulation(instance).usage(plan) if plan else {}
    figure = times_figure(shown_jobs) if plan else None
    servers = servers_in_use(instance, plan) if plan and instance.servers is not None else None
    drawn = servers.parts() if servers is not None else {"data": {"figures": {}}, "servers": None}
    return drawn | {
        "data": {"figures": drawn["data"]["figures"] | ({"times": figure} if figure else {})},
        "on_devices": False,
        "assumed": [*remarks(instance)],
        "summary": _summary(instance, plan, servers) if plan else [],
        "bars": usage_bars(amounts, used),
        "resources": _resources_table(instance, amounts, used, result.prices),
        "advice": _advice(instance, result),
        "variants": _variants(shown_jobs),
        "waits": any(not entry.placed for entry in shown_jobs),
        "jobs": _jobs_table(instance, shown_jobs, servers),
        "cut": _cut(plan, shown_jobs),
        "about": [
            ("objective", instance.objective.replace("_", " ")),
            jobs_fact(instance),
            *([("servers", f"{len(servers.rows):,}")] if servers else []),
        ],
    }


def shown_rows(plan: Plan) -> list[JobAllocation]:
    """Return all entries of a plan, or if it is long, the slowest and an even sample of the others."""
    if len(plan) <= MAX_JOBS:
        return list(plan)
    slowest = sorted(range(len(plan)), key=lambda j: -(plan[j].completion_s or 0.0))[: MAX_JOBS // 2]
    step = len(plan) / (MAX_JOBS - len(slowest))
    kept = {*slowest, *(int(index * step) for index in range(MAX_JOBS - len(slowest)))}
    return [plan[index] for index in sorted(kept)]


def _cut(plan: Plan, rows: Plan) -> str | None:
    if len(rows) == len(plan):
        return None
    return (
        f"{len(rows):,} of {len(plan):,} jobs are on this page: those that take longest, and others evenly "
        "chosen. Figures of resources and objectives are of all jobs."
    )


def _summary(instance: AllocationInstance, plan: Plan, servers: ServersInUse | None) -> Facts:
    times = [entry.completion_s or 0.0 for entry in plan]
    placed = f"{sum(entry.placed for entry in plan):,}"
    weights = instance.table().weight.tolist()
    name = "mean completion time" if len(set(weights)) < 2 else "weighted mean completion time"
    mean = float(np.average(times, weights=weights)) if any(weights) else None
    own: Facts = []
    if servers is not None:
        alone = sum(len(entry.placement or ()) == 1 for entry in plan)
        own = [
            ("servers used by the plan", f"{servers.busy:,} of {len(servers.rows):,}"),
            ("jobs on one server", f"{alone:,} of {placed}"),
        ]
    return [
        ("jobs placed", f"{placed} of {len(plan):,}"),
        *own,
        ("workers", f"{sum(entry.workers for entry in plan):,}"),
        ("parameter servers", f"{sum(entry.ps for entry in plan):,}"),
        (name, duration(mean)),
        ("longest completion time", duration(max(times))),
    ]


def usage_bars(amounts: Mapping[str, float], used: Mapping[str, float]) -> list[tuple[str, float, str]]:
    """Return (name, utilisation, amounts as text) of each resource; empty if no usage is given."""
    bars = []
    for name, amount in amounts.items() if used else ():
        busy = used[name] / amount if amount else 0.0
        words = f"{short(used[name])} of {short(amount)}" + (f", {100 * busy:.1f} %" if amount else "")
        bars.append((NAMES.get(name, name), min(1.0, busy), words))
    return bars


def _resources_table(
    instance: AllocationInstance,
    amounts: Mapping[str, float],
    used: Mapping[str, float],
    prices: Mapping[str, float] | None,
) -> Table:
    usd = instance.prices_usd_per_hour
    columns: list[CellColumn[str]] = [text_column("resource", lambda name: NAMES.get(name, name))]
    columns.append(figure_column("there are", amounts.get))
    if used:
        columns.append(figure_column("in use", used.get))
        columns.append(figure_column("left", lambda name: max(0.0, amounts[name] - used[name])))
    if usd:
        columns.append(figure_column("USD/h per unit", usd.get))
    if prices is not None:
        total = instance.objective == "total_completion_time"
        unit = "weighted job-hours per unit" if total else "hours per unit"
        columns.append((Column("price", True, unit), lambda name: number(prices.get(name, 0.0) / HOUR, 4)))

        def worth(name: str) -> Cell:
            each = 1.0 if name == BUDGET else usd.get(name, 0.0)
            return number(prices.get(name, 0.0) / HOUR / each if each else None, 4)

        if prices and usd:
            columns.append((Column("price per USD/h", True, "what a USD/h of it is worth"), worth))
    caption = "Resources: what there is, what the plan takes, what more is worth"
    return table_of("amounts", caption, amounts, columns)


def _advice(instance: AllocationInstance, result: Result) -> str | None:
    """Return advice on the resource to buy next, unless the solver's message contains it."""
    if not result.prices or result.objective is None or len(instance.jobs) > MAX_ADVISED:
        return None
    if instance.objective != "total_completion_time":
        return None
    advice = AllocationFormulation(instance).advice(result.prices, result.objective)
    return None if advice is None or advice in (result.message or "") else advice


def _variants(plan: Plan) -> list[str]:
    return list(dict.fromkeys(entry.variant for entry in plan if entry.variant is not None))


def _jobs_table(instance: AllocationInstance, plan: Plan, servers: ServersInUse | None) -> Table:
    table = instance.table()
    weight = dict(zip(table.names, table.weight.tolist(), strict=True))
    limits = zip(table.names, table.deadline_s.tolist(), strict=True)
    deadline = {name: limit for name, limit in limits if math.isfinite(limit)}
    variants = {name: index for index, name in enumerate(_variants(plan))}
    columns: list[CellColumn[JobAllocation]] = [
        (Column("job"), lambda e: Cell(e.job, swatch=servers.colours.get(e.job) if servers else None)),
        (Column("status"), lambda e: placed_cell(e.placed)),
        (
            Column("variant"),
            lambda e: Cell(e.variant or "–", swatch=None if servers else variants.get(e.variant or "")),
        ),
        figure_column("parameter servers", "ps"),
        figure_column("workers", "workers"),
        figure_column("completes in", "completion_s", seconds),
    ]
    if any(value != 1 for value in weight.values()):
        columns.append(figure_column("weight", lambda e: weight[e.job]))
    if deadline:
        columns.append(figure_column("deadline", lambda e: deadline.get(e.job), seconds))
    if servers is not None:
        columns.append(text_column("servers", partial(placement_text, most=MANY), wide=True))
    filter = "Show jobs with these words"
    return table_of("configurations", "Configuration of each job", plan, columns, filter=filter)


def times_figure(plan: Plan) -> Figure:
    """Return the plot of the jobs' completion times in ascending order, with a trace for each variant.

    Jobs are bars with their names, as long as these can be read; more of them are points.
    """
    ordered = sorted(plan, key=lambda entry: entry.completion_s or 0.0)
    unit, name = unit_of_time(ordered[-1].completion_s or 0.0)
    bars = len(ordered) <= MAX_NAMED
    traces = []
    for index, variant in enumerate([*_variants(plan), None]):
        own = [(rank, entry) for rank, entry in enumerate(ordered, 1) if entry.variant == variant]
        if own:
            traces.append(_times_trace(own, index if variant is not None else None, unit, bars))
    if bars:
        x = axis(f"completion time [{name}]", rangemode="tozero", separatethousands=True)
        y = axis(
            "",
            range=[len(ordered) + 0.6, 0.4],
            tickvals=list(range(1, len(ordered) + 1)),
            ticktext=[plot_text(entry.job, LONGEST_NAME) for entry in ordered],
            showgrid=False,
            zeroline=False,
        )
        return plot_of(traces, x, y, 90 + 26 * len(ordered), bargap=0.25)
    x = axis("jobs, in the order of their completion", range=[0, len(ordered) + 1], zeroline=False)
    y = spread_axis(f"completion time [{name}]", [(entry.completion_s or 0.0) / unit for entry in ordered])
    return plot_of(traces, x, y, 360)


def _times_trace(
    own: Sequence[tuple[int, JobAllocation]], index: int | None, unit: float, bars: bool
) -> Figure:
    """Return the trace of the jobs of one variant, or of those that wait: bars with labels, or points.

    Parameters
    ----------
    index
        Number of the variant's colour; None for the jobs that wait.
    """
    ranks = [rank for rank, _ in own]
    times = [(entry.completion_s or 0.0) / unit for _, entry in own]
    words = [_configuration(entry) for _, entry in own]
    hover = {
        "customdata": [
            [plot_text(entry.job), configuration, duration(entry.completion_s)]
            for (_, entry), configuration in zip(own, words, strict=True)
        ],
        "hovertemplate": "<b>%{customdata[0]}</b><br>%{customdata[1]}<br>%{customdata[2]}<extra></extra>",
        "meta": {"key": -1 if index is None else index},
    }
    if not bars:
        marker = {
            "size": 8 if len(ranks) < 400 else 5,
            "color": "@open" if index is None else colour(index),
            "symbol": "circle-open" if index is None else symbol(index),
        }
        return markers(ranks, times, marker=marker, **hover)
    return {
        "type": "bar",
        "orientation": "h",
        "x": times,
        "y": ranks,
        "text": words,
        "textposition": "auto",
        "insidetextanchor": "start",
        "insidetextfont": {"color": "@ink" if index is None else f"@t{index % COLOURS}"},
        "marker": {
            "color": "@open/0.25" if index is None else colour(index),
            "line": {"color": "@open", "width": int(index is None)},
        },
        **hover,
    }


def _configuration(entry: JobAllocation) -> str:
    if not entry.placed:
        return "waits"
    servers = f", {counted(entry.ps, 'parameter server')}" if entry.ps else ""
    return f"{plot_text(entry.variant or '')}: {counted(entry.workers, 'worker')}{servers}"
