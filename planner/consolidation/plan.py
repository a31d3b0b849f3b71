"""Output of consolidation plans: text table, plain data, devices, and actions on running jobs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from ...formulations.consolidation.plan import Action, JobPlacement, JobsByName, Placement, Plan, placed_tasks
from ...instances.consolidation.devices import DeviceDemand, DeviceSlot, TaskDevices
from ...instances.consolidation.instance import ConsolidationInstance
from ...instances.consolidation.job import PlacementJob
from ...solvers.common.result import Result
from ..migration.steps import total
from ..output import some_lines
from ..reports.text import TextColumn, counted, plain_column


def named_jobs(instance: ConsolidationInstance) -> dict[str, PlacementJob]:
    """Return every job by its name."""
    return {job.name: job for job in instance.jobs}


def to_carry_out(entries: Plan, every: bool) -> list[JobPlacement]:
    """Return the plan entries that start or move jobs, or with `every` those of all placed jobs."""
    return [e for e in entries if e.placed and (every or e.action in (None, "start", "move"))]


def actions(instance: ConsolidationInstance, entries: Plan) -> Iterator[str]:
    """Yield lines on the jobs that keep running, are to be stopped, or move."""
    keep = sum(entry.action == "keep" for entry in entries)
    if keep:
        yield counted(keep, "job keeps running where it is", "jobs keep running where they are")
    now = {job.name: tasks_now(job) for job in instance.jobs}
    stops = [
        f"to stop: {e.job}: runs on {counts_text(total(now[e.job]))}" for e in entries if e.action == "stop"
    ]
    yield from some_lines(stops, "to stop: {:,} more")
    moves = [f"to move: {e.job}: {_move_text(now[e.job], e)}" for e in entries if e.action == "move"]
    yield from some_lines(moves, "to move: {:,} more")


def tasks_now(job: PlacementJob) -> Placement:
    """Return the number of running tasks of a job by task group and server."""
    return {group.name: dict(group.current) for group in job.task_groups if group.current}


def _move_text(now: Placement, entry: JobPlacement) -> str:
    """Return which tasks of a job move from which servers to which, as text."""
    leaving, coming = tasks_beyond(now, entry.tasks), tasks_beyond(entry.tasks, now)
    parts = [f"from {counts_text(leaving)}" if leaving else "", f"to {counts_text(coming)}" if coming else ""]
    # Nothing leaves a server where tasks only change devices.
    return " ".join(filter(None, parts)) or f"to other devices of {', '.join(total(entry.tasks))}"


def tasks_beyond(placed: Placement, other: Placement) -> Counter[str]:
    """Return the tasks by server that one placement of a job has beyond another."""
    return total({group: Counter(tasks) - Counter(other.get(group)) for group, tasks in placed.items()})


def counts_text(servers: Mapping[str, int]) -> str:
    """Return numbers of tasks by server as text, such as ``a 2, b 1``."""
    return ", ".join(f"{server} {count}" for server, count in servers.items())


MAX_TASKS = 4
"""Most tasks on one server whose devices are listed."""


def devices_text(tasks: Sequence[TaskDevices], asks: Mapping[str, DeviceDemand] | None = None) -> str:
    """Return the devices held by tasks on one server as text, such as ``gpu 0+1; gpu 2 slot 4``.

    Parameters
    ----------
    asks
        Demand of each task by device name, to add shares and profiles, as in ``gpu 0 (46 %)``.
    """
    known = asks or {}
    parts = [
        ", ".join(
            _device_text(name, placement) + _share_text(known.get(name)) for name, placement in task.items()
        )
        for task in tasks[:MAX_TASKS]
    ]
    return "; ".join(parts) + (f"; {len(tasks) - MAX_TASKS} more" if len(tasks) > MAX_TASKS else "")


def _device_text(name: str, placement: tuple[int, ...] | DeviceSlot) -> str:
    if isinstance(placement, DeviceSlot):
        return f"{name} {placement.device} slot {placement.slot}"
    return f"{name} {'+'.join(map(str, placement))}"


def _share_text(ask: DeviceDemand | None) -> str:
    if ask is None or ask.whole:
        return ""
    return f" ({ask.profile or f'{ask.share / 10:g} %'})"


def partitions(entries: Iterable[JobPlacement], jobs: JobsByName) -> dict[str, Counter[str]]:
    """Return the number of GPU partitions (MIG) of each profile that plan entries use, by server."""
    counts: dict[str, Counter[str]] = {}
    for _, group, server, count in placed_tasks(jobs, entries):
        profiles = [ask.profile for ask in group.asks.values() if ask.profile]
        if profiles:
            counts.setdefault(server, Counter()).update(dict.fromkeys(profiles, count))
    return counts


def bracketed_devices(
    devices: Mapping[str, Mapping[str, Sequence[TaskDevices]]] | None, group: str, server: str
) -> str:
    """Return the devices of a task group on a server as text in brackets, or an empty text."""
    tasks = (devices or {}).get(group, {}).get(server)
    return f" ({devices_text(tasks)})" if tasks else ""


ACTIONS: tuple[Action, ...] = ("start", "keep", "move", "stop", "wait")
MAX_REASONS = 5


def columns(instance: ConsolidationInstance, entries: Plan) -> list[TextColumn[JobPlacement]]:
    """Return the columns of the text table of a plan."""
    del instance
    acts = any(entry.action for entry in entries)
    return [
        plain_column("job", "job"),
        ("action" if acts else "placed", False, lambda e: e.action or ("yes" if e.placed else "no")),
        ("where, or why not", False, lambda e: placement_text(e) if e.placed else e.reason or ""),
    ]


def placement_text(entry: JobPlacement, listed: Callable[[list[str]], str] = ", ".join) -> str:
    """Return the placement of a job as text: tasks by server, and by task group if there are several."""
    parts = []
    for group, placed in entry.tasks.items():
        name = f"{group}: " if entry.groups is not None else ""
        counts = [
            f"{n}×{server}{bracketed_devices(entry.devices, group, server)}" for server, n in placed.items()
        ]
        parts.append(name + listed(counts))
    return "; ".join(parts)


def notes(result: Result, shown: int) -> Iterator[str]:
    """Yield the number of jobs by action, and if not all are shown, lines on the unplaced jobs."""
    entries = [entry for entry in result.plan or () if isinstance(entry, JobPlacement)]
    counts = Counter(entry.action for entry in entries)
    parts = [f"{counts[action]:,} to {action}" for action in ACTIONS if counts[action]]
    if parts:
        yield f"jobs: {', '.join(parts)}"
    if len(entries) > shown:
        yield from _left_out_notes(entries)


def _left_out_notes(entries: Plan) -> list[str]:
    """Return lines with the number of unplaced jobs, and the most common reasons."""
    reasons = Counter(entry.reason or "no reason given" for entry in entries if not entry.placed)
    if not reasons:
        return [f"all {len(entries):,} jobs are placed"]
    common = reasons.most_common(MAX_REASONS)
    shown = [f"  {count:,} × {reason}" for reason, count in common]
    more = reasons.total() - sum(count for _, count in common)
    rest = [f"  {more:,} × other reasons; see --format json"] if more else []
    return [f"{reasons.total():,} of {len(entries):,} jobs are not placed", *shown, *rest]


def as_data(instance: ConsolidationInstance, plan: Plan) -> dict[str, Any]:
    """Return the placements, actions on running jobs, and unplaced jobs, as plain data."""
    placed = [entry for entry in plan if entry.placed]
    groups = {entry.job: entry.groups for entry in placed if entry.groups is not None}
    acts = {entry.job: entry.action for entry in plan if entry.action is not None}
    devices = {entry.job: entry.model_dump()["devices"] for entry in placed if entry.devices is not None}
    jobs = named_jobs(instance)
    runs = {job: dict(total(tasks_now(jobs[job]))) for job, act in acts.items() if act in ("move", "stop")}
    return {
        "jobs": {entry.job: dict(total(entry.tasks)) for entry in placed},
        **({"groups": groups} if groups else {}),
        **({"devices": devices} if devices else {}),
        **({"actions": acts, "runs_now_on": runs} if acts else {}),
        "unplaced": dict(left_out(instance, plan)),
    }


def left_out(instance: ConsolidationInstance, plan: Plan) -> Iterator[tuple[str, str]]:
    """Yield pairs of job and reason for the jobs that are not placed."""
    del instance
    return ((entry.job, entry.reason or "no reason is given") for entry in plan if not entry.placed)
