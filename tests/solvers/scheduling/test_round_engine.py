"""The engine of policies by rounds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from malleable_instances import GROWS, RIGID, random_trace, segments_of

from clusterplan.formulations.scheduling.formulation import SchedulingFormulation
from clusterplan.instances.common.arrays import Floats, Ints
from clusterplan.instances.scheduling.instance import SchedulingInstance
from clusterplan.solvers.common.base import Clock
from clusterplan.solvers.common.result import SolveOptions
from clusterplan.solvers.registry import find_solver
from clusterplan.solvers.scheduling import engine
from clusterplan.solvers.scheduling.engine import EvictionError, PolicyError
from clusterplan.solvers.scheduling.policy import RoundPolicy
from clusterplan.solvers.scheduling.policy_solvers import plan_of
from clusterplan.solvers.scheduling.round_engine import RoundEngine
from clusterplan.solvers.scheduling.seen import Knowledge


class Says(RoundPolicy):
    """At each decision gives the jobs the configurations of a list, by their places in the menus.

    Parameters
    ----------
    rows
        Of each decision the place for each job, −1 for none; the last one is repeated.
    """

    def __init__(self, round_s: float, *rows: tuple[int, ...], reacts: bool = False) -> None:
        super().__init__(round_s)
        self._rows, self.reacts = list(rows), reacts

    def choose(self, jobs: Ints, free: Floats) -> Ints:
        """Return what is said of these jobs."""
        del free
        said = self._rows.pop(0) if len(self._rows) > 1 else self._rows[0]
        return np.array([said[j] + self.seen.first[j] if said[j] >= 0 else -1 for j in jobs.tolist()])


def instance(*jobs: dict[str, Any], **others: Any) -> SchedulingInstance:
    """Return a malleable and a rigid job on four GPUs, or others."""
    rows = list(jobs) or [GROWS, RIGID]
    return SchedulingInstance.model_validate({"name": "t", "resources": {"gpu": 4}, **others, "jobs": rows})


def segments(there: SchedulingInstance, policy: RoundPolicy) -> list[tuple[Any, ...]]:
    """Return the segments of a policy's plan, which must be feasible."""
    return segments_of(there, plan_of(there, RoundEngine(there, policy).run()), "configuration")


def test_a_policy_is_asked_at_the_end_of_each_round() -> None:
    """And a job that arrives waits for it."""
    found = segments(instance(), Says(2, (2, -1), (1, 0)))
    assert found == [("a", 0, 2, "4"), ("a", 2, 2 + 4 / 3, "2"), ("b", 2, 4, "")]


def test_a_policy_may_react_to_arrivals_and_ends() -> None:
    """At one second and at three."""
    found = segments(instance(), Says(100, (2, -1), (1, 0), (2, 0), reacts=True))
    assert found == [("a", 0, 1, "4"), ("a", 1, 3, "2"), ("b", 1, 3, ""), ("a", 3, 3.5, "4")]


def test_a_change_of_configuration_costs_a_restart() -> None:
    """Of four units that are left after the first change, none is done in the first second."""
    there = instance(preemption="costs", restart_s=1)
    found = segments(there, Says(2, (2, -1), (1, 0), (1, 0)))
    assert found == [("a", 0, 2, "4"), ("a", 2, 2 + 1 + 4 / 3, "2"), ("b", 2, 4, "")]


def test_what_a_job_has_it_keeps_for_its_lease() -> None:
    """The policy is not asked about it."""
    found = segments(instance(lease_s=3), Says(1, (1, -1), (2, 0)))
    assert found == [("a", 0, 3, "2"), ("b", 1, 3, ""), ("a", 3, 3.75, "4")]


def test_without_preemption_to_its_end() -> None:
    """Whatever the policy would rather do."""
    found = segments(instance(preemption="none"), Says(1, (0, -1), (2, 0)))
    assert found == [("a", 0, 6, "1"), ("b", 1, 3, "")]


