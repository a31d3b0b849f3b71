"""m_j, the fewest servers that a job could ever use, and the relaxation of single devices to pooled amounts.

Servers of one capacity are interchangeable, so m_j depends only on the number of servers of each capacity.
For tasks that request single devices, m_j is computed from the contents that a server's devices can have.

The pooled relaxation replaces the devices of a server by one amount, of which tasks take parts: `gpu` is
a resource, a share is a fraction of one device, and a partition is its fraction of the slots. Every plan of
the instance with devices is feasible in it. The number of partitions of each profile is limited as well.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property

import numpy as np

from ...instances.common.arrays import Floats, Ints
from ...instances.common.errors import TooLargeError
from ...instances.consolidation.devices import WHOLE, Device, DeviceDemand, Devices, pack
from ...instances.consolidation.instance import ConsolidationInstance, Server
from ...instances.consolidation.job import Group, PlacementJob
from ..common.clock import check_time
from ..common.objective import all_loosened, loosened, within
from .classes import Vector

MAX_STATES = 5_000_000
STATES_PER_UNIT, LOADS_PER_UNIT = 2_000, 10
"""Numbers of states, and of patterns of a server, that take as long as the other work for one server."""


def tasks_that_fit(amounts: Mapping[str, float], demand: Mapping[str, float], most: int) -> int:
    """Return the number of tasks of one demand vector that fit into the amounts, at most `most`."""
    fit = float(most)
    for name, need in demand.items():
        if need > 0:
            fit = min(fit, loosened(amounts.get(name, 0.0)) / need)
    return math.floor(fit)


Shape = tuple[tuple[str, float], ...]
"""Amounts by resource, as a hashable tuple sorted by name."""


class Shapes(Counter[Shape]):
    """Number of servers of each shape (amounts by resource); immutable after the first call of `hold`."""

    @cached_property
    def _columns(self) -> tuple[dict[str, Floats], Ints]:
        """The amounts of each resource as arrays over the shapes, and the number of servers of each shape."""
        names = {name for shape in self for name, _ in shape}
        amounts = [dict(shape) for shape in self]
        columns = {name: np.array([of.get(name, 0.0) for of in amounts]) for name in names}
        return columns, np.array([*self.values()], dtype=np.int64)

    def hold(self, demand: Mapping[str, float], most: int) -> tuple[Ints, Ints]:
        """Return, by shape, the tasks of a demand vector that fit on a server, and the number of servers.

        Tasks are counted up to `most`.
        """
        columns, count = self._columns
        fit = np.full(len(count), float(most))
        for name, need in demand.items():
            if need > 0:
                amounts = columns.get(name, np.zeros(len(count)))
                with np.errstate(over="ignore"):
                    np.minimum(fit, np.floor(all_loosened(amounts) / need), out=fit)
        return fit.astype(np.int64), count


def shape_of(amounts: Mapping[str, float]) -> Shape:
    """Return the amounts by resource as a hashable tuple sorted by name."""
    return tuple(sorted(amounts.items()))


def fewest_servers(groups: Sequence[Group], shapes: Shapes) -> int | None:
    """Return the minimum number of servers that hold all tasks of a job; None if all together do not.

    Servers of one capacity are interchangeable.
    """
    if len(groups) == 1:
        return _fewest_for_group(groups[0].tasks, *shapes.hold(groups[0].demand, groups[0].tasks))
    if math.prod(group.tasks + 1 for group in groups) > MAX_STATES:
        raise TooLargeError(
            f"a job with {' × '.join(str(g.tasks) for g in groups)} tasks in groups is too large"
        )
    servers_by_loads: ServersByLoads = Counter()
    for shape, count in shapes.items():
        check_time()
        servers_by_loads[tuple(load for load in _maximal_loads(dict(shape), groups) if any(load))] += count
    return _fewest_for_groups(groups, servers_by_loads)


def _fewest_for_group(tasks: int, holds: Ints, count: Ints) -> int | None:
    """Return the minimum number of servers for tasks of one group; None if all servers do not suffice.

    Parameters
    ----------
    holds, count
        Tasks that a server of each kind holds, and the number of such servers.
    """
    # The servers that hold most come first: no other choice needs fewer.
    order = np.argsort(-holds, kind="stable")
    holds, count = holds[order], count[order]
    placed = np.cumsum(holds * count)
    last = int(np.searchsorted(placed, tasks))
    if last == len(placed):
        return None
    # Of the last kind of server only as many as the remaining tasks need.
    left = tasks - int(placed[last] - holds[last] * count[last])
    return int(count[:last].sum()) - (-left // int(holds[last]))


def estimated_work(groups: Sequence[Group], shapes: Shapes) -> int:
    """Return the estimated work of `fewest_servers`, in multiples of the work for one server."""
    if len(groups) == 1:
        return 0
    tasks, states = sum(group.tasks for group in groups), math.prod(group.tasks + 1 for group in groups)
    loads = states // (groups[-1].tasks + 1)
    each = 1 + states // STATES_PER_UNIT + loads // LOADS_PER_UNIT
    return sum(min(count, tasks) for count in shapes.values()) * each


def _maximal_loads(capacity: Mapping[str, float], groups: Sequence[Group]) -> list[Vector]:
    """Return the maximal vectors of task counts, by task group, that one job can have on a server."""
    *others, last = groups
    shape = [tasks_that_fit(capacity, group.demand, group.tasks) + 1 for group in others]
    # Every choice of tasks of the other groups; then as many of the last group as fit.
    counts = np.indices(shape)
    possible = np.ones(shape, dtype=bool)
    most = np.full(shape, float(last.tasks))
    for name in {name for group in groups for name in group.demand}:
        amount, need = capacity.get(name, 0.0), last.demand.get(name, 0.0)
        used = sum(n * group.demand.get(name, 0.0) for n, group in zip(counts, others, strict=True))
        possible &= used <= loosened(amount)
        if need > 0:
            np.minimum(most, np.floor((loosened(amount) - used) / need), out=most)
    most = np.where(possible, np.maximum(most, 0.0), -1.0)
    full = possible
    for g in range(len(others)):
        # With one more task of another group as many of the last one fit: this pattern is dominated.
        more = np.roll(most, -1, axis=g)
        more[(slice(None),) * g + (-1,)] = -1.0
        full &= more < most
    loads = [(*at, most[at]) for at in zip(*np.nonzero(full), strict=True)]
    return [tuple(map(int, load)) for load in loads]


ServersByLoads = Counter[tuple[Vector, ...]]
"""Vectors of task counts that one job can have on a server → number of these servers, which are alike."""


def _fewest_for_groups(groups: Sequence[Group], servers_by_loads: ServersByLoads) -> int | None:
    """Return the minimum number of servers, by dynamic programming over the placed tasks of each group.

    None if all servers do not suffice.
    """
    size = tuple(group.tasks + 1 for group in groups)
    # need[t1, t2, …]: servers needed so far for that many tasks of each group
    need = np.full(size, np.inf, dtype=np.float32)
    need.flat[0] = 0.0
    for loads, count in servers_by_loads.items():
        most = [max(tasks) for tasks in zip(*loads, strict=True)]
        for _ in range(min(count, sum(group.tasks for group in groups)) if loads else 0):
            # A server that holds more tasks of a group than are left holds just these: the edge goes on.
            before = np.pad(need, [(tasks, 0) for tasks in most], mode="edge")
            better = need.copy()
            for load in loads:
                check_time()
                starts = [m - tasks for m, tasks in zip(most, load, strict=True)]
                place = tuple(slice(start, start + n) for start, n in zip(starts, size, strict=True))
                np.minimum(better, before[place] + 1, out=better)
            # Further servers of this kind change nothing.
            if (better == need).all():
                break
            need = better
    best = need.flat[-1]
    return int(best) if np.isfinite(best) else None


FRACTION_DENOMINATOR = 10**6
"""Denominator to which fractions of a device are rounded, so that the relaxation stays valid."""


def pooled_relaxation(instance: ConsolidationInstance) -> ConsolidationInstance:
    """Return the relaxed instance in which the devices of a server are one divisible amount."""
    sizes = _least_fractions(instance)
    jobs = []
    for job, groups in changed_groups(instance, lambda group: _pooled_group(group, sizes)):
        fields = {"task_demand": groups[0].demand} if job.groups is None else {"groups": groups}
        jobs.append(job.model_copy(update={**WITHOUT_DEVICES, **fields, "value": job.worth}))
    servers = tuple(_pooled_server(server, sizes) for server in instance.servers)
    return instance.model_copy(update={"servers": servers, "jobs": tuple(jobs), "device_moves": None})


WITHOUT_DEVICES = dict.fromkeys(("devices", "share", "profile", "current_devices"))
"""Fields of jobs and of groups that say nothing of single devices."""


def changed_groups(
    instance: ConsolidationInstance, change: Callable[[Group], Group]
) -> Iterator[tuple[PlacementJob, tuple[Group, ...]]]:
    """Yield each job with its groups of tasks changed; jobs that share groups share the changed ones."""
    known: dict[int, tuple[Group, ...]] = {}
    for job in instance.jobs:
        if id(job.task_groups) not in known:
            known[id(job.task_groups)] = tuple(map(change, job.task_groups))
        yield job, known[id(job.task_groups)]


def partition_resource(name: str, profile: str) -> str:
    """Return the name of the resource that counts the partitions of one profile."""
    return f"{profile} of {name}"


def _least_fractions(instance: ConsolidationInstance) -> dict[tuple[str, str], float]:
    """Return, for each requested profile, the minimum fraction of a device that it takes on any server."""
    requested = {
        (name, ask.profile)
        for job in instance.jobs
        for group in job.task_groups
        for name, ask in group.asks.items()
        if ask.profile
    }
    fractions: dict[tuple[str, str], float] = {}
    for server in instance.servers:
        for name, devices in (server.devices or {}).items():
            for wanted, profile in devices.profiles.items():
                if (name, wanted) in requested and devices.partitions is not None:
                    part = (
                        math.floor(FRACTION_DENOMINATOR * profile.size / devices.partitions.slots)
                        / FRACTION_DENOMINATOR
                    )
                    fractions[name, wanted] = min(part, fractions.get((name, wanted), 1.0))
    return fractions


def _pooled_group(group: Group, sizes: Mapping[tuple[str, str], float]) -> Group:
    if not group.asks:
        return group
    demand = dict(group.demand)
    for name, ask in group.asks.items():
        demand[name] = sizes[name, ask.profile] if ask.profile else ask.thousandths / WHOLE
        if ask.profile:
            demand[partition_resource(name, ask.profile)] = 1.0
    return group.model_copy(update={**WITHOUT_DEVICES, "demand": demand})


def _pooled_server(server: Server, counted: Iterable[tuple[str, str]]) -> Server:
    if not server.devices:
        return server
    capacity, free = dict(server.capacity), dict(server.available)
    for name, devices in server.devices.items():
        states = server.device_states[name]
        capacity[name] = float(devices.count)
        free[name] = math.fsum(_free_fraction(state, devices) for state in states)
        for of, profile in counted:
            if of == name and profile in devices.profiles:
                ask, resource = DeviceDemand(profile=profile), partition_resource(name, profile)
                capacity[resource] = float(tasks_on_devices(ask, devices, (Device(),) * devices.count))
                free[resource] = float(tasks_on_devices(ask, devices, states))
    return server.model_copy(update={"capacity": capacity, "free": free, "devices": None})


def _free_fraction(state: Device, devices: Devices) -> float:
    """Return the free fraction of a device, from 0 to 1."""
    if state.mode == "parted" and devices.partitions is not None:
        slots = devices.partitions.slots
        return (
            math.ceil(FRACTION_DENOMINATOR * (slots - state.used.bit_count()) / slots) / FRACTION_DENOMINATOR
        )
    return 0.0 if state.mode == "whole" else (WHOLE - state.used) / WHOLE


MAX_PATTERNS = 20_000
"""Limit on the patterns of one server, and on the states of the dynamic program."""


def tasks_on(server: Server, group: Group) -> int:
    """Return the number of tasks of one task group that fit on an empty server without other task groups."""
    states = {name: (Device(),) * devices.count for name, devices in (server.devices or {}).items()}
    return tasks_within(server, group, server.capacity, states, group.tasks)


def tasks_within(
    server: Server,
    group: Group,
    amounts: Mapping[str, float],
    states: Mapping[str, Sequence[Device]],
    most: int,
) -> int:
    """Return the number of tasks of one task group, at most `most`, that fit into what is left of a server.

    Parameters
    ----------
    amounts, states
        What is left of each resource, and the states of the devices of each name.
    """
    fit = tasks_that_fit(amounts, group.demand, most)
    for name, ask in group.asks.items():
        devices = (server.devices or {}).get(name)
        fit = min(fit, tasks_on_devices(ask, devices, states[name]) if devices is not None else 0)
    return fit


def tasks_on_devices(ask: DeviceDemand, devices: Devices, states: Sequence[Device]) -> int:
    """Return the number of tasks with one request that the devices of a server, in given states, hold."""
    if ask.whole:
        return sum(state.mode == "free" for state in states) // ask.whole
    if ask.share:
        return sum((WHOLE - used) // ask.share for mode, used in states if mode in ("free", "shared"))
    if devices.partitions is None:
        return 0
    masks = [used for mode, used in states if mode in ("free", "parted")]
    return sum(masks.count(mask) * devices.partitions.most(ask.profile, mask) for mask in set(masks))


def group_servers(servers: Iterable[Server]) -> list[tuple[Server, int]]:
    """Group servers of equal capacity and devices: one server of each group, and the group's size."""
    alike: dict[object, list[Server]] = defaultdict(list)
    for server in servers:
        devices = tuple(
            (name, listed.count, listed.partitions.model_dump_json() if listed.partitions else None)
            for name, listed in sorted((server.devices or {}).items())
        )
        alike[shape_of(server.capacity), devices].append(server)
    return [(members[0], len(members)) for members in alike.values()]


