"""Consolidation instances: jobs of identical tasks to be placed on servers, all tasks or none."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, ConfigDict, Discriminator, Field, Tag, model_validator

from ..common.base import Instance
from ..common.fields import (
    TABLE_FILE,
    Amounts,
    ByCount,
    Checked,
    Complaint,
    Flag,
    Model,
    Name,
    NonNegative,
    PositiveCount,
    ServerCount,
    Share,
    in_slices,
    refuse,
    repeated,
    require,
    unknown_names,
)
from ..common.hardware import HardwareCatalogue, HardwareType, fill_from_catalogue
from .devices import (
    WHOLE,
    Ask,
    Device,
    Devices,
    OnServers,
    Profiles,
    Shares,
    WholeDevices,
    asked_twice,
    asks_of,
    current_faults,
)

if TYPE_CHECKING:
    import pandas as pd

ObjectiveName = Literal["value", "spread", "servers", "racks", "migrations", "slowdown", "traffic"]
Spread = Literal["required", "preferred", "free", "from_skew"]
GpuModels = str | tuple[str, ...] | None
"""The GPU models that will do: one, several, or any."""
_SeveralNames = Annotated[tuple[Name, ...], Field(min_length=1, max_length=100), Tag("(several)")]
Placed = Annotated[dict[Name, PositiveCount], in_slices(100_000)]
"""Server name → number of tasks."""

ONLY_GROUP = "tasks"
"""Name of the single group of a job that gives `tasks` and `task_demand` instead of `groups`."""


def _in_one_way(models: GpuModels) -> GpuModels:
    """Return GPU models so that what means the same is equal."""
    if not isinstance(models, tuple):
        return models
    listed = tuple(sorted(set(models)))
    return listed if len(listed) > 1 else listed[0]


_OneOrSeveral = Annotated[
    Annotated[Name, Tag("(one)")] | _SeveralNames,
    Discriminator(lambda value: "(several)" if isinstance(value, list | tuple) else "(one)"),
    AfterValidator(_in_one_way),
]


def allows(models: GpuModels, model: str | None) -> bool:
    """Return whether a server of this GPU model will do."""
    return models is None or model == models or (model is not None and model in models_of(models))


def models_of(models: GpuModels) -> tuple[str, ...]:
    """Return the GPU models that are named."""
    return (models,) if isinstance(models, str) else models or ()


class Server(Checked):
    """A server, or `count` identical ones that are then called NAME-0, NAME-1, ….

    Attributes
    ----------
    capacity
        What the server has of each resource.
    free
        What is left for the listed jobs, what they hold now included; all of it if not given.
    traffic_gbit_per_s
        Network load that is there already.
    devices
        Single devices, which tasks hold whole, in shares or in partitions; none is a resource as well. Where
        `free` is given and nothing is said to be taken, so many of the first devices are free.
    """

    model_config = ConfigDict(json_schema_extra=require(or_field=("capacity", "hardware")))

    name: Name
    count: ServerCount | None = None
    hardware: Name | None = None
    capacity: Annotated[Amounts, Field(min_length=1)]
    free: Amounts | None = None
    rack: Name | None = None
    gpu_model: Name | None = None
    traffic_gbit_per_s: NonNegative = 0.0
    devices: Annotated[dict[Name, Devices], Field(max_length=100)] | None = None

    def _complaints(self) -> Iterator[Complaint]:
        for name, amount in (self.free or {}).items():
            if self.devices is not None and name in self.devices:
                yield from _free_devices_faults(name, amount, self.devices[name])
            elif amount > self.capacity.get(name, 0.0):
                what = f"is {amount:g}, more than the capacity {self.capacity.get(name, 0.0):g}"
                yield f"free.{name}", what

    @property
    def available(self) -> dict[str, float]:
        """What a plan may use of each resource."""
        if self.free is None:
            return self.capacity
        if self.devices is None:
            return self.free
        return {name: amount for name, amount in self.free.items() if name not in self.devices}

    @cached_property
    def device_states(self) -> dict[str, tuple[Device, ...]]:
        """The state of each device beside what others hold."""
        found = {}
        for name, devices in (self.devices or {}).items():
            states = devices.states
            if self.free is not None and devices.taken is None:
                free = int(self.free.get(name, 0.0))
                states = states[:free] + (Device("whole"),) * (devices.count - free)
            found[name] = states
        return found


def _free_devices_faults(name: str, amount: float, devices: Devices) -> Iterator[Complaint]:
    if devices.taken is not None:
        yield f"free.{name}", "is set beside what is taken of these devices; give one of both"
    elif amount != int(amount) or amount > devices.count:
        yield f"free.{name}", f"is {amount:g}; of {devices.count} devices a whole number is free"


class Group(Model):
    """Identical tasks of a job, such as its parameter servers or its workers."""

    name: Name = ONLY_GROUP
    tasks: ServerCount
    demand: Amounts
    traffic_gbit_per_s: NonNegative = 0.0
    current: Placed = {}
    devices: WholeDevices | None = None
    share: Shares | None = None
    profile: Profiles | None = None
    current_devices: OnServers | None = None

    @model_validator(mode="after")
    def _check(self) -> Group:
        if self.devices or self.share or self.profile or self.current_devices:
            refuse(asked_twice(self.devices, self.share, self.profile))
            refuse(current_faults(self.asks, self.current, self.current_devices))
        return self

    @cached_property
    def asks(self) -> dict[str, Ask]:
        """What one task asks of single devices, by name of the devices."""
        return asks_of(self.devices, self.share, self.profile)

    @property
    def gpu_thousandths(self) -> int:
        """Thousandths of GPUs that one task holds as devices or shares; partitions are of no known size."""
        return self.asks.get("gpu", Ask()).thousandths


class PlacementJob(Checked):
    """A job whose tasks are all placed, or none.

    Attributes
    ----------
    tasks, task_demand, traffic_gbit_per_s, current
        The job's only group of tasks; `groups` says the same for a job that has several.
    devices, share, profile
        What each task asks of single devices: name of devices → how many whole ones, thousandths of one, or
        a partition of one.
    current_devices
        Which devices each task holds now, in the form of plans; goes with `current`.
    value
        Worth of placing the job; by default the GPUs that it asks for, as amounts, devices and shares.
    must_place
        A plan that leaves the job out is not allowed.
    spread
        `required`: only on the fewest servers it could ever use; `preferred`: as few as possible;
        `free`: anywhere; `from_skew`: required if `skew` exceeds the instance's threshold, else free.
    skew
        Largest tensor of the model over the sum of all.
    gpu_model
        Only servers with this GPU model, or with one of these, are eligible.
    speed_by_servers
        Speed relative to the consolidated job, by number of servers used; a number between two listed
        ones has the speed of the lower, one below the first has the speed of the first.
    """

    name: Name
    tasks: ServerCount | None = None
    task_demand: Amounts | None = None
    traffic_gbit_per_s: NonNegative | None = None
    current: Placed | None = None
    devices: WholeDevices | None = None
    share: Shares | None = None
    profile: Profiles | None = None
    current_devices: OnServers | None = None
    groups: Annotated[tuple[Group, ...], Field(max_length=1000), in_slices(1000)] | None = None
    value: NonNegative | None = None
    must_place: Flag = False
    spread: Spread = "free"
    skew: Share | None = None
    gpu_model: _OneOrSeveral | None = None
    speed_by_servers: ByCount = Field(default_factory=dict)

    def _complaints(self) -> Iterator[Complaint]:
        single = ("tasks", "task_demand", "traffic_gbit_per_s", "current", *_OF_DEVICES)
        if self.groups is not None:
            for key in single:
                if getattr(self, key) is not None:
                    yield key, "is set beside groups; write it inside the groups"
            if not self.groups:
                yield "groups", "is empty; a job has at least one group of tasks"
            yield from repeated((group.name for group in self.groups), "groups")
        else:
            for key in single[:2]:
                if getattr(self, key) is None:
                    yield key, "is missing; give tasks and task_demand, or groups"
            if any(getattr(self, key) for key in _OF_DEVICES):
                yield from asked_twice(self.devices, self.share, self.profile)
                asks = asks_of(self.devices, self.share, self.profile)
                yield from current_faults(asks, self.current or {}, self.current_devices)
        profiles = [self.profile, *(group.profile for group in self.groups or ())]
        if self.value is None and any("gpu" in (wanted or {}) for wanted in profiles):
            yield "value", "is missing; what a partition is worth does not follow from the GPUs of the job"
        if self.spread == "from_skew" and self.skew is None:
            yield "skew", "is missing; spread: from_skew needs the share of the largest tensor"

    @cached_property
    def task_groups(self) -> tuple[Group, ...]:
        """The groups of tasks, whichever way the document gave them."""
        if self.groups is not None:
            return self.groups
        assert self.tasks is not None
        demand, current = self.task_demand or {}, self.current or {}
        traffic = self.traffic_gbit_per_s or 0.0
        if self.current_devices:
            # Nobody else holds these devices, so no other job shares the group.
            asked = {key: getattr(self, key) for key in _OF_DEVICES}
            plain = {"demand": demand, "traffic_gbit_per_s": traffic, "current": current}
            return (Group(tasks=self.tasks, **plain, **asked),)
        asks = tuple((key, tuple(getattr(self, key).items())) for key in _OF_DEVICES if getattr(self, key))
        return _only_group(self.tasks, tuple(demand.items()), traffic, tuple(current.items()), asks)

    @property
    def worth(self) -> float:
        """The job's value: as given, else the GPUs that it asks for."""
        if self.value is not None:
            return self.value
        groups = self.task_groups
        devices = sum(group.tasks * group.gpu_thousandths for group in groups) / WHOLE
        return sum(group.tasks * group.demand.get("gpu", 0.0) for group in groups) + devices

    def relative_speed(self, servers: int) -> float:
        """Return the measured relative speed on this many servers; 1 where nothing was measured."""
        if not self.speed_by_servers:
            return 1.0
        listed = sorted(self.speed_by_servers)
        below = [count for count in listed if count <= servers]
        return self.speed_by_servers[below[-1] if below else listed[0]]


