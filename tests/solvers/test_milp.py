"""The textbook model: scaling of objectives, and the order of several."""

from __future__ import annotations

import math
from typing import Any

import pulp
import pytest
from sample_documents import ALLOCATION, CONSOLIDATION, STAGING

import clusterplan
from clusterplan.formulations.registry import formulate
from clusterplan.solvers.backends.base import Answer
from clusterplan.solvers.backends.highs import Highs
from clusterplan.solvers.common.base import Clock
from clusterplan.solvers.common.result import SolveOptions
from clusterplan.solvers.milp import LEAST_COST, MAX_COST, Milp, _ignored_cost, _scale


@pytest.mark.parametrize("largest", [1e-9, 0.3, 999.0, LEAST_COST, 5e4, MAX_COST, 1e13])
def test_objectives_are_scaled_by_powers_of_two_to_where_backends_can_take_them(largest: float) -> None:
    scale = _scale([0.0, -largest])
    assert LEAST_COST <= largest * scale <= 2 * MAX_COST
    assert math.frexp(scale)[0] == 0.5
    assert scale == 1.0 or not LEAST_COST <= largest <= MAX_COST


def test_an_objective_of_nothing_is_not_scaled() -> None:
    assert _scale([]) == _scale([0.0]) == 1.0


def test_terms_too_small_to_be_seen_widen_the_bound_by_what_they_may_add_up_to() -> None:
    problem = pulp.LpProblem("p")
    x, y = problem.add_variable("x", 0, 5), problem.add_variable("y", 0, None)
    assert _ignored_cost(pulp.LpAffineExpression([(x, 1e-9), (y, 1.0)]), 1.0) == pytest.approx(5e-9)
    assert _ignored_cost(pulp.LpAffineExpression([(y, 1e-9)]), 1.0) == float("inf")
    assert _ignored_cost(pulp.LpAffineExpression([(x, 1e-9)]), 1e9) == 0.0


@pytest.mark.parametrize("document", [ALLOCATION, STAGING, CONSOLIDATION])
def test_every_kind_is_solved_to_the_optimum_of_brute_force(document: dict[str, object]) -> None:
    instance = clusterplan.parse_instance(document)
    formulation = formulate(instance)
    outcome = Milp(Highs()).solve(formulation, SolveOptions(threads=1), Clock())
    assert not formulation.violations(outcome.plan)
    best = clusterplan.solve(instance, "brute-force").plan
    assert formulation.evaluate(outcome.plan) == pytest.approx(formulation.evaluate(best))
    assert list(outcome.bounds) == pytest.approx(list(formulation.evaluate(best)), rel=1e-5)


def test_without_time_there_is_no_answer_but_the_plan_to_start_from() -> None:
    instance = clusterplan.parse_instance(STAGING)
    formulation = formulate(instance)
    plan = clusterplan.solve(instance, "brute-force").plan or ()
    options = SolveOptions(warm_start=tuple(entry.model_dump() for entry in plan))
    outcome = Milp(Highs()).solve(formulation, options, Clock(0.0))
    assert (outcome.limit, outcome.plan, list(outcome.bounds)) == ("time", plan, [])


class Late(Clock):
    """A clock that expires when it is told to."""

    over = False

    @property
    def expired(self) -> bool:
        return self.over


class LateHighs(Highs):
    """HiGHS that ends when the time is up."""

    def __init__(self, clock: Late) -> None:
        self.clock = clock

    def minimise(self, problem: pulp.LpProblem, *limits: Any) -> Answer:
        """Solve, and let the time be up."""
        answer = super().minimise(problem, *limits)
        self.clock.over = True
        return answer


@pytest.mark.parametrize("document", [ALLOCATION, STAGING, CONSOLIDATION])
def test_a_plan_that_comes_too_late_is_kept(document: dict[str, object]) -> None:
    """A backend may end after the limit; what it found is returned, with its bound."""
    formulation = formulate(clusterplan.parse_instance(document))
    clock = Late()
    with clock.enforced():
        outcome = Milp(LateHighs(clock)).solve(formulation, SolveOptions(), clock)
    assert not formulation.violations(outcome.plan)
    assert outcome.bounds[0] == pytest.approx(formulation.evaluate(outcome.plan)[0], rel=1e-6)
    assert outcome.limit == ("none" if len(formulation.objectives) == 1 else "time")
