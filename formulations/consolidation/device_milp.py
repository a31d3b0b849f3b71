"""Single devices in the compact model: which contents the devices of each server have.

For the devices i of one name on a server, with T tasks there of each sort
    a_is ≥ 0 integer: shares of size s on i;  b_ipk ∈ {0,1}: profile p from slot k on;
    q_i, p_i ∈ {0,1}: i is shared, or partitioned
    Σ_s s a_is ≤ left_i q_i;  each slot of i is taken at most p_i times;  q_i + p_i ≤ 1 where i is free
    Σ_i a_is = T_s;  Σ_ik b_ipk = T_p;  Σ w T_w ≤ Σ_i (1 − q_i − p_i)

Where moves between devices count, with the n_h tasks of a group that hold h on this server now and x there
    k_h ∈ {0, …, n_h}: tasks that hold h;  Σ_h k_h ≤ x
    for each device and content: Σ k_h over the h with it ≤ a_is, b_ipk, or 1 − q_i − p_i for a whole device
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from ...instances.consolidation.devices import WHOLE, Ask, Device, Devices, DeviceSlot
from ...instances.consolidation.instance import Server
from ...instances.consolidation.job import Group, PlacementJob
from .device_placement import Holding, holding
from .plan import JobPlacement

Variable = Callable[[str, int, int], Any]
"""Makes an integer variable of this name between two limits."""
Key = tuple[str, str, int, Ask, int]
"""Server, name and index of a device, contents, and the slot where a partition starts, else 0."""


def device_terms(jobs: Iterable[PlacementJob], servers: Iterable[Server]) -> int:
    """Return how many coefficients the rows of all devices have, roughly."""
    asked: dict[str, set[Ask]] = defaultdict(set)
    for job in jobs:
        for group in job.task_groups:
            for name, ask in group.asks.items():
                asked[name].add(ask)
    total = 0
    for server in servers:
        for name, devices in (server.devices or {}).items():
            shares = sum(ask.share > 0 for ask in asked[name])
            profiles = devices.partitions.profiles if devices.partitions else {}
            wanted = [profiles[ask.profile] for ask in asked[name] if ask.profile in profiles]
            slots = sum(len(profile.starts) * (1 + profile.size) for profile in wanted)
            total += devices.count * (4 + 2 * shares + slots)
    return total


class DeviceRows:
    """The devices of all servers as rows of the model.

    Attributes
    ----------
    contents
        How often each content is on each device.
    modes
        Whether a free device is shared, and whether it is partitioned.
    stays
        Job, group and server → what tasks there hold now → how many of them keep it, and how many hold it.
    """

    def __init__(
        self, make: Variable, add: Callable[[Any], object], total: Callable[[Sequence[Any]], Any]
    ) -> None:
        self._make, self._add, self._total = make, add, total
        self.contents: dict[Key, Any] = {}
        self.modes: dict[tuple[str, str, int], tuple[Any, Any]] = {}
        self.stays: dict[tuple[str, str, str], dict[Holding, tuple[Any, int]]] = {}

    def write(
        self,
        jobs: Mapping[str, PlacementJob],
        servers: Mapping[str, Server],
        tasks: Mapping[tuple[str, str, str], Any],
    ) -> None:
        """Write down the rows of every server.

        Parameters
        ----------
        tasks
            Job, group and server → variable of the tasks there.
        """
        asks = {(name, g.name): g.asks for name, job in jobs.items() for g in job.task_groups}
        sorts: dict[tuple[str, str], dict[Ask, list[Any]]] = defaultdict(lambda: defaultdict(list))
        for (job, group, server), x in tasks.items():
            for name, ask in asks[job, group].items():
                sorts[server, name][ask].append(x)
        for (server, name), by_ask in sorts.items():
            devices = (servers[server].devices or {}).get(name)
            if devices is None:
                for listed in by_ask.values():
                    self._add(self._total(listed) <= 0)
                continue
            self._bank(server, name, devices, servers[server].device_states[name], by_ask)

    def _bank(
        self,
        server: str,
        name: str,
        devices: Devices,
        states: Sequence[Device],
        by_ask: Mapping[Ask, Sequence[Any]],
    ) -> None:
        """Write down the rows of the devices of one name on a server."""
        unused = []
        covers: dict[Ask, list[Any]] = defaultdict(list)
        for i, state in enumerate(states):
            shared: Any = int(state.mode == "shared")
            parted: Any = int(state.mode == "parted")
            if state.mode == "free":
                shared, parted = self._make("q", 0, 1), self._make("p", 0, 1)
                self.modes[server, name, i] = shared, parted
                self._add(shared + parted <= 1)
                unused.append(1 - shared - parted)
            if state.mode in ("free", "shared"):
                self._shares((server, name, i), WHOLE - state.used, shared, by_ask, covers)
            if state.mode in ("free", "parted"):
                self._partitions((server, name, i), devices, state, parted, by_ask, covers)
        whole = [ask.whole * x for ask, listed in by_ask.items() if ask.whole for x in listed]
        self._add(self._total(whole) <= self._total(unused))
        for ask, listed in by_ask.items():
            if not ask.whole:
                self._add(self._total(listed) == self._total(covers[ask]))

    def _shares(
        self,
        device: tuple[str, str, int],
        room: int,
        shared: Any,
        by_ask: Mapping[Ask, Sequence[Any]],
        covers: dict[Ask, list[Any]],
    ) -> None:
        held = []
        for ask in by_ask:
            if 0 < ask.share <= room:
                a = self.contents[*device, ask, 0] = self._make("a", 0, room // ask.share)
                covers[ask].append(a)
                held.append(ask.share * a)
        if held:
            self._add(self._total(held) <= room * shared)

    def _partitions(
        self,
        device: tuple[str, str, int],
        devices: Devices,
        state: Device,
        parted: Any,
        by_ask: Mapping[Ask, Sequence[Any]],
        covers: dict[Ask, list[Any]],
    ) -> None:
        slots: dict[int, list[Any]] = defaultdict(list)
        profiles = devices.partitions.profiles if devices.partitions else {}
        for ask in by_ask:
            profile = profiles.get(ask.profile)
            for start in profile.starts if profile else ():
                if profile and not state.used & profile.mask(start):
                    b = self.contents[*device, ask, start] = self._make("b", 0, 1)
                    covers[ask].append(b)
                    for slot in range(start, start + profile.size):
                        slots[slot].append(b)
        for taken in slots.values():
            self._add(self._total(taken) <= parted)

    def staying(
        self, jobs: Mapping[str, PlacementJob], tasks: Mapping[tuple[str, str, str], Any]
    ) -> Mapping[tuple[str, str, str], Sequence[Any]]:
        """Write down which tasks stay on the devices that they hold now.

        Returns
        -------
        stays
            Job, group and server → variables whose sum is the tasks that stay, where it is said which devices
            they hold.
        """
        users: dict[Key, list[Any]] = defaultdict(list)
        for (job, group_name, server), x in tasks.items():
            group = next(g for g in jobs[job].task_groups if g.name == group_name)
            now = (group.current_devices or {}).get(server)
            if now is None:
                continue
            counts = Counter(map(holding, now))
            here = self.stays[job, group_name, server] = {
                held: (self._make("k", 0, count), count) for held, count in counts.items()
            }
            self._add(self._total([k for k, _ in here.values()]) <= x)
            for held, (k, _) in here.items():
                for key in _contents_of(server, group, held):
                    users[key].append(k)
        for key, listed in users.items():
            self._add(self._total(listed) <= self._room(key))
        return {place: [k for k, _ in here.values()] for place, here in self.stays.items()}

    def _room(self, key: Key) -> Any:
        """Return how many tasks can hold what the key says."""
        server, name, i, ask, _ = key
        if not ask.whole:
            return self.contents.get(key, 0)
        shared, parted = self.modes.get((server, name, i), (1, 0))
        return 1 - shared - parted

    def encode(
        self, jobs: Mapping[str, PlacementJob], plan: Sequence[JobPlacement]
    ) -> list[tuple[Any, float]]:
        """Return variables and their values in a plan that names devices."""
        count: Counter[Key] = Counter()
        asked: dict[tuple[str, str, int], Ask] = {}
        there: dict[tuple[str, str, str], Counter[Holding]] = {}
        for entry in plan:
            for group in jobs[entry.job].task_groups:
                for server, tasks in (entry.devices or {}).get(group.name, {}).items():
                    held = there[entry.job, group.name, server] = Counter(map(holding, tasks))
                    for task, times in held.items():
                        for key in _contents_of(server, group, task):
                            count[key] += times
                            asked[key[:3]] = key[3]
        values = [(variable, float(count[key])) for key, variable in self.contents.items()]
        for device, (shared, parted) in self.modes.items():
            ask = asked.get(device, Ask())
            values += [(shared, float(ask.share > 0)), (parted, float(bool(ask.profile)))]
        for place, here in self.stays.items():
            staying = there.get(place, Counter())
            values += [(k, float(min(staying[now], most))) for now, (k, most) in here.items()]
        return values


def _contents_of(server: str, group: Group, held: Holding) -> Iterator[Key]:
    """Yield the contents of devices that a task holds; each device of a whole ask is one."""
    for name, at in held:
        ask = group.asks[name]
        if isinstance(at, DeviceSlot):
            yield server, name, at.device, ask, at.slot
        else:
            for i in at:
                yield server, name, i, Ask(whole=1) if ask.whole else ask, 0
