"""All orders of tiny traces: no policy does better without preemption, and the figure is counted by hand."""

from __future__ import annotations

import numpy as np
import pytest
from malleable_instances import random_trace

from clusterplan.formulations.common.clock import Clock
from clusterplan.formulations.scheduling.formulation import SchedulingFormulation
from clusterplan.instances.common.errors import TooLargeError
from clusterplan.instances.scheduling.generate import generate_scheduling
from clusterplan.instances.scheduling.instance import SchedulingInstance
from clusterplan.solvers.common.base import Outcome
from clusterplan.solvers.common.result import SolveOptions
from clusterplan.solvers.registry import find_solver
from clusterplan.solvers.scheduling.exact import MOST_SCHEDULES, SchedulingBruteForce, schedules_of
from clusterplan.solvers.scheduling.policy_solvers import POLICIES


def best(instance: SchedulingInstance) -> tuple[float, Outcome]:
    """Return the value of the best plan, and the outcome; the plan must be feasible."""
    formulation = SchedulingFormulation(instance)
    outcome = SchedulingBruteForce().solve(formulation, SolveOptions(), Clock())
    assert outcome.plan is not None
    assert formulation.violations(outcome.plan) == []
    return formulation.evaluate(outcome.plan)[0], outcome


def test_the_optimum_waits_for_a_short_job() -> None:
    """The long job starts at 3 s, after one that comes at 1 s: (2 + 13) / 2, and not (10 + 11) / 2."""
    jobs = [
        {"name": "long", "demand": {"gpu": 1}, "duration_s": 10},
        {"name": "short", "arrival_s": 1, "demand": {"gpu": 1}, "duration_s": 2},
    ]
    document = {"name": "t", "resources": {"gpu": 1}, "preemption": "none", "jobs": jobs}
    instance = SchedulingInstance.model_validate(document)
    value, outcome = best(instance)
    assert value == 7.5
    assert tuple(outcome.bounds) == (7.5,)
    assert best(instance.replace(objective="makespan"))[0] == 12


@pytest.mark.parametrize("seed", range(4))
def test_no_policy_beats_all_orders_without_preemption(seed: int) -> None:
    """On random traces of five jobs."""
    instance = generate_scheduling(5, 4, load=5.0, seed=seed).replace(preemption="none")
    value, _ = best(instance)
    formulation = SchedulingFormulation(instance)
    for policy in POLICIES:
        plan = policy.solve(formulation, SolveOptions(), Clock()).plan
        assert plan is not None
        assert formulation.evaluate(plan)[0] >= value * (1 - 1e-12)


def test_with_preemption_nothing_is_proven() -> None:
    """And the message says so."""
    _, outcome = best(generate_scheduling(3, 2, load=5.0))
    assert not outcome.bounds
    assert outcome.message is not None
    assert "proves nothing" in outcome.message


def test_larger_traces_are_refused() -> None:
    """With the largest that is allowed."""
    formulation = SchedulingFormulation(generate_scheduling(9, 2))
    with pytest.raises(TooLargeError, match="at most 8 with few configurations are allowed"):
        SchedulingBruteForce().solve(formulation, SolveOptions(), Clock())


def exhaustive(instance: SchedulingInstance) -> float:
    """Return the least weighted mean of all schedules with whole starts, one configuration for each job."""
    jobs, menus = instance.table(), instance.menus()
    capacity = instance.capacity_over_time[1][0]
    longest = np.maximum.reduceat(menus.work[menus.owner] / menus.speed, menus.first[:-1])
    horizon = int(jobs.arrival_s.max() + longest.sum()) + 1
    weight = jobs.weight / jobs.weight.sum()
    best = np.inf

    def place(j: int, used: np.ndarray, value: float) -> None:
        nonlocal best
        if value >= best:
            return
        if j == len(jobs):
            best = value
            return
        for k in range(int(menus.first[j]), int(menus.first[j + 1])):
            length = round(menus.work[j] / menus.speed[k])
            for start in range(int(jobs.arrival_s[j]), horizon):
                then = used.copy()
                then[start : start + length] += menus.usage[k]
                if (then <= capacity).all():
                    place(j + 1, then, value + weight[j] * (start + length - jobs.arrival_s[j]))

    place(0, np.zeros((horizon + 10, len(capacity))), 0.0)
    return best


@pytest.mark.parametrize("seed", range(20))
def test_malleable_jobs_are_tried_in_all_configurations(seed: int) -> None:
    """The optimum is that of a search over all starts, and no policy is below it."""
    there = random_trace(seed, 3, whole=True)
    formulation = SchedulingFormulation(there)
    outcome = SchedulingBruteForce().solve(formulation, SolveOptions(), Clock())
    assert outcome.plan is not None
    assert formulation.violations(outcome.plan) == []
    optimum = exhaustive(there)
    assert formulation.evaluate(outcome.plan)[0] == pytest.approx(optimum, rel=1e-12)
    assert outcome.bounds[0] == pytest.approx(optimum, rel=1e-12)
    bound = formulation.elementary_bounds()[0]
    assert bound is not None
    assert bound <= optimum * (1 + 1e-12)
    for name in ("srsf", "max-min", "optimus", "optimus-exact"):
        plan = find_solver(name, "scheduling").solve(formulation, SolveOptions(), Clock()).plan
        assert plan is not None
        assert formulation.violations(plan) == []
        assert formulation.evaluate(plan)[0] >= optimum * (1 - 1e-9)


def test_too_many_configurations_are_refused() -> None:
    """Eight jobs have 40,320 orders already."""
    there = generate_scheduling(8, 8, malleable=True).replace(preemption="none")
    assert schedules_of(there) > MOST_SCHEDULES
    with pytest.raises(TooLargeError, match="at most 8 with few configurations"):
        SchedulingBruteForce().solve(SchedulingFormulation(there), SolveOptions(), Clock())