def test_a_job_that_must_not_be_interrupted_is_not_evicted() -> None:
    """The plan fails at the moment of the change."""
    events = [{"at_s": 1, "change": {"gpu": -2}}, {"at_s": 2, "change": {"gpu": 2}}]
    there = instance(GROWS, preemption="none", events=events)
    with pytest.raises(EvictionError, match="lose their place at 1 s"):
        RoundEngine(there, Says(10, (2,))).run()
    # Within a lease it loses its place, and the policy is asked anew.
    leased = instance(GROWS, lease_s=5, events=events)
    assert segments(leased, Says(10, (2,), (1,)))[0] == ("a", 0, 1, "4")


@pytest.mark.parametrize(
    ("rows", "fault"),
    [
        ((-1, -1), "2 jobs wait, and nothing will ever happen"),
        ((2, 0), "chose jobs that do not fit at 1 s"),
        ((3, 0), "chose a configuration that a job has not at 0 s"),
    ],
)
def test_a_choice_that_cannot_be_is_refused(rows: tuple[int, ...], fault: str) -> None:
    """With the moment."""
    with pytest.raises(PolicyError, match=fault):
        RoundEngine(instance(), Says(1, rows)).run()


def test_a_policy_knows_what_is_shown_here() -> None:
    """Remaining times are those of configurations."""

    class Clairvoyant(Says):
        knows = Knowledge.REMAINING

    with pytest.raises(PolicyError, match="of configurations no policy knows the true remaining time"):
        RoundEngine(instance(), Clairvoyant(1, (0, 0)))


POLICIES: list[tuple[str, dict[str, Any]]] = [
    ("gandiva-timeslice", {"round_s": 5}),
    ("themis", {"round_s": 10}),
    ("themis", {"round_s": 4, "fairness": 0}),
    ("max-min", {"round_s": 7}),
    ("optimus", {"interval_s": 6}),
    ("optimus", {"interval_s": 30, "admission": "shortest", "reacts": True}),
    ("optimus-exact", {"interval_s": 6}),
    ("optimus-exact", {"interval_s": 6, "aim": "speeds", "reacts": True, "power": 0.5}),
    ("srsf", {}),
    ("las", {}),
    ("fifo", {}),
]


@pytest.mark.parametrize(("name", "settings"), POLICIES, ids=[f"{n}-{len(s)}" for n, s in POLICIES])
def test_every_plan_of_a_random_trace_is_feasible(name: str, settings: dict[str, Any]) -> None:
    """And no job ends before it can; only an eviction leaves none."""
    planned = 0
    for seed in range(24):
        there = random_trace(seed)
        formulation = SchedulingFormulation(there)
        solver = find_solver(name, "scheduling")
        outcome = solver.solve(formulation, SolveOptions(method_options=settings), Clock())
        if outcome.plan is None:
            assert there.preemption == "none"
            assert there.events
            continue
        planned += 1
        assert formulation.violations(outcome.plan) == []
        bound = formulation.elementary_bounds()[0]
        assert bound is not None
        assert formulation.evaluate(outcome.plan)[0] >= bound
    assert planned >= 18


class Swaps(RoundPolicy):
    """Lets two jobs take turns, a round each."""

    def choose(self, jobs: Ints, free: Floats) -> Ints:
        """Return the row of the job whose round it is."""
        del free
        turn = int(self.seen.now_s / self.round_s) % len(jobs)
        return np.array([self.seen.first[j] if k == turn else -1 for k, j in enumerate(jobs.tolist())])


def test_a_policy_that_lets_no_job_work_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where each round is a restart, and nothing else."""
    monkeypatch.setattr(engine, "MAX_STOPS", 1000)
    jobs = [{"name": name, "demand": {"gpu": 4}, "duration_s": 5} for name in "ab"]
    there = instance(*jobs, preemption="costs", restart_s=2)
    with pytest.raises(PolicyError, match="stops jobs before they do any work"):
        RoundEngine(there, Swaps(1)).run()
    assert len(segments(there, Swaps(3))) > 2
