"""The bound on servers and under cuts of capacity: never above the best of all schedules of tiny traces."""

from __future__ import annotations

import itertools
import math
from functools import cache
from typing import Any

import numpy as np
import pytest
from malleable_instances import plan_by, random_prices

from clusterplan.formulations.common.clock import Clock
from clusterplan.formulations.scheduling.certificate import PriceGrid
from clusterplan.formulations.scheduling.check.price_bound import least_mean_completion_s, price_bound
from clusterplan.formulations.scheduling.formulation import SchedulingFormulation
from clusterplan.instances.scheduling.instance import SchedulingInstance
from clusterplan.solvers.scheduling.lagrangian_dual import best_prices

State = tuple[float, int, int, bool]
"""Of a job: seconds to do, its place or −1, seconds of restart to come, and whether it has run."""
Amounts = list[list[dict[str, float]]]
"""Of each second and server."""
DONE: State = (0.0, -1, 0, True)


def amounts_of(instance: SchedulingInstance, seconds: int) -> Amounts:
    """Return what there is in each second; a pool is one server."""
    full = {server.name: dict(server.capacity) for server in instance.servers}
    full = full or {"": dict(instance.resources)}
    found = []
    for t in range(seconds):
        now = {name: dict(capacity) for name, capacity in full.items()}
        gone = set()
        for event in sorted(instance.events, key=lambda event: event.at_s):
            if event.at_s <= t:
                for name, amount in event.change.items():
                    now[event.server or ""][name] += amount
                gone = (gone | set(event.fails)) - set(event.returns)
        found.append([{} if name in gone else capacity for name, capacity in now.items()])
    return found


class Search:
    """All schedules of a tiny trace in whole seconds, with places.

    What it finds is feasible, so no bound may be above it. Arrivals, durations, restarts and times of events
    have to be whole; a job that ends within a second keeps its place until the next one.
    """

    def __init__(self, instance: SchedulingInstance) -> None:
        self.jobs = list(instance.jobs)
        self.once, self.costs = instance.preemption == "none", instance.preemption == "costs"
        self.restart = int(instance.restart_s)
        self.kept_every = instance.checkpoint_s or (math.inf if self.once else 0.0)
        last_event = max((int(event.at_s) for event in instance.events), default=0)
        most = sum(2 * float(job.duration_s or 0) + self.restart for job in self.jobs)
        self.horizon = int(max(last_event, *(job.arrival_s for job in self.jobs)) + most) + 1
        self.amounts = amounts_of(instance, self.horizon)
        servers = range(len(self.amounts[0]))
        self.fell = [
            {
                s
                for s in servers
                if t and any(self.amounts[t][s].get(n, 0) < a for n, a in self.amounts[t - 1][s].items())
            }
            for t in range(self.horizon)
        ]
        self.places = [
            [
                place
                for place in itertools.product(range(job.tasks + 1), repeat=len(servers))
                if sum(place) == job.tasks
            ]
            for job in self.jobs
        ]
        self.best = cache(self._best)

    def least(self) -> float:
        """Return the least Σ ω_j (C_j − r_j)."""
        return self.best(0, tuple((float(job.duration_s or 0), -1, 0, False) for job in self.jobs))

    def _hit(self, j: int, t: int, place: int) -> bool:
        return any(self.places[j][place][s] for s in self.fell[t])

    def _choices(self, j: int, t: int, state: State) -> range | list[int]:
        """Return where a job may be in the second from t on; −1: it waits."""
        left, now, _, _ = state
        if left <= 0 or t < self.jobs[j].arrival_s:
            return [-1]
        if self.once and now >= 0 and not self._hit(j, t, now):
            return [now]
        return range(-1, len(self.places[j]))

    def _after(self, j: int, t: int, state: State, place: int) -> tuple[State, float]:
        """Return the state of a job after a second, and for how much of it the job is there."""
        left, now, lost, started = state
        job = self.jobs[j]
        if left <= 0 or t < job.arrival_s:
            return state, 0.0
        work = float(job.duration_s or 0)
        if now >= 0 and place != now and self._hit(j, t, now) and self.kept_every:
            left = (
                work - (work - left) // self.kept_every * self.kept_every if self.kept_every < 1e9 else work
            )
        if place < 0:
            return (left, -1, 0, started), 1.0
        if place != now:
            lost = self.restart if self.costs and started else 0
        if lost:
            return (left, place, lost - 1, True), 1.0
        spread = sum(count > 0 for count in self.places[j][place])
        speed = job.speed_by_servers.get(spread, 1.0)
        if left <= speed:
            return DONE, left / speed
        return (left - speed, place, 0, True), 1.0

    def _fits(self, t: int, chosen: tuple[int, ...]) -> bool:
        for s, there in enumerate(self.amounts[t]):
            used: dict[str, float] = {}
            for j, place in enumerate(chosen):
                tasks = self.places[j][place][s] if place >= 0 else 0
                for name, amount in self.jobs[j].demand.items() if tasks else ():
                    used[name] = used.get(name, 0.0) + tasks * amount
            if any(amount > there.get(name, 0.0) for name, amount in used.items()):
                return False
        return True

    def _best(self, t: int, states: tuple[State, ...]) -> float:
        if all(state[0] <= 0 for state in states):
            return 0.0
        if t == self.horizon:
            return math.inf
        found = math.inf
        for chosen in itertools.product(*(self._choices(j, t, state) for j, state in enumerate(states))):
            if self._fits(t, chosen):
                pairs = [self._after(j, t, state, chosen[j]) for j, state in enumerate(states)]
                paid = sum(job.weight * pair[1] for job, pair in zip(self.jobs, pairs, strict=True))
                if paid < found:
                    found = min(found, paid + self.best(t + 1, tuple(pair[0] for pair in pairs)))
        return found


