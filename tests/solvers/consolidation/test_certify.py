"""Certificates for plans that other methods found."""

from __future__ import annotations

from fractions import Fraction

from placements import job, placement, server, three_jobs

from clusterplan.formulations.consolidation.formulation import ConsolidationFormulation
from clusterplan.solvers.common.base import Clock, Outcome
from clusterplan.solvers.common.result import SolveOptions
from clusterplan.solvers.consolidation.exact import certified_goals, certify, infeasibility
from clusterplan.solvers.consolidation.heuristics.list_heuristics import BestFit
from clusterplan.solvers.consolidation.patterns.master import RestrictedMaster


def test_a_plan_of_best_fit_gets_prices() -> None:
    """They prove that six is the best value."""
    formulation = three_jobs()
    outcome = BestFit().solve(formulation, SolveOptions(), Clock())
    certify(formulation, outcome, Clock(10.0))
    assert outcome.plan is not None
    values = formulation.evaluate(outcome.plan)
    assert formulation.certified_bounds(outcome.certificate, values)[0] == 6


def test_prices_that_are_known_are_kept() -> None:
    """Only the objectives without any get new ones."""
    formulation = three_jobs()
    known = {"objective": "value", "prices": [[0.0] for _ in formulation.classes.pieces], "multipliers": {}}
    goals = certified_goals(
        formulation, RestrictedMaster(formulation.classes), (6.0, 2.0), SolveOptions(), Clock(), [known]
    )
    assert [goal["objective"] for goal in goals] == ["value", "servers"]
    assert goals[0] is known


def test_prices_prove_that_there_is_no_plan() -> None:
    """Two jobs of two GPUs each must be placed, and three are free."""
    jobs = [job("a", 2, must_place=True), job("b", 2, must_place=True)]
    formulation = ConsolidationFormulation(placement(["value"], [server(gpu=3)], jobs))
    goals = infeasibility(RestrictedMaster(formulation.classes), SolveOptions(), Clock())
    assert formulation.certified_bounds({"goals": goals}) == (float("-inf"),)
    outcome = Outcome(infeasible=True)
    certify(formulation, outcome, Clock(10.0))
    assert outcome.certificate is not None
    assert Fraction(outcome.certificate["goals"][0]["prices"][0][0]) > 0
