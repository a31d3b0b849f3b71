"""Running jobs that stay: plans, bounds and checks of the whole from what is left.

Where nothing has to move: certificates of two smaller problems, and what they do not prove.
"""

from __future__ import annotations

import random
from typing import Any

import pytest
from device_instances import job, placement, server
from fuzz.checks import findings
from fuzz.consolidation_truth import ALL, ConsolidationTruth

import clusterplan
from clusterplan.formulations.consolidation.formulation import ConsolidationFormulation
from clusterplan.formulations.consolidation.plan import JobPlacement
from clusterplan.formulations.consolidation.presolve import (
    LEADING_KEY,
    STAYING_KEY,
    WithFixedJobs,
    WithRunningJobs,
    formulation_of,
    formulation_with_fixed_jobs,
)
from clusterplan.instances.consolidation.instance import ConsolidationInstance
from clusterplan.planner.verification import verify
from clusterplan.solvers.common.base import Clock, Enumeration
from clusterplan.solvers.common.conclude import contradiction
from clusterplan.solvers.common.result import SolveOptions
from clusterplan.solvers.consolidation.brute_force import ConsolidationBruteForce
from clusterplan.solvers.registry import find_solver
from clusterplan.solvers.run import solve_with


def instance(**more: Any) -> ConsolidationInstance:
    """Return two servers of 4 GPUs; `runs` holds 2 of the first, `waits` needs all of one."""
    jobs = [job("runs", 2, current={"a": 1, "b": 1}), job("waits", demand={"gpu": 4})]
    given = {"objectives": None, "servers": [server("a", gpu=4), server("b", gpu=4)], "jobs": jobs}
    return placement(**{**given, **more})


def fixed(data: ConsolidationInstance) -> set[str]:
    """Return the names of the jobs that stay."""
    formulation = formulation_with_fixed_jobs(data)
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
    formulation = formulation_with_fixed_jobs(instance(running="stay"))
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
        ("stops", 0, 0),
        ("migrations", 0, 0),
    ]
    assert result.plan is not None
    assert [entry.model_dump()["action"] for entry in result.plan] == ["keep", "wait"]
    assert (
        solve_with(instance(), find_solver("exact", "consolidation"), SolveOptions()).objectives[0].value == 6
    )


def test_servers_that_hold_less_than_what_stays_are_named() -> None:
    servers = [
        {"name": "a", "capacity": {"gpu": 4}, "free": {"gpu": 0}},
        server("b", gpu=4),
    ]
    result = solve_with(
        instance(running="stay", servers=servers), find_solver("exact", "consolidation"), SolveOptions()
    )
    assert result.status == "infeasible"
    assert result.diagnosis is not None
    assert result.diagnosis.reasons == ("server 'a': jobs that stay hold 1 gpu of 0",)


def test_devices_that_a_job_holds_are_not_there_for_others() -> None:
    servers = [{"name": "a", "capacity": {"cpu": 8}, "devices": {"gpu": {"count": 2}}}]
    runs = job("runs", demand={"cpu": 1}, share={"gpu": 400}, current={"a": 1})
    held = {"current_devices": {"a": [{"gpu": [1]}]}}
    waits = job("waits", demand={"cpu": 1}, devices={"gpu": 1})
    for more, device in (({}, 1), (held, 0)):
        data = instance(servers=servers, jobs=[{**runs, **more}, waits], running="stay")
        result = solve_with(data, find_solver("exact", "consolidation"), SolveOptions())
        assert result.plan is not None
        assert result.plan[1].model_dump()["devices"] == {"tasks": {"a": ({"gpu": (device,)},)}}
        assert verify(data, result).ok


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
    names = draw.sample(
        ["spread", "servers", "racks", "stops", "migrations", "slowdown", "traffic", "imbalance"], 2
    )
    return instance(servers=servers, jobs=jobs, objectives=["value", *names])


