"""Best fit keeps resources balanced, and opens large servers first where servers are counted.

First fit decreasing, job by job.

Best fit by norms and dot products, on cases whose answer is known.

Bin-centric packing: server after server, on cases whose answer is known.
"""

from __future__ import annotations

from typing import Any

import pytest
from device_instances import job, placement, server

from clusterplan.formulations.consolidation.formulation import ConsolidationFormulation
from clusterplan.solvers.common.base import Clock, Solver
from clusterplan.solvers.common.result import SolveOptions
from clusterplan.solvers.consolidation.heuristics.list_heuristics import (
    BestFit,
    BestFitDotProduct,
    BestFitNorm,
    BinCentric,
    FirstFit,
    FirstFitCapacity,
    LargestDotProduct,
    LeastNorm,
    ScoredCapacity,
    demand_capacity_ratios,
)
from clusterplan.solvers.consolidation.heuristics.placer import Request


def plan_by(
    heuristic: Any, objectives: list[str], servers: list[dict[str, Any]], jobs: list[dict[str, Any]]
) -> list[dict[str, int]]:
    """Return the tasks by server of each job."""
    formulation = ConsolidationFormulation(placement(objectives, servers, jobs))
    plan = heuristic.solve(formulation, SolveOptions(), Clock()).plan
    assert formulation.violations(plan) == []
    return [entry.servers for entry in plan]


def placed(objectives: list[str], servers: list[dict[str, Any]], jobs: list[dict[str, Any]]) -> list[str]:
    """Return the server of each job, each of which is on one."""
    return [next(iter(tasks)) for tasks in plan_by(BestFit(), objectives, servers, jobs)]


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
    assert placed(["value"], servers, jobs)[0] == "n1"
    assert placed(["value"], servers, [job("a", 1, {"gpu": 4})]) == ["n0"]


def test_the_largest_server_is_opened_first_where_all_must_be_placed() -> None:
    """Otherwise the one that is filled best is."""
    servers = [server("small", gpu=2, cpu=2), server("large", gpu=4, cpu=4)]
    demand = {"gpu": 2.0, "cpu": 2.0}
    for must, where in ((True, "large"), (False, "small")):
        jobs = [job(name, 1, demand, must_place=must) for name in "ab"]
        assert placed(["servers", "value"], servers, jobs) == [where, "large"]
    assert placed(["value"], servers, [job("a", 1, demand, must_place=True)]) == ["small"]


def test_what_few_servers_hold_is_placed_before_what_many_hold() -> None:
    """A cheap job that only one of four servers holds comes before a dear one that all hold."""
    servers = [server("n", gpu=2, cpu=9), *(server(f"m{k}", gpu=2, cpu=1) for k in range(3))]
    cheap = job("cheap", 1, {"gpu": 1, "cpu": 9}, must_place=True)
    dear = [job(f"d{k}", 1, {"gpu": 2, "cpu": 1}, must_place=True) for k in range(3)]
    assert placed(["servers"], servers, [*dear, cheap])[3] == "n"


SERVERS = ConsolidationFormulation(
    placement(["value"], [server("n", gpu=2), server("m", gpu=3), server("l", gpu=3)], [job("a")])
)


def asked(tasks: int, gpu_model: str | None = None) -> Request:
    """Return a request for tasks of one GPU."""
    return Request((((0, 1.0),),), (tasks,), gpu_model)


def test_the_first_servers_are_filled() -> None:
    """In their order; what does not fit takes nothing."""
    capacity = FirstFitCapacity(SERVERS)
    assert capacity.place(asked(4), None) == [(0, (2,)), (1, (2,))]
    assert capacity.place(asked(5), None) is None
    assert capacity.free == [(0.0,), (1.0,), (3.0,)]
    assert capacity.place(asked(4), None) == [(1, (1,)), (2, (3,))]


def test_few_servers_hold_an_even_share_each() -> None:
    """Of three tasks on one server, the first that holds all."""
    capacity = FirstFitCapacity(SERVERS)
    assert capacity.place(asked(3), 1) == [(1, (3,))]
    assert capacity.place(asked(4), 1) is None


def test_the_largest_share_of_any_resource_comes_first() -> None:
    """A job of little of a plentiful resource and much of a scarce one is large."""
    jobs = [job("a", 4, {"gpu": 1, "cpu": 1}), job("b", 1, {"gpu": 1, "cpu": 9})]
    formulation = ConsolidationFormulation(placement(["value"], [server(gpu=8, cpu=10)], jobs))
    sizes = [size for (size,) in FirstFit().sizes(formulation)]
    assert sizes == [pytest.approx(0.5), pytest.approx(0.9)]


