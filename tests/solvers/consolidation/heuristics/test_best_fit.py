"""Best fit keeps resources balanced, and opens large servers first where servers are counted."""

from __future__ import annotations

from typing import Any

import pytest
from placements import job, placement, server

from clusterplan.formulations.consolidation.formulation import ConsolidationFormulation
from clusterplan.solvers.common.base import Clock
from clusterplan.solvers.common.options import SolveOptions
from clusterplan.solvers.consolidation.heuristics.best_fit import BestFit, asked_shares


def placed(objectives: list[str], servers: list[dict[str, Any]], jobs: list[dict[str, Any]]) -> list[str]:
    """Return the server of each job, each of which is on one."""
    formulation = ConsolidationFormulation(placement(objectives, servers, jobs))
    plan = BestFit().solve(formulation, SolveOptions(), Clock()).plan
    assert plan is not None
    assert formulation.violations(plan) == []
    return [next(iter(entry.servers)) for entry in plan]


def test_what_is_asked_of_what_is_free() -> None:
    """Four of eight GPUs, three of twelve CPUs; where nothing is free nothing can be asked for."""
    servers = [{**server(gpu=9, cpu=12, disk=1), "free": {"gpu": 8, "cpu": 12}}]
    jobs = [job("a", 2, {"gpu": 2, "cpu": 1}), job("b", 1, {"cpu": 1, "disk": 1})]
    formulation = ConsolidationFormulation(placement(["value"], servers, jobs))
    assert asked_shares(formulation) == pytest.approx([0.5, 0.25, 0.0])


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
