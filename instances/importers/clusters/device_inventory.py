"""The GPUs of a cluster in use as single devices: what a request means on which nodes, and what is in use."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Generic, NamedTuple, Protocol, TypeVar

from ...common.fields import NONE_NAMED, Fields
from ...consolidation.devices import WHOLE, DeviceDemand
from .device_sharing import (
    MORE_THAN_DEVICES_HOLD,
    GpuRequest,
    Gpus,
    Holding,
    UnclearDemandError,
    check_available,
    common_demand,
    device_assumptions,
    known_devices_fit,
    taken,
    thousandths,
    worth,
)


class Named(Protocol):
    """A node of any manager."""

    @property
    def name(self) -> str:
        """Its name."""


NodeT = TypeVar("NodeT", bound=Named)
TaskT = TypeVar("TaskT")


@dataclass(eq=False)
class TaskSet:
    """Equal tasks that hold or request GPUs: a pod, or the tasks of a job.

    Parameters
    ----------
    name
        The name that messages give.
    request
        What each requests; None if nothing.
    current
        Node → tasks there.
    devices
        Node → the indices of the devices that they hold there, as far as the source lists them.
    unclear
        Why the request is not clear; empty if it is.
    """

    name: str
    request: GpuRequest | None
    current: Mapping[str, int]
    devices: Mapping[str, Sequence[int]] = NONE_NAMED
    unclear: str = ""


class ListedUse(NamedTuple):
    """The use of a node's devices, as the node lists it.

    Attributes
    ----------
    whole
        Whole devices.
    profiles
        Partitions by profile.
    parts, unit
        Amount of parts of devices, and their unit.
    """

    whole: int
    profiles: Mapping[str, int]
    parts: int
    unit: str


class Demands(NamedTuple):
    """The demands of tasks for single devices, by the identity of the tasks.

    Attributes
    ----------
    clear
        What each of the tasks demands; None if it needs no GPU.
    unclear
        Why a demand is not clear.
    """

    clear: dict[int, DeviceDemand | None] = NONE_NAMED
    unclear: dict[int, str] = NONE_NAMED


@dataclass(frozen=True)
class Sharing(Generic[NodeT, TaskT]):
    """Whether GPUs are planned as single devices, and their partitions as such or as resources.

    Parameters
    ----------
    nodes
        All nodes.
    mig
        The option on partitions.
    tasks, asks_for_part
        All that run or wait; whether one requests a part of a GPU, with partitions kept as resources or not.
    unknown
        Returns a text with the partitions of a node whose geometry is not known; empty if it is.
    """

    nodes: Sequence[NodeT]
    mig: str
    tasks: Sequence[TaskT]
    asks_for_part: Callable[[TaskT, bool], bool]
    unknown: Callable[[NodeT], str]

    def is_asked(self, keep_partitions: bool) -> bool:
        """Return whether any task requests a part of a GPU."""
        return any(self.asks_for_part(task, keep_partitions) for task in self.tasks)

    @cached_property
    def unknown_partitions(self) -> dict[str, str]:
        """Node → text on its GPU partitions of unknown geometry, which a plan cannot change."""
        if self.mig == "keep" or not self.is_asked(False):
            return {}
        by_node = ((node.name, self.unknown(node)) for node in self.nodes)
        return {name: partitions for name, partitions in by_node if partitions}

    @cached_property
    def keep_partitions(self) -> bool:
        """Whether partitions of GPUs are resources, as they are now."""
        return self.mig == "keep" or bool(self.unknown_partitions)

    @cached_property
    def by_device(self) -> bool:
        """Whether GPUs are single devices, because a task demands a part of one."""
        return self.is_asked(self.keep_partitions)


def gpus_of_nodes(
    nodes: Iterable[NodeT], read: Callable[[NodeT], Gpus]
) -> tuple[dict[str, Gpus], dict[str, str]]:
    """Return node → its GPUs, and node → why these are not clear."""
    gpus: dict[str, Gpus] = {}
    out: dict[str, str] = {}
    for node in nodes:
        try:
            gpus[node.name] = read(node)
        except UnclearDemandError as error:
            out[node.name] = str(error)
    return gpus, out


class DeviceInventory:
    """The GPUs of all nodes as single devices, and the demands of tasks for them.

    Parameters
    ----------
    gpus
        Node → its GPUs.
    out
        Node → why its GPUs are not clear.
    tasks
        Identity of an object of the front end → its tasks; all that run or wait.
    task
        The word for one of them, such as pod.
    lacking
        Returns why an amount of memory cannot be had, for a request and the size of a device (None if the
        node does not say it).
    in_use
        Node → the use that it lists, which may be more than that of the tasks.

    Attributes
    ----------
    gpus
        Node → its devices, without the nodes in `out`.
    out
        Node → why the residual capacity of its devices is not clear.
    """

    def __init__(
        self,
        gpus: Mapping[str, Gpus],
        out: Mapping[str, str],
        tasks: Mapping[int, TaskSet],
        task: str,
        lacking: Callable[[GpuRequest, int | None], str],
        in_use: Mapping[str, ListedUse] | None = None,
    ) -> None:
        self.gpus, self.out = dict(gpus), dict(out)
        self.tasks, self._task, self._lacking = tasks, task, lacking
        self._asked: dict[tuple[GpuRequest, frozenset[str]], frozenset[DeviceDemand]] = {}
        self._profiles: set[str] = set()
        self._running: dict[str, list[TaskSet]] = defaultdict(list)
        for each in tasks.values():
            for name in each.current:
                self._running[name].append(each)
        self._unlisted: dict[str, list[Holding]] = {}
        self._known: set[str] = set()
        for name, devices in gpus.items():
            try:
                holdings = self._held_on(name, self._running[name])
                extra = self._beside(devices, in_use[name], [ask for ask, _ in holdings]) if in_use else ()
                self._unlisted[name] = list(map(Holding, extra))
                holdings += self._unlisted[name]
                if taken(devices, holdings, []) is None:
                    raise UnclearDemandError(f"has devices that do not hold what its {task}s ask for")
                if known_devices_fit(devices, holdings):
                    self._known.add(name)
            except UnclearDemandError as error:
                self.out[name] = str(error)
        for name in self.out:
            self.gpus.pop(name, None)

    def _beside(self, gpus: Gpus, used: ListedUse, asks: Sequence[DeviceDemand]) -> Iterator[DeviceDemand]:
        """Yield the devices that a node lists as in use, but none of the tasks there holds."""
        whole = used.whole - sum(ask.whole for ask in asks)
        if whole > 0:
            yield DeviceDemand(whole=whole)
        partitions = Counter(used.profiles)
        partitions.subtract(ask.profile for ask in asks if ask.profile)
        for profile, count in partitions.items():
            yield from [DeviceDemand(profile=profile)] * min(count, MORE_THAN_DEVICES_HOLD)
        size = gpus.sizes.get(used.unit)
        if size:
            parts = {share: part for part, share in self._shares[used.unit, size].items()}
            left = used.parts - sum(parts.get(ask.share, 0) for ask in asks)
            # Whose they are is not known; packed on full devices they leave the most capacity.
            for start in range(0, left, size):
                yield self._part(GpuRequest(used.unit, memory=min(left - start, size)), size)

    def demands(self, allowed: Iterable[tuple[int, frozenset[str]]], planned: frozenset[str]) -> Demands:
        """Return the demands of tasks for devices.

        Parameters
        ----------
        allowed
            Identity, and the nodes that the tasks may use.
        planned
            All nodes that accept tasks.
        """
        demands = Demands({}, {})
        for identity, nodes in allowed:
            try:
                demands.clear[identity] = self.demand(self.tasks[identity], nodes, planned)
            except UnclearDemandError as error:
                demands.unclear[identity] = str(error)
        return demands

    def demand(self, tasks: TaskSet, nodes: frozenset[str], planned: frozenset[str]) -> DeviceDemand | None:
        """Return the demand of each task for devices, equal on all its nodes; None if it needs no GPU.

        Parameters
        ----------
        nodes
            The nodes that it may use.
        planned
            All nodes that accept tasks.

        Raises
        ------
        Unclear
            If it is not clear, or no node has such devices.
        """
        if tasks.unclear:
            raise UnclearDemandError(tasks.unclear)
        request = tasks.request
        if request is None:
            return None
        if request.ask.profile not in self._profiles:
            check_available([self.gpus[name] for name in planned], request.ask.profile)
            self._profiles.add(request.ask.profile)
        if not request.memory:
            return request.ask
        # Thousands of tasks have the same demand on the same nodes.
        if (request, nodes) not in self._asked:
            self._asked[request, nodes] = self._demands_on(request, nodes)
        return common_demand(self._asked[request, nodes] | self._demands_on(request, tasks.current))

    def _demands_on(self, request: GpuRequest, nodes: Iterable[str]) -> frozenset[DeviceDemand]:
        # In sorted order, because the first unclear node is the one that the error names.
        available = (self.gpus[name] for name in sorted(nodes) if name in self.gpus)
        return frozenset(self._demand_on(request, gpus) for gpus in available if gpus.count)

    def _demand_on(self, request: GpuRequest, gpus: Gpus) -> DeviceDemand:
        if not request.memory:
            return request.ask
        size = gpus.sizes.get(request.through)
        if size is None or request.memory > size:
            raise UnclearDemandError(self._lacking(request, size))
        return self._part(request, size)

    def _part(self, request: GpuRequest, size: int) -> DeviceDemand:
        """Return a request for memory as a share of a device of a size, or as a whole device."""
        part = request.memory
        share = (
            WHOLE if part == size else self._shares[request.through, size].get(part, -(-WHOLE * part // size))
        )
        share = max(share, request.cores)
        return DeviceDemand(share=share) if share < WHOLE else DeviceDemand(whole=1)

    @cached_property
    def _shares(self) -> dict[tuple[str, int], dict[int, int]]:
        """Unit and size of a device → amount that a task requests → its thousandths of the device."""
        parts: dict[str, set[int]] = defaultdict(set)
        for request in self.requests:
            if request.memory:
                parts[request.through].add(request.memory)
        sizes = {(unit, size) for gpus in self.gpus.values() for unit, size in gpus.sizes.items()}
        return {
            (unit, size): thousandths([part for part in parts[unit] if part < size], size)
            for unit, size in sizes
        }

    @property
    def requests(self) -> Iterator[GpuRequest]:
        """The clear requests of all tasks."""
        return (each.request for each in self.tasks.values() if each.request is not None)

    def request(self, identity: int) -> GpuRequest | None:
        """Return what tasks request, by their identity; None if it is nothing, or not clear."""
        return self.tasks[identity].request if identity in self.tasks else None

    def members(self, objects: Iterable[object]) -> list[TaskSet]:
        """Return the tasks of objects of the front end."""
        return [self.tasks[id(each)] for each in objects if id(each) in self.tasks]

    def offering(self, request: GpuRequest | None, nodes: frozenset[str]) -> frozenset[str]:
        """Return the names of those nodes whose GPUs may satisfy a request; of None all do."""
        if request is None:
            return nodes
        return frozenset(name for name in nodes if name in self.gpus and self.gpus[name].may_satisfy(request))

    def held(self, tasks: TaskSet, node: str) -> list[tuple[int, ...]]:
        """Return the device indices of each task on a node; empty if they are unknown or inconsistent."""
        if node not in self.gpus:
            return []
        return [devices if node in self._known else () for _, devices in self._held_on(node, [tasks])]

    def _held_on(self, node: str, tasks: Iterable[TaskSet]) -> list[Holding]:
        """Return the devices that tasks hold on a node, one entry for each task that holds any.

        Raises
        ------
        Unclear
            If this is not clear for one of them.
        """
        result: list[Holding] = []
        for each in tasks:
            if each.unclear:
                raise UnclearDemandError(
                    f"holds a {self._task} of which it is not clear what it has: {each.name}"
                )
            if each.request is not None:
                ask, listed = self._demand_on(each.request, self.gpus[node]), each.devices.get(node, ())
                count, own = min(each.current[node], MORE_THAN_DEVICES_HOLD), ask.whole or 1
                # The indices of partitions are not those of devices.
                right = not ask.profile and len(set(listed)) == len(listed) == count * own
                each_own = (tuple(listed[own * task : own * (task + 1)]) for task in range(count))
                result += [Holding(ask, devices if right else ()) for devices in each_own]
        return result

    @cached_property
    def geometries(self) -> set[str]:
        """The names of the partition geometries (MIG) of all GPUs."""
        return {gpus.geometry for gpus in self.gpus.values() if gpus.geometry}

    def worth(self, ask: DeviceDemand) -> float:
        """Return a device demand as a number of GPUs; a partition counts as a fraction."""
        return worth(ask, self.geometries)

    def document(self, node: str, planned: Collection[TaskSet]) -> Fields:
        """Return the field `devices` of a server; what others hold than planned tasks is in use."""
        own = self._held_on(node, (each for each in self._running[node] if each in planned))
        others = self._held_on(node, (each for each in self._running[node] if each not in planned))
        devices = self.gpus.get(node, Gpus()).document([*others, *self._unlisted.get(node, [])], own)
        return {} if devices is None else {"devices": devices}

    def sentences(self, asks: Collection[DeviceDemand]) -> Iterator[str]:
        """Yield the assumptions on devices for the demands of the planned tasks."""
        rounded = any(
            WHOLE * part != share * size
            for (_, size), shares in self._shares.items()
            for part, share in shares.items()
        )
        yield from device_assumptions(self._task, rounded, any(ask.profile for ask in asks))


NO_DEVICES = DeviceInventory({}, {}, {}, "", lambda *_: "")
"""That of a cluster whose GPUs are amounts."""
