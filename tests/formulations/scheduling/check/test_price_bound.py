"""The bound by prices of time: never above the best of all schedules of tiny traces, nor any plan's value."""

from __future__ import annotations

import itertools
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from malleable_instances import plan_by, random_prices
from muri import MuriPolicy

from clusterplan.formulations.common.clock import Clock
from clusterplan.formulations.scheduling.certificate import PriceGrid
from clusterplan.formulations.scheduling.check.price_bound import (
    least_mean_completion_s,
    price_bound,
    priced_capacity,
)
from clusterplan.formulations.scheduling.formulation import SchedulingFormulation
from clusterplan.formulations.scheduling.plan import Segment
from clusterplan.instances.importers.traces.tiresias import import_muri
from clusterplan.instances.scheduling.generate import generate_scheduling
from clusterplan.instances.scheduling.instance import SchedulingInstance
from clusterplan.solvers.common.result import SolveOptions
from clusterplan.solvers.scheduling.lagrangian_dual import best_prices

State = tuple[int, int, int, int]
"""Of a job: work to do, configuration that runs or −1, seconds of restart to come, and of its lease."""


def least_weighted_time(instance: SchedulingInstance) -> float:
    """Return the least Σ ω_j (C_j − r_j) over all schedules in whole seconds.

    What it finds is feasible, so no bound may be above it. Without preemption it is optimal where all data
    are whole; where jobs may be interrupted, fractions of seconds can be better.
    Work, speeds, arrivals, durations, restarts, leases and times of events have to be whole.
    """
    table, menus = instance.table(), instance.menus()
    arrival = table.arrival_s.astype(int).tolist()
    weight = table.weight.tolist()
    rows = [range(int(menus.first[j]), int(menus.first[j + 1])) for j in range(len(table))]
    once, costs = instance.preemption == "none", instance.preemption == "costs"
    own = np.where(np.isnan(table.restart_s), instance.restart_s, table.restart_s)
    restart = (own if costs else 0 * own).astype(int).tolist()
    lease = int(instance.lease_s)
    works = menus.work.astype(int).tolist()
    times, amounts = instance.capacity_over_time
    # Nobody has to wait for longer than all others take, one after the other.
    horizon = max(arrival) + sum(works) + 2 * max(restart) + lease
    capacity = [tuple(amounts[np.searchsorted(times, t, side="right") - 1]) for t in range(horizon)]
    usage = [tuple(row) for row in menus.usage.tolist()]
    speed = menus.speed.astype(int).tolist()

    def choices(j: int, t: int, state: State) -> list[int]:
        """Return what a job may do in the second from t on: wait, or run in a configuration."""
        left, now, _, bound = state
        if left <= 0 or t < arrival[j]:
            return [-1]
        if now >= 0 and (once or bound > 0):
            return [now]
        return [-1, *rows[j]]

    def after(j: int, state: State, k: int) -> State:
        """Return the state of a job after a second in configuration k, or of waiting."""
        left, now, lost, bound = state
        if left <= 0:
            return (0, -1, 0, 0)
        if k < 0:
            return (left, -1, lost, 0)
        if k != now:  # a start; the first one is free
            lost = restart[j] if left < works[j] or lost != 0 or now >= 0 else 0
            bound = lease
        if lost > 0:
            return (left, k, lost - 1 or -1, max(bound - 1, 0))
        left = max(0, left - speed[k])
        return (left, k, -1, max(bound - 1, 0)) if left else (0, -1, 0, 0)

    @cache
    def best(t: int, states: tuple[State, ...]) -> float:
        if all(state[0] == 0 for state in states):
            return 0.0
        if t == horizon:
            return float("inf")
        paid = sum(w for w, r, state in zip(weight, arrival, states, strict=True) if r <= t and state[0] > 0)
        found = float("inf")
        for chosen in itertools.product(*(choices(j, t, state) for j, state in enumerate(states))):
            running = [usage[k] for k in chosen if k >= 0]
            if all(
                sum(row) <= there for row, there in zip(zip(*running, strict=True), capacity[t], strict=False)
            ):
                following = tuple(after(j, state, chosen[j]) for j, state in enumerate(states))
                found = min(found, best(t + 1, following))
        return paid + found

    return best(0, tuple((work, -1, 0, 0) for work in works))


def tiny(seed: int) -> SchedulingInstance:
    """Return a random trace of two to four jobs, of any sort."""
    rng = np.random.default_rng(seed)
    resources = {"gpu": float(rng.integers(2, 5))}
    if rng.random() < 0.3:
        resources["cpu"] = float(rng.integers(3, 7))
    preemption = str(rng.choice(["free", "costs", "none"]))
    events = []
    if rng.random() < 0.3:
        events.append({"at_s": float(rng.integers(1, 6)), "change": {"gpu": float(rng.integers(1, 3))}})
    malleable = preemption != "costs" and rng.random() < 0.3
    jobs = []
    for j in range(int(rng.integers(2, 4 if malleable else 5))):
        demand = {name: float(rng.integers(1, amount + 1)) for name, amount in resources.items()}
        job: dict[str, Any] = {"name": f"j{j}", "arrival_s": float(rng.integers(0, 5))}
        job["weight"] = float(rng.integers(0, 4)) if rng.random() < 0.5 and j else 1.0
        if malleable and rng.random() < 0.7:
            speeds = {1: 1.0}
            if resources["gpu"] >= 2:
                speeds[2] = float(rng.integers(1, 3))
            job |= {"demand": {"gpu": 1.0}, "speeds": speeds, "work": float(rng.integers(1, 5))}
        else:
            job |= {"demand": demand, "duration_s": float(rng.integers(1, 4))}
        jobs.append(job)
    return SchedulingInstance.model_validate(
        {
            "schema_version": 1,
            "name": f"tiny-{seed}",
            "resources": resources,
            "preemption": preemption,
            "restart_s": float(rng.integers(0, 3)) if preemption == "costs" else 0.0,
            "lease_s": float(rng.integers(0, 3)) if preemption != "none" and not events else 0.0,
            "events": events,
            "jobs": jobs,
        }
    )


