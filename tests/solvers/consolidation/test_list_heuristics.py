"""List heuristics: cases whose answer is known, by rule of placement, and what all of them keep."""

from __future__ import annotations

import random
import time
from typing import Any

import pytest
from device_instances import job, placement, server
from random_instances import random_consolidation

from clusterplan.formulations.consolidation.formulation import ConsolidationFormulation
from clusterplan.formulations.consolidation.plan import entry_of
from clusterplan.formulations.registry import formulate
from clusterplan.instances.consolidation.generate import generate_consolidation
from clusterplan.instances.consolidation.instance import ConsolidationInstance
from clusterplan.instances.consolidation.job import PlacementJob
from clusterplan.solvers.common.base import Clock, Outcome
from clusterplan.solvers.common.result import SolveOptions
from clusterplan.solvers.consolidation import list_heuristics
from clusterplan.solvers.consolidation.list_heuristics import (
    FirstFitCapacity,
    Request,
    ScoredCapacity,
    demand_capacity_ratios,
    misalignment,
    residual_norm,
    sizes_by_largest_share,
)
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


def server_of(objectives: list[str], servers: list[dict[str, Any]], jobs: list[dict[str, Any]]) -> list[str]:
    """Return the server of each job by best fit, each of which is on one."""
    return [next(iter(tasks)) for tasks in placed(placement(objectives, servers, jobs), "best-fit")]


def test_what_is_asked_of_what_is_free() -> None:
    """Four of eight GPUs, three of twelve CPUs; where nothing is free nothing can be asked for."""
    servers = [{**server(gpu=9, cpu=12, disk=1), "free": {"gpu": 8, "cpu": 12}}]
    jobs = [job("a", 2, {"gpu": 2, "cpu": 1}), job("b", 1, {"cpu": 1, "disk": 1})]
    formulation = ConsolidationFormulation(placement(["value"], servers, jobs))
    assert demand_capacity_ratios(formulation) == pytest.approx([0.5, 0.25, 0.0])


def test_of_several_resources_what_is_left_is_balanced() -> None:
    """A job of GPUs goes where GPUs are left over, though another server would have less left."""
    free = [{"gpu": 4, "cpu": 4}, {"gpu": 8, "cpu": 4}]
    servers = [{**server(f"n{n}", gpu=8, cpu=8), "free": amounts} for n, amounts in enumerate(free)]
    jobs = [job("a", 1, {"gpu": 4}), job("b", 1, {"gpu": 4, "cpu": 4}), job("c", 1, {"cpu": 4, "gpu": 4})]
    assert server_of(["value"], servers, jobs)[0] == "n1"
    assert server_of(["value"], servers, [job("a", 1, {"gpu": 4})]) == ["n0"]


def test_the_largest_server_is_opened_first_where_all_must_be_placed() -> None:
    """Otherwise the one that is filled best is."""
    servers = [server("small", gpu=2, cpu=2), server("large", gpu=4, cpu=4)]
    demand = {"gpu": 2.0, "cpu": 2.0}
    for must, where in ((True, "large"), (False, "small")):
        jobs = [job(name, 1, demand, must_place=must) for name in "ab"]
        assert server_of(["servers", "value"], servers, jobs) == [where, "large"]
    assert server_of(["value"], servers, [job("a", 1, demand, must_place=True)]) == ["small"]


def test_what_few_servers_hold_is_placed_before_what_many_hold() -> None:
    """A cheap job that only one of four servers holds comes before a dear one that all hold."""
    servers = [server("n", gpu=2, cpu=9), *(server(f"m{k}", gpu=2, cpu=1) for k in range(3))]
    cheap = job("cheap", 1, {"gpu": 1, "cpu": 9}, must_place=True)
    dear = [job(f"d{k}", 1, {"gpu": 2, "cpu": 1}, must_place=True) for k in range(3)]
    assert server_of(["servers"], servers, [*dear, cheap])[3] == "n"


SERVERS = ConsolidationFormulation(
    placement(["value"], [server("n", gpu=2), server("m", gpu=3), server("l", gpu=3)], [job("a")])
)


def asked(tasks: int, gpu_model: str | None = None) -> Request:
    """Return a request for tasks of one GPU."""
    return Request((((0, 1.0),),), (tasks,), gpu_model)


def test_the_first_servers_are_filled() -> None:
    """In their order; what does not fit takes nothing."""
    capacity = FirstFitCapacity(SERVERS)
    assert capacity.place(asked(4), None) == {0: (2,), 1: (2,)}
    assert capacity.place(asked(5), None) is None
    assert capacity.free == [(0.0,), (1.0,), (3.0,)]
    assert capacity.place(asked(4), None) == {1: (1,), 2: (3,)}


def test_few_servers_hold_an_even_share_each() -> None:
    """Of three tasks on one server, the first that holds all."""
    capacity = FirstFitCapacity(SERVERS)
    assert capacity.place(asked(3), 1) == {1: (3,)}
    assert capacity.place(asked(4), 1) is None


def test_the_largest_share_of_any_resource_comes_first() -> None:
    """A job of little of a plentiful resource and much of a scarce one is large."""
    jobs = [job("a", 4, {"gpu": 1, "cpu": 1}), job("b", 1, {"gpu": 1, "cpu": 9})]
    formulation = ConsolidationFormulation(placement(["value"], [server(gpu=8, cpu=10)], jobs))
    sizes = [size for (size,) in sizes_by_largest_share(formulation)]
    assert sizes == [pytest.approx(0.5), pytest.approx(0.9)]


