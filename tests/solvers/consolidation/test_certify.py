"""Certificates, enumeration and diagnosis of placements, and the registration of their solvers."""

from __future__ import annotations

from fractions import Fraction

import pytest
from device_instances import job, placement, server, three_jobs

from clusterplan.formulations.common.objective import Diagnosis
from clusterplan.formulations.consolidation.formulation import ConsolidationFormulation
from clusterplan.instances.common.errors import TooLargeError
from clusterplan.solvers.common.base import Clock, Outcome
from clusterplan.solvers.common.result import SolveOptions
from clusterplan.solvers.consolidation import cp_sat
from clusterplan.solvers.consolidation.brute_force import (
    ConsolidationBruteForce,
    _compositions,
    _job_placements,
)
from clusterplan.solvers.consolidation.exact import certified_goals, certify, diagnose, infeasibility_goals
from clusterplan.solvers.consolidation.kind import CONSOLIDATION
from clusterplan.solvers.consolidation.list_heuristics import BEST_FIT
from clusterplan.solvers.consolidation.patterns.master import RestrictedMaster
from clusterplan.solvers.registry import KINDS


def test_a_plan_of_best_fit_gets_prices() -> None:
    """They prove that six is the best value."""
    formulation = three_jobs()
    outcome = BEST_FIT.solve(formulation, SolveOptions(), Clock())
    certify(formulation, outcome, Clock(10.0))
    values = formulation.evaluate(outcome.plan)
    assert formulation.certified_bounds(outcome.certificate, values)[0] == 6


def test_prices_that_are_known_are_kept() -> None:
    """Only the objectives without any get new ones."""
    formulation = three_jobs()
    known = {"objective": "value", "prices": [[0.0] for _ in formulation.classes.pieces], "multipliers": {}}
    goals = certified_goals(
        formulation, RestrictedMaster(formulation.classes), (6.0, 2.0), (), SolveOptions(), Clock(), [known]
    )
    assert [goal["objective"] for goal in goals] == ["value", "servers"]
    assert goals[0] is known


def test_prices_prove_that_there_is_no_plan() -> None:
    """Two jobs of two GPUs each must be placed, and three are free."""
    jobs = [job("a", 2, must_place=True), job("b", 2, must_place=True)]
    formulation = ConsolidationFormulation(placement(["value"], [server(gpu=3)], jobs))
    goals = infeasibility_goals(RestrictedMaster(formulation.classes), SolveOptions(), Clock())
    assert formulation.certified_bounds({"goals": goals}) == (float("-inf"),)
    outcome = Outcome(infeasible=True)
    certify(formulation, outcome, Clock(10.0))
    assert Fraction(outcome.certificate["goals"][0]["prices"][0][0]) > 0


def test_every_way_to_split_tasks() -> None:
    """Three tasks on two servers: four ways; on three servers: ten."""
    assert list(_compositions(3, 2)) == [(0, 3), (1, 2), (2, 1), (3, 0)]
    assert len(set(_compositions(3, 3))) == 10


def test_every_way_to_place_a_job() -> None:
    """And not to place it, unless it must be."""
    formulation = three_jobs()
    assert len(list(_job_placements(formulation, formulation.instance.jobs[2]))) == 1 + 3


def test_the_best_plan_and_its_bounds() -> None:
    """Two of three jobs, each on a server of its own."""
    outcome = ConsolidationBruteForce().solve(three_jobs(), SolveOptions(), Clock())
    assert tuple(outcome.bounds) == (6.0, 2.0)
    assert [entry.placed for entry in outcome.plan] == [True, True, False]


def test_no_plan_and_no_time() -> None:
    """What must be placed and does not fit is infeasible; a search without time says nothing."""
    instance = placement(["value"], [server(gpu=1)], [job("a", 2, must_place=True)])
    formulation = ConsolidationFormulation(instance)
    assert ConsolidationBruteForce().solve(formulation, SolveOptions(), Clock()).infeasible
    late = ConsolidationBruteForce().solve(formulation, SolveOptions(), Clock(0.0))
    assert (late.limit, late.infeasible) == ("time", False)


def test_the_largest_part_that_fits_is_named() -> None:
    """Three jobs of two GPUs on two servers of three: one is left out, though six GPUs are free."""
    jobs = [job(f"j{k}", 1, {"gpu": 2}, must_place=True) for k in range(3)]
    servers = [{**server(gpu=3), "count": 2}]
    found = diagnose(ConsolidationFormulation(placement(["value"], servers, jobs)), None, Clock())
    assert found.reasons[0] == "2 of the 3 jobs that must be placed were found to fit together"
    assert len(found.reasons) == 2


def test_what_counting_found_is_enough() -> None:
    """Nothing is searched then."""
    known = Diagnosis(reasons=("known",))
    formulation = ConsolidationFormulation(placement(["value"], [server(gpu=3)], [job("a")]))
    assert diagnose(formulation, known, Clock()) is known
    assert diagnose(formulation, None, Clock()) is None


def test_its_methods() -> None:
    """The exact one, ten others, and a plan that moves nothing among the quick ones."""
    assert KINDS["consolidation"] is CONSOLIDATION
    names = [CONSOLIDATION.exact.name, *(solver.name for solver in CONSOLIDATION.solvers)]
    assert names == [
        "exact",
        "cp-sat",
        "best-fit",
        "first-fit-decreasing",
        "consolidate-or-wait",
        "best-fit-l2",
        "best-fit-dot",
        "bin-centric",
        "brute-force",
    ]
    formulation = ConsolidationFormulation(
        placement(["migrations"], [server(gpu=1)], [job("a", current={"n": 1})])
    )
    ((what, search),) = CONSOLIDATION.more_quick.items()
    assert what == "leaving jobs where they run"
    plan = search(formulation, Clock())
    assert plan[0].servers == {"n": 1}


def test_settled_objectives_keep_their_values() -> None:
    """Two racks of two servers: a job of four tasks fits in one, with its value kept."""
    servers = [{**server(f"n{k}", gpu=2), "rack": f"r{k % 2}"} for k in range(4)]
    formulation = ConsolidationFormulation(placement(["value", "racks"], servers, [job("a", 4)]))
    start = formulation.parse_plan([{"job": "a", "servers": {"n0": 2, "n1": 2}}])
    outcome = cp_sat.solve(formulation, start, [4.0], SolveOptions(threads=1), Clock())
    assert formulation.evaluate(outcome.plan) == (4.0, 0.0)


def test_too_many_servers_are_not_named() -> None:
    """The message says how many there are."""
    instance = placement(["racks"], [{**server(gpu=1), "count": 200_000}], [job("a"), job("b")])
    with pytest.raises(TooLargeError, match="2 groups of tasks on 200,000 servers"):
        cp_sat.solve(ConsolidationFormulation(instance), None, [], SolveOptions(), Clock())