@pytest.mark.parametrize("method", ["exact", "milp:highs", "cp-sat"])
def test_the_optimum_is_the_best_plan_of_the_whole_in_which_nobody_moves_who_stays(method: str) -> None:
    looked_at = 0
    for seed in range(12):
        data = random_instance(seed)
        if not fixed(data):
            continue
        looked_at += 1
        search = Enumeration(ConsolidationFormulation(data), Clock())
        ConsolidationBruteForce().enumerate(search.formulation, search)
        result = solve_with(data, find_solver(method, "consolidation"), SolveOptions(threads=1))
        assert search.best is not None
        assert [o.value for o in result.objectives] == pytest.approx(list(search.best[0])), seed
        assert verify(data, result).ok
    assert looked_at > 5


def test_moves_cost_what_jobs_lose_that_move_and_nothing_for_those_that_stay() -> None:
    data = instance(
        objectives=["value"],
        restart_cost_h=0.5,
        servers=[server("s", gpu=8)],
        jobs=[
            job("a", value=2, movable=False, current={"s": 1}),
            job("b", value=10, current={"s": 1}),
        ],
    )
    for name in ("exact", "milp:highs", "cp-sat", "best-fit", "brute-force"):
        result = solve_with(data, find_solver(name, "consolidation"), SolveOptions(threads=1))
        assert (result.objective, result.certified_bound, result.status) == (12, 12, "optimal")
        assert verify(data, result).complete


def running(seed: int) -> dict[str, Any]:
    """Return a document of two servers and four jobs, of which most run, some stay, and moves cost."""
    draw = random.Random(seed)
    servers = [
        {"name": name, "capacity": {"gpu": draw.choice([1, 2, 0.6]), "cpu": 3}, "traffic_gbit_per_s": 0.1}
        for name in ("a", "b")
    ]
    left = {server["name"]: dict(server["capacity"]) for server in servers}
    jobs = []
    for k in range(4):
        gpu = draw.choice([0.1, 0.2, 0.3, 1])
        job: dict[str, Any] = {"name": f"j{k}", "tasks": draw.choice([1, 2]), "task_demand": {"gpu": gpu}}
        job |= {
            "value": draw.choice([0.1, 0.2, 0.6, 0.7, 2]),
            "spread": draw.choice(["preferred", "required"]),
        }
        job |= {"traffic_gbit_per_s": draw.choice([0.1, 0.2])}
        for _ in range(job["tasks"] if draw.random() < 0.8 else 0):
            where = next((name for name, amounts in left.items() if amounts["gpu"] >= gpu), None)
            if where is not None:
                left[where]["gpu"] -= gpu
                job.setdefault("current", {})[where] = job.get("current", {}).get(where, 0) + 1
        job |= draw.choice([{}, {"movable": False}])
        job |= draw.choice([{}, {"restart_s": 900}, {"speed_by_servers": {"1": 1, "2": 0.9}}])
        jobs.append(job)
    names = draw.sample([name for name in ALL if name != "value"], 2)
    more = draw.choice([{}, {"restart_cost_h": 0.5}, {"restart_cost_h": 3.0, "max_moves": 1}])
    return {
        "kind": "consolidation",
        "name": "running",
        "schema_version": 1,
        "servers": servers,
        "jobs": jobs,
        "objectives": ["value", *names],
        **more,
    }


def test_results_agree_with_all_plans_of_the_document() -> None:
    looked_at = 0
    for seed in range(60):
        document = running(seed)
        data = ConsolidationInstance.model_validate(document)
        if not data.staying:
            continue
        looked_at += 1
        truth = ConsolidationTruth(document)
        result = solve_with(data, find_solver("exact", "consolidation"), SolveOptions(threads=1))
        assert [finding.text for finding in findings(truth, result)] == [], seed
        assert verify(data, result).ok
    assert looked_at > 30


def test_plans_of_what_is_left_differ_by_what_stays_from_those_of_the_whole() -> None:
    looked_at = 0
    for seed in range(60):
        formulation = formulation_with_fixed_jobs(ConsolidationInstance.model_validate(running(seed)))
        if not isinstance(formulation, WithFixedJobs) or not formulation.rest.instance.jobs:
            continue
        for plan in ([entry.model_copy() for entry in found] for found in _some_plans(formulation)):
            looked_at += 1
            values = formulation.rest.evaluate(formulation.others(plan))
            assert formulation.lifted(values) == pytest.approx(formulation.evaluate(plan), abs=1e-12)
    assert looked_at > 100


