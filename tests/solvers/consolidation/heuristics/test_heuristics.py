"""List heuristics: what tells the first three apart, and that all keep the rules."""

from __future__ import annotations

import random
import time
from typing import Any

import pytest
from random_instances import random_consolidation

from clusterplan.formulations.consolidation.formulation import ConsolidationFormulation
from clusterplan.formulations.consolidation.plan import entry_of
from clusterplan.formulations.registry import formulate
from clusterplan.instances.consolidation.generate import generate_consolidation
from clusterplan.instances.consolidation.instance import ConsolidationInstance
from clusterplan.instances.consolidation.job import PlacementJob
from clusterplan.solvers.common.base import Clock, Outcome
from clusterplan.solvers.common.result import SolveOptions
from clusterplan.solvers.consolidation.heuristics import list_heuristics
from clusterplan.solvers.registry import find_solver

NAMES = ("best-fit", "first-fit-decreasing", "consolidate-or-wait")
PUBLISHED = ("best-fit-l2", "best-fit-dot", "bin-centric")


def made(free: list[Any], jobs: list[dict[str, Any]], **server: Any) -> ConsolidationInstance:
    """Return jobs on servers of 4 GPUs, of which so many are free; jobs have tasks of one GPU."""
    return ConsolidationInstance.model_validate(
        {
            "name": "by hand",
            "servers": [
                {"name": f"n{n}", "capacity": {"gpu": 4}, "free": {"gpu": gpus}, **server}
                if not isinstance(gpus, dict)
                else {"name": f"n{n}", **gpus}
                for n, gpus in enumerate(free)
            ],
            "jobs": [
                {"name": f"j{j}", **({} if "groups" in job else {"task_demand": {"gpu": 1}}), **job}
                for j, job in enumerate(jobs)
            ],
        }
    )


def answer(instance: Any, name: str) -> tuple[ConsolidationFormulation, Outcome]:
    """Return what a method says; its plan keeps every constraint."""
    formulation = formulate(instance)
    assert isinstance(formulation, ConsolidationFormulation)
    outcome = find_solver(name, "consolidation").solve(formulation, SolveOptions(), Clock())
    if outcome.plan is not None:
        assert formulation.violations(outcome.plan) == []
    return formulation, outcome


def placed(instance: ConsolidationInstance, name: str) -> list[Any]:
    """Return for each job the tasks by server, or by group and server; empty where it waits."""
    plan = answer(instance, name)[1].plan
    return [entry.groups if entry.groups is not None else entry.servers for entry in plan]


def by_method(instance: ConsolidationInstance) -> list[list[Any]]:
    """Return what the three methods do."""
    return [placed(instance, name) for name in NAMES]


def test_best_fit_fills_and_first_fit_takes_the_first() -> None:
    """Two GPUs go where they leave nothing, or on the first server with room."""
    best, first, consolidated = by_method(made([4, 2], [{"tasks": 2}]))
    assert best == consolidated == [{"n1": 2}]
    assert first == [{"n0": 2}]


def test_only_consolidate_or_wait_waits() -> None:
    """Six GPUs could run on two servers; three hold them now, which is enough for the others."""
    best, first, consolidated = by_method(made([2, 2, 2], [{"tasks": 6, "spread": "preferred"}]))
    assert best == first == [{"n0": 2, "n1": 2, "n2": 2}]
    assert consolidated == [{}]


def test_value_and_size_are_different_orders() -> None:
    """Best fit places the dearer job, first fit the larger one."""
    jobs = [{"tasks": 4, "value": 1}, {"tasks": 1, "value": 9}]
    best, first, consolidated = by_method(made([4], jobs))
    assert best == consolidated == [{}, {"n0": 1}]
    assert first == [{"n0": 4}, {}]


def test_all_keep_a_required_job_together() -> None:
    """Where the first server holds too little, a required job goes past it; a free one does not."""
    together = [{"tasks": 6, "spread": "required"}]
    for name in NAMES:
        assert placed(made([1, 3, 3], together), name) == [{"n1": 3, "n2": 3}]
        assert placed(made([1, 2, 3], together), name) == [{}]
    assert placed(made([1, 3, 3], [{"tasks": 6}]), "first-fit-decreasing") == [{"n0": 1, "n1": 3, "n2": 2}]


@pytest.mark.parametrize("name", NAMES)
def test_jobs_that_must_be_placed_come_first(name: str) -> None:
    """A small job without value that must be placed goes before a large one, or the answer says why not."""
    jobs = [{"tasks": 4, "value": 9}, {"tasks": 1, "value": 0, "must_place": True}]
    assert placed(made([4], jobs), name) == [{}, {"n0": 1}]
    must = {"tasks": 4, "must_place": True}
    outcome = answer(made([4, 2], [must, {**must, "name": "second"}]), name)[1]
    assert outcome.plan is None
    assert not outcome.infeasible
    where = " on 1 server" if name == "consolidate-or-wait" else ""
    assert outcome.message == f"{name}: no room is left{where} for job 'second', which must be placed"


