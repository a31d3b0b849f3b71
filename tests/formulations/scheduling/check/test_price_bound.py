"""The bound by prices of time: never above the best of all schedules of tiny traces, nor any plan's value."""

from __future__ import annotations

from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from fuzz.scheduling import SchedulingTruth
from fuzz.truth import TooManyPlansError
from malleable_instances import described, least_of_malleable, plan_by, random_prices
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
from clusterplan.solvers.scheduling import lagrangian_dual
from clusterplan.solvers.scheduling.lagrangian_dual import best_prices


def random_events(rng: np.random.Generator, names: list[str], amount: float) -> list[dict[str, Any]]:
    """Return a cut, or a failure, and its end; or an increase."""
    at, after = int(rng.integers(1, 4)), int(rng.integers(1, 4))
    name = str(rng.choice(names)) if names else None
    if name is not None and rng.random() < 0.5:
        return [{"at_s": at, "fails": [name]}, {"at_s": at + after, "returns": [name]}]
    cut, where = float(rng.integers(1, amount + 1)), {} if name is None else {"server": name}
    events = [{"at_s": at + k * after, "change": {"gpu": (2 * k - 1) * cut}, **where} for k in range(2)]
    return events[int(rng.random() < 0.3) :]


def random_job(rng: np.random.Generator, capacity: dict[str, float], servers: int, malleable: bool) -> Any:
    """Return a job, of which all figures are whole."""
    job: dict[str, Any] = {"arrival_s": float(rng.integers(0, 5))}
    job["weight"] = float(rng.integers(0, 4)) if rng.random() < 0.5 else 1.0
    if malleable and rng.random() < 0.7:
        speeds = {1: 1.0, 2: float(rng.integers(1, 3))}
        return job | {"demand": {"gpu": 1.0}, "speeds": speeds, "work": float(rng.integers(1, 5))}
    job["duration_s"] = float(rng.integers(1, 4))
    if not servers:
        return job | {"demand": {name: float(rng.integers(1, most + 1)) for name, most in capacity.items()}}
    if servers == 2 and rng.random() < 0.3:
        job["speed_by_servers"] = {"1": 1.0, "2": 0.5}
    tasks = int(rng.integers(1, capacity["gpu"] * servers + 1))
    return job | {"tasks": tasks, "demand": dict.fromkeys(capacity, 1.0)}


@cache
def tiny(seed: int) -> tuple[SchedulingInstance, float]:
    """Return a random trace of two to four jobs, and the best mean of all its schedules.

    On a pool or up to two servers, rigid or malleable, with restarts, leases, lost work and events.
    """
    rng = np.random.default_rng(seed)
    servers = int(rng.choice([0, 0, 1, 2]))
    amount = float(rng.integers(1, 3) if servers else rng.integers(2, 5))
    capacity = {"gpu": amount} | ({"cpu": amount + 1} if rng.random() < 0.3 else {})
    names, preemption = [f"n{k}" for k in range(servers)], str(rng.choice(["free", "costs", "none"]))
    malleable = not servers and preemption != "costs" and rng.random() < 0.4
    events = random_events(rng, names, amount) if not malleable and rng.random() < 0.5 else []
    count = int(rng.integers(2, 4 if malleable or servers else 5))
    jobs = [{"name": f"j{k}", **random_job(rng, capacity, servers, malleable)} for k in range(count)]
    jobs[0]["weight"] = 1.0
    document: dict[str, Any] = {"schema_version": 1, "name": f"tiny-{seed}", "jobs": jobs, "events": events}
    document |= {"preemption": preemption, "resources": {} if servers else capacity}
    document["servers"] = [{"name": name, "capacity": capacity} for name in names]
    if preemption == "costs":
        document["restart_s"] = float(rng.integers(0, 3))
    if preemption != "none" and not events and not malleable:
        document["lease_s"] = float(rng.integers(0, 3))
    if events and preemption == "none":
        document["evict"] = "restart"
    if events and rng.random() < 0.3:
        document["checkpoint_s"] = 1.0
    instance = SchedulingInstance.model_validate(document)
    return instance, least_of_malleable(instance) if malleable else float(SchedulingTruth(document).best())


