"""Order of the steps that carry out a plan: no job is placed before its place is free.

A job that is to be moved is stopped only when its new place is free
beside what then still runs; where jobs wait for each other's places, the smallest is stopped first. The
steps are independent of the cluster manager. The shell functions that the scripts of both managers call
are read here too.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from ...instances.common.workload import Workload
from .nodes import NodeNames, check_nodes

Placement = Mapping[str, Mapping[str, int]]
"""Group of tasks → server → their number."""
Action = Literal["start", "keep", "move", "stop", "wait"]
Held = Mapping[tuple[str, str], int]
"""(job, group) → number of tasks on a server."""
Fits = Callable[[str, Held, Set[str], Set[str]], bool]
"""Returns whether a server holds these tasks.

Its arguments are the server; (job, group) → number of tasks; the jobs that run as planned, or have been
stopped; and those that are still to be stopped.
"""


@dataclass(frozen=True)
class MovingJob:
    """A job of a plan: where it runs now, and where it is to run.

    Attributes
    ----------
    groups
        Names of its groups of tasks.
    size
        Of several jobs that wait for each other's places, the smallest is stopped first.
    gives_way
        Whether it stays, but is stopped and placed again where others need the devices that it has now.
    never_starts
        Whether no server will ever have room for any of its tasks, so that it need not be held.
    holds_devices
        Whether the plan names the devices of its tasks.
    shrinks
        Whether it only leaves some of its servers, which takes no stop where the manager can do so.
    gpus
        GPUs of the tasks on each server of the plan, where the number of tasks may be another than now.
    """

    name: str
    action: Action
    now: Placement
    planned: Placement
    groups: Sequence[str]
    size: Sequence[float] = ()
    workload: Workload | None = None
    gives_way: bool = False
    never_starts: bool = False
    holds_devices: bool = False
    shrinks: bool = False
    gpus: Mapping[str, float] | None = None


def total(placed: Placement) -> Counter[str]:
    """Return the number of tasks by server, summed over the groups of tasks of a job."""
    return sum(map(Counter, placed.values()), Counter[str]())


@dataclass(frozen=True)
class Migration:
    """All that a script has to know of a plan.

    Attributes
    ----------
    title, name
        Name of the instance; and of the plan, after which scripts name the folder for what was there before.
    jobs
        In the order of the plan.
    fits
        Whether servers have room.
    emptied
        Servers that are to take no more tasks.
    notes, stay
        What the script leaves open; and the names of jobs that cannot be moved.
    instead
        What there is for jobs that are not known to the manager.
    """

    title: str
    name: str
    jobs: Sequence[MovingJob]
    fits: Fits
    emptied: Sequence[str] = ()
    notes: Sequence[str] = ()
    stay: Sequence[str] = ()
    instead: str = ""

    def check_nodes(self, node: NodeNames) -> None:
        """Raise an error if a server's name is no valid name of a node.

        Raises
        ------
        InstanceError
            Naming a job and the server.
        """
        check_nodes("drain", self.emptied, node)
        for job in self.jobs:
            check_nodes(job.name, total(job.now) | total(job.planned), node)


@dataclass(frozen=True)
class Step:
    """One step of a migration, for one job: hold, stop, place or release it.

    Parameters
    ----------
    do
        `hold`: a waiting job is kept from starting; `stop`: a running job leaves its servers and is held;
        `place`: a held job starts on these servers; `release`: a held job may start wherever there is
        room; `shrink`: a running job keeps only these tasks.
    tasks
        Tasks by group and server that the job leaves, or that are placed.
    early
        Whether the job is stopped before its new place is free, because others wait for its old one.
    """

    do: Literal["hold", "stop", "place", "release", "shrink"]
    job: str
    tasks: Placement = field(default_factory=dict)
    early: bool = False

    @property
    def servers(self) -> list[str]:
        """The distinct servers of the tasks."""
        return list(total(self.tasks))


def steps(jobs: Sequence[MovingJob], fits: Fits, shrinking: bool = False) -> list[Step]:
    """Return the ordered steps from the current placement to the planned one; empty if nothing changes.

    Parameters
    ----------
    jobs
        All jobs of a plan that has been verified, in its order.
    shrinking
        Whether the manager can take some servers from a running job.

    Raises
    ------
    ValueError
        If the servers do not hold what the plan places.
    """
    if all(job.action in ("keep", "wait") for job in jobs):
        return []
    order = _Order(jobs, fits)
    stops = [job.name for job in jobs if job.action == "stop"]
    waits = [job.name for job in jobs if job.action == "wait"]
    # Who is to wait must not take a place on which the plan counts either.
    ordered = [Step("hold", job.name) for job in jobs if job.action in ("start", "wait")]
    ordered += map(order.stop, stops)
    ordered += [order.shrink(job.name) for job in jobs if shrinking and job.shrinks]
    ordered += order.placing()
    return ordered + [Step("release", name) for name in stops + waits]


def drain_lines(servers: Sequence[str]) -> Iterator[str]:
    """Yield the first steps of a script: the servers that are to be empty take no more tasks."""
    for number, server in enumerate(servers, start=1):
        yield f"step {number} 'drain {server}: it takes no more tasks'"
        yield f"drain {server}"


class _Order:
    """Computes the order in which a migration stops and places jobs within the servers' capacity.

    Attributes
    ----------
    to_place
        Jobs that are to be started or moved, and have not been placed yet.
    unsettled
        Running jobs that are to be stopped, or may have to be for others.
    moved
        Jobs that have been stopped, so that their devices are no longer known.
    places, held
        Placement of each job at this point; and server → (job, group) → number of tasks.
    """

    def __init__(self, jobs: Sequence[MovingJob], fits: Fits) -> None:
        self.fits = fits
        self.jobs = {job.name: job for job in jobs}
        self.rank = {name: position for position, name in enumerate(self.jobs)}
        self.to_place = {job.name for job in jobs if job.action in ("start", "move")}
        self.unsettled = {job.name for job in jobs if job.gives_way or job.action in ("move", "stop")}
        self.moved: set[str] = set()
        self.places: dict[str, Placement] = {}
        self.held: dict[str, dict[tuple[str, str], int]] = defaultdict(dict)
        for job in jobs:
            self._put(job.name, job.now)

    def _put(self, job: str, tasks: Placement) -> None:
        """Place a job's tasks on servers, without a check of capacity."""
        self.places[job] = tasks
        for group, placed in tasks.items():
            for server, count in placed.items():
                self.held[server][job, group] = count

    def _take(self, job: str) -> Placement:
        """Remove a job from its servers, and return its placement."""
        tasks = self.places.pop(job, {})
        for group, placed in tasks.items():
            for server in placed:
                del self.held[server][job, group]
        return tasks

    def stop(self, job: str, early: bool = False) -> Step:
        """Remove a job from its servers, and return the migration step that stops it."""
        self.unsettled.discard(job)
        self.moved.add(job)
        return Step("stop", job, self._take(job), early)

    def shrink(self, job: str) -> Step:
        """Take the servers from a job that the plan leaves out, and return the step that does so."""
        self.unsettled.discard(job)
        self._take(job)
        return self._place("shrink", job)

    def _place(self, do: Literal["place", "shrink"], job: str) -> Step:
        """Place a job as planned, and return the step that does so."""
        self.to_place.discard(job)
        self._put(job, self.jobs[job].planned)
        return Step(do, job, self.jobs[job].planned)

    def placing(self) -> Iterator[Step]:
        """Yield migration steps (stop, place) until every job has its planned placement.

        Raises
        ------
        ValueError
            If the servers do not hold what the plan places.
        """
        ready = sorted(map(self._turn, self.to_place))
        blocked: dict[str, list[str]] = {}
        while self.to_place:
            if ready:
                job = heapq.heappop(ready)[-1]
                if job not in self.to_place:
                    continue
                full = self._full_server(job)
                if full is not None:
                    blocked.setdefault(full, []).append(job)
                    continue
                left = [self.stop(job)] if job in self.unsettled else []
                yield from (*left, self._place("place", job))
            else:
                job = self._to_stop(blocked)
                self.to_place.add(job)
                left = [self.stop(job, early=True)]
                heapq.heappush(ready, self._turn(job))
                yield from left
            freed = {server for step in left for server in step.servers}
            for server in freed & blocked.keys():
                for name in blocked.pop(server):
                    heapq.heappush(ready, self._turn(name))

    def _full_server(self, job: str) -> str | None:
        """Return a server that cannot hold a job's planned tasks in place of its current ones, else None."""
        was_moved, now, planned = job in self.moved, self._take(job), self.jobs[job].planned
        self.moved.add(job)
        self._put(job, planned)
        full = next(
            (
                server
                for server in total(planned)
                if not self.fits(server, self.held[server], self.moved, self.unsettled)
            ),
            None,
        )
        self._take(job)
        self._put(job, now)
        if not was_moved:
            self.moved.discard(job)
        return full

    def _turn(self, job: str) -> tuple[int, int, str]:
        """Return the heap key of a job to place: stopped jobs first, then running ones, then others."""
        first = 0 if job in self.moved else 1 if job in self.unsettled else 2
        return first, self.rank[job], job

    def _to_stop(self, blocked: Iterable[str]) -> str:
        """Return the job to stop early on full servers: fewest GPUs first, jobs to be kept last."""
        able = {job for server in blocked for job, _ in self.held[server] if job in self.unsettled}
        if not able:
            raise ValueError(f"the servers do not hold what the plan places: {', '.join(blocked)}")
        return min(able, key=lambda job: (self.jobs[job].gives_way, *self.jobs[job].size, self.rank[job]))


HERE = Path(__file__).parent
SCRIPT_USAGE = """
#   bash plan.sh check   changes nothing: {check}
#   bash plan.sh print   changes nothing: writes every command
#   bash plan.sh run     checks, then takes the steps in their order, and stops at the first that fails
#   bash plan.sh run 3   goes on with step 3
#   bash plan.sh back    the way back: what ran returns to its {places}, what waited waits as before
#"""
"""How a script is called, for the comments at its head."""


def shell_script(
    manager: Sequence[str], functions: Mapping[str, Iterable[str]], end: str, main: str
) -> Iterator[str]:
    """Yield the lines of a script below its settings, of which the first are functions of both managers.

    Parameters
    ----------
    manager
        Names of the files with its own functions, which follow.
    functions
        Commands of the functions that carry out this plan, by name.
    end, main
        Last command of each of these functions; and the program.
    """
    for name in ("steps", *manager):
        yield from (HERE / f"{name}.sh").read_text(encoding="utf-8").rstrip("\n").split("\n")
        yield ""
    for name, lines in functions.items():
        yield from (f"{name}() {{", *(f"  {line}" for line in (*lines, end)), "}", "")
    yield from main.strip("\n").split("\n")
