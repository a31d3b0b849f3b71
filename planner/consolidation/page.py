"""HTML page of a consolidation plan: a map of the servers, bars of usage, and tables of jobs.

A row of the map shows the part of a server that each job uses, that others hold, and that is free.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, cast

from ...formulations.consolidation.fewest_servers import pooled_relaxation
from ...formulations.consolidation.plan import JobPlacement
from ...instances.consolidation.instance import ConsolidationInstance, Server
from ...solvers.common.result import Result
from ..changes import leading_resource
from ..reports.page import Cell, CellColumn, Column, Facts, Table, figure_column, number, table_of
from ..reports.plot_style import Figure, axis, markers, plot_of, plot_text
from ..reports.text import counted, listed, short
from .plan import ACTIONS, available_of, capacity_of, demand_of, placement_text

MAX_SERVERS = 320
MAX_STATES = 40
ROUNDING_SHARE = 1e-9
"""Shares of a server below this are rounding errors."""
LONGEST, BEGINNING = 18, 7
"""Most characters of a server's label beside its bar, and of the part before the ellipsis."""


@dataclass
class ServerUsage:
    """The usage of one server; amounts are in units of the resource drawn, such as GPUs.

    Attributes
    ----------
    allocations
        Job, amount and tasks, in the order of the plan.
    drained
        Whether the server is to be empty, so that no task may use what is free.
    """

    server: Server
    capacity: float
    taken: float
    drained: bool = False
    allocations: list[tuple[str, float, int]] = field(default_factory=list)

    @property
    def used(self) -> float:
        """Amount of the resource that the plan uses."""
        return sum(amount for _, amount, _ in self.allocations)

    @property
    def free(self) -> float:
        """Amount of the resource that neither the plan nor others use."""
        left = self.capacity - self.taken - self.used
        return left if left > ROUNDING_SHARE * self.capacity else 0.0

    @property
    def busy(self) -> float:
        """Share of the server's capacity that is in use, by the plan or by others."""
        return 1.0 - self.free / self.capacity if self.capacity else 0.0

    @property
    def state(self) -> tuple[str, float, float, float]:
        """Key of equivalent servers: GPU model, capacity, amount used by the plan, amount held by others."""
        return (self.server.gpu_model or "–", self.capacity, round(self.used, 6), round(self.taken, 6))


@dataclass(frozen=True)
class BarSegment:
    """A segment of a server's bar: a job with its `colour`, free capacity, or what others hold (`taken`)."""

    share: float
    words: str
    label: str = ""
    colour: int | None = None
    taken: bool = False


