"""What `exact` knows of its plan: bounds, levels, and the certificate, which other methods get too."""

from __future__ import annotations

import dataclasses
from fractions import Fraction

import pytest
from device_instances import job, placement, server, three_jobs
from random_instances import random_consolidation

from clusterplan.formulations.common.objective import Diagnosis
from clusterplan.formulations.consolidation.certificate import PRICED
from clusterplan.formulations.consolidation.check.bounds import objective_level, value_step
from clusterplan.formulations.consolidation.check.classes import CheckedCluster
from clusterplan.formulations.consolidation.formulation import ConsolidationFormulation
from clusterplan.formulations.consolidation.plan import JobPlacement
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
from clusterplan.solvers.consolidation.progress import (
    SETTINGS,
    ExactSettings,
    Progress,
    attains_bound,
    kept_level,
    objective_step,
    reached_level,
    scaling_step,
)
from clusterplan.solvers.registry import KINDS

OUT = [JobPlacement(job=name, placed=False) for name in "abc"]
ONE = [JobPlacement(job="a", servers={"n": 3}), *OUT[1:]]


def test_only_better_plans_are_kept() -> None:
    """A plan that breaks a constraint has no values; a worse one does not replace the incumbent."""
    progress = Progress(three_jobs())
    assert progress.update_incumbent(OUT) == (0.0, 0.0)
    assert progress.update_incumbent(ONE) == (3.0, 1.0)
    assert progress.update_incumbent(OUT) == (0.0, 0.0)
    assert progress.plan is ONE
    assert progress.update_incumbent([JobPlacement(job="a", servers={"n": 2}), *OUT[1:]]) is None


def test_what_is_proven_ends_at_the_first_gap() -> None:
    """Bounds behind it do not count; the tighter of two bounds does."""
    progress = Progress(three_jobs("value", "servers"))
    progress.update_incumbent(ONE)
    progress.bounds = [4.0, 1.0]
    assert progress.proven(0.0) == []
    progress.tighten([3.0])
    assert progress.bounds == [3.0, 1.0]
    assert progress.proven(0.0) == [3.0, 1.0]


def test_bounds_beyond_an_unproven_objective_are_forgotten() -> None:
    """The objective after it keeps its bound, the next one does not."""
    progress = Progress(three_jobs("value", "servers", "spread"))
    classes = progress.formulation.classes
    progress.bounds = [6.0, 1.0, 0.0]
    progress.drop_dependent_bounds(classes, {}, (3.0, 1.0, 0.0))
    assert progress.bounds == [6.0, 1.0]
    progress.bounds = [3.0, 1.0, 0.0]
    progress.drop_dependent_bounds(classes, {"value": Fraction(-4)}, (3.0, 1.0, 0.0))  # believed to be better
    assert progress.bounds == [3.0]
    progress.drop_dependent_bounds(classes, {}, None)
    assert progress.bounds == [3.0]


def test_counting_adds_bounds_that_are_reached() -> None:
    """Nothing placed has no servers, but not the best value."""
    progress = Progress(three_jobs("servers", "value"))
    progress.update_incumbent(OUT)
    progress.add_combinatorial_bounds()
    assert progress.bounds == [0.0]
    assert progress.certificate() is None
    assert attains_bound(1.0, 1.0 - 1e-12)
    assert not attains_bound(1.0, 0.999)


def test_steps_by_hand() -> None:
    """Values 0.3 and 0.2 have the step 0.1; thirds of a million have none that helps."""
    instance = placement(["value"], [server(gpu=2)], [job("a", value=0.3), job("b", value=0.2)])
    classes = CheckedCluster.of(instance).classes
    assert objective_step(classes, "value") == Fraction(1, 10)
    assert objective_step(classes, "servers") == 1
    assert kept_level(classes, "value", Fraction(-51, 100)) == Fraction(-1, 2)
    instance = placement(["value"], [server(gpu=2)], [job("a", value=1e10), job("b", value=1 / 3)])
    classes = CheckedCluster.of(instance).classes
    assert objective_step(classes, "value") is None
    assert scaling_step(classes, "value") == 10**4


@pytest.mark.parametrize("seed", range(40))
def test_both_sides_agree(seed: int) -> None:
    """Steps and levels of the methods are those of the check."""
    instance = random_consolidation(seed)
    classes = CheckedCluster.of(instance).classes
    for objective in PRICED:
        assert objective_step(classes, objective) == value_step(classes, objective)
        for value in (0.0, 1.7, 3.0):
            assert reached_level(classes, objective, value) == objective_level(classes, objective, value)


def test_nobody_changes_them_on_the_way() -> None:
    """They are frozen, and each is told about."""
    with pytest.raises(dataclasses.FrozenInstanceError):
        SETTINGS.share_of_time_left = 1.0  # type: ignore[misc]
    for field in dataclasses.fields(ExactSettings):
        assert f"    {field.name}\n" in (ExactSettings.__doc__ or "")
    assert 0 < SETTINGS.share_of_time_left < 1


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
    """The exact one, nine others, and a plan that moves nothing among the quick ones."""
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
        "paa",
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
