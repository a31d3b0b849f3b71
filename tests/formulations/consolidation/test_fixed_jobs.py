"""Running jobs that stay: plans, bounds and checks of the whole from what is left."""

from __future__ import annotations

import random
from typing import Any

import pytest

from clusterplan.formulations.consolidation.fixed_jobs import WithFixedJobs, formulation_of
from clusterplan.formulations.consolidation.formulation import ConsolidationFormulation
from clusterplan.formulations.consolidation.plan import JobPlacement
from clusterplan.instances.consolidation.instance import ConsolidationInstance
from clusterplan.planner.verification.result import verify
from clusterplan.solvers.common.base import Clock
from clusterplan.solvers.common.brute_force import Enumeration
from clusterplan.solvers.common.options import SolveOptions
from clusterplan.solvers.consolidation.brute_force import ConsolidationBruteForce
from clusterplan.solvers.registry import find_solver
from clusterplan.solvers.run import solve_with


def instance(**more: Any) -> ConsolidationInstance:
    """Return two servers of 4 GPUs; `runs` holds 2 of the first, `waits` needs all of one."""
    return ConsolidationInstance.model_validate(
        {
            "kind": "consolidation",
            "name": "two",
            "schema_version": 1,
            "servers": [{"name": "a", "capacity": {"gpu": 4}}, {"name": "b", "capacity": {"gpu": 4}}],
            "jobs": [
                {"name": "runs", "tasks": 2, "task_demand": {"gpu": 1}, "current": {"a": 1, "b": 1}},
                {"name": "waits", "tasks": 1, "task_demand": {"gpu": 4}},
            ],
            **more,
        }
    )


def fixed(data: ConsolidationInstance) -> set[str]:
    """Return the names of the jobs that stay."""
    formulation = formulation_of(data)
    return set(formulation.fixed) if isinstance(formulation, WithFixedJobs) else set()


def test_a_job_stays_if_it_says_so_or_its_name_matches_or_all_running_jobs_stay() -> None:
    assert fixed(instance()) == set()
    assert fixed(instance(running="move")) == set()
    assert fixed(instance(running="stay")) == {"runs"}
    assert fixed(instance(pinned=["r*s"])) == {"runs"}
    assert fixed(instance(pinned=["w*"])) == set()
    jobs = [job.model_dump(exclude_none=True) for job in instance().jobs]
    jobs[0]["movable"] = False
    assert fixed(instance(jobs=jobs)) == {"runs"}


def test_a_job_of_which_only_a_part_runs_does_not_stay() -> None:
    jobs = [job.model_dump(exclude_none=True) for job in instance().jobs]
    jobs[0]["current"] = {"a": 1}
    assert fixed(instance(jobs=jobs, running="stay")) == set()


def test_a_plan_that_moves_or_stops_what_stays_breaks_a_constraint() -> None:
    formulation = formulation_of(instance(running="stay"))
    waits = JobPlacement(job="waits", placed=False)
    for servers in ({"a": 2}, {}):
        moved = JobPlacement(job="runs", placed=bool(servers), servers=servers)
        assert [str(v) for v in formulation.violations([moved, waits])]
    stays = JobPlacement(job="runs", servers={"a": 1, "b": 1})
    assert not formulation.violations([stays, waits])
    assert formulation.violations([stays])
    assert formulation.violations([stays, stays, waits])


def test_what_stays_takes_capacity_and_counts_in_every_objective() -> None:
    result = solve_with(instance(running="stay"), find_solver("exact", "consolidation"), SolveOptions())
    assert [(o.name, o.value, o.certified_bound) for o in result.objectives] == [
        ("value", 2, 2),
        ("spread", 0, 0),
        ("servers", 2, 2),
    ]
    assert result.plan is not None
    assert [entry.model_dump()["action"] for entry in result.plan] == ["keep", "wait"]
    assert (
        solve_with(instance(), find_solver("exact", "consolidation"), SolveOptions()).objectives[0].value == 6
    )


