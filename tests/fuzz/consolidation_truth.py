"""All plans of a consolidation document, from docs/problems/consolidation.md."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from fractions import Fraction
from typing import Any

from .device_truth import DeviceTruth, Tasks, tasks_there, thousandths
from .truth import Judgement, TooManyPlansError, Truth, limits, whole

MAX_WAYS = 4000
OF_A_GROUP = ("traffic_gbit_per_s", "current", "devices", "share", "profile", "current_devices")
ALL = ("value", "spread", "servers", "racks", "stops", "migrations", "slowdown", "traffic")
VALUE, MOVES = ALL.index("value"), ALL.index("migrations")
Cut = tuple[tuple[int, ...], ...]
"""Tasks of each group on each server."""


def expanded(servers: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return every single server of a document."""
    found = []
    for server in servers:
        count = server.get("count")
        names = [server["name"]] if count is None else [f"{server['name']}-{k}" for k in range(count)]
        found += [{**server, "name": name} for name in names]
    return found


def groups_of(job: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the groups of tasks of a job."""
    if job.get("groups") is not None:
        return [{"name": "tasks"} | group for group in job["groups"]]
    group = {"name": "tasks", "tasks": job["tasks"], "demand": job["task_demand"]}
    return [group | {key: job.get(key) for key in OF_A_GROUP if job.get(key) is not None}]


def splits(tasks: int, servers: int) -> Iterator[tuple[int, ...]]:
    """Yield every way to put tasks on servers."""
    if servers == 1:
        yield (tasks,)
        return
    for first in range(tasks + 1):
        for rest in splits(tasks - first, servers - 1):
            yield (first, *rest)


def as_written(amount: float) -> Fraction:
    """Return an amount as its decimals say: 0.1 is a tenth."""
    return Fraction(repr(float(amount)))


@dataclass
class Way:
    """One way to place a job, or to leave it out: what it takes and what it counts for each objective."""

    cut: Cut | None
    uses: list[tuple[int, int]]
    mask: int
    counts: list[int]
    traffic: tuple[int, ...]
    moves: bool = False


class ConsolidationTruth(Truth):
    """All plans of a consolidation document whose catalogue, if any, is filled in.

    Parameters
    ----------
    most
        Partial placements that are looked at before it is too much.
    """

    def __init__(self, data: dict[str, Any], most: int = MAX_WAYS) -> None:
        super().__init__(data)
        names = data.get("objectives")
        if names is None:
            running = any(group.get("current") for job in data["jobs"] for group in groups_of(job))
            names = ["value", "spread", "servers", *(["stops", "migrations"] if running else [])]
        self.aim: dict[str, Any] | None = data.get("free")
        if self.aim is not None and "free" not in names:
            names = ["free", "migrations"]
        self.objectives = tuple((name, "max" if name in ("value", "free") else "min") for name in names)
        self.servers = expanded(data["servers"])
        self.place = {server["name"]: n for n, server in enumerate(self.servers)}
        self.jobs = {job["name"]: job for job in data["jobs"]}
        self.resources = list(dict.fromkeys(r for s in self.servers for r in s["capacity"]))
        self._scale()
        self.names = [server["name"] for server in self.servers]
        self.devices = DeviceTruth(self.servers, bool(data.get("device_moves")))
        size = math.prod(
            1 + math.prod(math.comb(g["tasks"] + len(self.servers) - 1, g["tasks"]) for g in groups_of(job))
            for job in data["jobs"]
        )
        self._most = most
        if size > 30 * most:
            raise TooManyPlansError
        self.releasable = self._releasable()
        self.fewest = {name: self._fewest(job) for name, job in self.jobs.items()}
        self._leave_what_stays()
        self.plans = []
        self._steps = 0
        ways = [self._ways(job) for job in data["jobs"]]
        self._extend(ways, [], [0] * len(self.limits), 0, [0] * len(ALL), tuple(self._before))

    def _scale(self) -> None:
        """Turn demands, room, values, slowdowns and traffic into whole numbers."""
        self._demand: dict[tuple[str, int], list[int]] = {}
        self.limits: list[Any] = []
        self._units: list[int] = []
        self._capacity: list[list[Any]] = [[] for _ in self.servers]
        groups = [
            (job["name"], g, group) for job in self.data["jobs"] for g, group in enumerate(groups_of(job))
        ]
        for r in self.resources:
            amounts, unit = whole(group["demand"].get(r, 0) for _, _, group in groups)
            self._units.append(unit)
            for (name, g, _), amount in zip(groups, amounts, strict=True):
                self._demand.setdefault((name, g), []).append(amount)
            for n, server in enumerate(self.servers):
                room = server["capacity"] if server.get("free") is None else server["free"]
                self.limits.append(limits(room.get(r, 0), unit))
                self._capacity[n].append(limits(server["capacity"].get(r, 0), unit))
        worth = {name: self._worth(job) for name, job in self.jobs.items()}
        restarts = [worth[name] * self._restart_h(job) for name, job in self.jobs.items()]
        costs, self.value_unit = whole([*worth.values(), *restarts])
        self._value = dict(zip(worth, costs, strict=False))
        self._restart = dict(zip(worth, costs[len(worth) :], strict=True))
        most = len(self.servers) + 1
        lost = [
            worth[name] * (1 - self._speed(job, n)) for name, job in self.jobs.items() for n in range(1, most)
        ]
        costs, self.slowdown_unit = whole(lost)
        self._lost = {name: costs[i * (most - 1) : (i + 1) * (most - 1)] for i, name in enumerate(self.jobs)}
        before = [server.get("traffic_gbit_per_s", 0) for server in self.servers]
        each = [group.get("traffic_gbit_per_s", 0) for _, _, group in groups]
        costs, self.traffic_unit = whole([*before, *each])
        self._before = costs[: len(before)]
        self._traffic = {(n, g): c for (n, g, _), c in zip(groups, costs[len(before) :], strict=True)}

    def _leave_what_stays(self) -> None:
        """Give the slack of a limit to what jobs that stay leave of it, of which the others take."""
        staying: dict[tuple[int, int], list[tuple[int, int, float]]] = defaultdict(list)
        for name, job in self.jobs.items():
            if not self._stays(job):
                continue
            for g, (group, row) in enumerate(zip(groups_of(job), self._now(job), strict=True)):
                for n, r in itertools.product(range(len(self.servers)), range(len(self.resources))):
                    each = group["demand"].get(self.resources[r], 0)
                    if row[n] and each:
                        staying[r, n].append((row[n], self._demand[name, g][r], each))
        for (r, n), listed in staying.items():
            server, at = self.servers[n], r * len(self.servers) + n
            room = server["capacity"] if server.get("free") is None else server["free"]
            left = as_written(room.get(self.resources[r], 0))
            left -= sum(count * as_written(each) for count, _, each in listed)
            taken = sum(count * demand for count, demand, _ in listed)
            more = limits(max(left, Fraction(0)), self._units[r])
            self.limits[at] = tuple(
                min(limit, taken + own) for limit, own in zip(self.limits[at], more, strict=True)
            )

    @staticmethod
    def _worth(job: dict[str, Any]) -> Fraction:
        if job.get("value") is not None:
            return as_written(job["value"])
        each = (
            (g, Fraction(g["demand"].get("gpu", 0)) + Fraction(thousandths(g), 1000)) for g in groups_of(job)
        )
        return sum((g["tasks"] * gpus for g, gpus in each), Fraction(0))

    def _restart_h(self, job: dict[str, Any]) -> Fraction:
        """Return the hours of its value that a running job loses if it moves."""
        if job.get("restart_s") is not None:
            return as_written(job["restart_s"]) / 3600
        return as_written(self.data.get("restart_cost_h") or 0)

    def _stays(self, job: dict[str, Any]) -> bool:
        """Return whether all tasks of a job run and may not move."""
        if any(sum((g.get("current") or {}).values()) < g["tasks"] for g in groups_of(job)):
            return False
        pinned = any(fnmatchcase(job["name"], pattern) for pattern in self.data.get("pinned") or ())
        return pinned or job.get("movable") is False or self.data.get("running") == "stay"

    @staticmethod
    def _speed(job: dict[str, Any], servers: int) -> Fraction:
        speeds = {int(count): speed for count, speed in (job.get("speed_by_servers") or {}).items()}
        if not speeds:
            return Fraction(1)
        below = [count for count in speeds if count <= servers]
        return Fraction(speeds[max(below) if below else min(speeds)])

    def _spread_of(self, job: dict[str, Any]) -> str:
        spread: str = job.get("spread", "free")
        if spread == "from_skew":
            return "required" if job["skew"] > self.data.get("skew_threshold", 0.3) else "free"
        return spread

    def _eligible(self, job: dict[str, Any]) -> list[int]:
        wanted = job.get("gpu_model")
        models = wanted if isinstance(wanted, list) else [wanted]
        return [n for n, s in enumerate(self.servers) if wanted is None or s.get("gpu_model") in models]

    def _cuts(self, job: dict[str, Any]) -> Iterator[Cut]:
        """Yield every way to put all tasks of a job on eligible servers."""
        eligible = self._eligible(job)
        if not eligible:
            return
        for cut in itertools.product(*(splits(g["tasks"], len(eligible)) for g in groups_of(job))):
            full = []
            for group in cut:
                row = [0] * len(self.servers)
                for n, count in zip(eligible, group, strict=True):
                    row[n] = count
                full.append(tuple(row))
            yield tuple(full)

    def _fewest(self, job: dict[str, Any]) -> int | None:
        """Return m_j, from capacities; None if the job can never run."""
        found: list[int | None] = []
        for which in (0, 1):
            best = None
            for cut in self._cuts(job):
                used = [n for n in range(len(self.servers)) if any(group[n] for group in cut)]
                if best is not None and len(used) >= best:
                    continue
                if all(
                    sum(group[n] * self._demand[job["name"], g][r] for g, group in enumerate(cut))
                    <= self._capacity[n][r][which]
                    for n in used
                    for r in range(len(self.resources))
                ) and all(
                    self.devices.could_hold(n, tasks) for n, tasks in self._there([(job, cut)]).items()
                ):
                    best = len(used)
            found.append(best)
        if found[0] != found[1]:
            self.unclear = f"the fewest servers of {job['name']!r} lie within the slack"
        return found[1]

    def _there(self, cuts: Sequence[tuple[dict[str, Any], Cut | None]]) -> dict[int, list[Tasks]]:
        """Return server → the tasks there that ask for devices."""
        return tasks_there([(groups_of(job), cut) for job, cut in cuts], self.names)

    def _way(self, job: dict[str, Any], cut: Cut | None) -> Way:
        """Return what a placement takes and counts; None leaves the job out."""
        name, groups = job["name"], groups_of(job)
        moved = 0
        for g, group in enumerate(groups):
            for server, count in (group.get("current") or {}).items():
                moved += count - (min(count, cut[g][self.place[server]]) if cut else 0)
        if cut is None:
            lost = self._restart[name] if moved else 0
            return Way(
                None, [], 0, [lost, 0, 0, 0, moved > 0, moved, 0, 0], (0,) * len(self.servers), moved > 0
            )
        used = [n for n in range(len(self.servers)) if any(group[n] for group in cut)]
        racks = {self.servers[n].get("rack") or (n,) for n in used}
        uses = []
        for r in range(len(self.resources)):
            for n in used:
                amount = sum(group[n] * self._demand[name, g][r] for g, group in enumerate(cut))
                if amount:
                    uses.append((r * len(self.servers) + n, amount))
        spread = len(used) - (self.fewest[name] or 0) if self._spread_of(job) == "preferred" else 0
        value = (self._restart[name] if moved else 0) - self._value[name]
        counts = [value, spread, 0, len(racks) - 1, 0, moved, self._lost[name][len(used) - 1], 0]
        traffic = tuple(
            sum(group[n] * self._traffic[name, g] for g, group in enumerate(cut))
            for n in range(len(self.servers))
        )
        return Way(cut, uses, sum(1 << n for n in used), counts, traffic, moved > 0)

    def _allowed(self, job: dict[str, Any], cut: Cut) -> bool:
        if self._stays(job):  # what runs is right
            return cut == self._now(job)
        used = sum(any(group[n] for group in cut) for n in range(len(self.servers)))
        fewest = self.fewest[job["name"]]
        return fewest is not None and (self._spread_of(job) != "required" or used <= fewest)

    def _releasable(self) -> list[int]:
        """Return the servers of each unit that can be freed, as the bits of a number."""
        units: dict[Any, int] = defaultdict(int)
        never: set[Any] = set()
        aim = self.aim or {}
        for n, server in enumerate(self.servers):
            unit = server.get("rack") if aim.get("per") == "rack" else server["name"]
            units[unit] |= 1 << n
            if (
                unit is None
                or server.get("in_use")
                or aim.get("gpu_model") not in (None, server.get("gpu_model"))
            ):
                never.add(unit)
        return [mask for unit, mask in units.items() if unit not in never and mask & self._busy()]

    def _busy(self) -> int:
        """Return the servers on which tasks run now, as the bits of a number."""
        rows = [row for job in self.jobs.values() for row in self._now(job)]
        return sum(1 << n for n in range(len(self.servers)) if any(row[n] for row in rows))

    def _runs(self, job: dict[str, Any]) -> bool:
        """Return whether a job may not be stopped, since servers are freed and all of it runs."""
        whole = all(sum((group.get("current") or {}).values()) >= group["tasks"] for group in groups_of(job))
        return self.aim is not None and whole

    def _wrong_moves(self, cuts: Sequence[Cut | None], mask: int) -> bool:
        """Return whether a task leaves a server that is not freed, or goes to one that is to stay empty."""
        if self.aim is None:
            return False
        chains = self.aim.get("chains")
        direct = self.aim.get("per", "server") == "server" if chains is None else not chains
        freed = sum(unit for unit in self.releasable if not unit & mask)
        busy = self._busy()
        for job, cut in zip(self.jobs.values(), cuts, strict=True):
            now = self._now(job)
            runs = any(map(any, now))
            for g, n in itertools.product(range(len(now)), range(len(self.servers))):
                count, before = cut[g][n] if cut else 0, now[g][n]
                if direct and count < before and not freed >> n & 1:
                    return True
                empty = not busy >> n & 1 and not self.servers[n].get("in_use")
                if runs and count and empty and not self.aim.get("into_empty"):
                    return True
        return False

    def _now(self, job: dict[str, Any]) -> Cut:
        """Return where the tasks of a job are now."""
        now = [group.get("current") or {} for group in groups_of(job)]
        return tuple(tuple(there.get(server["name"], 0) for server in self.servers) for there in now)

    def _ways(self, job: dict[str, Any]) -> list[Way]:
        stays = self._stays(job)
        ways = [] if job.get("must_place") or stays or self._runs(job) else [self._way(job, None)]
        for cut in [self._now(job)] if stays else self._cuts(job):
            if self._allowed(job, cut):
                way = self._way(job, cut)
                if all(amount <= self.limits[at][1] for at, amount in way.uses):
                    ways.append(way)
        return ways

    def _extend(
        self,
        ways: list[list[Way]],
        chosen: list[Way],
        used: list[int],
        mask: int,
        counts: list[int],
        traffic: tuple[int, ...],
    ) -> None:
        self._steps += 1
        if self._steps > self._most:
            raise TooManyPlansError
        if len(chosen) == len(ways):
            if self._wrong_moves([way.cut for way in chosen], mask):
                return
            certain = all(amount <= limit[0] for amount, limit in zip(used, self.limits, strict=True))
            for more in self._on_devices(chosen, counts):
                self.plans.append((self._costs(mask, more, traffic), certain))
            return
        for way in ways[len(chosen)]:
            after = used
            if way.uses:
                after = used.copy()
                for at, amount in way.uses:
                    after[at] += amount
                if any(after[at] > self.limits[at][1] for at, _ in way.uses):
                    continue
            total = [a + b for a, b in zip(counts, way.counts, strict=True)]
            load = tuple(a + b for a, b in zip(traffic, way.traffic, strict=True))
            self._extend(ways, [*chosen, way], after, mask | way.mask, total, load)

    def _on_devices(self, chosen: Sequence[Way], counts: list[int]) -> Iterator[list[int]]:
        """Yield the counts of each way to hold devices that may be best: who keeps all that they hold."""
        there = self._there(list(zip(self.data["jobs"], (way.cut for way in chosen), strict=True)))
        held = {of.job for tasks in there.values() for of in tasks if of.now is not None}
        names = list(self.jobs)
        bound = {j for j in held if self._stays(self.jobs[names[j]])}
        free = sorted(j for j in held - bound if not chosen[j].moves) if self.devices.device_moves else []
        for changes in itertools.chain.from_iterable(
            itertools.combinations(free, k) for k in range(len(free) + 1)
        ):
            moves = [
                self.devices.moves(n, tasks, frozenset(bound | (set(free) - set(changes))))
                for n, tasks in there.items()
            ]
            moving = len(changes) + sum(way.moves for way in chosen)
            if None in moves or self._too_many(moving):
                continue
            more = counts.copy()
            more[VALUE] += sum(self._restart[names[j]] for j in changes)
            more[MOVES] += sum(filter(None, moves))
            yield more

    def _too_many(self, moving: int) -> bool:
        """Return whether more jobs move than may."""
        most = self.data.get("max_moves")
        return most is not None and moving > most

    def _costs(self, mask: int, counts: list[int], traffic: Sequence[int]) -> tuple[int, ...]:
        of = dict(zip(ALL, counts, strict=True)) | {"servers": mask.bit_count(), "traffic": max(traffic)}
        of["free"] = -min((self.aim or {}).get("count", 0), sum(not unit & mask for unit in self.releasable))
        return tuple(of[name] for name, _ in self.objectives)

    def value(self, index: int, cost: int) -> Fraction:
        """Return the value of an objective."""
        name = self.objectives[index][0]
        if name in ("value", "free"):
            return Fraction(-cost, self.value_unit if name == "value" else 1)
        units = {"slowdown": self.slowdown_unit, "traffic": self.traffic_unit}
        return Fraction(cost, units.get(name, 1))

    def judge(self, plan: Sequence[dict[str, Any]]) -> Judgement:
        """Return the costs of a plan, and what is wrong with it."""
        if sorted(entry["job"] for entry in plan) != sorted(self.jobs):
            return None, ["the jobs of the plan are not those of the instance"]
        used, mask, counts = [0] * len(self.limits), 0, [0] * len(ALL)
        traffic, wrong = list(self._before), []
        held: dict[int, list[tuple[Tasks, list[dict[str, Any]]]]] = {}
        moving, cuts = 0, dict[str, Cut | None]()
        for entry in plan:
            job = self.jobs[entry["job"]]
            cut, fault = self._cut_of(job, entry)
            if fault:
                return None, [fault]
            cuts[job["name"]] = cut
            moved = self._held(job, cut, entry, held, wrong)
            if entry.get("action") not in self._actions(job, cut, moved if self.devices.device_moves else 0):
                wrong.append(f"{job['name']}: the action is {entry.get('action')}")
            if cut is not None and not self._allowed(job, cut):
                wrong.append(f"{job['name']}: on more servers than it may use, or not where it stays")
            if cut is None and self._stays(job):
                wrong.append(f"{job['name']}: is stopped, but stays")
            way = self._way(job, cut)
            if self._stays(job) and moved:
                wrong.append(f"{job['name']}: stays, but on other devices")
            moved = moved if self.devices.device_moves else 0
            if way.moves or moved:
                moving += 1
                counts[VALUE] += 0 if way.moves else self._restart[job["name"]]
            for at, amount in way.uses:
                used[at] += amount
            mask |= way.mask
            counts = [a + b for a, b in zip(counts, way.counts, strict=True)]
            counts[MOVES] += moved
            traffic = [a + b for a, b in zip(traffic, way.traffic, strict=True)]
        wrong += self.devices.faults(held)
        if self._too_many(moving):
            wrong.append("more jobs move than may")
        if self._wrong_moves([cuts[name] for name in self.jobs], mask):
            wrong.append("a task leaves a server that is not freed, or goes to an empty one")
        if any(amount > limit[1] for amount, limit in zip(used, self.limits, strict=True)):
            wrong.append("more than is free on a server")
        return self._costs(mask, counts, traffic), wrong

    def _held(
        self,
        job: dict[str, Any],
        cut: Cut | None,
        entry: dict[str, Any],
        held: dict[int, list[tuple[Tasks, list[dict[str, Any]]]]],
        wrong: list[str],
    ) -> int:
        """Note what the tasks of a job hold; return how many that stay on their server change devices."""
        moved = 0
        named = {
            (group, server): tasks
            for group, there in (entry.get("devices") or {}).items()
            for server, tasks in there.items()
        }
        for g, group in enumerate(groups_of(job) if cut is not None else ()):
            only = [row if k == g else () for k, row in enumerate(cut or ())]
            for n, (tasks,) in tasks_there([(groups_of(job), only)], self.names).items():
                places = list(named.pop((group["name"], self.names[n]), ()))
                held.setdefault(n, []).append((tasks, places))
                moved += self.devices.moved(tasks, places)
        if any(named.values()):
            wrong.append(f"{job['name']}: holds devices where it has no task that asks for them")
        return moved

    def _actions(self, job: dict[str, Any], cut: Cut | None, moved: int) -> tuple[str | None, ...]:
        """Return what an entry may say of what becomes of its job; nothing where no job runs now."""
        running = [bool(group.get("current")) for other in self.jobs.values() for group in groups_of(other)]
        groups = groups_of(job)
        if not any(running):
            return (None,)
        if not any(group.get("current") for group in groups):
            return (None, "wait") if cut is None else (None, "start")
        if cut is None:
            return None, "stop"
        placed = [{self.servers[n]["name"]: k for n, k in enumerate(row) if k} for row in cut]
        if any(sum((group.get("current") or {}).values()) != group["tasks"] for group in groups):
            return None, "keep", "move"  # only some of the tasks run; what that is, no document says
        same = all(group.get("current") == row for group, row in zip(groups, placed, strict=True))
        return (None, "keep") if same and not moved else (None, "move")

    def _cut_of(self, job: dict[str, Any], entry: dict[str, Any]) -> tuple[Cut | None, str | None]:
        """Return where an entry puts the tasks of its job, or what is wrong with it."""
        name, groups = job["name"], groups_of(job)
        if job.get("groups") is not None:
            held = entry.get("groups") or {}
        else:
            held = {"tasks": entry["servers"]} if entry.get("servers") else {}
        if not entry.get("placed", True):
            if job.get("must_place") or held or self._runs(job):
                return None, f"{name}: must be placed, or has tasks though it is not"
            return None, None
        if set(held) - {group["name"] for group in groups}:
            return None, f"{name}: has no such group"
        eligible = {self.servers[n]["name"] for n in self._eligible(job)}
        if self._stays(job):
            eligible = set(self.names)
        cut = []
        for group in groups:
            placed = held.get(group["name"], {})
            if sum(placed.values()) != group["tasks"] or not set(placed) <= eligible:
                return None, f"{name}: not all tasks of {group['name']} are on servers that it may use"
            cut.append(tuple(placed.get(server["name"], 0) for server in self.servers))
        return tuple(cut), None
