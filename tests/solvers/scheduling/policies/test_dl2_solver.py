"""The solver `dl2`: skipped with a clear line without PyTorch; the same plan for the same seed."""

from __future__ import annotations

from typing import Any

import pytest
from malleable_instances import random_trace

import clusterplan
from clusterplan.formulations.scheduling.formulation import SchedulingFormulation
from clusterplan.instances.common.errors import UnavailableError
from clusterplan.instances.scheduling.generate import generate_scheduling
from clusterplan.instances.scheduling.instance import SchedulingInstance
from clusterplan.solvers.backends import base
from clusterplan.solvers.common.result import SolveOptions
from clusterplan.solvers.registry import find_solver, solvers_for
from clusterplan.solvers.scheduling.policies.dl2_solver import LearnedPolicy

SOLVER = next(solver for solver in solvers_for("scheduling") if isinstance(solver, LearnedPolicy))
needs_torch = pytest.mark.skipif(
    SOLVER.unavailable() is not None, reason="PyTorch is not installed; pip install 'clusterplan[rl]'"
)
SMALL = {"traces": 1, "passes": 1, "episodes": 1}


@pytest.fixture(autouse=True)
def little(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the traces of training small."""
    if SOLVER.unavailable() is None:
        from clusterplan.solvers.scheduling.policies import dl2_training

        monkeypatch.setattr(dl2_training, "JOBS", 8)
        monkeypatch.setattr(dl2_training, "VALIDATION", dl2_training.VALIDATION[:1])


def solved(there: SchedulingInstance, seed: int = 0, **settings: Any) -> Any:
    """Return the result of a short dl2_training."""
    options = SolveOptions(seed=seed, method_options={**SMALL, **settings})
    return clusterplan.solve(there, "dl2", options)


def test_without_pytorch_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """In one line."""
    monkeypatch.setattr(base.util, "find_spec", lambda name: None)
    with pytest.raises(UnavailableError, match=r"'dl2' cannot be used here.*pip install 'clusterplan\[rl\]'"):
        find_solver("dl2", "scheduling")


@needs_torch
def test_plans_of_random_traces_are_feasible() -> None:
    """Rigid and malleable jobs, several resources, leases, restarts, events."""
    for seed in range(6):
        there = random_trace(seed)
        result = solved(there, interval_s=6.0)
        if result.plan is None:
            assert there.preemption == "none"
            assert there.events
            continue
        assert SchedulingFormulation(there).violations(result.plan) == []


@needs_torch
def test_a_rigid_job_is_started_or_not() -> None:
    """Its menu has one row."""
    there = generate_scheduling(30, 16, load=1.5, seed=2)
    result = solved(there)
    assert result.plan is not None
    assert {segment.configuration for segment in result.plan} == {""}
    assert "imitation" in result.message


@needs_torch
def test_the_same_seed_gives_the_same_plan_and_training_knows_nothing_of_the_trace() -> None:
    """The curve of another trace is the same."""
    there = generate_scheduling(30, 16, load=1.5, seed=2, malleable=True)
    first, again = solved(there, 3), solved(there, 3)
    assert first.plan == again.plan
    other = solved(generate_scheduling(20, 8, load=1.0, seed=9), 3)
    assert first.message == again.message == other.message
