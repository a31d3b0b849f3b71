"""Partial placements on devices: residual capacities of servers and devices, and rankings of servers.

Capacities are integers in plain lists: most operations concern few servers, for which arrays would be slower.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ....formulations.consolidation.plan import JobPlacement, entry_of
from ....instances.common.hardware import Geometry
from ....instances.consolidation.devices import WHOLE, Device, DeviceDemand, DeviceSlot, HeldDevices
from .shape_relaxation import Cluster, TaskKind

FREE, TAKEN, SHARED, PARTED = "free", "whole", "shared", "parted"


class DevicePool:
    """The devices of one name on one server, with their residual capacities.

    Attributes
    ----------
    mode, used
        Mode of each device; used thousandths of a shared one, used slots of a partitioned one as bits.
    fixed
        Whether tasks outside the plan use a part of the device, so that it is never free.
    free, spare, room
        Number of free devices, thousandths left on free and shared ones, largest rest of a shared one.
    """

    __slots__ = ("fixed", "free", "geometry", "mode", "most", "room", "spare", "used")

    def __init__(self, states: Sequence[Device], geometry: Geometry | None) -> None:
        self.mode: list[str] = [state.mode for state in states]
        self.used = [state.used for state in states]
        self.fixed = [mode != FREE for mode in self.mode]
        self.geometry = geometry
        self.free = self.mode.count(FREE)
        shared = (WHOLE - state.used for state in states if state.mode == "shared")
        self.spare = WHOLE * self.free + sum(shared)
        self.most = max(1, self.spare)
        self._measure()

    def _measure(self) -> None:
        """Update the maximum residual capacity (thousandths) of a shared device."""
        pairs = zip(self.mode, self.used, strict=True)
        self.room = max((WHOLE - used for mode, used in pairs if mode == SHARED), default=0)

    def gap(self, ask: DeviceDemand) -> float | None:
        """Return a score of the capacity that a demand leaves unused on its device; None if it does not fit.

        A free device counts as 1 where a partition opens it; free devices left by whole ones count an eighth.
        """
        if ask.whole:
            return (self.free - ask.whole) / 8 if ask.whole <= self.free else None
        if ask.share:
            if ask.share <= self.room:
                place = self._shared(ask.share)
                return (WHOLE - self.used[place] - ask.share) / WHOLE
            return 1.0 - ask.share / (2 * WHOLE) if self.free else None
        if self._slot(ask.profile) is not None:
            return 0.0
        known = self.geometry is not None and ask.profile in self.geometry.profiles
        return 1.0 if self.free and known else None

    def _shared(self, share: int) -> int:
        """Return the fullest shared device, by index, on which a share fits; one must exist."""
        best, most, limit = -1, -1, WHOLE - share
        for place, used in enumerate(self.used):
            if most < used <= limit and self.mode[place] == SHARED:
                best, most = place, used
        return best

    def _slot(self, wanted: str) -> tuple[int, int] | None:
        """Return device and start slot of a partition, the fullest device first; None if it fits nowhere.

        Only devices that are partitioned already count.
        """
        if self.geometry is None or wanted not in self.geometry.profiles:
            return None
        profile = self.geometry.profiles[wanted]
        parted = [place for place, mode in enumerate(self.mode) if mode == PARTED]
        for place in sorted(parted, key=lambda i: -self.used[i].bit_count()):
            # From behind, for the last slots are those that fewest profiles can use.
            for start in sorted(profile.starts, reverse=True):
                if not self.used[place] & profile.mask(start):
                    return place, start
        return None

    def choose(self, ask: DeviceDemand) -> HeldDevices:
        """Return the devices, by index, or the partition slot for a demand that fits."""
        if ask.whole:
            free = (place for place, mode in enumerate(self.mode) if mode == FREE)
            return tuple(place for _, place in zip(range(ask.whole), free, strict=False))
        if ask.share:
            return (self._shared(ask.share) if ask.share <= self.room else self.mode.index(FREE),)
        slot = self._slot(ask.profile)
        if slot is not None:
            return DeviceSlot(device=slot[0], slot=slot[1])
        assert self.geometry is not None
        start = max(self.geometry.profiles[ask.profile].starts)
        return DeviceSlot(device=self.mode.index(FREE), slot=start)

    def allocate(self, ask: DeviceDemand, devices: HeldDevices) -> None:
        """Subtract a task's devices, shares or partition from the residual capacities."""
        for place in [devices.device] if isinstance(devices, DeviceSlot) else devices:
            if self.mode[place] == FREE:
                self.free -= 1
                self.spare -= 0 if ask.share else WHOLE
            self.mode[place] = TAKEN if ask.whole else SHARED if ask.share else PARTED
            self.used[place] += self._size(ask, devices)
        self.spare -= ask.share
        if ask.share:
            self._measure()

    def release(self, ask: DeviceDemand, devices: HeldDevices) -> None:
        """Add a task's devices, shares or partition to the residual capacities again."""
        self.spare += ask.share
        for place in [devices.device] if isinstance(devices, DeviceSlot) else devices:
            self.used[place] -= self._size(ask, devices)
            if not self.used[place] and not self.fixed[place]:
                self.mode[place] = FREE
                self.free += 1
                self.spare += 0 if ask.share else WHOLE
        if ask.share:
            self._measure()

    def _size(self, ask: DeviceDemand, devices: HeldDevices) -> int:
        """Return by how much a task increases a device's `used`: thousandths, or the bits of its slots."""
        if isinstance(devices, DeviceSlot):
            assert self.geometry is not None
            return self.geometry.profiles[ask.profile].mask(devices.slot)
        return ask.share


