"""Consolidation: which servers each job runs on (Tiresias, NSDI'19, section 3.3).

Sets
    servers n, resources r, jobs j with groups g of identical tasks; E_j eligible servers (GPU model);
    racks k; P_j preferred and Q_j required jobs
Data
    F_nr free; d_gr demand of a task; a_g tasks; v_j value; m_j fewest servers the job could ever use;
    b_n existing traffic and c_g traffic of a task [Gbit/s]; s_j(u) relative speed on u servers
Variables
    x_gn ≥ 0 integer: tasks of group g on server n;  y_jn ∈ {0,1}: job j uses n;  z_j ∈ {0,1}: j is placed
Constraints
    Σ_n x_gn = a_g z_j;  Σ_g d_gr x_gn ≤ F_nr;  x_gn ≤ min(a_g, what fits) y_jn;  y_jn ≤ Σ_g x_gn
    Σ_n y_jn ≤ m_j z_j for required jobs;  z_j = 1 for jobs that must be placed
Objectives, lexicographic in the order that the instance lists
    value       max Σ v_j z_j
    spread      min Σ over preferred jobs of (Σ_n y_jn − m_j z_j)
    servers     min number of servers with y_jn = 1 for some j
    racks       min Σ_j (racks used − z_j); a server without a rack is a rack of its own
    migrations  min Σ over groups with a current placement of tasks not where they are now
    slowdown    min Σ v_j (1 − s_j(Σ_n y_jn)) over placed jobs
    traffic     min of the largest b_n + Σ c_g x_gn over servers
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Literal

from pydantic import Field

from ...instances.common.base import Kind
from ...instances.common.errors import TooLargeError
from ...instances.common.fields import Flag, Model, Name, PositiveCount, Text
from ...instances.consolidation.instance import ONLY_GROUP, ConsolidationInstance, PlacementJob, Server
from ..common.formulation import Diagnosis, Formulation, Objective, Sense, Violation, within
from ..common.milp_model import TextbookModel
from .build_classes import classes_of
from .certificate import (
    MUST_PLACE,
    price_bounds,
    read_certificate,
    worth_of_servers,
)
from .classes import Classes, exact, worth_of
from .elementary import elementary_bounds, elementary_infeasibility
from .fewest_servers import Shapes, fewest_servers, shape_of

Placed = dict[Name, PositiveCount]
Action = Literal["start", "keep", "move", "stop", "wait"]
Placement = dict[str, dict[str, int]]
"""Group name → server name → tasks."""

OBJECTIVES: dict[str, tuple[Sense, str]] = {
    "value": ("max", "value"),
    "spread": ("min", "extra servers"),
    "servers": ("min", "servers"),
    "racks": ("min", "extra racks"),
    "migrations": ("min", "tasks moved"),
    "slowdown": ("min", "value lost"),
    "traffic": ("min", "Gbit/s"),
}


class JobPlacement(Model):
    """Where one job runs.

    Attributes
    ----------
    servers
        Server → number of tasks; for a job with several groups it is empty and `groups` says it for each.
    reason
        Why the job is not placed.
    action
        What the plan means for the job, where any job says where it runs now: `start` and `wait` for those
        that do not run, `keep`, `move` and `stop` for those that do.
    """

    job: Name
    placed: Flag = True
    servers: Placed = Field(default_factory=dict)
    groups: dict[Name, Placed] | None = None
    reason: Text | None = None
    action: Action | None = None

    @property
    def tasks(self) -> Placement:
        """Tasks by group and server."""
        if self.groups is not None:
            return self.groups
        return {ONLY_GROUP: self.servers} if self.servers else {}

    @property
    def used_servers(self) -> set[str]:
        """The servers that hold a task of the job."""
        return {server for placed in self.tasks.values() for server in placed}


class ConsolidationFormulation(Formulation[ConsolidationInstance, JobPlacement]):
    """The mathematics of a consolidation instance."""

    kind: ClassVar[Kind] = "consolidation"
    entry = JobPlacement

    def __init__(self, instance: ConsolidationInstance) -> None:
        super().__init__(instance)
        self.servers = {server.name: server for server in instance.expanded_servers}
        self.jobs = {job.name: job for job in instance.jobs}
        self._fewest: dict[object, int | None] = {}
        self._eligible: dict[str | None, list[Server]] = {}
        self._shapes: dict[tuple[str | None, bool], Shapes] = {}
        self._classes: Classes | TooLargeError | None = None

    @cached_property
    def objectives(self) -> tuple[Objective, ...]:
        """The instance's objectives, in its order."""
        return tuple(Objective(name, *OBJECTIVES[name]) for name in self.instance.objectives)

    def eligible(self, job: PlacementJob) -> list[Server]:
        """Return the servers whose GPU model the job accepts."""
        if job.gpu_model not in self._eligible:
            self._eligible[job.gpu_model] = [
                s for s in self.servers.values() if job.gpu_model is None or s.gpu_model == job.gpu_model
            ]
        return self._eligible[job.gpu_model]

    def fewest(self, job: PlacementJob) -> int | None:
        """Return m_j, the fewest servers that the job could ever use; None if it can never run."""
        key = (job.gpu_model, tuple((g.tasks, tuple(sorted(g.demand.items()))) for g in job.task_groups))
        if key not in self._fewest:
            self._fewest[key] = fewest_servers(job.task_groups, self.shapes(job.gpu_model))
        return self._fewest[key]

    def shapes(self, gpu_model: str | None, free: bool = False) -> Shapes:
        """Return how many servers that a GPU model allows have which capacity, or are free of what."""
        key = gpu_model, free
        if key not in self._shapes:
            self._shapes[key] = Shapes(
                shape_of(server.available if free else server.capacity)
                for server in self.servers.values()
                if gpu_model is None or server.gpu_model == gpu_model
            )
        return self._shapes[key]

    @cached_property
    def distinct_jobs(self) -> list[tuple[PlacementJob, list[int]]]:
        """One of the jobs that are alike but for name, traffic and where they are now, and positions of all.

        Where migrations count, jobs that are on one server now, with as many tasks, are alike as well; those
        that are on several, or have several groups, are only like themselves.
        """
        found: dict[object, tuple[PlacementJob, list[int]]] = {}
        moving = "migrations" in self.instance.objectives
        for position, job in enumerate(self.instance.jobs):
            key = (
                tuple((group.tasks, tuple(sorted(group.demand.items()))) for group in job.task_groups),
                job.worth,
                job.must_place,
                self.instance.spread_of(job),
                job.gpu_model,
                tuple(sorted(job.speed_by_servers.items())),
                self._now_alike(position, job) if moving else None,
            )
            found.setdefault(key, (job, []))[1].append(position)
        return list(found.values())

    def now(self, job: PlacementJob) -> dict[str, list[int]]:
        """Return the tasks of each group by server that the job has now; only servers that it may use."""
        found: dict[str, list[int]] = {}
        for g, group in enumerate(job.task_groups):
            for server, count in group.current.items():
                if job.gpu_model in (None, self.servers[server].gpu_model):
                    found.setdefault(server, [0] * len(job.task_groups))[g] = count
        return found

    def _now_alike(self, position: int, job: PlacementJob) -> object:
        now = self.now(job)
        if len(now) > 1 or (now and len(job.task_groups) > 1):
            return position
        return tuple(map(tuple, now.values()))

    @property
    def classes(self) -> Classes:
        """Servers and jobs in classes; raises TooLargeError where they are too diverse."""
        if self._classes is None:
            try:
                self._classes = classes_of(self)
            except TooLargeError as error:
                self._classes = error
        if isinstance(self._classes, TooLargeError):
            raise self._classes
        return self._classes

    def rack_of(self, server: str) -> str:
        """Return the rack of a server; one without a rack is a rack of its own."""
        rack = self.servers[server].rack
        return f"rack {rack}" if rack is not None else f"server {server}"

    def placement(self, job: PlacementJob, tasks: Placement) -> JobPlacement:
        """Return the plan entry of a job with these tasks; empty tasks mean that it is not placed."""
        filled = {g: {n: count for n, count in placed.items() if count} for g, placed in tasks.items()}
        if not any(filled.values()):
            return JobPlacement(job=job.name, placed=False)
        if job.groups is not None:
            return JobPlacement(job=job.name, groups=filled)
        return JobPlacement(job=job.name, servers=filled[ONLY_GROUP])

    def violations(self, plan: Sequence[JobPlacement]) -> list[Violation]:
        """Return every constraint that the plan breaks."""
        found: list[Violation] = []
        seen: set[str] = set()
        for entry in plan:
            job = self.jobs.get(entry.job)
            if job is None:
                found.append(Violation("job", f"{entry.job!r} is not in the instance"))
            elif entry.job in seen:
                found.append(Violation("one placement", f"job {entry.job!r} is listed twice"))
            else:
                seen.add(entry.job)
                found += self._entry_violations(job, entry)
        found += [
            Violation("one placement", f"job {name!r} is missing") for name in self.jobs if name not in seen
        ]
        return found or self._overuse(plan)

    def _entry_violations(self, job: PlacementJob, entry: JobPlacement) -> Iterator[Violation]:
        name = job.name
        if not entry.placed:
            if job.must_place:
                yield Violation("must_place", f"job {name!r} must be placed")
            if entry.tasks:
                yield Violation("all or nothing", f"job {name!r} is not placed, but has tasks on servers")
            return
        if (entry.groups is not None) != (job.groups is not None) or (
            entry.groups is not None and entry.servers
        ):
            yield Violation(
                "groups", f"job {name!r} must list {'groups' if job.groups is not None else 'servers'}"
            )
            return
        wanted = {group.name: group.tasks for group in job.task_groups}
        for group in set(entry.tasks) - set(wanted):
            yield Violation("groups", f"job {name!r} has no group {group!r}")
        for group, count in wanted.items():
            placed = sum(entry.tasks.get(group, {}).values())
            if placed != count:
                yield Violation("all or nothing", f"job {name!r} has {placed} of {count} {group} on servers")
        for server in sorted(entry.used_servers):
            if server not in self.servers:
                yield Violation("server", f"job {name!r}: there is no server {server!r}")
            elif job.gpu_model is not None and self.servers[server].gpu_model != job.gpu_model:
                yield Violation(
                    "gpu_model", f"job {name!r} needs {job.gpu_model}; {server!r} has another model"
                )
        fewest = self.fewest(job)
        if (
            self.instance.spread_of(job) == "required"
            and fewest is not None
            and len(entry.used_servers) > fewest
        ):
            used = len(entry.used_servers)
            yield Violation(
                "required spread", f"job {name!r} uses {used} servers; at most {fewest} are allowed"
            )

    def _overuse(self, plan: Sequence[JobPlacement]) -> list[Violation]:
        used: dict[tuple[str, str], list[float]] = defaultdict(list)
        for entry in plan:
            for group in self.jobs[entry.job].task_groups:
                for server, count in entry.tasks.get(group.name, {}).items():
                    for resource, amount in group.demand.items():
                        used[server, resource].append(count * amount)
        found = []
        for (server, resource), amounts in used.items():
            total, limit = math.fsum(amounts), self.servers[server].available.get(resource, 0.0)
            if not within(total, limit):
                what = f"the plan takes {total:g}, {total - limit:g} more than the {limit:g} free"
                found.append(Violation(f"free {resource} of server {server}", what))
        return found

    def evaluate(self, plan: Sequence[JobPlacement]) -> tuple[float, ...]:
        """Return the value of each objective, in the instance's order."""
        return tuple(getattr(self, f"_{objective.name}")(plan) for objective in self.objectives)

    def _placed(self, plan: Sequence[JobPlacement]) -> Iterator[tuple[PlacementJob, JobPlacement]]:
        return ((self.jobs[entry.job], entry) for entry in plan if entry.placed)

    def _value(self, plan: Sequence[JobPlacement]) -> float:
        return math.fsum(job.worth for job, _ in self._placed(plan))

    def _spread(self, plan: Sequence[JobPlacement]) -> float:
        return float(
            sum(
                len(entry.used_servers) - (self.fewest(job) or 0)
                for job, entry in self._placed(plan)
                if self.instance.spread_of(job) == "preferred"
            )
        )

    def _servers(self, plan: Sequence[JobPlacement]) -> float:
        return float(len({server for _, entry in self._placed(plan) for server in entry.used_servers}))

    def _racks(self, plan: Sequence[JobPlacement]) -> float:
        return float(sum(len({self.rack_of(n) for n in e.used_servers}) - 1 for _, e in self._placed(plan)))

    def _migrations(self, plan: Sequence[JobPlacement]) -> float:
        entries = {entry.job: entry for entry in plan}
        moved = 0
        for job in self.instance.jobs:
            for group in job.task_groups:
                if group.current:
                    placed = entries[job.name].tasks.get(group.name, {})
                    kept = sum(min(count, placed.get(server, 0)) for server, count in group.current.items())
                    moved += sum(group.current.values()) - kept
        return float(moved)

    def _slowdown(self, plan: Sequence[JobPlacement]) -> float:
        # In fractions, for what is won and lost may cancel to nothing.
        counts = Counter(
            (worth_of(job), job.relative_speed(len(entry.used_servers)))
            for job, entry in self._placed(plan)
            if job.speed_by_servers
        )
        return float(
            sum((n * worth * (1 - exact(speed)) for (worth, speed), n in counts.items()), Fraction(0))
        )

    def _traffic(self, plan: Sequence[JobPlacement]) -> float:
        load = {name: [server.traffic_gbit_per_s] for name, server in self.servers.items()}
        for job, entry in self._placed(plan):
            for group in job.task_groups:
                for server, count in entry.tasks.get(group.name, {}).items():
                    load[server].append(count * group.traffic_gbit_per_s)
        return max(map(math.fsum, load.values()))

    def finish(self, plan: Sequence[JobPlacement]) -> tuple[JobPlacement, ...]:
        """Return the plan in the order of the jobs, with a reason for each job that is left out."""
        from .explain import Reasons, action_of

        entries = {entry.job: entry for entry in plan}
        reasons = Reasons(self, plan)
        running = any(group.current for job in self.instance.jobs for group in job.task_groups)
        finished = []
        for position, job in enumerate(self.instance.jobs):
            entry = entries[job.name]
            action = action_of(job, entry) if running else None
            if not entry.placed:
                entry = JobPlacement(job=job.name, placed=False, reason=reasons.why(position), action=action)
            elif entry.action != action or entry.reason is not None:
                entry = entry.model_copy(update={"action": action, "reason": None})
            finished.append(entry)
        return tuple(finished)

    def elementary_bounds(self) -> tuple[float | None, ...]:
        """Bound the objectives by counting."""
        return elementary_bounds(self)

    def certified_bounds(
        self, certificate: Any, values: Sequence[float] | None = None
    ) -> tuple[float | None, ...]:
        """Return the bounds that the certificate's prices prove, or the elementary ones."""
        elementary = self.elementary_bounds()
        if certificate is None:
            return elementary
        proven = price_bounds(self, certificate, values, elementary)
        if proven.get(MUST_PLACE, 0) > 0:
            return tuple(math.inf if o.sense == "min" else -math.inf for o in self.objectives)
        return tuple(
            objective.tighter(bound, proven.get(objective.name))
            for objective, bound in zip(self.objectives, elementary, strict=True)
        )

    def certificate_fault(self, certificate: Any) -> str | None:
        """Return what is wrong with the form of a certificate."""
        try:
            found = read_certificate(self.classes, certificate)
        except TooLargeError as error:
            return str(error)
        return found if isinstance(found, str) else None

    def prices(self, certificate: Any, plan: Sequence[JobPlacement]) -> dict[str, float] | None:
        """Return what one more empty server of each shape adds to the value at most."""
        if certificate is None:
            return None
        # The plan may be of another instance; that is found out elsewhere.
        placed = (self.jobs.get(entry.job) for entry in plan if entry.placed)
        return worth_of_servers(self, certificate, math.fsum(job.worth for job in placed if job)) or None

    def advice(self, prices: Mapping[str, float], value: float) -> str | None:
        """Return which server would add most to the value."""
        name = max(prices, key=lambda name: prices[name])
        if prices[name] <= 0:
            return "no further server of a shape that is there would add to the value"
        return f"one more {name} would add at most {prices[name]:g} to the value of {value:g}"

    def elementary_infeasibility(self) -> Diagnosis | None:
        """Find jobs that must be placed but never fit, or a resource that they overfill together."""
        return elementary_infeasibility(self)

    def textbook(self) -> TextbookModel[JobPlacement]:
        """Return the model of the module's docstring."""
        from .milp import build

        return build(self)