def fewest_on_devices(groups: Sequence[Group], servers: Sequence[tuple[Server, int]]) -> int | None:
    """Return the minimum number of servers whose devices hold all tasks; None if all do not suffice.

    Parameters
    ----------
    servers
        One server of each group of equal servers, and the size of the group.

    Raises
    ------
    TooLargeError
        If a job with several groups has too many possible placements.
    """
    if len(groups) == 1:
        holds = [(tasks_on(server, groups[0]), count) for server, count in servers]
        return _fewest_for_group(groups[0].tasks, *np.array(holds, dtype=np.int64).reshape(-1, 2).T)
    if math.prod(group.tasks + 1 for group in groups) > MAX_PATTERNS:
        raise TooLargeError("a job with so many tasks in groups that hold devices is too large")
    servers_by_loads: ServersByLoads = Counter()
    for server, count in servers:
        servers_by_loads[tuple(_maximal_patterns(server, groups))] += count
    return _fewest_for_groups(groups, servers_by_loads)


def _maximal_patterns(server: Server, groups: Sequence[Group]) -> list[Vector]:
    """Return the maximal vectors of task counts, by task group, that one job can have on a server.

    The caller has limited their number.
    """
    ranges = [range(tasks_on(server, group) + 1) for group in groups]
    feasible = {
        counts for counts in itertools.product(*ranges) if any(counts) and _can_hold(server, groups, counts)
    }
    return [
        counts
        for counts in feasible
        if not any((*counts[:g], counts[g] + 1, *counts[g + 1 :]) in feasible for g in range(len(counts)))
    ]


def _can_hold(server: Server, groups: Sequence[Group], counts: Sequence[int]) -> bool:
    check_time()
    for name in {name for group in groups for name in group.demand}:
        amounts = (count * g.demand.get(name, 0.0) for g, count in zip(groups, counts, strict=True))
        if not within(math.fsum(amounts), server.capacity.get(name, 0.0)):
            return False
    for name, devices in (server.devices or {}).items():
        asks = [
            g.asks[name]
            for g, count in zip(groups, counts, strict=True)
            if name in g.asks
            for _ in range(count)
        ]
        if pack((Device(),) * devices.count, devices.partitions, asks) is None:
            return False
    return True
