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
from ..common.hardware import HardwareCatalogue, fill_from_catalogue

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


class Server(Model):
    """A server, or `count` identical ones that are then called NAME-0, NAME-1, ….

    Attributes
    ----------
    capacity
        What the server has of each resource.
    free
        What is left for the listed jobs, what they hold now included; all of it if not given.
    traffic_gbit_per_s
        Network load that is there already.
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

    @model_validator(mode="after")
    def _check(self) -> Server:
        complaints: list[Complaint] = []
        for name, amount in (self.free or {}).items():
            if amount > self.capacity.get(name, 0.0):
                what = f"is {amount:g}, more than the capacity {self.capacity.get(name, 0.0):g}"
                complaints.append((f"free.{name}", what))
        refuse(complaints)
        return self

    @property
    def available(self) -> dict[str, float]:
        """What a plan may use of each resource."""
        return self.capacity if self.free is None else self.free


class Group(Model):
    """Identical tasks of a job, such as its parameter servers or its workers."""

    name: Name = ONLY_GROUP
    tasks: ServerCount
    demand: Amounts
    traffic_gbit_per_s: NonNegative = 0.0
    current: Placed = {}


class PlacementJob(Model):
    """A job whose tasks are all placed, or none.

    Attributes
    ----------
    tasks, task_demand, traffic_gbit_per_s, current
        The job's only group of tasks; `groups` says the same for a job that has several.
    value
        Worth of placing the job; by default the GPUs that it asks for.
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
    groups: Annotated[tuple[Group, ...], Field(max_length=1000), in_slices(1000)] | None = None
    value: NonNegative | None = None
    must_place: Flag = False
    spread: Spread = "free"
    skew: Share | None = None
    gpu_model: _OneOrSeveral | None = None
    speed_by_servers: ByCount = {}

    @model_validator(mode="after")
    def _check(self) -> PlacementJob:
        plain = self.groups is None and self.tasks is not None and self.task_demand is not None
        if not plain or self.spread == "from_skew":
            refuse(self._complaints())
        return self

    def _complaints(self) -> Iterator[Complaint]:
        single = ("tasks", "task_demand", "traffic_gbit_per_s", "current")
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
        return _only_group(self.tasks, tuple(demand.items()), traffic, tuple(current.items()))

    @property
    def worth(self) -> float:
        """The job's value: as given, else the GPUs that it asks for."""
        if self.value is not None:
            return self.value
        return sum(group.tasks * group.demand.get("gpu", 0.0) for group in self.task_groups)

    def relative_speed(self, servers: int) -> float:
        """Return the measured relative speed on this many servers; 1 where nothing was measured."""
        if not self.speed_by_servers:
            return 1.0
        listed = sorted(self.speed_by_servers)
        below = [count for count in listed if count <= servers]
        return self.speed_by_servers[below[-1] if below else listed[0]]


@lru_cache(maxsize=10_000)
def _only_group(
    tasks: int, demand: tuple[tuple[str, float], ...], traffic: float, current: tuple[tuple[str, int], ...]
) -> tuple[Group]:
    """Return the groups of a job that has only one; jobs that ask for the same share it."""
    made = Group(tasks=tasks, demand=dict(demand), traffic_gbit_per_s=traffic, current=dict(current))
    return (made,)


class ConsolidationInstance(Instance):
    """Which servers does each job run on? (Tiresias, NSDI'19)

    Attributes
    ----------
    objectives
        Lexicographic: each is fixed at its optimum before the next is looked at.
    skew_threshold
        A job with `spread: from_skew` must be consolidated if its skew is above this.
    """

    kind: Literal["consolidation"] = "consolidation"
    objectives: Annotated[tuple[ObjectiveName, ...], Field(min_length=1, max_length=7), in_slices(7)] = (
        "value",
        "spread",
        "servers",
    )
    skew_threshold: Share = 0.3
    catalogue: Annotated[HardwareCatalogue | None, TABLE_FILE] = None
    servers: Annotated[tuple[Server, ...], Field(min_length=1), in_slices(), TABLE_FILE]
    jobs: Annotated[tuple[PlacementJob, ...], Field(min_length=1), in_slices(), TABLE_FILE]

    @model_validator(mode="before")
    @classmethod
    def _resolve(cls, data: Any) -> Any:
        return fill_from_catalogue(data, "servers", {"capacity": "capacity", "gpu_model": "gpu_model"})

    @model_validator(mode="after")
    def _check(self) -> ConsolidationInstance:
        refuse(self._complaints())
        return self

    def _complaints(self) -> Iterator[Complaint]:
        for index, name in enumerate(self.objectives):
            if name in self.objectives[:index]:
                yield f"objectives[{index}]", f"{name!r} is listed twice; each objective stands once"
        yield from repeated((server.name for server in self.servers), "servers")
        yield from repeated((job.name for job in self.jobs), "jobs")
        if sum(server.count or 1 for server in self.servers) > 1_000_000:
            yield "servers", "more than 1,000,000 servers; at most that many are allowed"
            return
        servers = Counter(self._every_name())
        if len(servers) < servers.total():
            twice = min(name for name, count in servers.items() if count > 1)
            if len({server.name for server in self.servers}) == len(self.servers):
                yield "servers", f"a count gives the name {twice!r}, which another server has; rename one"
        yield from self._job_complaints(servers)

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
