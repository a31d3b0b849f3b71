"""Methods around jobs that stay, and methods that do not weigh moves."""

from __future__ import annotations

from typing import Any

from clusterplan.formulations.consolidation.presolve import formulation_of
from clusterplan.instances.consolidation.instance import ConsolidationInstance
from clusterplan.solvers.common.base import Clock, Outcome, Solver
from clusterplan.solvers.common.result import SolveOptions
from clusterplan.solvers.consolidation.presolve import AroundFixedJobs


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
