"""All orders of tiny traces: no policy does better without preemption, and the figure is counted by hand."""

from __future__ import annotations

import pytest

from clusterplan.formulations.common.clock import Clock
from clusterplan.formulations.scheduling.formulation import SchedulingFormulation
from clusterplan.instances.common.errors import TooLargeError
from clusterplan.instances.scheduling.generate import generate_scheduling
from clusterplan.instances.scheduling.instance import SchedulingInstance
from clusterplan.solvers.common.base import Outcome
from clusterplan.solvers.common.options import SolveOptions
from clusterplan.solvers.scheduling.brute_force import SchedulingBruteForce
from clusterplan.solvers.scheduling.methods import POLICIES


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