def test_servers_that_hold_less_than_what_stays_are_named() -> None:
    servers = [
        {"name": "a", "capacity": {"gpu": 4}, "free": {"gpu": 0}},
        {"name": "b", "capacity": {"gpu": 4}},
    ]
    result = solve_with(
        instance(running="stay", servers=servers), find_solver("exact", "consolidation"), SolveOptions()
    )
    assert result.status == "infeasible"
    assert result.diagnosis is not None
    assert result.diagnosis.reasons == ("server 'a': jobs that stay hold 1 gpu of 0",)


def test_devices_that_a_job_holds_are_not_there_for_others() -> None:
    servers = [{"name": "a", "capacity": {"cpu": 8}, "devices": {"gpu": {"count": 2}}}]
    runs = {"name": "runs", "tasks": 1, "task_demand": {"cpu": 1}, "share": {"gpu": 400}, "current": {"a": 1}}
    held = {"current_devices": {"a": [{"gpu": [1]}]}}
    waits = {"name": "waits", "tasks": 1, "task_demand": {"cpu": 1}, "devices": {"gpu": 1}}
    for more, device in (({}, 1), (held, 0)):
        data = instance(servers=servers, jobs=[{**runs, **more}, waits], running="stay")
        result = solve_with(data, find_solver("exact", "consolidation"), SolveOptions())
        assert result.plan is not None
        assert result.plan[1].model_dump()["devices"] == {"tasks": {"a": ({"gpu": (device,)},)}}
        assert verify(data, result).ok


class _WithoutMoves(Enumeration):
    """An enumeration of the whole instance that leaves out the plans in which somebody moves who stays."""

    def judge(self, plan: Any) -> None:
        """Compare a plan in which nobody moves who stays."""
        for job, entry in zip(self.formulation.instance.jobs, plan, strict=True):
            now = {group.name: group.current for group in job.task_groups}
            if self.formulation.instance.stays(job) and entry.tasks != now:
                return
        super().judge(plan)


def random_instance(seed: int) -> ConsolidationInstance:
    """Return three servers and three jobs, of which some run and stay."""
    draw = random.Random(seed)
    servers: list[dict[str, Any]] = [
        {"name": f"s{k}", "capacity": {"gpu": draw.choice([2, 4]), "cpu": 8}, "rack": f"r{k % 2}"}
        for k in range(3)
    ]
    left = {server["name"]: dict(server["capacity"]) for server in servers}
    jobs = []
    for k in range(3):
        tasks, gpu, cpu = draw.choice([1, 1, 2]), draw.choice([0, 1, 2]), draw.choice([1, 3])
        job: dict[str, Any] = {"name": f"j{k}", "tasks": tasks, "task_demand": {"gpu": gpu, "cpu": cpu}}
        job["spread"] = draw.choice(["free", "preferred"])
        fits = [
            n
            for n, amounts in left.items()
            if amounts["gpu"] >= gpu * tasks and amounts["cpu"] >= cpu * tasks
        ]
        if fits and draw.random() < 0.6:
            server = draw.choice(fits)
            left[server]["gpu"] -= gpu * tasks
            left[server]["cpu"] -= cpu * tasks
            job |= {"current": {server: tasks}, "movable": draw.random() < 0.5}
        jobs.append(job)
    names = draw.sample(["spread", "servers", "racks", "migrations", "slowdown", "traffic"], 2)
    return instance(servers=servers, jobs=jobs, objectives=["value", *names])


@pytest.mark.parametrize("method", ["exact", "milp:highs", "cp-sat"])
def test_the_optimum_is_the_best_plan_of_the_whole_in_which_nobody_moves_who_stays(method: str) -> None:
    looked_at = 0
    for seed in range(12):
        data = random_instance(seed)
        if not fixed(data):
            continue
        looked_at += 1
        search = _WithoutMoves(ConsolidationFormulation(data), Clock())
        ConsolidationBruteForce().enumerate(search.formulation, search)
        result = solve_with(data, find_solver(method, "consolidation"), SolveOptions(threads=1))
        assert search.best is not None
        assert [o.value for o in result.objectives] == pytest.approx(list(search.best[0])), seed
        assert verify(data, result).ok
    assert looked_at > 5