def compare(seed: int, most_steps: int) -> tuple[float, float, PriceGrid]:
    """Return the best mean of all schedules of a tiny trace, the best bound found, and its prices."""
    instance, best = tiny(seed)
    formulation = SchedulingFormulation(instance)
    plan = plan_by(formulation, "fifo")
    segments, value = formulation.segments(plan), formulation.evaluate(plan)[0]
    best = min(best, value)  # whole seconds are not best where speeds make fractions of them
    with mock.patch.object(lagrangian_dual, "MAX_STEPS", most_steps):
        found = best_prices(instance, segments, value, Clock())
    bound = price_bound(instance, found.grid)
    assert bound <= best, seed
    if not instance.events:  # where nothing is left for a while, prices become huge, and so do tolerances
        assert bound == pytest.approx(found.bound, rel=1e-6, abs=1e-6)
    for grid in random_prices(instance, seed, 3):
        assert price_bound(instance, grid) <= best, seed
    return best, max(bound, least_mean_completion_s(instance)), found.grid


@pytest.mark.parametrize("seed", range(0, 160, 20))
def test_it_is_never_above_the_best_of_all_schedules(seed: int) -> None:
    """Of traces of every sort."""
    for one in range(seed, seed + 20):
        compare(one, 50)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(200, 4000, 100))
def test_it_is_never_above_the_best_of_all_schedules_of_many_traces(seed: int) -> None:
    """And it closes part of the way from the elementary bound; few traces have too many schedules to try."""
    pairs = []
    for one in range(seed, seed + 100):
        with suppress(TooManyPlansError):
            pairs.append(compare(one, 200)[:2])
    assert len(pairs) > 95
    best, bound = np.array(pairs).T
    assert (bound / best).mean() > 0.75


def with_less_to_pay(instance: SchedulingInstance, grid: PriceGrid) -> float:
    """Return the bound if 0.3 of the capacity cost nothing."""
    weight = instance.table().weight
    share = priced_capacity(instance, grid) / weight.sum() * weight.max()
    return price_bound(instance, grid) + 0.3 * share


def with_longer_cuts(instance: SchedulingInstance, grid: PriceGrid) -> float:
    """Return the bound if capacity stayed away for longer."""
    if len(instance.events) < 2 or instance.servers:
        return 0.0
    later = [instance.events[0], instance.events[1].model_copy(update={"at_s": 30.0})]
    return price_bound(
        instance.replace(events=[event.model_dump(exclude_defaults=True) for event in later]), grid
    )


@pytest.mark.parametrize(("wrong", "seeds"), [(with_less_to_pay, 40), (with_longer_cuts, 120)])
def test_a_mistake_in_the_capacity_would_be_seen(wrong: Any, seeds: int) -> None:
    """A bound above the optimum appears among the tiny traces."""
    exceeded = 0
    for seed in range(seeds):
        best, _, grid = compare(seed, 50)
        exceeded += wrong(tiny(seed)[0], grid) > best * (1 + 1e-9)
    assert exceeded > 2


def test_a_job_that_goes_on_from_a_checkpoint_does_not_run_in_one_go() -> None:
    """Although preemption is not allowed; prices would prove more of one that does."""
    instance = described(
        """
        {resources: {gpu: 1}, preemption: none, evict: restart, checkpoint_s: 1}
    """,
        """
        events: [{at_s: 2, change: {gpu: -1}}, {at_s: 4, change: {gpu: 1}}]
        jobs: [{name: j, duration_s: 3, demand: {gpu: 1}}]
    """,
    )
    grid = PriceGrid(np.array([0.0, 2.0, 4.0, 5.0]), np.array([[0.0], [9.0], [0.0], [0.0]]))
    assert 4.99 < price_bound(instance, grid) <= 5
    assert 5 < price_bound(instance.replace(checkpoint_s=None), grid) <= 7


def test_without_prices_every_job_is_alone() -> None:
    """It is the elementary bound, less the tolerance once more."""
    instance = generate_scheduling(50, 8, load=1.5)
    bound = price_bound(instance, PriceGrid(np.zeros(1), np.zeros((1, 1))))
    elementary = least_mean_completion_s(instance)
    assert elementary * (1 - 1e-6) < bound <= elementary


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
    with mock.patch.multiple(lagrangian_dual, MAX_STEPS=40, CELLS=300, MAX_CELLS=300):
        found = best_prices(instance, formulation.segments(plan), value, Clock())
    bound = price_bound(instance, found.grid)
    assert 0.9 * value < bound < value
    for name in ("srsf", "srtf", "las"):
        outcome = MuriPolicy(name).solve(formulation, SolveOptions(), Clock())
        assert outcome.plan is not None
        assert formulation.evaluate(outcome.plan)[0] >= bound
