"""Policies by the former contracts run for one more version, with a warning."""

from __future__ import annotations

import warnings

import pytest
from malleable_instances import random_trace, rows_of

from clusterplan.instances.common.arrays import Flags, Floats, Ints
from clusterplan.instances.scheduling.generate import generate_scheduling
from clusterplan.instances.scheduling.instance import SchedulingInstance
from clusterplan.solvers.common.base import Clock
from clusterplan.solvers.common.result import SolveOptions
from clusterplan.solvers.scheduling.engine import Engine, Schedule
from clusterplan.solvers.scheduling.own_policy import policy_solver
from clusterplan.solvers.scheduling.policies.fairness import Themis
from clusterplan.solvers.scheduling.policies.service_disciplines import ShortestService
from clusterplan.solvers.scheduling.policy import ByKey, FormerPolicy, Policy, RoundPolicy
from clusterplan.solvers.scheduling.policy_solvers import PolicySolver
from clusterplan.solvers.scheduling.search.event_loop import PriorityScheduler, Rule
from clusterplan.solvers.scheduling.search.local_search import PreemptiveRulePolicy
from clusterplan.solvers.scheduling.view import Knowledge

TRACES = [generate_scheduling(40, 8, load=2.0, seed=2), *map(random_trace, range(8))]

with warnings.catch_warnings(record=True) as warned:
    warnings.simplefilter("always")

    class ByService(ByKey):
        """Least remaining service first."""

        knows = Knowledge.REMAINING
        preempts = True

        def keys_of(self, jobs: Ints) -> Floats:
            """Return remaining time × width."""
            return self.seen.remaining_s[jobs] * self.seen.width[jobs]

    class AtEvents(ByService):
        """The same by hooks of its own."""

        def choose(self, held: Flags) -> Ints:
            """Return those that are held too, and look at what is free."""
            assert (self.free(held) >= self.seen.free - 1e-9).all()
            assert self.waits() == self.seen.waits
            return super().choose(held)

    class InRounds(RoundPolicy):
        """Themis by rounds of the former contract."""

        knows = Knowledge.PROGRESS
        reacts = True

        def begin(self, seen):  # type: ignore[no-untyped-def]
            """Begin the present policy."""
            super().begin(seen)
            self._policy = Themis(self.round_s)
            self._policy.begin(seen)

        def choose(self, jobs: Ints, free: Floats) -> Ints:  # type: ignore[override]
            """Return a row for each job, −1 for none, and the order in which they are placed."""
            rows = self._policy.choose(self.seen)
            chosen = self.seen.requested[jobs] * 0 - 1
            for position, job in enumerate(jobs.tolist()):
                if self.seen.requested[job] in rows:
                    chosen[position] = self.seen.requested[job]
            return chosen

        def again_s(self) -> float:
            """Return the end of a lease."""
            return self._policy.again_s()


def same(one: Schedule, other: Schedule) -> bool:
    """Return whether two schedules have the same segments."""
    return rows_of(one) == rows_of(other)


@pytest.mark.parametrize("there", TRACES, ids=range(len(TRACES)))
def test_former_contracts_give_the_schedules_that_they_gave(there: SchedulingInstance) -> None:
    """By keys, by hooks, and in rounds: those of the present policies."""
    if there.preemption == "none":
        there = there.replace(preemption="free")
    expected = Engine(there, ShortestService()).run()
    assert same(Engine(there, FormerPolicy(ByService())).run(), expected)
    assert same(Engine(there, FormerPolicy(AtEvents())).run(), expected)
    assert same(Engine(there, FormerPolicy(InRounds(10.0))).run(), Engine(there, Themis(10.0)).run())


def test_plug_ins_by_the_former_contracts_are_solvers() -> None:
    """By keys from `policy_solver`; by a rule beside keys from `PolicySolver`."""
    there = TRACES[0]
    instance, options = there, SolveOptions()

    def rule(scheduler: PriorityScheduler) -> Rule:
        return Rule(scheduler.width, 1.0, 1.0, preempts=True, blocks=False)

    by_keys = policy_solver("a", "b", lambda _: ByService())
    by_rule = PolicySolver(
        "a",
        "b",
        Knowledge.REMAINING,
        lambda instance, _: PreemptiveRulePolicy(rule(PriorityScheduler(instance))),
        rule=rule,
    )
    from clusterplan.formulations.scheduling.formulation import SchedulingFormulation

    plans = [
        solver.solve(SchedulingFormulation(instance), options, Clock()).plan for solver in (by_keys, by_rule)
    ]
    assert plans[0]
    assert sorted(map(str, plans[0])) == sorted(map(str, plans[1] or []))


def test_each_class_warns_once() -> None:
    """Where it is defined, with its name."""
    assert all(one.category is FutureWarning for one in warned)
    assert [str(one.message).split()[2] for one in warned] == ["ByService", "AtEvents", "InRounds"]
    assert issubclass(AtEvents, Policy)