def test_first_fit_and_best_fit_spread_what_must_be_placed() -> None:
    """A job that must be placed and may spread is placed on two servers, but not by consolidate-or-wait."""
    must = [{"tasks": 3, "must_place": True}]
    crowded = made([2, 2], must)
    assert placed(crowded, "best-fit") == placed(crowded, "first-fit-decreasing") == [{"n0": 2, "n1": 1}]
    says = "consolidate-or-wait: no room is left on 1 server for job 'j0', which must be placed"
    assert answer(crowded, "consolidate-or-wait")[1].message == says
    tight = made([2, 2], [{**must[0], "spread": "required"}])
    for name in NAMES:
        assert answer(tight, name)[1].message == says.replace("consolidate-or-wait", name)


@pytest.mark.parametrize("name", NAMES + PUBLISHED)
def test_gpu_models_and_groups_are_kept(name: str) -> None:
    """A job goes on servers of its GPU model alone, all groups of it or none."""
    both = {"cpu": 4, "gpu": 2}
    servers = [{"capacity": both, "gpu_model": "p100"}, {"capacity": both, "gpu_model": "v100"}]
    ps = {"name": "ps", "tasks": 1, "demand": {"cpu": 3}}
    pair = {"groups": [ps, {"name": "w", "tasks": 2, "demand": {"gpu": 1}}], "gpu_model": "v100"}
    jobs: list[dict[str, Any]] = [pair, pair, {"tasks": 1, "gpu_model": "h100"}]
    assert placed(made(servers, jobs), name) == [{"ps": {"n1": 1}, "w": {"n1": 2}}, {}, {}]


@pytest.mark.parametrize("name", NAMES + PUBLISHED)
def test_floats_fill_a_server(name: str) -> None:
    """Ten tenths fit into one, and three tenths into 0.3, whatever floating point makes of their sums."""
    tenth = {"tasks": 1, "task_demand": {"gpu": 0.1}, "value": 1}
    assert all(placed(made([1.0], [tenth] * 10), name))
    assert [bool(tasks) for tasks in placed(made([0.3], [tenth] * 4), name)] == [True, True, True, False]
    assert placed(made([0.3], [{**tenth, "tasks": 3}]), name) == [{"n0": 3}]


def random_floats(rng: random.Random) -> ConsolidationInstance:
    """Return jobs of two resources whose demands are any decimals, many of them equal."""
    demands = [{r: round(rng.uniform(0, 2), rng.choice([0, 1, 3])) for r in ("gpu", "cpu")} for _ in range(4)]
    jobs: list[dict[str, Any]] = []
    for _ in range(rng.randint(5, 40)):
        spread = rng.choice(["required", "preferred", "free"])
        job: dict[str, Any] = {"spread": spread, "gpu_model": rng.choice([None, None, "a"])}
        if rng.random() < 0.3:
            groups = [
                {"name": f"g{g}", "tasks": rng.randint(1, 3), "demand": rng.choice(demands)} for g in range(2)
            ]
            jobs.append(job | {"groups": groups})
        else:
            jobs.append(job | {"tasks": rng.randint(1, 6), "task_demand": rng.choice(demands)})
    servers = []
    for _ in range(rng.randint(1, 8)):
        capacity = {"gpu": rng.choice([2, 4.0, 3.3]), "cpu": rng.choice([3, 5.5])}
        free = {r: round(rng.uniform(0, most), rng.choice([0, 1, 3])) for r, most in capacity.items()}
        free = {r: min(amount, capacity[r]) for r, amount in free.items()}
        servers.append({"capacity": capacity, "free": free, "gpu_model": rng.choice(["a", "b"])})
    return made(servers, jobs)


@pytest.mark.parametrize("name", NAMES + PUBLISHED)
def test_no_constraint_is_ever_broken(name: str) -> None:
    """Plans of random instances with decimals, groups and GPU models pass the check; some jobs are placed."""
    rng, total = random.Random(1), 0
    for _ in range(150):
        total += sum(bool(tasks) for tasks in placed(random_floats(rng), name))
    assert total > 250


