"""What list heuristics share: requests, and the order of jobs."""

from __future__ import annotations

from placements import job, placement, server

from clusterplan.formulations.consolidation.formulation import ConsolidationFormulation
from clusterplan.solvers.common.base import Clock
from clusterplan.solvers.common.result import SolveOptions
from clusterplan.solvers.consolidation.heuristics.list_heuristics import BestFit, ConsolidateOrWait
from clusterplan.solvers.consolidation.heuristics.placer import Request


def test_tasks_fill_what_is_left_group_after_group() -> None:
    """Two of the first group leave one GPU, which one task of the second takes."""
    request = Request((((0, 2.0),), ((0, 1.0), (1, 4.0))), (2, 3), None)
    assert request.load((2, 3), (5.0, 8.0)) == (2, 1)
    assert request.after((2, 1), (5.0, 8.0)) == (0.0, 4.0)


def test_sums_may_fill_a_server_up_to_rounding() -> None:
    """Three tenths and six tenths are nine tenths, whatever floats say."""
    assert Request((((0, 0.3),),), (3,), None).load((3,), (0.3 * 3,)) == (3,)
    assert Request((((0, 0.1),),), (9,), None).load((9,), (0.3,)) == (3,)


def test_what_must_be_placed_goes_first() -> None:
    """Though it is worth least; where it does not fit there is no plan, and the message says so."""
    jobs = [job("a", 2, value=9), job("b", 2, value=1, must_place=True)]
    formulation = ConsolidationFormulation(placement(["value"], [server(gpu=2)], jobs))
    plan = BestFit().solve(formulation, SolveOptions(), Clock()).plan
    assert plan is not None
    assert [entry.placed for entry in plan] == [False, True]
    jobs = [job("a", 3, must_place=True)]
    servers = [server("n", gpu=2), server("m", gpu=2)]
    free = [{**servers[0], "free": {"gpu": 1}}, servers[1]]
    outcome = ConsolidateOrWait().solve(
        ConsolidationFormulation(placement(["value"], [*free, server("l", gpu=3)], jobs)),
        SolveOptions(),
        Clock(),
    )
    assert outcome.plan is not None
    busy = [{**server("l", gpu=3), "free": {"gpu": 0}}, *free]
    outcome = ConsolidateOrWait().solve(
        ConsolidationFormulation(placement(["value"], busy, jobs)), SolveOptions(), Clock()
    )
    assert outcome.plan is None
    assert outcome.message == (
        "consolidate-or-wait: no room is left on 1 server for job 'a', which must be placed"
    )


def test_without_time_nothing_optional_is_placed() -> None:
    """The plan is empty, and says that time was the limit."""
    formulation = ConsolidationFormulation(placement(["value"], [server(gpu=2)], [job("a")]))
    outcome = BestFit().solve(formulation, SolveOptions(), Clock(0.0))
    assert outcome.limit == "time"
    assert outcome.plan is not None
    assert not outcome.plan[0].placed
