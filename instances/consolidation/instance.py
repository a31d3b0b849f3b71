"""Consolidation instances: servers, and jobs of identical tasks to be placed on them, all tasks or none.

A server has amounts of resources and single devices, some of which may be in use.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from ..common.base import Instance
from ..common.faults import misspelt_resources
from ..common.fields import (
    TABLE_FILE,
    Checked,
    Complaint,
    Count,
    Fields,
    Flag,
    Name,
    NonNegative,
    PositiveCount,
    Share,
    entries,
    frozen,
    repeated,
    unknown_names,
    unless,
    validated_in_batches,
)
from ..common.hardware import HardwareCatalogue, HardwareType, fill_from_catalogue
from ..common.servers import MAX_SERVERS, AnyServer, each_server, name_complaints
from .devices import Device, Devices
from .job import Group, PlacementJob

if TYPE_CHECKING:
    import pandas as pd


class Server(AnyServer):
    """A server of consolidation; plans do not depend on its price, `diff` counts it.

    Attributes
    ----------
    traffic_gbit_per_s
        Network load that is there already.
    others
        What else runs on the server, by name: it is not planned, and has to leave before the server is empty.
    in_use
        Something that is not listed runs on the server, so that it counts as used whatever the plan.
    devices
        Single devices, which tasks hold whole, in shares or in partitions; none is a resource as well. Where
        `free` is given and nothing is said to be taken, so many of the first devices are free.
    """

    traffic_gbit_per_s: NonNegative = 0.0
    others: Annotated[tuple[Name, ...], Field(min_length=1, max_length=100)] | None = None
    in_use: Annotated[Flag | None, unless(False)] = None
    devices: Annotated[dict[Name, Devices], Field(max_length=100), AfterValidator(frozen)] | None = None

    def _complaints(self) -> Iterator[Complaint]:
        for name, amount in (self.free or {}).items():
            if self.devices is not None and name in self.devices:
                yield from _free_devices_faults(name, amount, self.devices[name])
            else:
                yield from self._free_amount_faults(name, amount)

    def emptied(self) -> Server:
        """Return the server without room for any task, as if all of it were taken."""
        devices = {
            name: each.model_copy(update={"taken": None}) for name, each in (self.devices or {}).items()
        }
        none = dict.fromkeys((*self.capacity, *devices), 0.0)
        return self.model_copy(update={"free": none, "devices": devices or None})

    @property
    def available(self) -> dict[str, float]:
        """The amount of each resource that a plan may use; devices are none."""
        if self.free is None or self.devices is None:
            return super().available
        return {name: amount for name, amount in self.free.items() if name not in self.devices}

    @cached_property
    def device_states(self) -> dict[str, tuple[Device, ...]]:
        """The state of each device without the tasks of the listed jobs."""
        states_by_name = {}
        for name, devices in (self.devices or {}).items():
            states = devices.states
            if self.free is not None and devices.taken is None:
                free = int(self.free.get(name, 0.0))
                states = states[:free] + (Device("whole"),) * (devices.count - free)
            states_by_name[name] = states
        return states_by_name


def emptied_server(server: Fields) -> Fields:
    """Return a server of a document without room for any task, as `Server.emptied` does."""
    devices = {name: {**each, "taken": None} for name, each in server.get("devices", {}).items()}
    free = dict.fromkeys((*server["capacity"], *devices), 0.0)
    return {**server, "free": free, **({"devices": devices} if devices else {})}


def _free_devices_faults(name: str, amount: float, devices: Devices) -> Iterator[Complaint]:
    if devices.taken is not None:
        yield f"free.{name}", "is set beside what is taken of these devices; give one of both"
    elif amount != int(amount) or amount > devices.count:
        yield f"free.{name}", f"is {amount:g}; of {devices.count} devices a whole number is free"


ObjectiveName = Literal[
    "value", "spread", "servers", "racks", "stops", "migrations", "slowdown", "traffic", "imbalance", "free"
]
OBJECTIVES: tuple[ObjectiveName, ...] = ("value", "spread", "servers")
"""Objectives of an instance that gives none."""
ON_TIES: tuple[ObjectiveName, ...] = ("stops", "migrations")
"""They follow where jobs run, so that none is stopped or moved on a tie."""


Patterns = Annotated[tuple[Name, ...], Field(min_length=1, max_length=1000)]
"""Shell patterns of names."""


def _matches(name: str, patterns: Patterns | None) -> bool:
    """Return whether a name matches one of these shell patterns."""
    return any(fnmatchcase(name, pattern) for pattern in patterns or ())


AIMS = ("free", "seat", "drain", "stop", "keep_objectives")
"""Fields that say what a plan is to reach, what it must not do for that, and which objectives it has then."""


class Release(Checked):
    """What the objective `free` empties: servers, or whole racks, on which no task is left.

    No job that runs is stopped. Only servers with running tasks of the listed jobs can be freed.

    Attributes
    ----------
    count
        Number of servers or racks that are wanted; more than these count for nothing.
    per
        Whether servers or racks are counted; a server without a rack belongs to none.
    gpu_model
        Count only servers of this GPU model, or racks of such servers.
    chains
        Tasks on servers that are not freed may move as well, to make room. None: only where racks are freed.
    into_empty
        Running tasks may move to servers that are empty now.
    """

    count: PositiveCount
    per: Literal["server", "rack"] = "server"
    gpu_model: Name | None = None
    chains: Flag | None = None
    into_empty: Flag = False

    @property
    def direct(self) -> bool:
        """Whether only tasks on freed servers move."""
        return self.per == "server" if self.chains is None else not self.chains


def _figures(machine: HardwareType, server: Mapping[str, Any]) -> Fields:
    """Return what a catalogue says of a server; what the server gives as devices is no capacity."""
    devices = server.get("devices")
    single = devices if isinstance(devices, Mapping) else ()
    return {
        "capacity": {name: amount for name, amount in machine.capacity().items() if name not in single},
        "gpu_model": machine.gpu_model,
        "price_usd_per_hour": machine.price_usd_per_hour,
    }


class ConsolidationInstance(Instance):
    """Which servers does each job run on? (Tiresias, NSDI'19)

    Attributes
    ----------
    objectives
        Lexicographic: each is fixed at its optimum before the next is looked at. By default value, spread and
        servers; where jobs run, then stops and migrations.
    skew_threshold
        A job with `spread: from_skew` must be consolidated if its skew is above this.
    device_moves
        A task that goes to other devices of its server is a migration, too.
    running
        `stay`: no running job moves. None, the default: a running job may move unless it says otherwise.
    pinned
        Running jobs whose names match one of these shell patterns stay.
    max_moves
        Most running jobs that are moved or stopped.
    free
        What the objective `free` empties. Objectives without that are replaced by `free`, `migrations`.
    seat
        Waiting jobs whose names match one of these shell patterns have to start. Objectives as for `drain`.
    drain
        Servers of which the name, or the rack, matches one of these shell patterns hold no task of a listed
        job. Where nothing is to be freed, `stops` and `migrations` become the first objectives.
    stop
        Where given, or where servers are freed or drained, or jobs are seated: no job that runs is stopped,
        but for those whose names match one of these shell patterns, even where they must be placed.
    keep_objectives
        `seat` and `drain` change neither the objectives nor which running jobs may be stopped, so that plans
        compare with those of the instance without them.
    restart_cost_h
        Hours of a running job's value that `value` loses where the job is moved or stopped; a job that says
        `restart_s` loses so many seconds instead. None: moves cost nothing in `value`.
    restrictions
        Resources that stand for a choice of servers: nothing that can be bought or used up, so that no page
        counts them. None: those whose names have several words.
    """

    chosen_with_solve: ClassVar[tuple[str, ...]] = (
        "device_moves",
        "running",
        "pinned",
        "max_moves",
        "restart_cost_h",
        "free",
        "seat",
        "drain",
        "stop",
        "keep_objectives",
    )

    kind: Literal["consolidation"] = "consolidation"
    objectives: Annotated[tuple[ObjectiveName, ...], *entries(10, least=1)] = ()
    skew_threshold: Share = 0.3
    device_moves: Annotated[Flag | None, unless(False)] = None
    running: Annotated[Literal["stay", "move"] | None, unless("move")] = None
    pinned: Annotated[tuple[Name, ...], *entries(1000)] | None = None
    max_moves: Count | None = None
    restart_cost_h: NonNegative | None = None
    free: Release | None = None
    seat: Patterns | None = None
    drain: Patterns | None = None
    stop: Annotated[tuple[Name, ...], Field(max_length=1000)] | None = None
    keep_objectives: Annotated[Flag | None, unless(False)] = None
    restrictions: Annotated[tuple[Name, ...], validated_in_batches()] | None = None
    catalogue: Annotated[HardwareCatalogue | None, TABLE_FILE] = None
    servers: Annotated[tuple[Server, ...], Field(min_length=1), validated_in_batches(), TABLE_FILE]
    jobs: Annotated[tuple[PlacementJob, ...], Field(min_length=1), validated_in_batches(), TABLE_FILE]

    @model_validator(mode="before")
    @classmethod
    def _resolve(cls, data: Any) -> Any:
        if isinstance(data, Mapping):
            given = data.get("objectives", OBJECTIVES)
            names = given if isinstance(given, (list, tuple)) else ()
            aims = data.get("seat") is not None or data.get("drain") is not None
            if data.get("free") is not None and "free" not in names:
                data = {**data, "objectives": ["free", "migrations"]}
            elif "free" not in names and aims and not data.get("keep_objectives"):
                first = ON_TIES if data.get("stop") else ON_TIES[1:]
                data = {**data, "objectives": [*first, *(name for name in names if name not in ON_TIES)]}
        return fill_from_catalogue(data, "servers", _figures)

    @model_validator(mode="after")
    def _fill_in(self) -> Self:
        if not self.objectives:
            last = ON_TIES if any(job.is_running for job in self.jobs) else ()
            object.__setattr__(self, "objectives", (*OBJECTIVES, *last))
        if self.stop:
            jobs = (
                job.model_copy(update={"must_place": job.must_place and not self._may_stop(job)})
                for job in self.jobs
            )
            object.__setattr__(self, "jobs", tuple(jobs))
        limited = [job for job in self.jobs if job.max_per_server is not None and not job.is_limited]
        if limited:
            self._limit(limited)
        return self

    def _limit(self, limited: Sequence[PlacementJob]) -> None:
        """Add the resource of each job with a limit of tasks per server, of which each server has so much.

        Where more of its tasks run now, there is room for these.
        """
        most = {job.limit_name: float(job.max_per_server or 0) for job in limited}
        now: dict[str, Counter[str]] = {}
        for job in limited:
            for group in job.task_groups:
                for name, tasks in group.current.items():
                    now.setdefault(name, Counter())[job.limit_name] += tasks
        servers = []
        for server in self.servers:
            running = now.get(server.name, Counter())
            amounts = {name: max(amount, running[name]) for name, amount in most.items()}
            free = None if server.free is None else {**server.free, **amounts}
            update = {"capacity": {**server.capacity, **amounts}, "free": free}
            servers.append(server.model_copy(update=update))
        by_name = {job.name: job.limited() for job in limited}
        object.__setattr__(self, "servers", tuple(servers))
        object.__setattr__(self, "jobs", tuple(by_name.get(job.name, job) for job in self.jobs))
        if self.restrictions is not None:
            object.__setattr__(self, "restrictions", (*self.restrictions, *most))
        self._forget_cached()

    def _may_stop(self, job: PlacementJob) -> bool:
        """Return whether a job runs and its name matches a pattern of those that may be stopped."""
        return job.is_running and _matches(job.name, self.stop)

    def _complaints(self) -> Iterator[Complaint]:
        twice = "{value!r} is listed twice; each objective stands once"
        yield from repeated(self.objectives, "objectives", "", twice)
        if "free" in self.objectives and (self.free is None or self.objectives[0] != "free"):
            what = (
                "`free` stands first, and a field `free: {count: 2}` says how many servers are emptied; "
                "give both, as in objectives: [free, migrations]"
            )
            yield "objectives", what
        yield from name_complaints(self.servers)
        yield from repeated((job.name for job in self.jobs), "jobs")
        if sum(server.count or 1 for server in self.servers) > MAX_SERVERS:
            return
        servers = dict.fromkeys(name for name, _ in each_server(self.servers))
        if self.restrictions:
            yield from unknown_names(self.restrictions, self.resource_names, "restrictions", "resource")
        yield from self._job_complaints(servers)
        yield from self._device_complaints()
        yield from self._misspelt_resources()

    def _misspelt_resources(self) -> Iterator[Complaint]:
        groups = {id(group): group for job in self.jobs for group in job.task_groups}.values()
        asked = dict.fromkeys(name for group in groups for name in (*group.demand, *group.asks))
        devices = (name for server in self.servers for name in server.devices or ())
        return misspelt_resources(
            self.servers,
            dict.fromkeys((*self.resource_names, *devices)),
            asked,
            lambda server: {
                **dict.fromkeys(server.capacity, "capacity"),
                **dict.fromkeys(server.devices or (), "devices"),
            },
        )

    def _device_complaints(self) -> Iterator[Complaint]:
        """Yield a complaint for each device that is also a resource, or that no server has."""
        profiles: dict[str, set[str]] = {}
        for index, server in enumerate(self.servers):
            for name, devices in (server.devices or {}).items():
                profiles.setdefault(name, set()).update(devices.profiles)
                if name in self.resource_names:
                    what = "is a resource in the capacity of a server too; say it in one way for all servers"
                    yield f"servers[{index}].devices.{name}", what
        asked = set[object]()
        for path, _, group in self._each_group():
            if not group.asks or (key := tuple(group.asks.items())) in asked:
                continue
            asked.add(key)
            for name, ask in group.asks.items():
                field = "profile" if ask.profile else "share" if ask.share else "devices"
                where = f"{path}.{field}"
                yield from unknown_names([name], profiles, where, "device", "devices of the servers")
                if ask.profile and ask.profile not in profiles.get(name, {ask.profile}):
                    available = ", ".join(sorted(profiles[name])) or "none"
                    what = f"no server has the profile {ask.profile!r}; there are: {available}"
                    yield f"{where}.{name}", what

    def _job_complaints(self, servers: Mapping[str, None]) -> Iterator[Complaint]:
        names = dict.fromkeys(self.resource_names)
        for path, job, group in self._each_group():
            if group.demand.keys() <= names.keys() and not group.current:
                continue
            where = f"{path}.task_demand" if job.groups is None else f"{path}.demand"
            yield from unknown_names(group.demand, names, where, "resource")
            where = f"{path}.current"
            yield from unknown_names(group.current, servers, where, "server")
            if group.running_tasks > group.tasks:
                yield where, f"holds {group.running_tasks} tasks, but the group has only {group.tasks}"

    def _each_group(self) -> Iterator[tuple[str, PlacementJob, Group]]:
        """Yield the path, the job and the tasks of each group of identical tasks."""
        for index, job in enumerate(self.jobs):
            for g, group in enumerate(job.task_groups):
                yield f"jobs[{index}]" if job.groups is None else f"jobs[{index}].groups[{g}]", job, group

    @cached_property
    def expanded_servers(self) -> tuple[Server, ...]:
        """Every single server, with rows that have a `count` expanded."""
        if not self.drain and all(server.count is None for server in self.servers):
            return self.servers
        single = (
            server if server.count is None else server.model_copy(update={"name": name, "count": None})
            for name, server in each_server(self.servers)
        )
        return tuple(server.emptied() if server.name in self.drained else server for server in single)

    @cached_property
    def drained(self) -> frozenset[str]:
        """The names of the servers that are to be empty."""
        if not self.drain:
            return frozenset()
        return frozenset(
            name
            for name, server in each_server(self.servers)
            if any(_matches(text, self.drain) for text in (name, server.name, server.rack or name))
        )

    @cached_property
    def has_devices(self) -> bool:
        """Whether any server has single devices."""
        return any(server.devices for server in self.servers)

    @cached_property
    def resource_names(self) -> tuple[str, ...]:
        """The resources of all servers, in order of first mention."""
        return tuple(dict.fromkeys(name for server in self.servers for name in server.capacity))

    @cached_property
    def listed_choices(self) -> frozenset[str]:
        """The resources that are restrictions, and those that limit the tasks of a job on one server."""
        limits = (job.limit_name for job in self.jobs if job.max_per_server is not None)
        return frozenset((*(self.restrictions or ()), *limits))

    @cached_property
    def choices(self) -> frozenset[str]:
        """The resources that stand for a choice of servers; older importers listed none, but named them so.

        Reasons and prices of stored results look at the listed ones alone, so that they stay what they were.
        """
        words = self.resource_names if self.restrictions is None else ()
        return self.listed_choices.union(name for name in words if " " in name)

    def spread_of(self, job: PlacementJob) -> Literal["required", "preferred", "free"]:
        """Return the job's rule on spreading over servers, with `from_skew` resolved."""
        if job.spread == "from_skew":
            assert job.skew is not None
            return "required" if job.skew > self.skew_threshold else "free"
        return job.spread

    def chosen(self) -> Fields:
        """Return the document fields that options of `solve` can set; aims only where they are set."""
        fields = super().chosen()
        return {name: value for name, value in fields.items() if name not in AIMS or value is not None}

    @cached_property
    def moves_count(self) -> bool:
        """Whether plans are limited or charged for moves of running jobs."""
        charged = self.restart_cost_h is not None or any(job.restart_s is not None for job in self.jobs)
        counted = not set(ON_TIES).isdisjoint(self.objectives) or self.free is not None
        return counted or charged or self.max_moves is not None

    @property
    def has_aim(self) -> bool:
        """Whether servers are freed or drained, or jobs are seated, with the fewest moves."""
        aims = self.seat is not None or self.drain is not None
        return self.free is not None or (aims and not self.keep_objectives)

    def requires(self, job: PlacementJob) -> bool:
        """Return whether every plan places a job: it says so, is seated, or runs and must not be stopped."""
        if job.must_place or (_matches(job.name, self.seat) and not self.runs(job)):
            return True
        kept = self.has_aim or self.stop is not None
        return kept and self.runs(job) and not self._may_stop(job)

    def runs(self, job: PlacementJob) -> bool:
        """Return whether a job runs with all its tasks."""
        return all(group.running_tasks >= group.tasks for group in job.task_groups)

    def stays(self, job: PlacementJob) -> bool:
        """Return whether a job runs with all its tasks and may not be moved."""
        if not self.runs(job):
            return False
        return job.movable is False or self.running == "stay" or _matches(job.name, self.pinned)

    @cached_property
    def staying(self) -> frozenset[str]:
        """The names of the running jobs that may not move."""
        if not (self.running or self.pinned or any(job.movable is False for job in self.jobs)):
            return frozenset()
        return frozenset(job.name for job in self.jobs if self.stays(job))

    def restart_h(self, job: PlacementJob) -> Fraction:
        """Return the hours of its value that a job loses by a restart; 0 if it does not run."""
        if not job.is_running:
            return Fraction(0)
        if job.restart_s is not None:
            return Fraction(repr(job.restart_s)) / 3600
        return Fraction(repr(self.restart_cost_h or 0.0))

    def to_frame(self) -> pd.DataFrame:
        """Return a table with one row for each group of identical tasks of each job."""
        import pandas as pd

        return pd.DataFrame(
            [
                {
                    "job": job.name,
                    "value": job.worth,
                    "spread": self.spread_of(job),
                    "must_place": job.must_place,
                    "group": group.name,
                    "tasks": group.tasks,
                    **{name: group.demand.get(name, 0.0) for name in self.resource_names},
                }
                for job in self.jobs
                for group in job.task_groups
            ]
        )