_OF_DEVICES = ("devices", "share", "profile", "current_devices")
"""Fields of a group that say what its tasks ask of single devices."""


@lru_cache(maxsize=10_000)
def _only_group(
    tasks: int,
    demand: tuple[tuple[str, float], ...],
    traffic: float,
    current: tuple[tuple[str, int], ...],
    asks: tuple[tuple[str, tuple[tuple[str, Any], ...]], ...],
) -> tuple[Group]:
    """Return the groups of a job that has only one; jobs that ask for the same share it."""
    asked: dict[str, Any] = {key: dict(amounts) for key, amounts in asks}
    made = Group(tasks=tasks, demand=dict(demand), traffic_gbit_per_s=traffic, current=dict(current), **asked)
    return (made,)


def _without_devices(given: Any, filled: Any) -> Any:
    """Return a document in which capacities from the catalogue leave out what a server has as devices."""
    if filled is given:
        return filled
    rows = []
    for before, row in zip(given["servers"], filled["servers"], strict=True):
        devices = row.get("devices") if isinstance(row, Mapping) and "capacity" not in before else None
        if isinstance(devices, Mapping):
            kept = {name: amount for name, amount in row["capacity"].items() if name not in devices}
            rows.append({**row, "capacity": kept})
        else:
            rows.append(row)
    return {**filled, "servers": rows}