def with_free(*free: tuple[float, float]) -> ConsolidationFormulation:
    """Return servers of ten GPUs and CPUs with so much free, and a job."""
    servers = [
        {**server(f"n{n}", gpu=10, cpu=10), "free": {"gpu": gpu, "cpu": cpu}}
        for n, (gpu, cpu) in enumerate(free)
    ]
    return ConsolidationFormulation(placement(["value"], servers, [job("a", 1, {"gpu": 1, "cpu": 2})]))


@pytest.mark.parametrize(
    ("capacity", "chosen"),
    # Squared norms: 49, 13, 17, 100. Dot products: 12, 12, 14, 25. Cosines: 0.65, 0.95, 0.99, 0.93.
    [(LeastNorm, 1), (LargestDotProduct, 3)],
)
def test_each_score_has_its_server(capacity: type[ScoredCapacity], chosen: int) -> None:
    """For a GPU and two CPUs, (8, 2) wastes GPUs, (4, 4) leaves little, (2, 6) aligns, (9, 8) is large."""
    formulation = with_free((8, 2), (4, 4), (2, 6), (9, 8))
    request = Request((((0, 1.0), (1, 2.0)),), (1,), None)
    assert capacity(formulation).place(request, None) == [(chosen, (1,))]


def test_a_server_is_opened_only_where_no_other_has_room() -> None:
    """The second job goes beside the first, the third elsewhere, though emptier servers align better."""
    capacity = LargestDotProduct(with_free((4, 4), (9, 9)))
    half = Request((((0, 4.0), (1, 4.0)),), (1,), None)
    assert [capacity.place(half, None) for _ in range(4)] == [
        [(1, (1,))],
        [(1, (1,))],
        [(0, (1,))],
        None,
    ]
    assert capacity.left.tolist() == [[0, 0], [1, 1]]


def test_tasks_go_on_the_servers_that_hold_most() -> None:
    """Six tasks on two servers, or nowhere if one has to do; what fails takes nothing."""
    capacity = LeastNorm(with_free((2, 9), (4, 9), (3, 9)))
    tasks = Request((((0, 1.0),),), (6,), None)
    assert capacity.place(tasks, 1) is None
    assert capacity.place(tasks, None) == [(1, (4,)), (0, (2,))]
    assert capacity.place(tasks, None) is None
    assert capacity.left[:, 0].tolist() == [0, 0, 3]


@pytest.mark.parametrize("solver", [BestFitNorm(), BestFitDotProduct()])
def test_the_largest_sum_comes_first(solver: Solver[ConsolidationFormulation]) -> None:
    """A job of six GPUs and six CPUs before one of ten GPUs."""
    jobs = [job("a", 1, {"gpu": 10}), job("b", 1, {"gpu": 6, "cpu": 6})]
    formulation = ConsolidationFormulation(placement(["value"], [server(gpu=10, cpu=10)], jobs))
    plan = solver.solve(formulation, SolveOptions(), Clock()).plan
    assert [entry.placed for entry in plan] == [False, True]


def plan_of(servers: list[dict[str, Any]], jobs: list[dict[str, Any]]) -> list[dict[str, int]]:
    """Return the tasks by server of each job."""
    return plan_by(BinCentric(), ["value"], servers, jobs)


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
    for others, placed in zip(most, ([{}, {"n": 1}], [{"n": 1}, {}]), strict=True):
        small = [server("n", gpu=2, cpu=2), server("m", gpu=1, cpu=1)]
        unfit = [{**server("l", gpu=9, cpu=9), "free": {"gpu": 0, "cpu": 0}}]
        assert plan_of([*small, *unfit], [*two, *others])[:2] == placed


def test_jobs_that_no_server_holds_come_first() -> None:
    """Six GPUs are on two servers, and what is left is for the others; what must be placed is before both."""
    servers = [server("n", gpu=4), server("m", gpu=4)]
    assert plan_of(servers, [job("a", 4), job("b", 6)]) == [{}, {"n": 4, "m": 2}]
    assert plan_of(servers, [job("a", 4, must_place=True), job("b", 4), job("c", 4)])[0] == {"n": 4}