class Task(NamedTuple):
    """One placed task of a job: index of its group, index of its server, and its devices of each name."""

    group: int
    server: int
    held: tuple[HeldDevices, ...]


@dataclass(frozen=True)
class ScoreWeights:
    """Weights of the score by which servers for a task are compared; the minimum is best.

    Attributes
    ----------
    gap
        Weight of the residual capacity of a shared device, or of free devices.
    uneven
        Weight of the imbalance between residual resources and residual devices.
    room
        Weight of residual devices: full servers first.
    price
        Weight of the task's dual cost on a server of this shape.
    fresh
        Weight of opening an empty server, larger for a small one, so that large servers open first.
    """

    gap: float = 1.0
    uneven: float = 0.3
    room: float = 0.05
    price: float = 1.0
    fresh: float = 0.0


class PartialPlacement:
    """A partial placement: jobs on servers, and the residual capacities of servers and devices.

    Attributes
    ----------
    left
        Free units of each resource on each server.
    banks
        Devices of each server, by index of the device name.
    holds
        Number of tasks on each server.
    jobs
        Position of a placed job → its tasks.
    on
        Positions of the jobs on each server.
    log
        Servers whose tasks have changed, in order; None if not recorded.
    prices
        Dual cost of a task of each kind on each shape, in units of gaps, shape (K, S); None without prices.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.prices: Sequence[Sequence[float]] | None = None
        count = len(cluster.servers)
        self.shape_of = [0] * count
        for s, shape in enumerate(cluster.shapes):
            for n in shape.members:
                self.shape_of[n] = s
        self.left = [list(cluster.shapes[s].free) for s in self.shape_of]
        self.capacity = [[max(1.0, float(amount)) for amount in shape.free] for shape in cluster.shapes]
        self.device_pools = [
            {
                d: DevicePool(server.device_states[name], server.devices[name].partitions)
                for d, name in enumerate(cluster.names)
                if server.devices is not None and name in server.devices
            }
            for server in cluster.servers
        ]
        self.holds = [int(bool(server.in_use)) for server in cluster.servers]
        self.log: list[int] | None = None
        self.jobs: dict[int, list[Task]] = {}
        self.on: list[set[int]] = [set() for _ in range(count)]
        self.hosts: list[list[bool]] = cluster.hosts.tolist()
        self.needs = [[(r, need) for r, need in enumerate(kind.need) if need] for kind in cluster.kinds]

    def gap(self, k: int, server: int) -> float | None:
        """Return the score of capacity that a task leaves unused on its devices; None if it does not fit."""
        if not self.hosts[k][self.shape_of[server]]:
            return None
        left = self.left[server]
        for r, need in self.needs[k]:
            if need > left[r]:
                return None
        total = 0.0
        for d, ask in self.cluster.kinds[k].asks:
            gap = self.device_pools[server][d].gap(ask)
            if gap is None:
                return None
            total += gap
        return total

    def best(self, k: int, servers: Iterable[int], taste: ScoreWeights) -> int | None:
        """Return the server of minimum score for one more task of kind `k`; None if it fits nowhere."""
        best_server, least = None, math.inf
        for server in servers:
            score = self.score(k, server, taste)
            if score < least:
                best_server, least = server, score
        return best_server

    def score(self, k: int, server: int, taste: ScoreWeights) -> float:
        """Return the score of a server for one more task of kind `k`; infinite if it does not fit there.

        The minimum is best.
        """
        gap = self.gap(k, server)
        if gap is None:
            return math.inf
        kind, shape, left = self.cluster.kinds[k], self.shape_of[server], self.left[server]
        demands = dict(kind.asks)
        part = taste.uneven / max(1, len(kind.need))
        score = taste.gap * gap
        capacity = self.capacity[shape]
        for d, bank in self.device_pools[server].items():
            demand = demands[d].thousandths if d in demands else 0
            spare = (bank.spare - demand) / bank.most
            score += taste.room * spare
            uneven = 0.0
            for amount, need, most in zip(left, kind.need, capacity, strict=True):
                uneven += abs((amount - need) / most - spare)
            score += part * uneven
        if self.prices is not None:
            score += taste.price * self.prices[k][shape]
        if taste.fresh and not self.holds[server]:
            most = max((bank.most for bank in self.device_pools[server].values()), default=1)
            score += taste.fresh * (1.0 + WHOLE / (WHOLE + most))
        return score

    def place_task(self, k: int, server: int) -> tuple[HeldDevices, ...]:
        """Place a task of kind `k` on a server where it fits; return its devices of each name."""
        kind, banks = self.cluster.kinds[k], self.device_pools[server]
        devices = tuple(banks[d].choose(ask) for d, ask in kind.asks)
        self._allocate(kind, server, devices, 1)
        return devices

    def _allocate(self, kind: TaskKind, server: int, devices: Sequence[HeldDevices], sign: int) -> None:
        """Subtract a task's demand and devices from the residual capacities of a server; add them for −1."""
        left, pools = self.left[server], self.device_pools[server]
        for r, need in enumerate(kind.need):
            left[r] -= sign * need
        self.holds[server] += sign
        if self.log is not None:
            self.log.append(server)
        for (d, ask), allocated in zip(kind.asks, devices, strict=True):
            change = pools[d].allocate if sign > 0 else pools[d].release
            change(ask, allocated)

    def place(
        self,
        position: int,
        anywhere: Callable[[int], int | None],
        taste: ScoreWeights,
        most: int | None = None,
    ) -> bool:
        """Place all tasks of a job, or none; return whether they fit.

        Parameters
        ----------
        anywhere
            Returns the server for one more task of a kind that fits on none of the job's servers.
        most
            Largest number of servers of the job; None: any number.
        """
        tasks: list[Task] = []
        own_servers: list[int] = []
        for g, (k, count) in enumerate(self.cluster.groups_of[position]):
            for _ in range(count):
                # The job's own servers come first: it spreads no further than it has to.
                server = self.best(k, own_servers, taste) if own_servers else None
                if server is None and (most is None or len(own_servers) < most):
                    server = anywhere(k)
                if server is None:
                    self._allocate_tasks(position, tasks, -1)
                    return False
                if server not in own_servers:
                    own_servers.append(server)
                tasks.append(Task(g, server, self.place_task(k, server)))
        self._record(position, tasks)
        return True

    def place_at(
        self, position: int, wanted: Sequence[tuple[int, int, tuple[HeldDevices, ...] | None]]
    ) -> bool:
        """Place a job on given servers and devices if they are free; return whether they are.

        Parameters
        ----------
        wanted
            Group, server and devices of each task; None: the devices that fit best.
        """
        tasks: list[Task] = []
        for g, server, devices in wanted:
            k = self.cluster.groups_of[position][g][0]
            if self.gap(k, server) is None:
                self._allocate_tasks(position, tasks, -1)
                return False
            if devices is None:
                devices = self.place_task(k, server)  # noqa: PLW2901
            else:
                self._allocate(self.cluster.kinds[k], server, devices, 1)
            tasks.append(Task(g, server, devices))
        self._record(position, tasks)
        return True

    def restore(self, position: int, tasks: list[Task]) -> None:
        """Place a removed job again on its former servers and devices."""
        self._allocate_tasks(position, tasks, 1)
        self._record(position, tasks)

    def _record(self, position: int, tasks: list[Task]) -> None:
        self.jobs[position] = tasks
        for task in tasks:
            self.on[task.server].add(position)

    def remove(self, position: int) -> list[Task]:
        """Remove a job from its servers; return its tasks with servers and devices."""
        tasks = self.jobs.pop(position)
        for task in tasks:
            self.on[task.server].discard(position)
        self._allocate_tasks(position, tasks, -1)
        return tasks

    def _allocate_tasks(self, position: int, tasks: Iterable[Task], sign: int) -> None:
        for task in tasks:
            kind = self.cluster.kinds[self.cluster.groups_of[position][task.group][0]]
            self._allocate(kind, task.server, task.held, sign)

    def plan(self) -> list[JobPlacement]:
        """Return the plan of this placement: an entry for each job, empty for unplaced ones."""
        jobs = self.cluster.formulation.instance.jobs
        return [
            self.entry(position) if position in self.jobs else entry_of(job, {})
            for position, job in enumerate(jobs)
        ]

    def entry(self, position: int) -> JobPlacement:
        """Return the plan entry of a placed job: tasks and devices by group and server."""
        job = self.cluster.formulation.instance.jobs[position]
        counts: dict[str, dict[str, int]] = defaultdict(Counter)
        devices: dict[str, dict[str, list[dict[str, HeldDevices]]]] = {}
        for task in self.jobs[position]:
            group = job.task_groups[task.group].name
            server = self.cluster.servers[task.server].name
            counts[group][server] += 1
            kind = self.cluster.kinds[self.cluster.groups_of[position][task.group][0]]
            if kind.asks:
                task_devices = {
                    self.cluster.names[d]: location
                    for (d, _), location in zip(kind.asks, task.held, strict=True)
                }
                devices.setdefault(group, {}).setdefault(server, []).append(task_devices)
        named = {
            g: {n: tuple(tasks) for n, tasks in by_server.items()} for g, by_server in devices.items()
        } or None
        return entry_of(job, counts).model_copy(update={"devices": named})


