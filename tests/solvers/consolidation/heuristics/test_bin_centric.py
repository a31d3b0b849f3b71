"""Bin-centric packing: server after server, on cases whose answer is known."""

from __future__ import annotations

from typing import Any

from placements import job, placement, server

from clusterplan.formulations.consolidation.formulation import ConsolidationFormulation
from clusterplan.solvers.common.base import Clock
from clusterplan.solvers.common.options import SolveOptions
from clusterplan.solvers.consolidation.heuristics.bin_centric import BinCentric


def plan_of(servers: list[dict[str, Any]], jobs: list[dict[str, Any]]) -> list[dict[str, int]]:
    """Return the tasks by server of each job."""
    formulation = ConsolidationFormulation(placement(["value"], servers, jobs))
    plan = BinCentric().solve(formulation, SolveOptions(), Clock()).plan
    assert plan is not None
    assert formulation.violations(plan) == []
    return [entry.servers for entry in plan]


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
