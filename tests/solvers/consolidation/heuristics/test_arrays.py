"""A placement as arrays, and back."""

from __future__ import annotations

import numpy as np
from placements import job, placement, server

from clusterplan.formulations.consolidation.formulation import ConsolidationFormulation
from clusterplan.formulations.consolidation.plan import JobPlacement
from clusterplan.solvers.consolidation.heuristics.arrays import Pieces, PlacementArrays

PAIR = [{"name": "ps", "tasks": 1, "demand": {"cpu": 2}}, {"name": "w", "tasks": 2, "demand": {"gpu": 1}}]


def three() -> tuple[ConsolidationFormulation, list[JobPlacement]]:
    """Return a job on two servers, one of two groups on one, one of two groups on two."""
    jobs = [job("a", 3, spread="required"), {"name": "b", "groups": PAIR}, {"name": "c", "groups": PAIR}]
    servers = [server("n", gpu=4, cpu=4), {**server("m", gpu=4, cpu=4), "gpu_model": "v100"}]
    plan = [
        JobPlacement(job="a", servers={"n": 1, "m": 2}),
        JobPlacement(job="b", groups={"ps": {"n": 1}, "w": {"n": 2}}),
        JobPlacement(job="c", groups={"ps": {"n": 1}, "w": {"m": 2}}),
    ]
    return ConsolidationFormulation(placement(["value"], servers, jobs)), plan


def test_units_and_what_stays() -> None:
    """A job of one group counts its tasks; one of two groups is a unit, or stays if it is on two servers."""
    arrays = PlacementArrays(*three())
    assert arrays.units.tolist() == [3, 1, 1]
    assert arrays.most.tolist() == [1, 1, 1]
    assert arrays.unit.tolist() == [[1, 0], [2, 2], [2, 2]]
    assert arrays.movable.tolist() == [True, True, False]
    assert arrays.taken.tolist() == [True, True]
    assert arrays.free.tolist() == [[4, 2], [2, 4]]
    assert arrays.left(arrays.start).tolist() == [[1, 0], [0, 4]]


def test_pieces_are_the_plan() -> None:
    """The plan of the first pieces is the one that was given; jobs without pieces are not placed."""
    formulation, plan = three()
    arrays = PlacementArrays(formulation, plan)
    assert arrays.plan(arrays.start) == plan
    left_out = arrays.plan(arrays.start.where(arrays.start.job != 0))
    assert [entry.placed for entry in left_out] == [False, True, True]


def test_pieces_stay_sorted_by_job() -> None:
    """Those of other jobs are put between."""
    few = Pieces(np.array([0, 2]), np.array([5, 6]), np.array([1, 1]))
    both = few.and_more(Pieces(np.array([1, 1]), np.array([7, 8]), np.array([2, 3])))
    assert both.job.tolist() == [0, 1, 1, 2]
    assert both.server.tolist() == [5, 7, 8, 6]
    assert both.units.tolist() == [1, 2, 3, 1]


def test_eligible_servers_of_each_job() -> None:
    """Jobs that accept the same GPU models share a row."""
    jobs = [job("a"), job("b", gpu_model="v100"), job("c")]
    servers = [{**server("n", gpu=4), "gpu_model": "p100"}, {**server("m", gpu=4), "gpu_model": "v100"}]
    waiting = [JobPlacement(job=name, placed=False) for name in "abc"]
    arrays = PlacementArrays(ConsolidationFormulation(placement(["value"], servers, jobs)), waiting)
    assert arrays.kind.tolist() == [0, 1, 0]
    assert arrays.allowed.tolist() == [[True, True], [False, True]]
