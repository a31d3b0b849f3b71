"""Ruin and recreate: plans stay feasible and never get worse; small optima are reached.

Greedy insertion in several sets of servers.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from device_instances import job, placement, server
from random_instances import random_consolidation

from clusterplan.formulations.consolidation.formulation import ConsolidationFormulation
from clusterplan.formulations.consolidation.plan import JobPlacement
from clusterplan.instances.consolidation.generate import generate_consolidation
from clusterplan.instances.consolidation.instance import ConsolidationInstance
from clusterplan.solvers.common.base import Clock
from clusterplan.solvers.common.result import SolveOptions
from clusterplan.solvers.consolidation.heuristics.local_search import (
    LAST_PENALTY,
    Insertion,
    Neighbourhood,
    SearchSettings,
    improve,
    lexicographic_comparison,
)
from clusterplan.solvers.consolidation.heuristics.placement_arrays import PlacementArrays
from clusterplan.solvers.registry import find_solver

FEW = SearchSettings(most_idle=25)


def started(instance: ConsolidationInstance, name: str) -> tuple[ConsolidationFormulation, Any]:
    """Return the formulation and the plan of a list heuristic."""
    formulation = ConsolidationFormulation(instance)
    return formulation, find_solver(name, "consolidation").solve(formulation, SolveOptions(), Clock()).plan


def improved(formulation: ConsolidationFormulation, plan: Sequence[JobPlacement], **given: Any) -> list[Any]:
    """Return the plan after a short search."""
    options = SolveOptions(seed=given.get("seed", 1))
    return improve(
        formulation, plan, options, Clock(), given.get("stop", lambda _: False), given.get("settings", FEW)
    )


@pytest.mark.parametrize("name", ["best-fit", "first-fit-decreasing"])
def test_plans_stay_feasible_and_get_no_worse(name: str) -> None:
    """Over every objective and feature of tiny random instances; some plans improve."""
    better = 0
    for seed in range(40):
        formulation, plan = started(random_consolidation(seed), name)
        if plan is None:
            continue
        found = improved(formulation, plan)
        assert formulation.violations(found) == [], seed
        before, after = formulation.evaluate(plan), formulation.evaluate(found)
        assert not formulation.precedes(before, after), seed
        better += formulation.precedes(after, before)
    assert better > 1


def unlike(seed: int, objectives: list[str], **fields: Any) -> ConsolidationInstance:
    """Return jobs of amounts that hardly repeat on twelve servers of three shapes."""
    rng = random.Random(seed)
    sizes = [(8000, 96000), (2000, 104000), (4000, 48000)]
    servers = [
        server(f"n{n}", gpu=sizes[n % 3][0], cpu=sizes[n % 3][1], memory=rng.randint(250, 400))
        for n in range(12)
    ]
    jobs = []
    for j in range(60):
        demand = {"gpu": rng.choice([0, 460, 810, 1000, 2000]), "cpu": rng.randint(1, 13000), "memory": 9.7}
        jobs.append(job(f"j{j}", rng.choice([1, 1, 1, 3]), demand, **fields))
    return placement(objectives, servers, jobs)


@pytest.mark.parametrize("objectives", [["value"], ["value", "spread", "servers"]])
def test_more_is_placed_where_amounts_are_unlike(objectives: list[str]) -> None:
    """First fit leaves more GPUs unused than half a per cent; the search does not."""
    formulation, plan = started(unlike(1, objectives), "first-fit-decreasing")
    found = improved(formulation, plan, settings=SearchSettings(most_idle=60))
    assert formulation.violations(found) == []
    most = min(sum(formulation.instance.servers[n].capacity["gpu"] for n in range(12)), worth(formulation))
    assert formulation.evaluate(plan)[0] < 0.99 * most
    assert formulation.evaluate(found)[0] > 0.995 * most


def worth(formulation: ConsolidationFormulation) -> float:
    """Return what all jobs are worth."""
    return math.fsum(each.worth for each in formulation.instance.jobs)


def test_servers_are_emptied() -> None:
    """Eight jobs of half a server on eight servers go on four; jobs that need not be placed on none."""
    servers = [server(f"n{n}", gpu=4) for n in range(8)]
    for must, fewest in ((True, 4), (False, 0)):
        jobs = [job(f"j{j}", 2, must_place=must) for j in range(8)]
        formulation = ConsolidationFormulation(placement(["servers"], servers, jobs))
        plan = [JobPlacement(job=f"j{j}", servers={f"n{j}": 2}) for j in range(8)]
        assert formulation.evaluate(improved(formulation, plan)) == (fewest,)


def test_jobs_on_several_servers_are_moved_together() -> None:
    """Two jobs of four GPUs, each on two servers, end on one each; so no spread is left."""
    jobs = [job("a", 4, spread="preferred"), job("b", 4, spread="preferred")]
    formulation = ConsolidationFormulation(
        placement(["value", "spread"], [server(name, gpu=4) for name in "mn"], jobs)
    )
    plan = [JobPlacement(job=name, servers={"m": 2, "n": 2}) for name in "ab"]
    assert formulation.evaluate(improved(formulation, plan)) == (8, 0)


def test_jobs_go_home() -> None:
    """What runs elsewhere than now moves back where nothing else is lost."""
    jobs = [job("a", 1, current={"n": 1}), job("b", 1, current={"m": 1})]
    servers = [server(name, gpu=1) for name in "mn"]
    formulation = ConsolidationFormulation(placement(["value", "migrations"], servers, jobs))
    plan = [JobPlacement(job="a", servers={"m": 1}), JobPlacement(job="b", servers={"n": 1})]
    assert formulation.evaluate(improved(formulation, plan)) == (2, 0)


def test_the_same_seed_finds_the_same() -> None:
    """Another may find something else."""
    instance = generate_consolidation(20, 40, load=1.3, seed=3, resources=3, shapes=3)
    formulation, plan = started(instance, "first-fit-decreasing")
    assert improved(formulation, plan, seed=7) == improved(formulation, plan, seed=7)


def test_it_stops_when_told_and_without_time() -> None:
    """The values that are asked about are those of the plan that is returned; no time, the plan given."""
    formulation, plan = started(unlike(2, ["value", "servers"]), "first-fit-decreasing")
    first = formulation.evaluate(plan)
    asked: list[tuple[float, ...]] = []

    def good_enough(values: tuple[float, ...]) -> bool:
        asked.append(values)
        return values[0] > first[0]

    found = improved(formulation, plan, stop=good_enough)
    assert asked[0] == first
    assert formulation.evaluate(found) == pytest.approx(asked[-1])
    assert asked[-1][0] > first[0]
    assert improve(formulation, plan, SolveOptions(), Clock(0.0), lambda _: False) == list(plan)


def test_what_comes_first_decides() -> None:
    """A column that is better in the first row is better, whatever the second says; rounding is none."""
    new = np.array([[1.0, 2.0, 1.0, 1.0 + 1e-15], [9.0, 0.0, 1.0, 2.0]])
    better, worse = lexicographic_comparison(new, np.array([[2.0, 1.0, 1.0, 1.0], [1.0, 1.0, 1.0, 3.0]]))
    assert better.tolist() == [True, False, False, True]
    assert worse.tolist() == [False, True, False, False]


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
    closed = np.array([[LAST_PENALTY, 0.0]])
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
