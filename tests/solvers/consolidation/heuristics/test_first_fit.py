"""First fit decreasing, job by job."""

from __future__ import annotations

import pytest
from placements import job, placement, server

from clusterplan.formulations.consolidation.formulation import ConsolidationFormulation
from clusterplan.solvers.consolidation.heuristics.first_fit import FirstFit, FirstFitCapacity
from clusterplan.solvers.consolidation.heuristics.placer import Request

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