class ClusterUsage:
    """The usage of all servers of an instance under a plan."""

    def __init__(self, instance: ConsolidationInstance, plan: Sequence[JobPlacement]) -> None:
        names = dict.fromkeys(name for server in instance.servers for name in capacity_of(server))
        counted = [name for name in names if name not in instance.choices]
        groups = [group for job in instance.jobs for group in job.task_groups]
        demanded = {name for group in groups for name, amount in group.demand.items() if amount}
        demanded |= {name for group in groups for name in group.asks}
        # GPUs that nobody asks for are not what the plan is about.
        self.resource = leading_resource([name for name in counted if name in demanded] or counted or names)
        self.rows: dict[str, ServerUsage] = {}
        # A server that is to be empty has what it had before: others hold none of that.
        for server in instance.model_copy(update={"drain": None}).expanded_servers:
            capacity = capacity_of(server).get(self.resource, 0.0)
            taken = capacity - available_of(server).get(self.resource, 0.0)
            self.rows[server.name] = ServerUsage(server, capacity, taken, server.name in instance.drained)
        self.total: dict[str, list[float]] = self._total(instance, counted)
        self._place(instance, plan)
        order = (job for row in self.rows.values() for job, _, _ in row.allocations)
        self.colours = {job: index for index, job in enumerate(dict.fromkeys(order))}

    @staticmethod
    def _total(instance: ConsolidationInstance, names: Iterable[str]) -> dict[str, list[float]]:
        """Return for each resource its capacity, the amount held by others, and 0 (the plan's usage)."""
        total = {name: [0.0, 0.0, 0.0] for name in names}
        for server in instance.servers:
            count, available = server.count or 1, available_of(server)
            amounts = capacity_of(server)
            for name in total.keys() & amounts.keys():
                total[name][0] += count * amounts[name]
                total[name][1] += count * (amounts[name] - available.get(name, 0.0))
        return total

    def _place(self, instance: ConsolidationInstance, plan: Sequence[JobPlacement]) -> None:
        jobs = {job.name: job for job in instance.jobs}
        for entry in plan:
            here: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
            for group in jobs[entry.job].task_groups:
                for server, count in entry.tasks.get(group.name, {}).items():
                    demand = demand_of(group, self.rows[server].server)
                    here[server][0] += count * demand.get(self.resource, 0.0)
                    here[server][1] += count
                    for name in self.total.keys() & demand.keys():
                        self.total[name][2] += count * demand[name]
            for server, (amount, tasks) in here.items():
                self.rows[server].allocations.append((entry.job, amount, int(tasks)))

    def racks(self) -> dict[str, list[ServerUsage]]:
        """Return the servers shown one by one, by rack: at most `MAX_SERVERS`, whole racks if possible."""
        by_rack: dict[str, list[ServerUsage]] = defaultdict(list)
        for row in self.rows.values():
            by_rack["" if row.server.rack is None else row.server.rack].append(row)
        detailed: dict[str, list[ServerUsage]] = {}
        room = MAX_SERVERS
        for name, rows in by_rack.items():
            if room <= 0:
                break
            detailed[name] = rows[:room]
            room -= len(rows)
        return detailed

    @cached_property
    def _domain(self) -> str:
        """DNS domain shared by all server names, such as `.us-east-2.compute.internal`, else empty."""
        domains = {name.partition(".")[2] for name in self.rows}
        return f".{domains.pop()}" if len(domains) == 1 and len(self.rows) > 1 else ""

    def label(self, name: str) -> str:
        """Return a server's name without the shared domain, with its middle cut out if it is long."""
        own = name.removesuffix(self._domain)
        return own if len(own) <= LONGEST else f"{own[:BEGINNING]}…{own[-(LONGEST - BEGINNING - 1) :]}"

    def segments(self, row: ServerUsage) -> list[BarSegment]:
        """Return the segments of a server's bar: its jobs, free capacity, and what others hold."""
        if not row.capacity:
            return []
        parts = []
        for job, amount, tasks in row.allocations:
            words = f"{job}: {counted(tasks, 'task')}, {short(amount)} {self.resource}"
            parts.append(BarSegment(amount / row.capacity, words, job, self.colours[job]))
        if row.free:
            state = "to be empty" if row.drained else "free"
            words = f"{state}: {short(row.free)} {self.resource}"
            parts.append(BarSegment(row.free / row.capacity, words, state if row.drained else ""))
        if row.taken > ROUNDING_SHARE * row.capacity:
            what = f"taken by others: {short(row.taken)} {self.resource}"
            parts.append(BarSegment(row.taken / row.capacity, what, taken=True))
        return parts

    def title(self, rack: str, rows: Sequence[ServerUsage]) -> str:
        """Return the heading of a rack, with its servers and their usage."""
        of = sum(row.capacity for row in rows)
        busy = of - sum(row.free for row in rows)
        name = f"{rack}: " if rack.startswith("rack") else f"rack {rack}: " if rack else ""
        return f"{name}{counted(len(rows), 'server')}, {short(busy)} of {short(of)} {self.resource} in use"

    def states_table(self, rest: Iterable[ServerUsage]) -> Table:
        """Return the table of the servers not drawn one by one, with the count of each equal usage."""
        counts = Counter(row.state for row in rest)
        unit = self.resource
        columns = [
            Column("servers", True),
            Column("GPU model"),
            Column(f"{unit} each", True),
            Column("used by the plan", True),
            Column("taken by others", True),
            Column("free", True),
        ]
        rows = [
            [
                number(count),
                Cell(model),
                number(capacity),
                number(used),
                number(taken),
                number(max(0.0, capacity - used - taken)),
            ]
            for (model, capacity, used, taken), count in counts.most_common(MAX_STATES)
        ]
        total = sum(counts.values())
        left = total - sum(count for _, count in counts.most_common(MAX_STATES))
        notes = [f"{left:,} more servers, in {len(counts) - MAX_STATES:,} more states."] if left else []
        caption = f"The other {total:,} servers, by what they hold of {unit}"
        return Table("states", caption, columns, rows, footnotes=notes)