def _some_plans(formulation: WithFixedJobs) -> list[tuple[JobPlacement, ...]]:
    """Return plans in which each of the other jobs alone is placed, somewhere that it fits."""
    found = []
    out = {
        waiting.name: JobPlacement(job=waiting.name, placed=False)
        for waiting in formulation.rest.instance.jobs
    }
    for waiting in formulation.rest.instance.jobs:
        for place in formulation.servers:
            entry = JobPlacement(job=waiting.name, servers={place: waiting.task_groups[0].tasks})
            plan = formulation.whole(tuple((out | {waiting.name: entry}).values()))
            if not formulation.violations(plan):
                found.append(plan)
    return found


def test_a_wrong_constant_of_the_jobs_that_stay_is_found_out() -> None:
    formulation = formulation_with_fixed_jobs(instance(running="stay"))
    assert isinstance(formulation, WithFixedJobs)
    plan = formulation.whole([JobPlacement(job="waits", placed=False)])
    values = formulation.evaluate(plan)
    formulation.offsets = (formulation.offsets[0] - 1, *formulation.offsets[1:])
    assert formulation.evaluate(plan) == values
    assert contradiction(formulation, formulation.certified_bounds(None, values), values)


def test_a_plan_is_judged_on_the_servers_as_they_were_given() -> None:
    data = instance(running="stay")
    formulation = formulation_with_fixed_jobs(data)
    assert isinstance(formulation, WithFixedJobs)
    # As if the servers that are left were empty.
    jobs = tuple(job for job in data.jobs if job.name == "waits")
    formulation.rest = ConsolidationFormulation(data.model_copy(update={"jobs": jobs, "running": None}))
    plan = formulation.whole([JobPlacement(job="waits", servers={"a": 1})])
    assert not formulation.rest.violations(formulation.others(plan))
    assert [violation.constraint for violation in formulation.violations(plan)] == ["free gpu of server a"]


def test_jobs_that_stay_run_where_they_may_not_start() -> None:
    jobs: list[dict[str, Any]] = [
        job("runs", 2, current={"a": 1, "b": 1}, gpu_model="v100", spread="required", movable=False),
        job("waits", demand={"gpu": 3}),
    ]
    result = solve_with(instance(jobs=jobs), find_solver("exact", "consolidation"), SolveOptions())
    assert (result.status, result.objectives[0].value) == ("optimal", 5)
    assert verify(instance(jobs=jobs), result).ok


def test_what_stays_leaves_what_decimals_say() -> None:
    """A difference of floats would be off by parts of the larger of the two."""
    servers = [server("a", cpu=1e8)]
    jobs = [
        job("runs", demand={"cpu": 99_999_999.9}, value=1, current={"a": 1}),
        job("waits", demand={"cpu": 0.1}, value=1),
    ]
    data = instance(servers=servers, jobs=jobs, running="stay")
    result = solve_with(data, find_solver("exact", "consolidation"), SolveOptions())
    assert (result.status, result.objectives[0].value) == ("optimal", 2)


def test_jobs_that_hold_the_same_device_cannot_both_stay() -> None:
    servers = [{"name": "a", "capacity": {"cpu": 8}, "devices": {"gpu": {"count": 2}}}]
    jobs = [
        job(
            name,
            demand={"cpu": 1},
            devices={"gpu": 1},
            current={"a": 1},
            current_devices={"a": [{"gpu": [0]}]},
        )
        for name in ("one", "other")
    ]
    result = solve_with(
        instance(servers=servers, jobs=jobs, running="stay"),
        find_solver("exact", "consolidation"),
        SolveOptions(),
    )
    assert result.status == "infeasible"
    assert result.diagnosis is not None
    assert result.diagnosis.reasons == ("no devices are left for the jobs that stay",)


OPTIONS = SolveOptions(threads=1)