@pytest.mark.parametrize("name", NAMES + PUBLISHED)
def test_never_better_than_brute_force(name: str) -> None:
    """Objective after objective, no plan precedes the best one; where there is no plan, none is returned."""
    none = 0
    for seed in range(2000, 2120):
        formulation, outcome = answer(random_consolidation(seed), name)
        best = find_solver("brute-force", "consolidation").solve(formulation, SolveOptions(), Clock())
        if best.plan is None:
            assert outcome.plan is None
            none += 1
        elif outcome.plan is not None:
            values = zip(
                formulation.objectives,
                formulation.evaluate(outcome.plan),
                formulation.evaluate(best.plan),
                strict=True,
            )
            order = [(o.better(ours, theirs), o.better(theirs, ours)) for o, ours, theirs in values]
            assert next((ours for ours, theirs in order if ours or theirs), False) is False, seed
    assert none < 60


def looked_at_every_server(instance: ConsolidationInstance) -> list[dict[str, int]]:
    """Return best fit's plan of jobs with one group, found by looking at every server for every piece."""
    left = [dict(server.available) for server in instance.servers]
    order = sorted(instance.jobs, key=lambda job: (-job.worth, -(job.tasks or 0)))
    formulation = ConsolidationFormulation(instance)
    found = {job.name: piece_by_piece(formulation, job, left) for job in order}
    return [found[job.name] for job in instance.jobs]


def piece_by_piece(
    formulation: ConsolidationFormulation, job: PlacementJob, left: list[dict[str, float]]
) -> dict[str, int]:
    """Return the tasks of one job by server, and take them from what is left."""
    demand, waiting, taken = job.task_demand or {}, job.tasks or 0, dict[int, int]()
    while waiting:
        choices = []
        for n, amounts in enumerate(left):
            fit = min([waiting, *(int(amounts[r] // need) for r, need in demand.items() if need)])
            if fit and n not in taken:
                capacity = formulation.instance.servers[n].capacity
                after = sum((amounts[r] - fit * demand.get(r, 0)) / most for r, most in capacity.items())
                choices.append((-fit, round(after, 9), n))
        if not choices:
            return {}
        fit, _, n = min(choices)
        taken[n] = -fit
        waiting += fit
    if formulation.instance.spread_of(job) == "required" and len(taken) > (formulation.fewest(job) or 0):
        return {}
    for n, count in taken.items():
        for r, need in demand.items():
            left[n][r] -= count * need
    return {formulation.instance.servers[n].name: count for n, count in taken.items()}


@pytest.mark.parametrize("resources", [1, 3])
@pytest.mark.parametrize("load", [0.9, 1.4])
def test_buckets_are_as_good_as_every_server(resources: int, load: float) -> None:
    """Looking at servers with equal room once gives plans of the same value, spread and servers."""
    for seed in range(4):
        instance = generate_consolidation(
            40, 70, load=load, seed=seed, resources=resources, shapes=1 + resources
        )
        formulation, outcome = answer(instance, "best-fit")
        slow = [
            entry_of(job, {"tasks": tasks})
            for job, tasks in zip(instance.jobs, looked_at_every_server(instance), strict=True)
        ]
        assert formulation.violations(slow) == []
        assert formulation.evaluate(outcome.plan)[0] >= 0.99 * formulation.evaluate(slow)[0]


def test_forgotten_rankings_are_made_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where requests are too many to remember how buckets suit them, the plan is the same."""
    instance = generate_consolidation(60, 100, load=1.3, seed=5, resources=3, shapes=4)
    plan = answer(instance, "best-fit")[1].plan
    monkeypatch.setattr(list_heuristics, "MAX_RANKING_ENTRIES", 10)
    assert answer(instance, "best-fit")[1].plan == plan


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("servers", "jobs", "resources"), [(20_000, 30_000, 1), (2_000, 4_000, 3)], ids=["gpus", "three"]
)
def test_large_clusters_are_quick(name: str, servers: int, jobs: int, resources: int) -> None:
    """Tens of thousands of jobs take about a second, twice the same plan, and most of the room is used."""
    instance = generate_consolidation(servers, jobs, load=1.2, seed=1, resources=resources, shapes=resources)
    start = time.perf_counter()
    formulation, outcome = answer(instance, name)
    assert time.perf_counter() - start < 60
    free = sum(server.available["gpu"] for server in instance.servers)
    assert formulation.evaluate(outcome.plan)[0] > 0.85 * free
    assert list(answer(instance, name)[1].plan or ()) == list(outcome.plan)


@pytest.mark.parametrize("name", NAMES + PUBLISHED)
def test_no_time_leaves_jobs_waiting(name: str) -> None:
    """A plan that time cut short is still one, unless a job must be placed."""
    solver = find_solver(name, "consolidation")
    for must in (False, True):
        formulation = formulate(made([4], [{"tasks": 1, "must_place": must}]))
        outcome = solver.solve(formulation, SolveOptions(), Clock(0))
        assert outcome.limit == "time"
        assert (outcome.plan is None) == must