class ConsolidationInstance(Instance):
    """Which servers does each job run on? (Tiresias, NSDI'19)

    Attributes
    ----------
    objectives
        Lexicographic: each is fixed at its optimum before the next is looked at.
    skew_threshold
        A job with `spread: from_skew` must be consolidated if its skew is above this.
    device_moves
        A task that goes to other devices of its server is a migration, too.
    """

    kind: Literal["consolidation"] = "consolidation"
    objectives: Annotated[tuple[ObjectiveName, ...], Field(min_length=1, max_length=7), in_slices(7)] = (
        "value",
        "spread",
        "servers",
    )
    skew_threshold: Share = 0.3
    device_moves: Annotated[Flag | None, AfterValidator(lambda flag: flag or None)] = None
    catalogue: Annotated[HardwareCatalogue | None, TABLE_FILE] = None
    servers: Annotated[tuple[Server, ...], Field(min_length=1), in_slices(), TABLE_FILE]
    jobs: Annotated[tuple[PlacementJob, ...], Field(min_length=1), in_slices(), TABLE_FILE]

    @model_validator(mode="before")
    @classmethod
    def _resolve(cls, data: Any) -> Any:
        figures = {"capacity": HardwareType.capacity, "gpu_model": lambda machine: machine.gpu_model}
        return _without_devices(data, fill_from_catalogue(data, "servers", figures))

    def _complaints(self) -> Iterator[Complaint]:
        twice = "{value!r} is listed twice; each objective stands once"
        yield from repeated(self.objectives, "objectives", "", twice)
        yield from repeated((server.name for server in self.servers), "servers")
        yield from repeated((job.name for job in self.jobs), "jobs")
        if sum(server.count or 1 for server in self.servers) > 1_000_000:
            yield "servers", "more than 1,000,000 servers; at most that many are allowed"
            return
        servers = Counter(self._every_name())
        if len(servers) < servers.total():
            again = min(name for name, count in servers.items() if count > 1)
            if len({server.name for server in self.servers}) == len(self.servers):
                yield "servers", f"a count gives the name {again!r}, which another server has; rename one"
        yield from self._job_complaints(servers)
        yield from self._device_complaints()

    def _device_complaints(self) -> Iterator[Complaint]:
        """Yield a complaint for each device that is a resource too, or that no server has."""
        profiles: dict[str, set[str]] = {}
        for index, server in enumerate(self.servers):
            for name, devices in (server.devices or {}).items():
                known = profiles.setdefault(name, set())
                known.update(devices.partitions.profiles if devices.partitions else ())
                if name in self.resource_names:
                    what = "is a resource in the capacity of a server too; say it in one way for all servers"
                    yield f"servers[{index}].devices.{name}", what
        asked: dict[tuple[tuple[str, Ask], ...], None] = {}
        for index, job in enumerate(self.jobs):
            for g, group in enumerate(job.task_groups):
                if not group.asks or (key := tuple(group.asks.items())) in asked:
                    continue
                asked[key] = None
                path = f"jobs[{index}]" if job.groups is None else f"jobs[{index}].groups[{g}]"
                for name, ask in group.asks.items():
                    field = "profile" if ask.profile else "share" if ask.share else "devices"
                    where = f"{path}.{field}"
                    yield from unknown_names([name], profiles, where, "device", "devices of the servers")
                    if ask.profile and ask.profile not in profiles.get(name, {ask.profile}):
                        there = ", ".join(sorted(profiles[name])) or "none"
                        what = f"no server has the profile {ask.profile!r}; there are: {there}"
                        yield f"{where}.{name}", what

    def _job_complaints(self, servers: Mapping[str, int]) -> Iterator[Complaint]:
        names = dict.fromkeys(self.resource_names)
        for index, job in enumerate(self.jobs):
            for g, group in enumerate(job.task_groups):
                if group.demand.keys() <= names.keys() and not group.current:
                    continue
                single = job.groups is None
                path = f"jobs[{index}]" if single else f"jobs[{index}].groups[{g}]"
                where = f"{path}.task_demand" if single else f"{path}.demand"
                yield from unknown_names(group.demand, names, where, "resource", "resources")
                where = f"{path}.current"
                unknown = [name for name in group.current if name not in servers]
                yield from unknown_names(unknown, itertools.islice(servers, 13), where, "server", "servers")
                if sum(group.current.values()) > group.tasks:
                    total = sum(group.current.values())
                    yield where, f"holds {total} tasks, but the group has only {group.tasks}"

    def _every_name(self) -> Iterator[str]:
        """Yield the name of every single server; a million are quicker named than made."""
        for server in self.servers:
            if server.count is None:
                yield server.name
            else:
                yield from (f"{server.name}-{k}" for k in range(server.count))

    @cached_property
    def expanded_servers(self) -> tuple[Server, ...]:
        """Every single server, with the rows that have a `count` written out."""
        if all(server.count is None for server in self.servers):
            return self.servers
        listed = (server for server in self.servers for _ in range(server.count or 1))
        return tuple(
            server if server.count is None else server.model_copy(update={"name": name, "count": None})
            for server, name in zip(listed, self._every_name(), strict=True)
        )

    @cached_property
    def has_devices(self) -> bool:
        """Whether any server has single devices."""
        return any(server.devices for server in self.servers)

    @cached_property
    def resource_names(self) -> tuple[str, ...]:
        """The resources that any server has, in order of first mention."""
        return tuple(dict.fromkeys(name for server in self.servers for name in server.capacity))

    def spread_of(self, job: PlacementJob) -> Literal["required", "preferred", "free"]:
        """Return the job's spread rule, with `from_skew` decided."""
        if job.spread == "from_skew":
            assert job.skew is not None
            return "required" if job.skew > self.skew_threshold else "free"
        return job.spread

    def to_frame(self) -> pd.DataFrame:
        """Return one row for each group of tasks of each job."""
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