def cluster(waiting: int = 2, **more: Any) -> ConsolidationInstance:
    """Return 60 servers with running jobs of CPUs on several of them, and some of GPUs that wait."""
    jobs: list[dict[str, Any]] = [
        job(
            f"runs-{k}",
            40 + k,
            {"cpu": 1, "memory": 4.0 + k / 8},
            spread="preferred",
            current={f"n-{k}": 20, f"n-{k + 9}": 20 + k},
        )
        for k in range(3)
    ]
    jobs += [job(f"waits-{k}", 2, {"gpu": 3 + k}) for k in range(waiting)]
    capacity = {"gpu": 4, "cpu": 64, "memory": 256}
    document = {
        "schema_version": 1,
        "kind": "consolidation",
        "name": "cluster",
        "objectives": ["value", "migrations", "spread", "servers"],
        "servers": [{"name": "n", "count": 60, "capacity": capacity}],
        "jobs": jobs,
        **more,
    }
    return ConsolidationInstance.model_validate(document)


def test_only_large_instances_with_running_jobs_and_migrations_are_taken_apart() -> None:
    assert isinstance(formulation_of(cluster()), WithRunningJobs)
    for more in ({"objectives": ["value", "servers"]}, {"running": "stay"}):
        assert not isinstance(formulation_of(cluster(**more)), WithRunningJobs)
    idle = [job.model_copy(update={"current": None}) for job in cluster().jobs]
    assert not isinstance(
        formulation_of(cluster(jobs=[j.model_dump(exclude_none=True) for j in idle])), WithRunningJobs
    )


def test_all_objectives_are_certified_where_nothing_moves() -> None:
    instance = cluster()
    found = clusterplan.solve(instance, "exact", OPTIONS)
    assert found.certificate is not None
    assert found.certificate.keys() == {LEADING_KEY, STAYING_KEY}
    assert [(r.name, r.value, r.certified_bound) for r in found.objectives] == [
        ("value", 14, 14),
        ("migrations", 0, 0),
        ("spread", 3, 3),
        ("servers", 6, 6),
    ]
    checked = verify(instance, found)
    assert checked.ok
    assert checked.complete


def test_nothing_after_migrations_is_proven_if_something_moves_or_a_better_plan_is_open() -> None:
    formulation = formulation_of(cluster())
    assert isinstance(formulation, WithRunningJobs)
    certificate = {LEADING_KEY: None, STAYING_KEY: None}
    elementary = formulation.elementary_bounds()
    for values in ([14.0, 1.0, 3.0, 6.0], [13.0, 0.0, 3.0, 6.0]):
        assert formulation.certified_bounds(certificate, values)[1:3] == elementary[1:3]
    assert formulation.certified_bounds(certificate, [14.0, 0.0, 3.0, 6.0])[2] == 3


def test_a_certificate_that_is_malformed_in_either_part_is_refused() -> None:
    formulation = formulation_of(cluster())
    good: dict[str, Any] = {"goals": []}
    assert formulation.certificate_fault({LEADING_KEY: good, STAYING_KEY: good}) is None
    assert formulation.certificate_fault({LEADING_KEY: None, STAYING_KEY: None}) is None
    for part in (LEADING_KEY, STAYING_KEY):
        assert (
            formulation.certificate_fault({LEADING_KEY: good, STAYING_KEY: good, part: {"goals": 3}})
            is not None
        )


@pytest.mark.parametrize("more", [{"max_moves": 0}, {"restart_cost_h": 2.0}, {}])
def test_a_move_that_is_worth_it_is_still_found(more: dict[str, Any]) -> None:
    """One server holds the large job once the small ones share the other."""
    jobs = [job(f"runs-{k}", current={f"n-{k}": 1}) for k in range(60)]
    instance = cluster(jobs=[*jobs, job("waits", demand={"gpu": 4})], **more)
    found = clusterplan.solve(instance, "exact", OPTIONS)
    assert [r.value for r in found.objectives][:2] == (
        [60, 0] if "max_moves" in more else [64 - more.get("restart_cost_h", 0), 1]
    )
    assert verify(instance, found).ok
    assert found.objectives[1].proven
