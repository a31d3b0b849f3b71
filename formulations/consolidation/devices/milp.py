"""Single devices in the compact model: which contents the devices of each server have.

For the devices i of one name on a server, with T tasks there of each sort
    a_is ≥ 0 integer: shares of size s on i;  b_ipk ∈ {0,1}: profile p from slot k on;
    q_i, p_i ∈ {0,1}: i is shared, or partitioned
    Σ_s s a_is ≤ left_i q_i;  each slot of i is taken at most p_i times;  q_i + p_i ≤ 1 where i is free
    Σ_i a_is = T_s;  Σ_ik b_ipk = T_p;  Σ w T_w ≤ Σ_i (1 − q_i − p_i)
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ....instances.consolidation.devices import WHOLE, Ask, Device, Devices, DeviceSlot
from ....instances.consolidation.instance import PlacementJob, Server
from ..plan import JobPlacement

Variable = Callable[[str, int, int], Any]
"""Makes an integer variable of this name between two limits."""
Key = tuple[str, str, int, Ask, int]
"""Server, name and index of a device, contents, and the slot where a partition starts, else 0."""


class DeviceRows:
    """The devices of all servers as rows of the model.

    Attributes
    ----------
    contents
        How often each content is on each device.
    modes
        Whether a free device is shared, and whether it is partitioned.
    """

    def __init__(
        self, make: Variable, add: Callable[[Any], None], total: Callable[[Sequence[Any]], Any]
    ) -> None:
        self._make, self._add, self._total = make, add, total
        self.contents: dict[Key, Any] = {}
        self.modes: dict[tuple[str, str, int], tuple[Any, Any]] = {}

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

    def encode(self, jobs: Mapping[str, PlacementJob], plan: Sequence[JobPlacement]) -> dict[Any, float]:
        """Return the values of the variables in a plan that names devices."""
        count: dict[Key, int] = defaultdict(int)
        held: dict[tuple[str, str, int], Ask] = {}
        for entry in plan:
            for group in jobs[entry.job].task_groups:
                for server, tasks in (entry.devices or {}).get(group.name, {}).items():
                    for task in tasks:
                        for name, places in task.items():
                            ask = group.asks[name]
                            start = places.slot if isinstance(places, DeviceSlot) else 0
                            for i in [places.device] if isinstance(places, DeviceSlot) else places:
                                held[server, name, i] = ask
                                count[server, name, i, ask, start] += 1
        start_values = {variable: float(count[key]) for key, variable in self.contents.items()}
        for device, (shared, parted) in self.modes.items():
            ask = held.get(device, Ask())
            start_values[shared] = float(ask.share > 0)
            start_values[parted] = float(bool(ask.profile))
        return start_values
