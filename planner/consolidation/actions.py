"""What has to be done on a cluster where jobs run already."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ...formulations.consolidation.plan import JobPlacement
from ...instances.consolidation.instance import ConsolidationInstance
from ...instances.files.reading import fail
from ..output.thinning import some

KUBERNETES_NODE = (
    re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*"),
    "a Kubernetes node: a-z, 0-9, '-', and '.' between them",
)
"""Names that nodes can have, and what these are."""


def to_carry_out(entries: Sequence[JobPlacement], every: bool) -> list[JobPlacement]:
    """Return the entries that change something, or with `every` all that are placed."""
    return [e for e in entries if e.placed and (every or e.action in (None, "start", "move"))]


def actions(instance: ConsolidationInstance, entries: Sequence[JobPlacement]) -> Iterator[str]:
    """Say which jobs run on, which are to be stopped, and which move."""
    keep = sum(entry.action == "keep" for entry in entries)
    if keep:
        yield "1 job keeps running where it is" if keep == 1 else f"{keep:,} jobs keep running where they are"
    now = runs_now(instance)
    stops = [f"to stop: {e.job}: runs on {_counts(total(now[e.job]))}" for e in entries if e.action == "stop"]
    yield from some(stops, "to stop: {:,} more")
    moves = [f"to move: {e.job}: {_move(now[e.job], e)}" for e in entries if e.action == "move"]
    yield from some(moves, "to move: {:,} more")


def check_nodes(job: str, servers: Iterable[str], allowed: re.Pattern[str], what: str) -> None:
    """Refuse servers whose names the form of a cluster manager cannot hold.

    Raises
    ------
    InstanceError
        Naming the job and the server.
    """
    for server in servers:
        if not allowed.fullmatch(server):
            raise fail("plan", f"the server {server!r} cannot be {what}", f"job {job!r}")


def runs_now(instance: ConsolidationInstance) -> dict[str, dict[str, Counter[str]]]:
    """Return job → group → server → tasks there now."""
    return {
        job.name: {group.name: Counter(group.current) for group in job.task_groups} for job in instance.jobs
    }


def total(groups: Mapping[str, Mapping[str, int]]) -> Counter[str]:
    """Return server → tasks of all groups."""
    return sum(map(Counter, groups.values()), Counter[str]())


def _move(now: dict[str, Counter[str]], entry: JobPlacement) -> str:
    """Say which tasks leave which servers for which."""
    planned = {group: Counter(servers) for group, servers in entry.tasks.items()}
    leaving = total({group: counts - planned.get(group, Counter()) for group, counts in now.items()})
    coming = total({group: counts - now.get(group, Counter()) for group, counts in planned.items()})
    parts = [f"from {_counts(leaving)}" if leaving else "", f"to {_counts(coming)}" if coming else ""]
    # Nothing leaves a server where tasks only change devices.
    return " ".join(filter(None, parts)) or f"to other devices of {', '.join(total(planned))}"


def _counts(servers: Counter[str]) -> str:
    return ", ".join(f"{server} {count}" for server, count in servers.items())
