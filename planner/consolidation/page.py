"""What the page of a consolidation plan shows."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from functools import partial
from typing import Any, cast

from ...formulations.consolidation.devices.pooled import pooled
from ...formulations.consolidation.plan import JobPlacement
from ...instances.consolidation.instance import ConsolidationInstance
from ...solvers.common.result import Result
from ..reports.plot_style import Figure, axis, layout, shown
from ..reports.provenance import Facts
from ..reports.tables import Cell, CellColumn, Column, Table, number, table_of
from ..reports.text import counted, listed, short
from .plan import ACTIONS, where
from .servers import Row, Servers

MOST_JOBS = 3000
MOST_REASONS = 30
MOST_CELLS = 5_000
"""Servers of a map; each is an element of the page."""
MAP_WIDTH, MAP_HEIGHT = 860, 290
"""Pixels that cells stand on."""
ACTION_MARK = {"start": "good", "keep": "good", "move": "fair", "stop": "bad", "wait": "fair"}


def consolidation_parts(instance: ConsolidationInstance, result: Result) -> dict[str, Any]:
    """Return the context of `plan_consolidation.html.j2`."""
    about = [
        ("objectives, in this order", ", ".join(instance.objectives)),
        ("servers", f"{len(instance.expanded_servers):,}"),
        ("jobs", f"{len(instance.jobs):,}"),
    ]
    empty: dict[str, Any] = {
        "scripts": (),
        "data": {"figures": {}},
        "sections": [],
        "about": about,
        "servers": None,
    }
    if result.plan is None:
        return empty
    plan = cast("tuple[JobPlacement, ...]", result.plan)
    on_devices = instance.has_devices
    if on_devices:
        # Bars show devices as amounts; the table of jobs says which ones.
        instance = pooled(instance)
    servers = Servers(instance, plan)
    racks = servers.racks()
    detailed = {row.server.name for rows in racks.values() for row in rows}
    rest = [row for name, row in servers.rows.items() if name not in detailed]
    waiting = [entry for entry in plan if not entry.placed]
    sections = [("servers", "Servers"), ("jobs", "Jobs"), ("worth", "What to buy next")]
    if waiting:
        sections.insert(1, ("waiting", "Who waits, and why"))
    figures = {"map": _map(servers)} if rest and len(servers.rows) <= MOST_CELLS else {}
    return empty | {
        "data": {"figures": figures},
        "sections": sections if result.prices else sections[:-1],
        "servers": servers,
        "summary": _summary(plan, servers),
        "bars": _bars(servers),
        "racks": [
            (servers.title(name, rows), [(row, servers.segments(row)) for row in rows])
            for name, rows in racks.items()
        ],
        "named": len(racks) > 1 or "" not in racks,
        "detailed": len(detailed),
        "has_map": bool(figures),
        "states": servers.states_table(rest) if rest else None,
        "on_devices": on_devices,
        # Amounts side by side are not the devices that tasks hold, so that no slots are ruled.
        "slots": (lambda _: 1) if on_devices else _slots,
        "waiting": _reasons_table(waiting) if waiting else None,
        "jobs": _jobs_table(instance, plan, servers),
        "cut": _cut(plan),
        "worth": _worth_table(result),
    }


def _summary(plan: Sequence[JobPlacement], servers: Servers) -> Facts:
    placed = sum(entry.placed for entry in plan)
    busy = sum(bool(row.held) for row in servers.rows.values())
    facts = [
        ("jobs placed", f"{placed:,} of {len(plan):,}"),
        ("servers used by the plan", f"{busy:,} of {len(servers.rows):,}"),
    ]
    counts = Counter(str(entry.action) for entry in plan if entry.action is not None)
    facts += [(f"jobs to {action}", f"{counts[action]:,}") for action in ACTIONS if counts[action]]
    return facts


def _bars(servers: Servers) -> list[tuple[str, float, str]]:
    """Return a bar for each resource that there is."""
    rows = []
    for name, (capacity, taken, used) in servers.total.items():
        if not capacity:
            continue
        words = f"{short(used)} of the {short(capacity - taken)} that were free"
        words += f"; others hold {short(taken)}" if taken else ""
        rows.append((name, min(1.0, used / (capacity - taken)) if capacity > taken else 0.0, words))
    return rows


def _slots(capacity: float) -> int:
    """Return how many slots a bar is ruled into; 1 where they would be too narrow, or no integer."""
    return int(capacity) if capacity == int(capacity) and 1 <= capacity <= 16 else 1


def _map(servers: Servers) -> Figure:
    """Return every server as one cell, coloured by the share of it that is in use."""
    rows = list(servers.rows.values())
    wide = math.ceil(math.sqrt(2.5 * len(rows)))

    def words(row: Row) -> str:
        used, free = short(row.used), short(row.free)
        return f"{shown(row.server.name)}<br>plan {used}, others {short(row.taken)}, free {free}"

    trace = {
        "type": "scatter",
        "mode": "markers",
        "x": [place % wide for place in range(len(rows))],
        "y": [place // wide for place in range(len(rows))],
        "customdata": [words(row) for row in rows],
        "hovertemplate": "%{customdata}<extra></extra>",
        "marker": {
            "symbol": "square",
            "size": max(2, round(0.85 * min(MAP_WIDTH / wide, MAP_HEIGHT / (len(rows) // wide + 1)))),
            "color": [round(100 * row.busy, 2) for row in rows],
            "cmin": 0,
            "cmax": 100,
            "colorscale": [[0, "@low"], [0.5, "@middle"], [1, "@high"]],
            "colorbar": {
                "title": {"text": f"{shown(servers.resource)} in use [%]", "side": "right"},
                "thickness": 12,
                "outlinewidth": 0,
                "tickfont": {"color": "@muted"},
            },
        },
    }
    hidden = {"showgrid": False, "zeroline": False, "showticklabels": False, "ticks": ""}
    x, y = axis("", **hidden), axis("", autorange="reversed", **hidden)
    x["title"], y["title"] = {"text": ""}, {"text": ""}
    return {"data": [trace], "layout": layout(x, y, 380, margin={"l": 8, "r": 8, "t": 34, "b": 8})}


def _reasons_table(waiting: Sequence[JobPlacement]) -> Table:
    by_reason: dict[str, list[str]] = defaultdict(list)
    for entry in waiting:
        by_reason[entry.reason or "no reason is given"].append(entry.job)
    ordered = sorted(by_reason.items(), key=lambda item: -len(item[1]))
    columns = [Column("reason", wide=True), Column("jobs", True), Column("which", wide=True)]
    rows = [
        [Cell(reason), number(len(jobs)), Cell(listed(jobs, 6))] for reason, jobs in ordered[:MOST_REASONS]
    ]
    rest = sum(len(jobs) for _, jobs in ordered[MOST_REASONS:])
    notes = [f"{rest:,} more jobs wait for other reasons; the table of jobs says which."] if rest else []
    return Table("reasons", f"{counted(len(waiting), 'job')} not placed", columns, rows, footnotes=notes)


def _listed_jobs(plan: Sequence[JobPlacement]) -> list[JobPlacement]:
    """Return the entries that are listed: those that wait or change first, where there are too many."""
    if len(plan) <= MOST_JOBS:
        return list(plan)
    order = sorted(range(len(plan)), key=lambda j: (plan[j].placed, plan[j].action == "keep", j))
    return [plan[index] for index in sorted(order[:MOST_JOBS])]


def _cut(plan: Sequence[JobPlacement]) -> str | None:
    if len(plan) <= MOST_JOBS:
        return None
    return f"{MOST_JOBS:,} of {len(plan):,} jobs are listed, those that wait before those that run."


def _jobs_table(instance: ConsolidationInstance, plan: Sequence[JobPlacement], servers: Servers) -> Table:
    jobs = {job.name: job for job in instance.jobs}
    acts = any(entry.action is not None for entry in plan)

    def amount(entry: JobPlacement) -> float:
        groups = jobs[entry.job].task_groups
        return sum(group.tasks * group.demand.get(servers.resource, 0.0) for group in groups)

    def place(entry: JobPlacement) -> Cell:
        few = partial(listed, most=12)
        return Cell(where(entry, few) if entry.placed else entry.reason or "no reason is given")

    columns: list[CellColumn[JobPlacement]] = [
        (Column("job"), lambda e: Cell(e.job, swatch=servers.colours.get(e.job))),
        (Column("action" if acts else "status"), _action),
        (Column("tasks", True), lambda e: number(sum(group.tasks for group in jobs[e.job].task_groups))),
        (Column(f"{servers.resource} in all", True), lambda e: number(amount(e))),
        (Column("servers", True), lambda e: number(len(e.used_servers) if e.placed else None)),
        (Column("value", True), lambda e: number(jobs[e.job].worth)),
        (Column("where, or why not", wide=True), place),
    ]
    rows = _listed_jobs(plan)
    wanted = "Show jobs with these words (job, server, action …)" if len(rows) > 12 else None
    return table_of("placements", "Where each job runs", rows, columns, filter=wanted)


def _action(entry: JobPlacement) -> Cell:
    if entry.action is not None:
        return Cell(entry.action, mark=ACTION_MARK[entry.action])
    return Cell("runs", mark="good") if entry.placed else Cell("waits", mark="fair")


def _worth_table(result: Result) -> Table | None:
    if not result.prices:
        return None
    columns = [Column("one more"), Column("adds to the value at most", True)]
    rows = [[Cell(name), number(worth)] for name, worth in sorted(result.prices.items(), key=lambda p: -p[1])]
    return Table("prices", "What one more empty server would add", columns, rows)
