"""What single devices hold, from docs/problems/consolidation.md: every way to put tasks on them."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

Ask = tuple[str, Any]
"""`devices`, `share` or `profile`, and how many, how much, or which."""
State = tuple[str, Any]
"""How a device is held, and its thousandths or slots."""
States = tuple[State, ...]
FREE: State = ("free", ())
FORMS = ("devices", "share", "profile")


class Layout(NamedTuple):
    """How devices can be partitioned: profile → size and starts."""

    profiles: tuple[tuple[str, int, tuple[int, ...]], ...]

    def slots(self, profile: str) -> Iterator[tuple[int, frozenset[int]]]:
        """Yield where a profile may start, and what it then takes."""
        for name, size, starts in self.profiles:
            if name == profile:
                yield from ((start, frozenset(range(start, start + size))) for start in starts)


BUILT_IN = {
    "a30-24": Layout((("1g.6gb", 1, (0, 1, 2, 3)), ("2g.12gb", 2, (0, 2)), ("4g.24gb", 4, (0,)))),
    "a100-40": Layout(
        (
            ("1g.5gb", 1, (0, 1, 2, 3, 4, 5, 6)),
            ("1g.10gb", 2, (0, 2, 4, 6)),
            ("2g.10gb", 2, (0, 2, 4)),
            ("3g.20gb", 4, (0, 4)),
            ("4g.20gb", 4, (0,)),
            ("7g.40gb", 8, (0,)),
        )
    ),
}
"""NVIDIA's tables, as far as documents here name them."""


def layout_of(devices: Mapping[str, Any]) -> Layout:
    """Return how devices of a document can be partitioned."""
    geometry = devices.get("geometry")
    if isinstance(geometry, str):
        return BUILT_IN[geometry]
    listed = (geometry or {"profiles": {}})["profiles"].items()
    return Layout(tuple((name, p["size"], tuple(p["starts"])) for name, p in listed))


def asks_of(group: Mapping[str, Any]) -> dict[str, Ask]:
    """Return what a task of a group asks for, by name of the devices."""
    return {name: (form, of) for form in FORMS for name, of in (group.get(form) or {}).items()}


def thousandths(group: Mapping[str, Any]) -> int:
    """Return the thousandths of GPUs that a task holds, whole or as a share."""
    form, of = asks_of(group).get("gpu", ("profile", ""))
    return 0 if form == "profile" else int(of) * (1000 if form == "devices" else 1)


def taken(states: States, layout: Layout, ask: Ask, held: Any) -> States | None:
    """Return the states once a task holds this, given as documents do; None if it cannot."""
    form, of = ask
    after = list(states)
    for index in [held["device"]] if form == "profile" else held:
        if not 0 <= index < len(states):
            return None
        mode, used = states[index]
        if form == "devices" and mode == "free":
            after[index] = ("whole", ())
        elif form == "share" and mode in ("free", "shared") and (used or 0) + of <= 1000:
            after[index] = ("shared", (used or 0) + of)
        elif form == "profile" and mode in ("free", "parted"):
            slots = dict(layout.slots(of)).get(held["slot"])
            if slots is None or slots & frozenset(used):
                return None
            after[index] = ("parted", tuple(sorted({*used, *slots})))
        else:
            return None
    return tuple(after)


def states_of(server: Mapping[str, Any], name: str) -> States:
    """Return the states of a server's devices beside what others hold."""
    devices = server["devices"][name]
    states: States = (FREE,) * devices["count"]
    if devices.get("taken") is None and server.get("free") is not None:
        free = int(server["free"].get(name, 0))
        return states[:free] + (("whole", ()),) * (len(states) - free)
    for entry in devices.get("taken") or ():
        ask, held = ("devices", 1), [entry["device"]]
        if entry.get("share") is not None:
            ask = "share", entry["share"]
        elif entry.get("profile") is not None:
            ask, held = ("profile", entry["profile"]), entry
        after = taken(states, layout_of(devices), ask, held)
        assert after is not None
        states = after
    return states


def fits(states: States, layout: Layout, asks: Sequence[Ask]) -> bool:
    """Return whether devices hold all tasks."""
    whole = sum(of for form, of in asks if form == "devices")
    free = [state for state in states if state == FREE]
    if whole > len(free):
        return False
    others = [state for state in states if state != FREE]
    parts = sorted((ask for ask in asks if ask[0] != "devices"), key=str)
    return _parts_fit(tuple(sorted([*others, *free[whole:]], key=str)), layout, tuple(parts))


@cache
def _parts_fit(states: States, layout: Layout, parts: tuple[Ask, ...]) -> bool:
    """Return whether devices hold shares and partitions, by trying every place for the first of them."""
    if not parts:
        return True
    form, of = parts[0]
    for index in {state: i for i, state in enumerate(states)}.values():
        places = (
            ([index],) if form == "share" else ({"device": index, "slot": s} for s, _ in layout.slots(of))
        )
        for held in places:
            after = taken(states, layout, parts[0], held)
            if after is not None and _parts_fit(tuple(sorted(after, key=str)), layout, parts[1:]):
                return True
    return False