MAX_JOBS = 3000
MAX_REASONS = 30
MAX_CELLS = 5_000
"""Most servers drawn in a map; each is an element of the page."""
MAP_WIDTH, MAP_HEIGHT = 860, 290
"""Size in pixels of the area in which cells are drawn."""
ACTION_MARK = {"start": "good", "keep": "good", "move": "fair", "stop": "bad", "wait": "fair"}


def consolidation_parts(instance: ConsolidationInstance, result: Result) -> dict[str, Any]:
    """Return the variables of `plan_consolidation.html.j2`, the template of a result's page."""
    about = [
        ("objectives, in this order", ", ".join(instance.objectives)),
        ("servers", f"{len(instance.expanded_servers):,}"),
        ("jobs", f"{len(instance.jobs):,}"),
    ]
    empty: dict[str, Any] = {
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
        plain = {"restrictions": tuple(instance.choices)}  # partitions become resources in several words
        instance = pooled_relaxation(instance.model_copy(update=plain))
    servers = ClusterUsage(instance, plan)
    racks = servers.racks()
    detailed = {row.server.name for rows in racks.values() for row in rows}
    rest = [row for name, row in servers.rows.items() if name not in detailed]
    waiting = [entry for entry in plan if not entry.placed]
    sections = [("servers", "Servers"), ("jobs", "Jobs"), ("worth", "What to buy next")]
    if waiting:
        sections.insert(1, ("waiting", "Who waits, and why"))
    figures = {"map": _map(servers)} if rest and len(servers.rows) <= MAX_CELLS else {}
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


def _summary(plan: Sequence[JobPlacement], servers: ClusterUsage) -> Facts:
    placed = sum(entry.placed for entry in plan)
    busy = sum(bool(row.allocations) for row in servers.rows.values())
    facts = [
        ("jobs placed", f"{placed:,} of {len(plan):,}"),
        ("servers used by the plan", f"{busy:,} of {len(servers.rows):,}"),
    ]
    counts = Counter(str(entry.action) for entry in plan if entry.action is not None)
    facts += [(f"jobs to {action}", f"{counts[action]:,}") for action in ACTIONS if counts[action]]
    return facts


def _bars(servers: ClusterUsage) -> list[tuple[str, float, str]]:
    """Return (name, share of the free capacity that the plan uses, text) of each resource."""
    rows = []
    for name, (capacity, taken, used) in servers.total.items():
        if not capacity:
            continue
        words = f"{short(used)} of the {short(capacity - taken)} that were free"
        words += f"; others hold {short(taken)}" if taken else ""
        rows.append((name, min(1.0, used / (capacity - taken)) if capacity > taken else 0.0, words))
    return rows


def _slots(capacity: float) -> int:
    """Return into how many units a server's bar is ruled; 1 if there are too many or no integer number."""
    return int(capacity) if capacity == int(capacity) and 1 <= capacity <= 16 else 1


def _map(servers: ClusterUsage) -> Figure:
    """Return the plot of all servers as squares in a grid, coloured by the share of capacity in use."""
    rows = list(servers.rows.values())
    wide = math.ceil(math.sqrt(2.5 * len(rows)))

    def words(row: ServerUsage) -> str:
        used, free = short(row.used), short(row.free)
        return f"{plot_text(row.server.name)}<br>plan {used}, others {short(row.taken)}, free {free}"

    trace = markers(
        [place % wide for place in range(len(rows))],
        [place // wide for place in range(len(rows))],
        customdata=[words(row) for row in rows],
        hovertemplate="%{customdata}<extra></extra>",
        marker={
            "symbol": "square",
            "size": max(2, round(0.85 * min(MAP_WIDTH / wide, MAP_HEIGHT / (len(rows) // wide + 1)))),
            "color": [round(100 * row.busy, 2) for row in rows],
            "cmin": 0,
            "cmax": 100,
            "colorscale": [[0, "@low"], [0.5, "@middle"], [1, "@high"]],
            "colorbar": {
                "title": {"text": f"{plot_text(servers.resource)} in use [%]", "side": "right"},
                "thickness": 12,
                "outlinewidth": 0,
                "tickfont": {"color": "@muted"},
            },
        },
    )
    hidden = {"showgrid": False, "zeroline": False, "showticklabels": False, "ticks": ""}
    x, y = axis("", **hidden), axis("", autorange="reversed", **hidden)
    x["title"], y["title"] = {"text": ""}, {"text": ""}
    return plot_of([trace], x, y, 380, margin={"l": 8, "r": 8, "t": 34, "b": 8})


def _reasons_table(waiting: Sequence[JobPlacement]) -> Table:
    by_reason: dict[str, list[str]] = defaultdict(list)
    for entry in waiting:
        by_reason[entry.reason or "no reason is given"].append(entry.job)
    ordered = sorted(by_reason.items(), key=lambda item: -len(item[1]))
    columns = [Column("reason", wide=True), Column("jobs", True), Column("which", wide=True)]
    rows = [
        [Cell(reason), number(len(jobs)), Cell(listed(jobs, 6))] for reason, jobs in ordered[:MAX_REASONS]
    ]
    rest = sum(len(jobs) for _, jobs in ordered[MAX_REASONS:])
    notes = [f"{rest:,} more jobs wait for other reasons; the table of jobs says which."] if rest else []
    return Table("reasons", f"{counted(len(waiting), 'job')} not placed", columns, rows, footnotes=notes)


def _listed_jobs(plan: Sequence[JobPlacement]) -> list[JobPlacement]:
    """Return the plan entries to list: all, or if too many, first those that wait or change."""
    if len(plan) <= MAX_JOBS:
        return list(plan)
    order = sorted(range(len(plan)), key=lambda j: (plan[j].placed, plan[j].action == "keep", j))
    return [plan[index] for index in sorted(order[:MAX_JOBS])]


def _cut(plan: Sequence[JobPlacement]) -> str | None:
    if len(plan) <= MAX_JOBS:
        return None
    return f"{MAX_JOBS:,} of {len(plan):,} jobs are listed, those that wait before those that run."


def _jobs_table(
    instance: ConsolidationInstance, plan: Sequence[JobPlacement], servers: ClusterUsage
) -> Table:
    jobs = {job.name: job for job in instance.jobs}
    acts = any(entry.action is not None for entry in plan)

    def amount(entry: JobPlacement) -> float:
        groups = jobs[entry.job].task_groups
        return sum(group.tasks * group.demand.get(servers.resource, 0.0) for group in groups)

    def place(entry: JobPlacement) -> Cell:
        few = partial(listed, most=12)
        if not entry.placed:
            return Cell(entry.reason or "no reason is given")
        return Cell(placement_text(entry, few), note=" ".join(jobs[entry.job].assumed or ()))

    columns: list[CellColumn[JobPlacement]] = [
        (Column("job"), lambda e: Cell(e.job, swatch=servers.colours.get(e.job))),
        (Column("action" if acts else "status"), _action),
        figure_column("tasks", lambda e: sum(group.tasks for group in jobs[e.job].task_groups)),
        figure_column(f"{servers.resource} in all", amount),
        figure_column("servers", lambda e: len(e.used_servers) if e.placed else None),
        figure_column("value", lambda e: jobs[e.job].worth),
        (Column("where, or why not", wide=True), place),
    ]
    filter = "Show jobs with these words (job, server, action …)"
    return table_of("placements", "Where each job runs", _listed_jobs(plan), columns, filter=filter)


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
