"""Where tasks of a segment run: the constraints of plans that name servers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from ...instances.scheduling.instance import SchedulingInstance
from ..common.objective import Violation
from ..common.tolerance import within
from .plan import Segment


def server_names(instance: SchedulingInstance) -> dict[str, dict[str, float]]:
    """Return the capacity of each server by its name; of several alike, NAME-0, NAME-1, …."""
    return {
        server.name if server.count == 1 else f"{server.name}-{k}": server.capacity
        for server in instance.servers
        for k in range(server.count)
    }


def broken_placements(instance: SchedulingInstance, plan: Sequence[Segment]) -> Iterator[Violation]:
    """Yield what is wrong with the servers that segments name; nothing where none does."""
    placed = [entry for entry in plan if entry.servers]
    if not placed:
        return
    capacity = server_names(instance)
    jobs = {job.name: job for job in instance.jobs}
    changes: dict[str, list[tuple[float, int, str]]] = defaultdict(list)
    for entry in placed:
        job = jobs[entry.job]
        if sum(entry.servers.values()) != job.tasks:
            there = sum(entry.servers.values())
            yield Violation("servers", f"{there} tasks of {entry.job!r} have servers, and it has {job.tasks}")
        for name, tasks in entry.servers.items():
            if name not in capacity:
                yield Violation("servers", f"there is no server {name!r}, on which {entry.job!r} runs")
            # Ends come before starts of the same moment.
            changes[name] += [(entry.end_s, -tasks, entry.job), (entry.start_s, tasks, entry.job)]
    for name in capacity.keys() & changes.keys():
        running: dict[str, int] = defaultdict(int)
        for at_s, change, job_name in sorted(changes[name]):
            running[job_name] += change
            if change < 0:
                continue
            for resource in instance.pool:
                used = sum(n * jobs[held].demand.get(resource, 0.0) for held, n in running.items())
                if not within(used, capacity[name].get(resource, 0.0)):
                    what = f"{used:g} {resource} of {name!r} are used at {at_s:g} s"
                    yield Violation("servers", f"{what}, and it has {capacity[name].get(resource, 0.0):g}")
