"""DL²: training and use of its network."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from malleable_instances import random_trace

import clusterplan
from clusterplan.formulations.scheduling.formulation import SchedulingFormulation
from clusterplan.instances.common.arrays import Flags, Floats
from clusterplan.instances.common.errors import UnavailableError
from clusterplan.instances.scheduling.generate import generate_scheduling
from clusterplan.instances.scheduling.instance import SchedulingInstance
from clusterplan.solvers.backends import base
from clusterplan.solvers.backends.base import seeded_torch
from clusterplan.solvers.common.result import SolveOptions
from clusterplan.solvers.registry import find_solver, solvers_for
from clusterplan.solvers.scheduling.engine import Engine
from clusterplan.solvers.scheduling.policies.dl2_policy import (
    ACTIONS,
    DL2,
    INCUMBENTS,
    SLOTS,
    STEPS,
    STOP,
    Trajectory,
)
from clusterplan.solvers.scheduling.policy_solvers import LearnedPolicy

training = pytest.importorskip(
    "clusterplan.solvers.scheduling.policies.dl2_training",
    reason="PyTorch is not installed; pip install 'clusterplan[rl]'",
    exc_type=ImportError,
)


@pytest.fixture(autouse=True)
def little(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the traces of training small."""
    monkeypatch.setattr(training, "JOBS", 8)
    monkeypatch.setattr(training, "VALIDATION", training.VALIDATION[:1])


def first_allowed(state: Floats, allowed: Flags) -> int:
    """Choose what comes first."""
    del state
    return int(np.flatnonzero(allowed)[0])


def trained(seed: int = 0, **budget: int) -> Any:
    """Return a trainer after a short training."""
    with seeded_torch(seed, 1):
        trainer = training.Trainer(60.0, seed, lambda: INCUMBENTS["optimus"](60.0), lambda: False)
        trainer.train(**{"traces": 1, "passes": 2, "episodes": 1, **budget})
    return trainer


@pytest.mark.parametrize("name", INCUMBENTS)
def test_steps_towards_an_incumbent_lead_to_its_very_schedule(name: str) -> None:
    """Whatever the order in which the steps are taken."""
    trace, journal = training.training_trace(3, 60.0), Trajectory()
    policy = DL2(60.0, first_allowed, journal, INCUMBENTS[name](60.0))
    there = Engine(trace, policy).run()
    policy.reward()
    wanted = Engine(trace, INCUMBENTS[name](60.0)).run()
    for column in ("job", "start_s", "end_s", "row"):
        assert np.array_equal(getattr(there, column), getattr(wanted, column))
    # Each job is done once, whenever that is.
    assert sum(journal.rewards) == pytest.approx(len(trace.jobs))
    assert len(journal.rewards) == len(journal.begins)
    assert all(good[action] and allowed[good].all() for _, allowed, good, action in journal.steps)


def test_torch_and_numpy_are_the_same_network() -> None:
    """The most probable action by either."""
    trainer, journal = trained(), Trajectory()
    actor = training.Actor(trainer.network.weights())
    Engine(training.training_trace(5, 60.0), DL2(60.0, actor, journal)).run()
    from clusterplan.solvers.scheduling.policies.dl2_training import torch

    states, allowed, _, actions = (
        torch.tensor(np.array(column)) for column in zip(*journal.steps, strict=True)
    )
    with torch.no_grad():
        assert torch.equal(trainer.network.logits(states, allowed).argmax(dim=1), actions)


def test_imitation_makes_what_the_incumbent_does_more_probable() -> None:
    """Pass by pass; and the mean on traces for validation comes near the incumbent's."""
    curve = trained(traces=3, passes=15, episodes=0).curve
    assert curve.losses[-1] < curve.losses[0] / 2
    assert list(curve.means_s) == [0]
    assert curve.means_s[0] < 1.5 * curve.incumbent_s
    assert not curve.cut
    assert "imitation −ln p" in curve.text()


def test_actor_and_critic_learn_which_action_pays() -> None:
    """In a state with two steps one of which is always better than what was expected."""
    with seeded_torch(0, 1):
        network = training.Network()
        optimiser = network.optimiser(1e-2)
        state = np.zeros((20, SLOTS, 3 + 9 + 3 * STEPS))
        allowed = np.zeros((20, ACTIONS), dtype=bool)
        allowed[:, [0, STOP]] = True
        actions = np.array([0, STOP] * 10)
        advantages = np.array([1.0, -1.0] * 10)
        for _ in range(50):
            network.improve(optimiser, state, allowed, actions, advantages, (state, np.full(20, 3.0)), 0.0)
    assert training.Actor(network.weights())(state[0], allowed[0]) == 0
    assert network.expected(state[:1])[0] == pytest.approx(3.0, abs=0.3)


def test_time_that_is_up_ends_the_training_and_is_said() -> None:
    """After one pass over one trace, so that it has seen something."""
    with seeded_torch(0, 1):
        trainer = training.Trainer(60.0, 0, lambda: INCUMBENTS["srsf"](60.0), lambda: True)
        trainer.train(3, 3, 3)
    assert trainer.curve.cut
    assert len(trainer.curve.losses) == 1
    assert "time was up" in trainer.curve.text()


def test_draws_go_by_probability_and_keep_to_what_is_allowed() -> None:
    """Of a network that knows nothing all actions are about as probable."""
    with seeded_torch(0, 1):
        weights = training.Network().weights()
    actor = training.Actor(weights, np.random.default_rng(0))
    allowed = np.zeros(ACTIONS, dtype=bool)
    allowed[[3, 4, STOP]] = True
    drawn = [actor(np.zeros((SLOTS, 3 + 9 + 3 * STEPS)), allowed) for _ in range(300)]
    assert set(drawn) == {3, 4, STOP}


SOLVER = next(solver for solver in solvers_for("scheduling") if isinstance(solver, LearnedPolicy))
needs_torch = pytest.mark.skipif(
    SOLVER.unavailable() is not None, reason="PyTorch is not installed; pip install 'clusterplan[rl]'"
)
SMALL = {"traces": 1, "passes": 1, "episodes": 1}


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
    other = generate_scheduling(20, 8, load=1.0, seed=9)
    assert first.message == again.message == solved(other, 3).message
    assert solved(other, 4).message != first.message
