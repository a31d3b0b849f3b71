"""Best fit by norms and dot products, on cases whose answer is known."""

from __future__ import annotations

import pytest
from placements import job, placement, server

from clusterplan.formulations.consolidation.formulation import ConsolidationFormulation
from clusterplan.solvers.common.base import Clock, Solver
from clusterplan.solvers.common.options import SolveOptions
from clusterplan.solvers.consolidation.heuristics.placer import Request
from clusterplan.solvers.consolidation.heuristics.scored_fit import (
    BestFitCosine,
    BestFitDotProduct,
    BestFitNorm,
    LargestCosine,
    LargestDotProduct,
    LeastNorm,
    ScoredCapacity,
)


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
    [(LeastNorm, 1), (LargestDotProduct, 3), (LargestCosine, 2)],
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


@pytest.mark.parametrize("solver", [BestFitNorm(), BestFitDotProduct(), BestFitCosine()])
def test_the_largest_sum_comes_first(solver: Solver[ConsolidationFormulation]) -> None:
    """A job of six GPUs and six CPUs before one of ten GPUs."""
    jobs = [job("a", 1, {"gpu": 10}), job("b", 1, {"gpu": 6, "cpu": 6})]
    formulation = ConsolidationFormulation(placement(["value"], [server(gpu=10, cpu=10)], jobs))
    plan = solver.solve(formulation, SolveOptions(), Clock()).plan
    assert plan is not None
    assert [entry.placed for entry in plan] == [False, True]