def with_free(*free: tuple[float, float]) -> ConsolidationFormulation:
    """Return servers of ten GPUs and CPUs with so much free, and a job."""
    servers = [
        {**server(f"n{n}", gpu=10, cpu=10), "free": {"gpu": gpu, "cpu": cpu}}
        for n, (gpu, cpu) in enumerate(free)
    ]
    return ConsolidationFormulation(placement(["value"], servers, [job("a", 1, {"gpu": 1, "cpu": 2})]))


@pytest.mark.parametrize(
    ("score", "chosen"),
    # Squared norms: 49, 13, 17, 100. Dot products: 12, 12, 14, 25. Cosines: 0.65, 0.95, 0.99, 0.93.
    [(residual_norm, 1), (misalignment, 3)],
)
def test_each_score_has_its_server(score: Any, chosen: int) -> None:
    """For a GPU and two CPUs, (8, 2) wastes GPUs, (4, 4) leaves little, (2, 6) aligns, (9, 8) is large."""
    formulation = with_free((8, 2), (4, 4), (2, 6), (9, 8))
    request = Request((((0, 1.0), (1, 2.0)),), (1,), None)
    assert ScoredCapacity(formulation, score).place(request, None) == {chosen: (1,)}


def test_a_server_is_opened_only_where_no_other_has_room() -> None:
    """The second job goes beside the first, the third elsewhere, though emptier servers align better."""
    capacity = ScoredCapacity(with_free((4, 4), (9, 9)), misalignment)
    half = Request((((0, 4.0), (1, 4.0)),), (1,), None)
    assert [capacity.place(half, None) for _ in range(4)] == [
        {1: (1,)},
        {1: (1,)},
        {0: (1,)},
        None,
    ]
    assert capacity.free.tolist() == [[0, 0], [1, 1]]


def test_tasks_go_on_the_servers_that_hold_most() -> None:
    """Six tasks on two servers, or nowhere if one has to do; what fails takes nothing."""
    capacity = ScoredCapacity(with_free((2, 9), (4, 9), (3, 9)), residual_norm)
    tasks = Request((((0, 1.0),),), (6,), None)
    assert capacity.place(tasks, 1) is None
    assert capacity.place(tasks, None) == {1: (4,), 0: (2,)}
    assert capacity.place(tasks, None) is None
    assert capacity.free[:, 0].tolist() == [0, 0, 3]


@pytest.mark.parametrize("name", ["best-fit-l2", "best-fit-dot"])
def test_the_largest_sum_comes_first(name: str) -> None:
    """A job of six GPUs and six CPUs before one of ten GPUs."""
    jobs = [job("a", 1, {"gpu": 10}), job("b", 1, {"gpu": 6, "cpu": 6})]
    assert placed(placement(["value"], [server(gpu=10, cpu=10)], jobs), name) == [{}, {"n": 1}]


def plan_of(servers: list[dict[str, Any]], jobs: list[dict[str, Any]]) -> list[dict[str, int]]:
    """Return the tasks by server of each job."""
    return placed(placement(["value"], servers, jobs), "bin-centric")


def test_the_largest_server_is_filled_first() -> None:
    """Three jobs fill it, the fourth is on the small one."""
    servers = [server("small", gpu=2), server("large", gpu=6)]
    assert plan_of(servers, [job(name, 2) for name in "abcd"]) == [{"large": 2}] * 3 + [{"small": 2}]


def test_what_aligns_with_the_room_that_is_left_comes_next() -> None:
    """After a job of GPUs the room is mostly CPUs, so a job of CPUs is next, and a second of GPUs waits."""
    jobs = [job("a", 1, {"gpu": 6, "cpu": 1}), job("b", 1, {"gpu": 5, "cpu": 1}), job("c", 1, {"cpu": 6})]
    assert plan_of([server("n", gpu=10, cpu=8)], jobs) == [{"n": 1}, {}, {"n": 1}]


def test_the_resource_that_is_asked_for_most_weighs_most() -> None:
    """Two GPUs and one CPU come before one GPU and two CPUs where the jobs ask for more GPUs."""
    two = [job("a", 1, {"gpu": 1, "cpu": 2}), job("b", 1, {"gpu": 2, "cpu": 1})]
    most = [job("c", 1, {"gpu": 9})], [job("c", 1, {"cpu": 9})]
    for others, expected in zip(most, ([{}, {"n": 1}], [{"n": 1}, {}]), strict=True):
        small = [server("n", gpu=2, cpu=2), server("m", gpu=1, cpu=1)]
        unfit = [{**server("l", gpu=9, cpu=9), "free": {"gpu": 0, "cpu": 0}}]
        assert plan_of([*small, *unfit], [*two, *others])[:2] == expected


def test_jobs_that_no_server_holds_come_first() -> None:
    """Six GPUs are on two servers, and what is left is for the others; what must be placed is before both."""
    servers = [server("n", gpu=4), server("m", gpu=4)]
    assert plan_of(servers, [job("a", 4), job("b", 6)]) == [{}, {"n": 4, "m": 2}]
    assert plan_of(servers, [job("a", 4, must_place=True), job("b", 4), job("c", 4)])[0] == {"n": 4}


def test_tasks_fill_what_is_left_group_after_group() -> None:
    """Two of the first group leave one GPU, which one task of the second takes."""
    request = Request((((0, 2.0),), ((0, 1.0), (1, 4.0))), (2, 3), None)
    assert request.load((2, 3), (5.0, 8.0)) == (2, 1)
    assert request.after((2, 1), (5.0, 8.0)) == (0.0, 4.0)


def test_sums_may_fill_a_server_up_to_rounding() -> None:
    """Three tenths and six tenths are nine tenths, whatever floats say."""
    assert Request((((0, 0.3),),), (3,), None).load((3,), (0.3 * 3,)) == (3,)
    assert Request((((0, 0.1),),), (9,), None).load((9,), (0.3,)) == (3,)
