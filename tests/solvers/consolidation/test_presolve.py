"""Presolve of placements with running jobs."""

from __future__ import annotations

from typing import Any

from device_instances import job, placement, server

from clusterplan.formulations.consolidation.formulation import ConsolidationFormulation
from clusterplan.formulations.consolidation.presolve import formulation_of
from clusterplan.instances.consolidation.instance import ConsolidationInstance
from clusterplan.solvers.common.base import Clock, Outcome, Solver
from clusterplan.solvers.common.result import SolveOptions
from clusterplan.solvers.consolidation.list_heuristics import BEST_FIT
from clusterplan.solvers.consolidation.presolve import (
    AroundFixedJobs,
    WithoutMovesFirst,
    plan_without_moves,
)


class Moving(Solver[Any]):
    """Puts every job on the other server than now; says which jobs it was asked for."""

    name, kinds = "moving", ("consolidation",)

    def __init__(self) -> None:
        self.asked: list[str] = []

    def solve(self, formulation: Any, options: SolveOptions, clock: Clock) -> Outcome:
        del options, clock
        jobs = formulation.instance.jobs
        self.asked = [job.name for job in jobs]
        plan = [{"job": job.name, "servers": {"a" if "b" in job.current else "b": 1}} for job in jobs]
        return Outcome(formulation.parse_plan(plan), (float(len(jobs)),))


def instance(**more: Any) -> ConsolidationInstance:
    """Return two servers, each with a running job of one GPU."""
    document = {
        "schema_version": 1,
        "kind": "consolidation",
        "name": "two",
        "objectives": ["value"],
        "servers": [{"name": name, "capacity": {"gpu": 4}} for name in "ab"],
        "jobs": [
            {"name": f"on-{name}", "tasks": 1, "task_demand": {"gpu": 1}, "current": {name: 1}}
            for name in "ab"
        ],
        **more,
    }
    return ConsolidationInstance.model_validate(document)


def planned(**more: Any) -> tuple[list[str], dict[str, dict[str, int]], tuple[float | None, ...]]:
    """Return the jobs that the method was asked for, where the plan puts all, and the bounds."""
    method = Moving()
    outcome = AroundFixedJobs(method).solve(formulation_of(instance(**more)), SolveOptions(), Clock())
    return method.asked, {e.job: e.servers for e in outcome.plan or ()}, tuple(outcome.bounds)


def test_a_method_sees_only_the_jobs_that_need_not_stay() -> None:
    stays = {"on-a": {"a": 1}, "on-b": {"a": 1}}
    assert planned() == (["on-a", "on-b"], {"on-a": {"b": 1}, "on-b": {"a": 1}}, (2.0,))
    assert planned(pinned=["on-a"]) == (["on-b"], stays, (2.0,))


def test_where_all_jobs_stay_there_is_nothing_to_solve() -> None:
    assert planned(running="stay") == ([], {"on-a": {"a": 1}, "on-b": {"b": 1}}, (2.0,))


def test_a_plan_that_moves_too_much_or_does_not_pay_gives_way_to_one_in_which_all_stay() -> None:
    for more in ({"max_moves": 1}, {"restart_cost_h": 0.1}):
        assert planned(**more)[1] == {"on-a": {"a": 1}, "on-b": {"b": 1}}
    assert planned(max_moves=2)[1] == {"on-a": {"b": 1}, "on-b": {"a": 1}}


def test_running_jobs_stay_and_others_fill_what_they_leave() -> None:
    """Job b would fit best where a runs."""
    jobs = [job("a", 2, current={"n": 2}), job("b", 2, value=9), job("c", 3)]
    servers = [server("n", gpu=3), server("m", gpu=2)]
    formulation = ConsolidationFormulation(placement(["migrations", "value"], servers, jobs))
    plan = plan_without_moves(formulation, Clock())
    assert [entry.servers for entry in plan] == [{"n": 2}, {"m": 2}, {}]
    assert formulation.evaluate(plan)[0] == 0


def test_a_job_on_more_servers_than_it_may_use_is_placed_anew() -> None:
    """It is required to be on one."""
    jobs = [job("a", 2, current={"n": 1, "m": 1}, spread="required")]
    servers = [server("n", gpu=2), server("m", gpu=2)]
    formulation = ConsolidationFormulation(placement(["migrations"], servers, jobs))
    plan = plan_without_moves(formulation, Clock())
    assert len(plan[0].servers) == 1


def test_there_is_no_plan_around_them_if_others_must_be_placed_and_do_not_fit() -> None:
    """Job a holds the only server."""
    jobs = [job("a", 1, current={"n": 1}), job("b", 3, must_place=True)]
    formulation = ConsolidationFormulation(placement(["value"], [server("n", gpu=3)], jobs))
    assert plan_without_moves(formulation, Clock()) is None


def test_running_jobs_on_single_devices_stay_and_others_get_devices_beside_them() -> None:
    """Two jobs of half a GPU run on two servers, where best fit would put both on one; a third joins them."""
    half = {"task_demand": {}, "share": {"gpu": 500}}
    jobs = [job(f"j{k}", current={f"n{k}": 1}, **half) for k in range(2)] + [job("waits", **half)]
    servers = [server(f"n{k}", cpu=8) | {"devices": {"gpu": {"count": 1}}} for k in range(2)]
    formulation = formulation_of(placement(["value"], servers, jobs))
    plan = plan_without_moves(formulation, Clock())
    assert formulation.violations(plan) == []
    assert [entry.servers for entry in plan[:2]] == [{"n0": 1}, {"n1": 1}]
    assert plan[2].placed


def test_a_method_starts_from_the_plan_in_which_all_running_jobs_stay() -> None:
    """It is asked twice; the second time, with leave to move, it gets that plan."""
    jobs = [job(f"runs-{k}", 2, current={f"n-{k}": 2}) for k in range(20)]
    whole = placement(["value"], [server("n", gpu=4) | {"count": 20}], [*jobs, job("waits", 4)])
    starts: list[Any] = []

    class Idle(Solver[Any]):
        name, kinds = "idle", ("consolidation",)

        def solve(self, formulation: Any, options: SolveOptions, clock: Clock) -> Outcome:
            starts.append(options.warm_start)
            return BEST_FIT.solve(formulation, SolveOptions(), clock)

    WithoutMovesFirst(Idle()).solve(formulation_of(whole), SolveOptions(), Clock())
    without, (first, *_) = starts
    assert without is None
    assert first["servers"] == {"n-0": 2}
