"""Greedy insertion in several sets of servers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from placements import job, placement, server

from clusterplan.formulations.consolidation.formulation import ConsolidationFormulation
from clusterplan.formulations.consolidation.plan import JobPlacement
from clusterplan.solvers.consolidation.heuristics.arrays import PlacementArrays
from clusterplan.solvers.consolidation.heuristics.reinsertion import LAST, Insertion, Neighbourhood


def inserted(gpus: list[float], jobs: list[dict[str, Any]], sets: int = 1, **given: Any) -> list[list[int]]:
    """Return job, server and tasks of all pieces; the jobs are dealt to sets of servers in turn."""
    servers = [{**server(f"n{n}", gpu=free), "gpu_model": f"g{n}"} for n, free in enumerate(gpus)]
    formulation = ConsolidationFormulation(placement(["value"], servers, jobs))
    arrays = PlacementArrays(formulation, [JobPlacement(job=each["name"], placed=False) for each in jobs])
    of_sets = np.arange(len(gpus)).reshape(sets, -1)
    row = np.arange(len(jobs)) % sets
    order = np.argsort(row, kind="stable")
    near = {
        "servers": of_sets,
        "left": arrays.free[of_sets].transpose(2, 0, 1),
        "weights": np.ones((sets, 1)),
        "penalty": np.zeros(of_sets.shape),
        "job": order,
        "row": row[order],
        "home": np.full(len(jobs), -1),
        "only_used": np.zeros(len(jobs), dtype=bool),
    }
    pieces = Insertion(arrays, np.ones(1), Neighbourhood(**{**near, **given})).run()
    return np.array([pieces.job, pieces.server, pieces.units]).T.tolist()


def test_each_job_goes_where_least_is_left() -> None:
    """In the order of the queue; a job that does not fit is left out."""
    jobs = [job("a", 1, {"gpu": 2}), job("b", 1, {"gpu": 3}), job("c", 1, {"gpu": 2})]
    assert inserted([4, 3], jobs) == [[0, 1, 1], [1, 0, 1]]


def test_sets_know_nothing_of_each_other() -> None:
    """Jobs are on servers of their set alone."""
    jobs = [job("a", 1, {"gpu": 4}), job("b", 1, {"gpu": 2}), job("c", 1, {"gpu": 1}), job("d")]
    assert inserted([4, 9, 2, 3], jobs, 2) == [[0, 0, 1], [1, 2, 1], [2, 1, 1], [3, 3, 1]]


def test_tasks_fill_the_servers_that_hold_most() -> None:
    """One server if any holds all; else as few as the spread rule allows, or none."""
    assert inserted([2, 4, 3], [job("a", 3)]) == [[0, 2, 3]]
    assert inserted([2, 4, 3], [job("a", 6)]) == [[0, 1, 4], [0, 2, 2]]
    assert inserted([2, 4, 3], [job("a", 4), job("b", 4, spread="required")]) == [[0, 1, 4]]
    assert inserted([2, 4, 3], [job("a", 10)]) == []


def test_tenths_fill_three_tenths() -> None:
    """Whatever floating point makes of their sums; a fourth is too much."""
    tenths = [job(name, 1, {"gpu": 0.1}) for name in "abcd"]
    assert len(inserted([0.3], tenths)) == 3
    assert inserted([0.3], [job("a", 3, {"gpu": 0.1})]) == [[0, 0, 3]]


def test_penalties_homes_and_models_decide() -> None:
    """A server with a penalty is the last, a home the first; GPU models are kept."""
    closed = np.array([[LAST, 0.0]])
    assert inserted([1, 4], [job("a"), job("b")], penalty=closed) == [[0, 1, 1], [1, 1, 1]]
    assert inserted([1, 4], [job("a", 1, {"gpu": 4}), job("b")], penalty=closed) == [[0, 1, 1], [1, 0, 1]]
    shut = {"penalty": closed, "only_used": np.array([True, True])}
    assert inserted([1, 4], [job("a", 1, {"gpu": 4}), job("b")], **shut) == [[0, 1, 1]]
    assert inserted([1, 4], [job("a")], home=np.array([1])) == [[0, 1, 1]]
    assert inserted([1, 4], [job("a", gpu_model="g1")]) == [[0, 1, 1]]


@pytest.mark.parametrize("tasks", [1, 2])
def test_no_job_leaves_no_piece(tasks: int) -> None:
    """An empty queue is no error."""
    none = np.zeros(0, dtype=np.int64)
    empty = {"job": none, "row": none, "home": none, "only_used": none.astype(bool)}
    assert inserted([1, 4], [job("a", tasks)], **empty) == []
