"""The value of each objective, computed from a plan alone."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction

from ...instances.consolidation.job import PlacementJob
from .classes import exact, restart_of, worth_of
from .cluster_data import ClusterData
from .devices.staying import staying
from .plan import JobPlacement


def _placed(data: ClusterData, plan: Sequence[JobPlacement]) -> Iterator[tuple[PlacementJob, JobPlacement]]:
    return ((data.jobs[entry.job], entry) for entry in plan if entry.placed)


def moved(data: ClusterData, plan: Sequence[JobPlacement]) -> Iterator[PlacementJob]:
    """Yield the running jobs of which not all tasks that run now stay where they are."""
    entries = {entry.job: entry for entry in plan}
    for job in data.running:
        entry = entries.get(job.name, JobPlacement(job=job.name, placed=False))
        for group in job.task_groups:
            if staying(group, entry, data.instance.device_moves) < sum(group.current.values()):
                yield job
                break


def _value(data: ClusterData, plan: Sequence[JobPlacement]) -> float:
    if not data.restarts:
        return math.fsum(job.worth for job, _ in _placed(data, plan))
    # In fractions, for what is won and lost may cancel to nothing.
    worth = Counter(worth_of(job) for job, _ in _placed(data, plan))
    worth.subtract(restart_of(data.instance, job) for job in moved(data, plan))
    return float(sum((n * amount for amount, n in worth.items()), Fraction(0)))


def _spread(data: ClusterData, plan: Sequence[JobPlacement]) -> float:
    return float(
        sum(
            len(entry.used_servers) - (data.fewest(job) or 0)
            for job, entry in _placed(data, plan)
            if data.instance.spread_of(job) == "preferred"
        )
    )


def _servers(data: ClusterData, plan: Sequence[JobPlacement]) -> float:
    used = {server for _, entry in _placed(data, plan) for server in entry.used_servers}
    return float(len(used | data.in_use))


def _racks(data: ClusterData, plan: Sequence[JobPlacement]) -> float:
    return float(sum(len({data.rack_of(n) for n in e.used_servers}) - 1 for _, e in _placed(data, plan)))


def _migrations(data: ClusterData, plan: Sequence[JobPlacement]) -> float:
    entries = {entry.job: entry for entry in plan}
    moved = 0
    for job in data.instance.jobs:
        for group in job.task_groups:
            if group.current:
                kept = staying(group, entries[job.name], data.instance.device_moves)
                moved += sum(group.current.values()) - kept
    return float(moved)


def _slowdown(data: ClusterData, plan: Sequence[JobPlacement]) -> float:
    # In fractions, for what is won and lost may cancel to nothing.
    counts = Counter(
        (worth_of(job), job.relative_speed(len(entry.used_servers)))
        for job, entry in _placed(data, plan)
        if job.speed_by_servers
    )
    return float(sum((n * worth * (1 - exact(speed)) for (worth, speed), n in counts.items()), Fraction(0)))


def _traffic(data: ClusterData, plan: Sequence[JobPlacement]) -> float:
    load = {name: [server.traffic_gbit_per_s] for name, server in data.servers.items()}
    for job, entry in _placed(data, plan):
        for group in job.task_groups:
            for server, count in entry.tasks.get(group.name, {}).items():
                load[server].append(count * group.traffic_gbit_per_s)
    return max(map(math.fsum, load.values()))


VALUE_OF: dict[str, Callable[[ClusterData, Sequence[JobPlacement]], float]] = {
    "value": _value,
    "spread": _spread,
    "servers": _servers,
    "racks": _racks,
    "migrations": _migrations,
    "slowdown": _slowdown,
    "traffic": _traffic,
}
"""How each objective is evaluated."""
