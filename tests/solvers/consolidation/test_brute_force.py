"""Complete enumeration, against counts and optima that are known by hand."""

from __future__ import annotations

from placements import job, placement, server, three_jobs

from clusterplan.formulations.consolidation.formulation import ConsolidationFormulation
from clusterplan.solvers.common.base import Clock
from clusterplan.solvers.common.result import SolveOptions
from clusterplan.solvers.consolidation.brute_force import ConsolidationBruteForce, _cuts, _ways


def test_every_way_to_split_tasks() -> None:
    """Three tasks on two servers: four ways; on three servers: ten."""
    assert list(_cuts(3, 2)) == [(0, 3), (1, 2), (2, 1), (3, 0)]
    assert len(set(_cuts(3, 3))) == 10


def test_every_way_to_place_a_job() -> None:
    """And not to place it, unless it must be."""
    formulation = three_jobs()
    assert len(list(_ways(formulation, formulation.instance.jobs[2]))) == 1 + 3


def test_the_best_plan_and_its_bounds() -> None:
    """Two of three jobs, each on a server of its own."""
    outcome = ConsolidationBruteForce().solve(three_jobs(), SolveOptions(), Clock())
    assert tuple(outcome.bounds) == (6.0, 2.0)
    assert outcome.plan is not None
    assert [entry.placed for entry in outcome.plan] == [True, True, False]


def test_no_plan_and_no_time() -> None:
    """What must be placed and does not fit is infeasible; a search without time says nothing."""
    instance = placement(["value"], [server(gpu=1)], [job("a", 2, must_place=True)])
    formulation = ConsolidationFormulation(instance)
    assert ConsolidationBruteForce().solve(formulation, SolveOptions(), Clock()).infeasible
    late = ConsolidationBruteForce().solve(formulation, SolveOptions(), Clock(0.0))
    assert (late.limit, late.infeasible) == ("time", False)