def _written(task: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return what a task holds in one way of writing it."""
    return tuple(
        (name, (at["device"], at["slot"]) if isinstance(at, Mapping) else tuple(sorted(at)))
        for name, at in sorted(task.items())
    )


class Tasks(NamedTuple):
    """Tasks of a group on one server: how many, what each asks for, what they hold there now, and whose."""

    count: int
    asks: dict[str, Ask]
    now: tuple[dict[str, Any], ...] | None
    job: int


class DeviceTruth:
    """The devices of a document, each server by its position."""

    def __init__(self, servers: Sequence[dict[str, Any]], device_moves: bool) -> None:
        self.servers, self.device_moves = servers, device_moves
        self.states = [
            {name: states_of(server, name) for name in server.get("devices") or {}} for server in servers
        ]
        self._known: dict[str, int | None] = {}

    def could_hold(self, n: int, tasks: Sequence[Tasks]) -> bool:
        """Return whether all of a server's devices, were nothing on them, hold the tasks."""
        devices = self.servers[n].get("devices") or {}
        return self._with(n, tasks, (), {name: (FREE,) * of["count"] for name, of in devices.items()})

    def moves(self, n: int, tasks: Sequence[Tasks], keep: frozenset[int] = frozenset()) -> int | None:
        """Return how many tasks that stay on a server change devices at least; None if it does not hold all.

        Where these moves do not count there are none.

        Parameters
        ----------
        keep
            Jobs whose tasks there all keep their devices.
        """
        key = repr((n, tasks, sorted(keep)))
        if key not in self._known:
            self._known[key] = self._moves(n, tasks, keep)
        return self._known[key]

    def _moves(self, n: int, tasks: Sequence[Tasks], keep: frozenset[int]) -> int | None:
        stays = [(g, held) for g, of in enumerate(tasks) for held in of.now or ()]
        kept = [(g, held) for g, held in stays if tasks[g].job in keep]
        if not self._with(n, tasks, kept, self.states[n]):
            return None
        if not self.device_moves:
            return 0
        others = [(g, held) for g, held in stays if tasks[g].job not in keep]
        most = sum(min(of.count, len(of.now)) for of in tasks if of.now is not None and of.job not in keep)
        for more in range(most, 0, -1):
            if any(
                self._with(n, tasks, [*kept, *some], self.states[n])
                for some in itertools.combinations(others, more)
            ):
                return most - more
        return most

    def _with(
        self,
        n: int,
        tasks: Sequence[Tasks],
        kept: Sequence[tuple[int, dict[str, Any]]],
        before: Mapping[str, States],
    ) -> bool:
        """Return whether devices hold the tasks while some keep what they hold now."""
        keeping = Counter(g for g, _ in kept)
        if any(count > tasks[g].count for g, count in keeping.items()):
            return False
        for name in {name for of in tasks for name in of.asks}:
            if name not in before:
                return False
            states: States | None = before[name]
            layout = layout_of(self.servers[n]["devices"][name])
            for g, held in kept:
                if states is not None and name in tasks[g].asks:
                    states = taken(states, layout, tasks[g].asks[name], held[name])
            rest = [
                of.asks[name]
                for g, of in enumerate(tasks)
                if name in of.asks
                for _ in range(of.count - keeping[g])
            ]
            if states is None or not fits(states, layout, rest):
                return False
        return True

    def faults(self, held: Mapping[int, Sequence[tuple[Tasks, Sequence[dict[str, Any]]]]]) -> list[str]:
        """Return what is wrong with the devices that tasks hold.

        Parameters
        ----------
        held
            Server → tasks of each group there, and what each holds in the plan.
        """
        wrong = []
        for n, groups in held.items():
            states = dict(self.states[n])
            for tasks, places in groups:
                if len(places) != tasks.count:
                    wrong.append(f"{tasks.count} tasks on server {n} hold {len(places)} times devices")
                    continue
                for task in places:
                    wrong += self._take(n, states, tasks, task)
        return wrong

    def _take(self, n: int, states: dict[str, States], tasks: Tasks, task: dict[str, Any]) -> Iterator[str]:
        """Take what one task holds; yield what is wrong with it."""
        if set(task) != set(tasks.asks):
            yield f"a task on server {n} holds {sorted(task)}, not {sorted(tasks.asks)}"
            return
        for name, at in task.items():
            form, of = tasks.asks[name]
            if isinstance(at, Mapping) != (form == "profile"):
                yield f"{name} of a task on server {n} is in another form"
                continue
            several = 0 if form == "profile" else len(set(at)) if len(set(at)) == len(at) else -1
            if several != {"profile": 0, "share": 1, "devices": of}[form]:
                yield f"{name} of a task on server {n} are {at}"
                continue
            layout = layout_of(self.servers[n]["devices"][name]) if name in states else Layout(())
            after = taken(states[name], layout, (form, of), at) if name in states else None
            if after is None:
                yield f"{name} {at} of server {n} is not free"
            else:
                states[name] = after

    def moved(self, tasks: Tasks, places: Sequence[dict[str, Any]]) -> int:
        """Return how many tasks of a group that stay on a server change devices."""
        if tasks.now is None:
            return 0
        same = Counter(map(_written, tasks.now)) & Counter(map(_written, places))
        return min(tasks.count, len(tasks.now)) - same.total()


def tasks_there(
    jobs: Sequence[tuple[Sequence[dict[str, Any]], Sequence[Sequence[int]] | None]], names: Sequence[str]
) -> dict[int, list[Tasks]]:
    """Return server → the tasks there, of the groups of several jobs and where each puts its own."""
    there: dict[int, list[Tasks]] = defaultdict(list)
    for job, (groups, cut) in enumerate(jobs):
        for group, row in zip(groups, cut or (), strict=False):
            for n, count in enumerate(row):
                if count and asks_of(group):
                    now = (group.get("current_devices") or {}).get(names[n])
                    there[n].append(Tasks(count, asks_of(group), None if now is None else tuple(now), job))
    return there