MAX_HEAPS = 16
"""Largest number of task kinds with a stored ranking of servers; equal jobs mostly follow each other."""


class ServerRanking:
    """Heaps of all servers by score for each kind of task, updated while tasks are placed."""

    def __init__(self, placement: PartialPlacement, taste: ScoreWeights) -> None:
        self.board, self.taste = placement, taste
        self.log: list[int] = []
        placement.log = self.log
        self.seen: dict[int, int] = {}
        self.heaps: dict[int, list[tuple[float, int]]] = {}
        self.scores: dict[int, list[float]] = {}

    def best(self, k: int) -> int | None:
        """Return the server of minimum score for a task of kind `k`; None if it fits nowhere."""
        if k not in self.heaps:
            self._build(k)
        else:
            for server in sorted(set(self.log[self.seen[k] :])):
                score = self.board.score(k, server, self.taste)
                self.scores[k][server] = score
                if score < math.inf:
                    heapq.heappush(self.heaps[k], (score, server))
        self.seen[k] = len(self.log)
        heap, scores = self.heaps[k], self.scores[k]
        while heap and scores[heap[0][1]] != heap[0][0]:
            heapq.heappop(heap)
        return heap[0][1] if heap else None

    def _build(self, k: int) -> None:
        """Build the heap of all servers by score for task kind `k`; empty servers of a shape score alike."""
        if len(self.heaps) == MAX_HEAPS:
            oldest = min(self.seen, key=self.seen.__getitem__)
            del self.heaps[oldest], self.scores[oldest], self.seen[oldest]
        scores = self.scores[k] = [math.inf] * len(self.board.shape_of)
        for s, shape in enumerate(self.board.cluster.shapes):
            untouched: float | None = None
            for server in shape.members if self.board.hosts[k][s] else ():
                if self.board.holds[server]:
                    scores[server] = self.board.score(k, server, self.taste)
                else:
                    if untouched is None:
                        untouched = self.board.score(k, server, self.taste)
                    scores[server] = untouched
        heap = [(score, server) for server, score in enumerate(scores) if score < math.inf]
        heapq.heapify(heap)
        self.heaps[k] = heap
