"""A first plan that moves nothing."""

from __future__ import annotations

from placements import job, placement, server

from clusterplan.formulations.consolidation.formulation import ConsolidationFormulation
from clusterplan.solvers.common.base import Clock
from clusterplan.solvers.consolidation.presolve import completed, stay_put


def test_running_jobs_stay_and_others_fill_what_they_leave() -> None:
    """Job b would fit best where a runs."""
    jobs = [job("a", 2, current={"n": 2}), job("b", 2, value=9), job("c", 3)]
    servers = [server("n", gpu=3), server("m", gpu=2)]
    formulation = ConsolidationFormulation(placement(["migrations", "value"], servers, jobs))
    plan = stay_put(formulation, Clock())
    assert plan is not None
    assert [entry.servers for entry in plan] == [{"n": 2}, {"m": 2}, {}]
    assert formulation.evaluate(plan)[0] == 0


def test_a_job_on_more_servers_than_it_may_use_is_placed_anew() -> None:
    """It is required to be on one."""
    jobs = [job("a", 2, current={"n": 1, "m": 1}, spread="required")]
    servers = [server("n", gpu=2), server("m", gpu=2)]
    formulation = ConsolidationFormulation(placement(["migrations"], servers, jobs))
    plan = stay_put(formulation, Clock())
    assert plan is not None
    assert len(plan[0].servers) == 1


def test_others_are_placed_around_those_that_have_a_place() -> None:
    """Job a is where nobody would put it, b fits beside it, and c nowhere."""
    jobs = [job("a", 1), job("b", 2), job("c", 4)]
    formulation = ConsolidationFormulation(
        placement(["value"], [server("n", gpu=3), server("m", gpu=1)], jobs)
    )
    plan = completed(formulation, {"a": {"tasks": {"n": 1}}}, Clock())
    assert plan is not None
    assert [entry.servers for entry in plan] == [{"n": 1}, {"n": 2}, {}]


def test_there_is_no_plan_around_them_if_others_must_be_placed_and_do_not_fit() -> None:
    """Job a takes the only server."""
    jobs = [job("a", 1), job("b", 3, must_place=True)]
    formulation = ConsolidationFormulation(placement(["value"], [server("n", gpu=3)], jobs))
    assert completed(formulation, {"a": {"tasks": {"n": 1}}}, Clock()) is None