def random_events(rng: np.random.Generator, names: list[str], amount: float) -> list[dict[str, Any]]:
    """Return a cut, or a failure, and its end."""
    at, after = int(rng.integers(1, 4)), int(rng.integers(1, 4))
    name = str(rng.choice(names)) if names else None
    if name is not None and rng.random() < 0.5:
        return [{"at_s": at, "fails": [name]}, {"at_s": at + after, "returns": [name]}]
    cut = float(rng.integers(1, amount + 1))
    where = {} if name is None else {"server": name}
    return [
        {"at_s": at, "change": {"gpu": -cut}, **where},
        {"at_s": at + after, "change": {"gpu": cut}, **where},
    ]


def tiny(seed: int) -> SchedulingInstance:
    """Return a random trace of two or three jobs on up to two servers, or on a pool that shrinks."""
    rng = np.random.default_rng(seed)
    servers = int(rng.integers(0, 3))
    amount = float(rng.integers(1, 3) if servers else rng.integers(2, 4))
    capacity = {"gpu": amount}
    if rng.random() < 0.25:
        capacity["cpu"] = amount + 1
    names = [f"n{k}" for k in range(servers)]
    preemption = str(rng.choice(["free", "costs", "none"]))
    events = random_events(rng, names, amount) if not servers or rng.random() < 0.6 else []
    most_tasks = int(amount) * max(servers, 1)
    jobs = []
    for k in range(int(rng.integers(2, 4))):
        job: dict[str, Any] = {
            "name": f"j{k}",
            "arrival_s": float(rng.integers(0, 3)),
            "duration_s": float(rng.integers(1, 4)),
            "tasks": int(rng.integers(1, most_tasks + 1)),
            "demand": dict.fromkeys(capacity, 1.0),
            "weight": float(rng.integers(0, 4)) if rng.random() < 0.5 and k else 1.0,
        }
        if servers == 2 and rng.random() < 0.3:
            job["speed_by_servers"] = {"1": 1.0, "2": 0.5}
        jobs.append(job)
    document: dict[str, Any] = {
        "schema_version": 1,
        "name": f"tiny-{seed}",
        "preemption": preemption,
        "restart_s": float(rng.integers(0, 3)) if preemption == "costs" else 0.0,
        "events": events,
        "jobs": jobs,
    }
    if servers:
        document["servers"] = [{"name": name, "capacity": capacity} for name in names]
    else:
        document["resources"] = capacity
    if events and preemption == "none":
        document["evict"] = "restart"
    if events and rng.random() < 0.3:
        document["checkpoint_s"] = 1.0
    return SchedulingInstance.model_validate(document)