def compare(seed: int, most_steps: int) -> tuple[float, float]:
    """Return the best mean of all schedules of a tiny trace, and the best bound that was found."""
    instance = tiny(seed)
    formulation = SchedulingFormulation(instance)
    total = float(instance.table().weight.sum())
    best = least_weighted_time(instance) / total
    plan = plan_by(formulation, "fifo")
    segments, value = formulation.segments(plan), formulation.evaluate(plan)[0]
    if instance.menus().malleable:
        best = min(best, value)  # whole seconds are not best for speeds that do not divide the work
    assert best <= value + 1e-9
    found = best_prices(instance, segments, value, Clock(), most_steps=most_steps)
    bound = price_bound(instance, found.grid)
    assert bound <= best
    assert bound == pytest.approx(found.bound, rel=1e-6, abs=1e-6)
    for grid in random_prices(instance, seed, 3):
        assert price_bound(instance, grid) <= best
    return best, max(bound, least_mean_completion_s(instance))


@pytest.mark.parametrize("seed", range(0, 100, 20))
def test_it_is_never_above_the_best_of_all_schedules(seed: int) -> None:
    """Rigid and malleable jobs, weights, two resources, restarts, leases, events, and no preemption."""
    for one in range(seed, seed + 20):
        compare(one, 60)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 2000, 100))
def test_it_is_never_above_the_best_of_all_schedules_of_many_traces(seed: int) -> None:
    """And it closes part of the way from the elementary bound."""
    pairs = np.array([compare(one, 300) for one in range(seed, seed + 100)])
    assert (pairs[:, 1] / pairs[:, 0]).mean() > 0.8


def test_without_prices_every_job_is_alone() -> None:
    """It is the elementary bound, less the tolerance once more."""
    instance = generate_scheduling(50, 8, load=1.5)
    bound = price_bound(instance, PriceGrid.free(1))
    elementary = least_mean_completion_s(instance)
    assert elementary * (1 - 1e-6) < bound <= elementary


def test_a_mistake_in_the_capacity_would_be_seen() -> None:
    """With the prices of one unit less a bound above the optimum appears among the tiny traces."""
    exceeded = 0
    for seed in range(40):
        instance = tiny(seed)
        formulation = SchedulingFormulation(instance)
        plan = plan_by(formulation, "fifo")
        value = formulation.evaluate(plan)[0]
        found = best_prices(instance, formulation.segments(plan), value, Clock(), most_steps=60)
        total = float(instance.table().weight.sum())
        share = priced_capacity(instance, found.grid) / total * instance.table().weight.max()
        best = least_weighted_time(instance) / total
        exceeded += price_bound(instance, found.grid) + 0.3 * share > best * (1 + 1e-9)
    assert exceeded > 2


def test_capacity_is_priced_at_every_event() -> None:
    """An event inside a cell counts from its time on."""
    instance = generate_scheduling(5, 4).replace(events=[{"at_s": 3.0, "change": {"gpu": -2.0}}])
    grid = PriceGrid(np.array([0.0, 10.0]), np.array([[2.0], [0.0]]))
    assert priced_capacity(instance, grid) == pytest.approx(2 * (3 * 4 + 7 * 2), rel=1e-7)


@pytest.mark.parametrize("preemption", ["free", "none"])
def test_plans_that_use_the_tolerances_are_above_it(preemption: str) -> None:
    """Jobs as short as the check accepts, on a cluster as full as it accepts, far from time 0."""
    jobs = [
        {"name": f"j{k}", "arrival_s": 1e9, "duration_s": 1e5, "demand": {"gpu": 1 + 4e-10}} for k in range(2)
    ]
    document = {"schema_version": 1, "name": "edge", "resources": {"gpu": 1.0}, "jobs": jobs}
    instance = SchedulingInstance.model_validate(document | {"preemption": preemption})
    formulation = SchedulingFormulation(instance)
    end = 1e9 + 1e5 - 1e-4
    segments = [(0, 1e9, end), (1, end, end + 1e5 - 1.5e-4)]
    plan = [Segment(job=f"j{k}", start_s=start, end_s=stop) for k, start, stop in segments]
    assert formulation.violations(plan) == []
    value = formulation.evaluate(plan)[0]
    found = best_prices(instance, formulation.segments(plan), value, Clock())
    assert price_bound(instance, found.grid) <= value


@pytest.mark.slow
def test_it_holds_for_jobs_that_keep_their_place_for_longer(shared_data: Path) -> None:
    """As the simulator of Muri lets them; every policy's plan is above the bound of one."""
    folder = shared_data / "muri"
    instance = import_muri(folder / "trace1.csv", folder / "n8g8.csv")
    formulation = SchedulingFormulation(instance)
    plan = plan_by(formulation, "srsf")
    value = formulation.evaluate(plan)[0]
    found = best_prices(instance, formulation.segments(plan), value, Clock(), most_steps=40, cells=300)
    bound = price_bound(instance, found.grid)
    assert 0.9 * value < bound < value
    for name in ("srsf", "srtf", "las"):
        outcome = MuriPolicy(name).solve(formulation, SolveOptions(), Clock())
        assert outcome.plan is not None
        assert formulation.evaluate(outcome.plan)[0] >= bound
