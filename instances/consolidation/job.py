"""Jobs of consolidation: groups of identical tasks, placed all or none, and their allowed GPU models.

A job may name its workload, the object of a cluster manager with which a script stops and starts it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property, lru_cache
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Discriminator, Field, Tag

from ..common.fields import (
    NONE_NAMED,
    Amounts,
    ByCount,
    Checked,
    Complaint,
    Flag,
    FrozenDict,
    Name,
    NonNegative,
    PositiveCount,
    Sentence,
    Share,
    entries,
    repeated,
    unless,
    validated_in_batches,
)
from ..common.speed import speed_on
from ..common.workload import Workload
from .devices import (
    WHOLE,
    DeviceDemand,
    OnServers,
    Profiles,
    Shares,
    WholeDevices,
    demand_mismatch,
)

Spread = Literal["required", "preferred", "free", "from_skew"]
GpuModels = str | tuple[str, ...] | None
"""The allowed GPU models: one, several, or None for any."""
_SeveralNames = Annotated[tuple[Name, ...], Field(min_length=1, max_length=100), Tag("(several)")]
Placed = Annotated[dict[Name, PositiveCount], validated_in_batches(100_000)]
"""Server name → number of tasks."""

MAX_NAME = 200
"""Limit of the characters of a name."""
ONLY_GROUP = "tasks"
"""Name of the single group of a job that gives `tasks` and `task_demand` instead of `groups`."""


def _canonical(models: GpuModels) -> GpuModels:
    """Return GPU models in canonical form, so that equal sets compare equal."""
    if not isinstance(models, tuple):
        return models
    listed = tuple(sorted(set(models)))
    return listed if len(listed) > 1 else listed[0]


_OneOrSeveral = Annotated[
    Annotated[Name, Tag("(one)")] | _SeveralNames,
    Discriminator(lambda value: "(several)" if isinstance(value, list | tuple) else "(one)"),
    AfterValidator(_canonical),
]


def allows(models: GpuModels, model: str | None) -> bool:
    """Return whether a job with these allowed GPU models may run on a server with this model."""
    return models is None or model == models or (model is not None and model in models_of(models))


def models_of(models: GpuModels) -> tuple[str, ...]:
    """Return the allowed GPU models as a tuple, empty for any."""
    return (models,) if isinstance(models, str) else models or ()


class Group(Checked):
    """Identical tasks of a job, such as its parameter servers or its workers."""

    name: Name = ONLY_GROUP
    tasks: PositiveCount
    demand: Amounts
    traffic_gbit_per_s: NonNegative = 0.0
    current: Placed = NONE_NAMED
    devices: WholeDevices | None = None
    share: Shares | None = None
    profile: Profiles | None = None
    current_devices: OnServers | None = None

    def _complaints(self) -> Iterable[Complaint]:
        return list(self._duplicate_demands()) or self._current_faults()

    def _duplicate_demands(self) -> Iterator[Complaint]:
        """Yield a complaint for each name of devices that a task demands in two ways."""
        whole, shared = self.devices or {}, self.share or {}
        for key, asked, others in (
            ("share", shared, whole),
            ("profile", self.profile or {}, {**whole, **shared}),
        ):
            for name in asked:
                if name in others:
                    what = "is asked for twice; a task has devices whole, a share, or a partition"
                    yield f"{key}.{name}", what

    def _current_faults(self) -> Iterator[Complaint]:
        """Yield complaints about current devices of tasks that contradict their demand or number."""
        for server, tasks in (self.current_devices or {}).items():
            path, number = f"current_devices.{server}", self.current.get(server, 0)
            if len(tasks) != number:
                yield path, f"has {len(tasks)} tasks, but by current there are {number} on this server"
            for position, places in enumerate(tasks):
                for name, place in places.items():
                    fault = demand_mismatch(self.asks.get(name), place)
                    if fault is not None:
                        yield f"{path}[{position}].{name}", fault
                for name in self.asks.keys() - places.keys():
                    yield f"{path}[{position}].{name}", "is missing; the task asks for it"

    @cached_property
    def asks(self) -> dict[str, DeviceDemand]:
        """Name of devices, such as gpu → the demand of one task for them."""
        return FrozenDict(
            {name: DeviceDemand(whole=count) for name, count in (self.devices or {}).items()}
            | {name: DeviceDemand(share=amount) for name, amount in (self.share or {}).items()}
            | {name: DeviceDemand(profile=wanted) for name, wanted in (self.profile or {}).items()}
        )

    @cached_property
    def request(self) -> tuple[object, ...]:
        """Tasks, demand and devices as a key, which groups share that ask for the same."""
        return self.tasks, tuple(sorted(self.demand.items())), tuple(sorted(self.asks.items()))

    @property
    def running_tasks(self) -> int:
        """Number of tasks that run now."""
        return sum(self.current.values())

    @property
    def gpu_thousandths(self) -> int:
        """Thousandths of GPUs that one task demands as devices or shares; 0 for a partition."""
        return self.asks.get("gpu", DeviceDemand()).thousandths


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
    movable
        `false`: a job all of whose tasks run stays on the servers and devices where they are, and is not
        stopped. What runs is right: GPU model and spread are not looked at. None, the default, is `true`;
        other jobs start anywhere.
    restart_s
        Seconds of progress that the job loses if it is moved or stopped; in `value` so many of 3600 parts of
        its own value. None: what the instance says under `restart_cost_h`.
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
    max_per_server
        Most tasks of the job on one server. The instance says so by a resource, `limit_name`, of which each
        server has as much; more tasks that run on one now may stay there.
    workload
        The object of Kubernetes that the job is.
    assumed
        What was assumed about this job where its source says more than the instance does, one sentence each.
        Plans and bounds do not depend on it.
    """

    name: Name
    tasks: PositiveCount | None = None
    task_demand: Amounts | None = None
    traffic_gbit_per_s: NonNegative | None = None
    current: Placed | None = None
    devices: WholeDevices | None = None
    share: Shares | None = None
    profile: Profiles | None = None
    current_devices: OnServers | None = None
    movable: Annotated[Flag | None, unless(True)] = None
    restart_s: NonNegative | None = None
    groups: Annotated[tuple[Group, ...], *entries(1000)] | None = None
    value: NonNegative | None = None
    must_place: Flag = False
    spread: Spread = "free"
    skew: Share | None = None
    gpu_model: _OneOrSeveral | None = None
    speed_by_servers: ByCount = NONE_NAMED
    max_per_server: PositiveCount | None = None
    workload: Workload | None = None
    assumed: Annotated[tuple[Sentence, ...], Field(min_length=1, max_length=20)] | None = None

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
            of_devices = {key: getattr(self, key) for key in _OF_DEVICES}
            if any(of_devices.values()):
                yield from Group.model_construct(current=self.current or {}, **of_devices)._complaints()
        profiles = [self.profile, *(group.profile for group in self.groups or ())]
        if self.value is None and any("gpu" in (wanted or {}) for wanted in profiles):
            yield "value", "is missing; what a partition is worth does not follow from the GPUs of the job"
        if self.spread == "from_skew" and self.skew is None:
            yield "skew", "is missing; spread: from_skew needs the share of the largest tensor"

    @cached_property
    def task_groups(self) -> tuple[Group, ...]:
        """The groups of tasks of the job, whether the document gives `groups` or a single group."""
        if self.groups is not None:
            return self.groups
        assert self.tasks is not None
        demand, current = self.task_demand or {}, self.current or {}
        traffic = self.traffic_gbit_per_s or 0.0
        if self.current_devices:
            # No other job holds these devices, so the group is not shared between jobs.
            asked = {key: getattr(self, key) for key in _OF_DEVICES}
            plain = {"demand": demand, "traffic_gbit_per_s": traffic, "current": current}
            return (Group(tasks=self.tasks, **plain, **asked),)
        asks = tuple((key, tuple(getattr(self, key).items())) for key in _OF_DEVICES if getattr(self, key))
        return _only_group(self.tasks, tuple(demand.items()), traffic, tuple(current.items()), asks)

    @property
    def requests(self) -> tuple[object, ...]:
        """The requests of all groups as a key, which jobs share that ask for the same."""
        return tuple(group.request for group in self.task_groups)

    @property
    def limit_name(self) -> str:
        """Name of the resource that stands for `max_per_server`."""
        return f"at most {self.max_per_server} a server: {self.name}"[:MAX_NAME]

    @property
    def is_limited(self) -> bool:
        """Whether its tasks demand that resource already."""
        return all(self.limit_name in group.demand for group in self.task_groups)

    def limited(self) -> Self:
        """Return the job with tasks that demand the resource of `max_per_server`."""
        one = {self.limit_name: 1.0}
        if self.groups is None:
            return self.model_copy(update={"task_demand": {**(self.task_demand or {}), **one}})
        groups = (group.model_copy(update={"demand": {**group.demand, **one}}) for group in self.groups)
        return self.model_copy(update={"groups": tuple(groups)})

    @property
    def is_running(self) -> bool:
        """Whether at least one of its tasks runs now."""
        return any(group.current for group in self.task_groups)

    @property
    def worth(self) -> float:
        """The objective value of placing the job: as given, else its number of GPUs."""
        if self.value is not None:
            return self.value
        groups = self.task_groups
        devices = sum(group.tasks * group.gpu_thousandths for group in groups) / WHOLE
        return sum(group.tasks * group.demand.get("gpu", 0.0) for group in groups) + devices

    def relative_speed(self, servers: int) -> float:
        """Return the listed relative speed of the job on this many servers; 1 if it lists none."""
        return speed_on(self.speed_by_servers, servers) if self.speed_by_servers else 1.0


_OF_DEVICES = ("devices", "share", "profile", "current_devices")
"""Fields of a group with the demand of its tasks for single devices."""


@lru_cache(maxsize=10_000)
def _only_group(
    tasks: int,
    demand: tuple[tuple[str, float], ...],
    traffic: float,
    current: tuple[tuple[str, int], ...],
    asks: tuple[tuple[str, tuple[tuple[str, Any], ...]], ...],
) -> tuple[Group]:
    """Return the single task group of a job as a tuple; jobs with equal demand share the object."""
    asked: dict[str, Any] = {key: dict(amounts) for key, amounts in asks}
    made = Group(tasks=tasks, demand=dict(demand), traffic_gbit_per_s=traffic, current=dict(current), **asked)
    return (made,)
