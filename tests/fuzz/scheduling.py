"""Random traces as documents, and bounds on what any schedule reaches."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from .palette import Palette
from .truth import CERTAIN, POSSIBLE, TINY, TooManyPlansError, Truth

ON_SERVERS = 0.35
WITH_EVENTS = 0.25
LONGEST_S = 1e10
SPREADS: tuple[dict[int, float], ...] = (
    {1: 1, 2: 0.5},
    {2: 0.9, 3: 0.3},
    {1: 1, 2: 1 / 3},
    {1: 0.7},
    {1: 1, 2: 1e-6},
)


def _time(palette: Palette, family: str) -> float:
    return min(max(palette.draw(family), 1e-6), LONGEST_S)


def _job(rng: random.Random, palette: Palette, index: int, names: list[str], servers: bool) -> dict[str, Any]:
    asked = rng.sample(names, rng.randint(1, len(names)))
    job: dict[str, Any] = {
        "name": f"job-{index}",
        "demand": {name: palette.draw(name) for name in asked},
        "duration_s": _time(palette, "duration"),
    }
    if rng.random() < 0.4:
        job["tasks"] = rng.randint(1, 3)
    if rng.random() < 0.7:
        job["arrival_s"] = rng.choice([0, _time(palette, "duration"), _time(palette, "arrival")])
    if rng.random() < 0.4:
        job["weight"] = palette.draw("weight")
    if rng.random() < 0.3:
        job["tenant"] = rng.choice("ab")
    if rng.random() < 0.3:
        job["estimate_s"] = _time(palette, "duration")
    if rng.random() < 0.2:
        job["restart_s"] = rng.choice([0, _time(palette, "restart")])
    if servers and rng.random() < 0.4:
        job["speed_by_servers"] = rng.choice(SPREADS)
    if servers and rng.random() < 0.3:
        job["skew"] = rng.random()
    return job


def _total(job: dict[str, Any], name: str) -> float:
    return float(job["demand"].get(name, 0) * job.get("tasks", 1))


def _cluster(rng: random.Random, palette: Palette, jobs: list[dict[str, Any]], names: list[str]) -> Any:
    """Return amounts that just hold some of the jobs together, and each of them alone."""
    amounts = {}
    for name in names:
        asked = [_total(job, name) for job in jobs]
        some = palette.sum_of_some(asked)
        amounts[name] = min(max([palette.near(some), *asked]), 1e15)
    return amounts


def _servers(rng: random.Random, palette: Palette, jobs: list[dict[str, Any]], names: list[str]) -> Any:
    """Return up to three servers, of which the first holds every job alone."""
    first = {name: max(_total(job, name) for job in jobs) for name in names}
    servers = [{"name": "s", "capacity": first}]
    for k in range(rng.randint(0, 2)):
        tasks = {name: [job["demand"].get(name, 0) for job in jobs] for name in names}
        capacity = {name: min(palette.near(palette.sum_of_some(tasks[name])), 1e15) for name in names}
        servers.append({"name": f"t{k}", "capacity": capacity})
    return servers


def _events(rng: random.Random, palette: Palette, data: dict[str, Any]) -> list[dict[str, Any]]:
    """Return something that fails, and is back later."""
    begin = _time(palette, "duration")
    end = begin + _time(palette, "duration")
    if "servers" in data:
        name = rng.choice(data["servers"])["name"]
        return [{"at_s": begin, "fails": [name]}, {"at_s": end, "returns": [name]}]
    name = rng.choice(list(data["resources"]))
    lost = data["resources"][name]
    lost = rng.choice([lost, lost / 2, lost / 4])
    return [{"at_s": begin, "change": {name: -lost}}, {"at_s": end, "change": {name: lost}}]


def document(rng: random.Random) -> dict[str, Any]:
    """Return a random scheduling document."""
    palette = Palette(rng)
    names = ["gpu", "cpu"][: rng.choice([1, 1, 2])]
    servers = rng.random() < ON_SERVERS
    jobs = [_job(rng, palette, index, names, servers) for index in range(rng.randint(1, 4 - servers))]
    last = max(job.get("arrival_s", 0) for job in jobs) + sum(job["duration_s"] for job in jobs)
    for job in jobs:  # less cannot be told beside such moments
        job["duration_s"] = max(job["duration_s"], 1e-14 * last)
    data: dict[str, Any] = {"schema_version": 1, "kind": "scheduling", "name": "random", "jobs": jobs}
    if servers:
        data["servers"] = _servers(rng, palette, jobs, names)
    else:
        data["resources"] = _cluster(rng, palette, jobs, names)
    if rng.random() < 0.3:
        data["objective"] = rng.choice(["mean_completion_time", "makespan"])
    data["preemption"] = rng.choice(["free", "free", "none", "none", "costs"])
    if rng.random() < 0.3:
        data["restart_s"] = _time(palette, "restart")
    if rng.random() < 0.15:
        data["lease_s"] = _time(palette, "duration")
    if rng.random() < WITH_EVENTS:
        data["events"] = _events(rng, palette, data)
        if data["preemption"] == "none" or rng.random() < 0.2:
            data["evict"] = "restart"
        if rng.random() < 0.4:
            data["checkpoint_s"] = _time(palette, "duration")
    if rng.random() < 0.1:
        data["tenant_shares"] = {
            name: palette.draw("share") for name in {job["tenant"] for job in jobs if "tenant" in job}
        }
    return data


MAX_STEPS = 15_000
MAX_EVENTS = 12
"""Events beyond which a way is given up; without preemption there are never so many."""
WORK = Fraction(1001, 10**12)
"""Share of the time since the first arrival, and of the work, by which work may be missing."""
DOUBLES = Fraction(41, 10**16)
"""Share of a moment by which it may be off for being a double."""
Place = tuple[tuple[int, int], ...]
"""Servers by index, and tasks on each; empty on a pool."""


@dataclass(frozen=True)
class Job:
    """A job in fractions; `demand` is of one task."""

    arrival: Fraction
    work: Fraction
    tasks: int
    demand: tuple[Fraction, ...]
    weight: Fraction
    restart: Fraction
    speeds: Mapping[int, Fraction]

    def speed(self, place: Place) -> Fraction:
        """Return its speed where it is."""
        if not self.speeds or not place:
            return Fraction(1)
        below = [count for count in self.speeds if count <= len(place)]
        return self.speeds[max(below) if below else min(self.speeds)]


@dataclass(frozen=True)
class Run:
    """A job that runs: since when, where, and what had been done then."""

    since: Fraction
    place: Place
    done: Fraction
    first: bool


class SchedulingTruth(Truth):
    """The best of what can happen, and a check of segments."""

    def __init__(self, data: dict[str, Any]) -> None:
        super().__init__(data)
        self.goal = data.get("objective", "mean_completion_time")
        self.objectives = ((self.goal, "min"),)
        self.rule = data.get("preemption", "free")
        self.lease = Fraction(data.get("lease_s", 0))
        self.restarts = data.get("evict") == "restart"
        servers = data.get("servers", [])
        self.names = [server["name"] for server in servers]
        pools = [server["capacity"] for server in servers] or [data["resources"]]
        resources = list(dict.fromkeys(name for pool in pools for name in pool))
        self.resources = resources
        self.jobs = [self._job(job) for job in data["jobs"]]
        self.index = {job["name"]: j for j, job in enumerate(data["jobs"])}
        first = [tuple(Fraction(pool.get(name, 0)) for name in resources) for pool in pools]
        self.amounts = list(self._over_time(first))
        self.moments = [at for at, _ in self.amounts]
        self.start = min(job.arrival for job in self.jobs)
        self._steps = 0
        self._best: Fraction | None = None
        self._slack: set[bool] = set()
        self._from(self.start, {}, dict.fromkeys(range(len(self.jobs)), Fraction(0)), frozenset(), {})
        self.plans = [] if self._best is None else [((self._best,), True)]  # type: ignore[list-item]

    def _job(self, job: dict[str, Any]) -> Job:
        restart = job.get("restart_s", self.data.get("restart_s", 0)) if self.rule == "costs" else 0
        return Job(
            Fraction(job.get("arrival_s", 0)),
            Fraction(job["duration_s"]),
            job.get("tasks", 1),
            tuple(Fraction(job["demand"].get(name, 0)) for name in self.resources),
            Fraction(job.get("weight", 1)),
            Fraction(restart),
            {int(k): Fraction(speed) for k, speed in job.get("speed_by_servers", {}).items()},
        )

    def _over_time(self, first: list[tuple[Fraction, ...]]) -> Iterator[tuple[Fraction, Any]]:
        """Yield from when on there is how much of each resource on each server, or in the pool."""
        whole, up = [list(amounts) for amounts in first], [True] * len(first)

        def now() -> Any:
            none = tuple(Fraction(0) for _ in self.resources)
            return [tuple(amounts) if there else none for amounts, there in zip(whole, up, strict=True)]

        yield Fraction(-1), now()
        for event in sorted(self.data.get("events", []), key=lambda event: event["at_s"]):
            at = self.names.index(event["server"]) if "server" in event else 0
            for name, amount in event.get("change", {}).items():
                r = self.resources.index(name)
                # What there is in the end is a double.
                whole[at][r] = Fraction(float(whole[at][r]) + float(amount))
            for name in event.get("fails", []):
                up[self.names.index(name)] = False
            for name in event.get("returns", []):
                up[self.names.index(name)] = True
            yield Fraction(event["at_s"]), now()

    def _there(self, at: Fraction) -> Any:
        return [amounts for moment, amounts in self.amounts if moment <= at][-1]

    def _falls(self, at: Fraction, place: Place) -> bool:
        """Return whether amounts fall at a moment, of the pool or of one of the servers."""
        for (_, before), (moment, after) in itertools.pairwise(self.amounts):
            if moment == at:
                where = [n for n, _ in place] if self.names else [0]
                if any(b > a for n in where for b, a in zip(before[n], after[n], strict=True)):
                    return True
        return False

    def _kept(self, done: Fraction, slack: Fraction = Fraction(0)) -> Fraction:
        """Return what is left of the work when amounts have fallen."""
        if "checkpoint_s" in self.data:
            step = Fraction(self.data["checkpoint_s"])
            return min(done, math.floor((done + slack) / step) * step)
        return Fraction(0) if self.rule == "none" else done

    def _fits(self, used: Sequence[Fraction], there: Sequence[Fraction]) -> bool:
        """Return whether amounts certainly fit, and note where the slack leaves it open."""
        certain = all(u <= t * CERTAIN for u, t in zip(used, there, strict=True))
        possible = all(u <= t * POSSIBLE + TINY for u, t in zip(used, there, strict=True))
        self._slack.add(certain == possible)
        if certain != possible:
            self.unclear = "whether jobs fit together"
        return certain

    def _places(self, j: int) -> Iterator[Place]:
        """Yield every way to put the tasks of a job on servers."""
        if not self.names:
            yield ()
            return
        tasks = self.jobs[j].tasks
        for counts in itertools.product(range(tasks + 1), repeat=len(self.names)):
            if sum(counts) == tasks:
                yield tuple((n, count) for n, count in enumerate(counts) if count)

    def _used(self, running: Mapping[int, Place]) -> list[list[Fraction]]:
        used = [[Fraction(0)] * len(self.resources) for _ in self.amounts[0][1]]
        for j, place in running.items():
            for n, count in place or ((0, self.jobs[j].tasks),):
                for r, amount in enumerate(self.jobs[j].demand):
                    used[n][r] += amount * count
        return used

    def _all_fit(self, running: Mapping[int, Place], at: Fraction) -> bool:
        pairs = zip(self._used(running), self._there(at), strict=True)
        return all(self._fits(used, there) for used, there in pairs)

    def _from(
        self,
        now: Fraction,
        running: dict[int, Run],
        done: dict[int, Fraction],
        started: frozenset[int],
        ends: dict[int, Fraction],
        events: int = 0,
    ) -> None:
        """Try all that may run from a moment on; `done` is the work of jobs that do not run."""
        self._steps += 1
        if events > MAX_EVENTS:
            return
        if self._steps > MAX_STEPS:
            raise TooManyPlansError
        if len(ends) == len(self.jobs):
            cost = self._cost(ends)
            self._best = cost if self._best is None else min(self._best, cost)
            return
        if self._best is not None and self._at_least(now, ends) >= self._best:
            return
        for chosen in self._choices(now, running, ends):
            self._go_on(now, running, chosen, done, started, ends, events)

    def _choices(
        self, now: Fraction, running: dict[int, Run], ends: dict[int, Fraction]
    ) -> Iterator[dict[int, Place]]:
        """Yield every set of jobs that fits, with a place of each."""
        present = [j for j, job in enumerate(self.jobs) if job.arrival <= now and j not in ends]
        options: list[list[Place | None]] = []
        for j in present:
            held = j in running and (self.rule == "none" or now < running[j].since + self.lease)
            lost = j in running and self._falls(now, running[j].place)
            if (held and not lost) or (held and self.rule == "none" and not self.restarts):
                options.append([running[j].place])
            else:
                options.append([None, *self._places(j)])
        for places in itertools.product(*options):
            chosen = {j: place for j, place in zip(present, places, strict=True) if place is not None}
            if self._all_fit(chosen, now):
                yield chosen

    def _go_on(
        self,
        now: Fraction,
        running: dict[int, Run],
        chosen: dict[int, Place],
        done: dict[int, Fraction],
        started: frozenset[int],
        ends: dict[int, Fraction],
        before: int,
    ) -> None:
        """Let the chosen jobs run until the next event."""
        after = dict(done)
        for j, run in running.items():
            if chosen.get(j) != run.place:
                after[j] = self._progress(j, run, now)
                if self._falls(now, run.place):
                    after[j] = self._kept(after[j])
        runs = {
            j: running[j]
            if j in running and running[j].place == place
            else Run(now, place, after[j], j not in started)
            for j, place in chosen.items()
        }
        when = {j: self._end(j, run) for j, run in runs.items()}
        events = [*when.values(), *(m for m in self.moments if m > now)]
        events += [job.arrival for job in self.jobs if job.arrival > now]
        if self.lease and self.rule != "none":
            events += [run.since + self.lease for run in runs.values() if run.since + self.lease > now]
        if not events:
            return
        then = min(events)
        over = {j: end for j, end in when.items() if end == then}
        rest = {j: run for j, run in runs.items() if j not in over}
        self._from(then, rest, after, started | chosen.keys(), {**ends, **over}, before + 1)

    def _progress(self, j: int, run: Run, at: Fraction) -> Fraction:
        lost = Fraction(0) if run.first else self.jobs[j].restart
        return run.done + max(Fraction(0), at - run.since - lost) * self.jobs[j].speed(run.place)

    def _end(self, j: int, run: Run) -> Fraction:
        lost = Fraction(0) if run.first else self.jobs[j].restart
        return run.since + lost + (self.jobs[j].work - run.done) / self.jobs[j].speed(run.place)

    def _cost(self, ends: Mapping[int, Fraction]) -> Fraction:
        if self.goal == "makespan":
            return max(ends.values()) - self.start
        total = sum(job.weight for job in self.jobs)
        flow = sum(job.weight * (ends[j] - job.arrival) for j, job in enumerate(self.jobs))
        return Fraction(flow) / total

    def _at_least(self, now: Fraction, ends: Mapping[int, Fraction]) -> Fraction:
        """Return what the cost is at least if nobody else had to run any more."""
        return self._cost({j: ends.get(j, max(now, job.arrival)) for j, job in enumerate(self.jobs)})

    def value(self, index: int, cost: Any) -> Fraction:
        """Return the cost, in seconds."""
        del index
        return Fraction(cost)

    def judge(self, plan: Sequence[dict[str, Any]]) -> tuple[Any, list[str]]:
        """Return the cost of a plan, and what is wrong with its segments."""
        wrong = [f"unknown {entry['job']}" for entry in plan if entry["job"] not in self.index]
        if wrong:
            return None, wrong
        runs, wrong = self._runs(plan)
        if wrong or any(not runs[j] for j in range(len(self.jobs))):
            return None, wrong or ["a job never runs"]
        ends = {j: own[-1][1] for j, own in runs.items()}
        for j, own in runs.items():
            wrong += self._wrong_with(j, own, ends[j])
        wrong += self._overfull(runs)
        return (self._cost(ends),), wrong

    def _runs(self, plan: Sequence[dict[str, Any]]) -> tuple[dict[int, list[Any]], list[str]]:
        """Return start, end and place of each run of each job: segments that follow each other are one."""
        runs: dict[int, list[Any]] = {j: [] for j in range(len(self.jobs))}
        wrong = []
        named = {bool(entry.get("servers")) for entry in plan}
        if len(named) > 1 or (named == {True} and not self.names):
            return runs, ["some segments name servers, and others do not"]
        if named == {False} and any(job.speeds for job in self.jobs) and self.names:
            return runs, ["jobs are slower on several servers, and no segment names any"]
        for entry in sorted(plan, key=lambda entry: entry["start_s"]):
            j = self.index[entry["job"]]
            start, end = Fraction(entry["start_s"]), Fraction(entry["end_s"])
            servers = entry.get("servers", {})
            if set(servers) - set(self.names) or (servers and sum(servers.values()) != self.jobs[j].tasks):
                wrong.append(f"servers of {entry['job']}")
                continue
            place = tuple(sorted((self.names.index(name), count) for name, count in servers.items()))
            if end <= start or start < self.jobs[j].arrival or (runs[j] and start < runs[j][-1][1]):
                wrong.append(f"times of {entry['job']}: {entry['start_s']} to {entry['end_s']}")
            if runs[j] and runs[j][-1][1:] == [start, place]:
                runs[j][-1][1] = end
            else:
                runs[j].append([start, end, place])
        return runs, wrong

    def _wrong_with(self, j: int, own: list[Any], end: Fraction) -> list[str]:
        job, name = self.jobs[j], self.data["jobs"][j]["name"]
        slack = WORK * (job.work + end - self.start) + DOUBLES * end
        done, found, hits = Fraction(0), [], 0
        for k, (start, stop, place) in enumerate(own):
            done = self._progress(j, Run(start, place, done, k == 0), stop)
            if k + 1 == len(own):
                break
            hit = self._falls(stop, place)
            hits += hit
            done = self._kept(done, slack) if hit else done
            if stop - start < self.lease * (1 - WORK) and stop not in self.moments:
                found.append(f"lease of {name}")
        if done < job.work - slack:
            found.append(f"{name} does {float(done):g} of {float(job.work):g}")
        if self.rule == "none" and len(own) > 1 + (hits if self.restarts else 0):
            found.append(f"{name} is interrupted")
        return found

    def _overfull(self, runs: Mapping[int, list[Any]]) -> list[str]:
        """Return moments at which more is used than there is, even with the larger slack."""
        moments = {m for own in runs.values() for start, end, _ in own for m in (start, end)}
        found = []
        for at in sorted(moments | {m for m in self.moments if m >= 0}):
            on = {j: place for j, own in runs.items() for start, end, place in own if start <= at < end}
            named = any(on.values()) or not self.names
            used, there = self._used(on), self._there(at)
            if not named:  # all servers are taken as one pool
                used = [[sum(column, Fraction(0)) for column in zip(*used, strict=True)]]
                there = [tuple(sum(column, Fraction(0)) for column in zip(*there, strict=True))]
            for own, limit in zip(used, there, strict=True):
                if any(u > t * POSSIBLE + TINY for u, t in zip(own, limit, strict=True)):
                    found.append(f"more is used at {float(at):g} than there is")
        return found
