"""HTML page of a consolidation plan: a map of the servers, bars of usage, and tables of jobs."""

from __future__ import annotations

from collections import Counter, defaultdict
from functools import partial
from typing import cast

from ...formulations.consolidation.fewest_servers import pooled_relaxation
from ...formulations.consolidation.plan import JobPlacement, Plan, placed_tasks
from ...instances.consolidation.instance import ConsolidationInstance
from ...solvers.common.result import Result
from ..changes import leading_resource
from ..output import grouped
from ..reports.page import (
    Cell,
    Column,
    Context,
    Facts,
    Table,
    figure_column,
    jobs_fact,
    number,
    placed_cell,
    table_of,
)
from ..reports.servers import ServersInUse, ServerUsage
from ..reports.text import counted, listed, short
from .plan import ACTIONS, named_jobs, placement_text


class ClusterUsage(ServersInUse):
    """The usage of all servers of an instance without devices under a plan."""

    def __init__(self, instance: ConsolidationInstance, plan: Plan) -> None:
        names = dict.fromkeys(name for server in instance.servers for name in server.capacity)
        counted = [name for name in names if name not in instance.choices]
        groups = [group for job in instance.jobs for group in job.task_groups]
        demanded = {name for group in groups for name, amount in group.demand.items() if amount}
        # GPUs that nobody asks for are not what the plan is about.
        wanted = [name for name in counted if name in demanded]
        resource = leading_resource(wanted or counted or names)
        rows = {}
        # A server that is to be empty has what it had before: others hold none of that.
        self.servers = {s.name: s for s in instance.model_copy(update={"drain": None}).expanded_servers}
        self.total = {name: [0.0, 0.0, 0.0] for name in counted}
        for name, server in self.servers.items():
            for key in self.total.keys() & server.capacity.keys():
                amount = server.capacity[key]
                self.total[key][0] += amount
                self.total[key][1] += amount - server.available.get(key, 0.0)
            rows[name] = ServerUsage.of(name, server, resource, name in instance.drained)
        super().__init__(resource, rows)
        self._place(instance, plan)

    def _place(self, instance: ConsolidationInstance, plan: Plan) -> None:
        # By job and server: what the job has there of the leading resource, and its tasks.
        here: dict[tuple[str, str], list[float]] = defaultdict(lambda: [0.0, 0.0])
        for entry, group, server, count in placed_tasks(named_jobs(instance), plan):
            here[entry.job, server][0] += count * group.demand.get(self.resource, 0.0)
            here[entry.job, server][1] += count
            for name in self.total.keys() & group.demand.keys():
                self.total[name][2] += count * group.demand[name]
        for (job, server), (amount, tasks) in here.items():
            self.rows[server].allocations.append((job, amount, counted(int(tasks), "task")))


MAX_JOBS = 3000
MAX_REASONS = 30
ACTION_MARK = {"start": "good", "keep": "good", "move": "fair", "stop": "bad", "wait": "fair"}


def consolidation_parts(instance: ConsolidationInstance, result: Result) -> Context:
    """Return the variables of `plan_consolidation.html.j2`, the template of a result's page."""
    about = [
        ("objectives, in this order", ", ".join(instance.objectives)),
        ("servers", f"{len(instance.expanded_servers):,}"),
        jobs_fact(instance),
    ]
    if result.plan is None:
        return {"data": {"figures": {}}, "about": about, "servers": None}
    plan = cast("tuple[JobPlacement, ...]", result.plan)
    on_devices = instance.has_devices
    if on_devices:
        # Bars show devices as amounts; the table of jobs says which ones.
        plain = {"restrictions": tuple(instance.choices)}  # partitions become resources in several words
        instance = pooled_relaxation(instance.model_copy(update=plain))
    servers = ClusterUsage(instance, plan)
    waiting = [entry for entry in plan if not entry.placed]
    return servers.parts() | {
        "about": about,
        "summary": _summary(plan, servers),
        "bars": _bars(servers),
        "on_devices": on_devices,
        "waiting": _reasons_table(waiting) if waiting else None,
        "jobs": _jobs_table(instance, plan, servers),
        "cut": _cut(plan),
        "worth": _worth_table(result),
    }