def compare(seed: int, most_steps: int) -> tuple[float, float]:
    """Return the best mean of all schedules of a tiny trace, and the best bound that was found."""
    instance = tiny(seed)
    formulation = SchedulingFormulation(instance)
    best = Search(instance).least() / float(instance.table().weight.sum())
    plan = plan_by(formulation, "srsf")
    value = formulation.evaluate(plan)[0]
    # Whole seconds are not best where speeds or checkpoints make fractions of them.
    best = min(best, value)
    found = best_prices(instance, formulation.segments(plan), value, Clock(), most_steps=most_steps)
    bound = price_bound(instance, found.grid)
    assert bound <= best, seed
    for grid in random_prices(instance, seed, 2):
        assert price_bound(instance, grid) <= best, seed
    return best, max(bound, least_mean_completion_s(instance))


def test_the_search_knows_places_and_what_cuts_take() -> None:
    """Two tasks of one job on two servers; one of them is gone for a while."""
    document: dict[str, Any] = {
        "schema_version": 1,
        "name": "two",
        "servers": [{"name": name, "capacity": {"gpu": 1}} for name in ("a", "b")],
        "jobs": [{"name": "j", "duration_s": 3, "tasks": 2, "demand": {"gpu": 1}}],
    }
    assert Search(SchedulingInstance.model_validate(document)).least() == 3
    document["events"] = [{"at_s": 2, "fails": ["b"]}, {"at_s": 5, "returns": ["b"]}]
    assert Search(SchedulingInstance.model_validate(document)).least() == 6
    document |= {"preemption": "none", "evict": "restart"}
    assert Search(SchedulingInstance.model_validate(document)).least() == 8
    document["checkpoint_s"] = 1.0
    assert Search(SchedulingInstance.model_validate(document)).least() == 6
    document["jobs"][0]["speed_by_servers"] = {"2": 0.5}
    assert Search(SchedulingInstance.model_validate(document)).least() == 9


def test_it_is_never_above_the_best_of_all_schedules() -> None:
    """On servers that fail and shrink, on pools that shrink, with restarts and lost work."""
    for seed in range(60):
        compare(seed, 25)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 2000, 100))
def test_it_is_never_above_the_best_of_all_schedules_of_many_traces(seed: int) -> None:
    """And it is not far below."""
    pairs = np.array([compare(one, 25) for one in range(seed, seed + 100)])
    assert (pairs[:, 1] / pairs[:, 0]).mean() > 0.75


def test_a_job_that_goes_on_from_a_checkpoint_does_not_run_in_one_go() -> None:
    """Although preemption is not allowed; prices would prove more of one that does."""
    document: dict[str, Any] = {
        "schema_version": 1,
        "name": "twice",
        "resources": {"gpu": 1},
        "preemption": "none",
        "evict": "restart",
        "checkpoint_s": 1.0,
        "events": [{"at_s": 2, "change": {"gpu": -1}}, {"at_s": 4, "change": {"gpu": 1}}],
        "jobs": [{"name": "j", "duration_s": 3, "demand": {"gpu": 1}}],
    }
    grid = PriceGrid(np.array([0.0, 2.0, 4.0, 5.0]), np.array([[0.0], [9.0], [0.0], [0.0]]))
    instance = SchedulingInstance.model_validate(document)
    best = Search(instance).least()
    assert best == 5
    assert 4.99 < price_bound(instance, grid) <= best
    again = instance.replace(checkpoint_s=None)
    assert best < price_bound(again, grid) <= Search(again).least() == 7


def test_a_bound_that_forgets_cuts_of_capacity_would_be_seen() -> None:
    """The same prices seem to prove more where capacity stays away for longer."""
    exceeded = 0
    for seed in range(60):
        instance = tiny(seed)
        if not instance.events or instance.servers or "cpu" in instance.resources:
            continue
        formulation = SchedulingFormulation(instance)
        plan = plan_by(formulation, "srsf")
        value = formulation.evaluate(plan)[0]
        found = best_prices(instance, formulation.segments(plan), value, Clock(), most_steps=40)
        later = [instance.events[0], instance.events[1].model_copy(update={"at_s": 30.0})]
        longer = instance.replace(events=[event.model_dump(exclude_defaults=True) for event in later])
        best = min(value, Search(instance).least() / float(instance.table().weight.sum()))
        exceeded += price_bound(longer, found.grid) > best
    assert exceeded > 3