def _summary(plan: Plan, servers: ClusterUsage) -> Facts:
    placed = sum(entry.placed for entry in plan)
    counts = Counter(entry.action for entry in plan)
    return [
        ("jobs placed", f"{placed:,} of {len(plan):,}"),
        ("servers used by the plan", f"{servers.busy:,} of {len(servers.rows):,}"),
        *((f"jobs to {action}", f"{counts[action]:,}") for action in ACTIONS if counts[action]),
    ]


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


def _reasons_table(waiting: Plan) -> Table:
    by_reason = grouped((entry.reason or "no reason is given", entry.job) for entry in waiting)
    ordered = sorted(by_reason.items(), key=lambda item: -len(item[1]))
    columns = [Column("reason", wide=True), Column("jobs", True), Column("which", wide=True)]
    rows = [
        [Cell(reason), number(len(jobs)), Cell(listed(jobs, 6))] for reason, jobs in ordered[:MAX_REASONS]
    ]
    rest = sum(len(jobs) for _, jobs in ordered[MAX_REASONS:])
    notes = [f"{rest:,} more jobs wait for other reasons; the table of jobs says which."] if rest else []
    return Table("reasons", f"{counted(len(waiting), 'job')} not placed", columns, rows, footnotes=notes)


def _listed_jobs(plan: Plan) -> list[JobPlacement]:
    """Return the plan entries to list: all, or if too many, first those that wait or change."""
    if len(plan) <= MAX_JOBS:
        return list(plan)
    order = sorted(range(len(plan)), key=lambda j: (plan[j].placed, plan[j].action == "keep"))
    return [plan[index] for index in sorted(order[:MAX_JOBS])]


def _cut(plan: Plan) -> str | None:
    if len(plan) <= MAX_JOBS:
        return None
    return f"{MAX_JOBS:,} of {len(plan):,} jobs are listed, those that wait before those that run."


def _jobs_table(instance: ConsolidationInstance, plan: Plan, servers: ClusterUsage) -> Table:
    jobs = named_jobs(instance)
    acts = any(entry.action is not None for entry in plan)

    def amount(entry: JobPlacement) -> float:
        groups = jobs[entry.job].task_groups
        return sum(group.tasks * group.demand.get(servers.resource, 0.0) for group in groups)

    def place(entry: JobPlacement) -> Cell:
        if not entry.placed:
            return Cell(entry.reason or "no reason is given")
        where = placement_text(entry, partial(listed, most=12))
        return Cell(where, note=" ".join(jobs[entry.job].assumed or ()))

    return table_of(
        "placements",
        "Where each job runs",
        _listed_jobs(plan),
        [
            (Column("job"), lambda e: Cell(e.job, swatch=servers.colours.get(e.job))),
            (Column("action" if acts else "status"), _action),
            figure_column("tasks", lambda e: sum(group.tasks for group in jobs[e.job].task_groups)),
            figure_column(f"{servers.resource} in all", amount),
            figure_column("servers", lambda e: len(e.used_servers) if e.placed else None),
            figure_column("value", lambda e: jobs[e.job].worth),
            (Column("where, or why not", wide=True), place),
        ],
        filter="Show jobs with these words (job, server, action …)",
    )


def _action(entry: JobPlacement) -> Cell:
    if entry.action is not None:
        return Cell(entry.action, mark=ACTION_MARK[entry.action])
    return placed_cell(entry.placed)


def _worth_table(result: Result) -> Table | None:
    if not result.prices:
        return None
    columns = [Column("one more"), Column("adds to the value at most", True)]
    rows = [[Cell(name), number(worth)] for name, worth in sorted(result.prices.items(), key=lambda p: -p[1])]
    return Table("prices", "What one more empty server would add", columns, rows)
