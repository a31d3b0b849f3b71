"""Placements as arrays, and how tasks are placed on them."""

from __future__ import annotations

import numpy as np
from device_instances import job, placement, server
from random_instances import random_consolidation

from clusterplan.formulations.consolidation.formulation import ConsolidationFormulation
from clusterplan.formulations.consolidation.plan import JobPlacement
from clusterplan.solvers.common.base import Clock
from clusterplan.solvers.common.result import SolveOptions
from clusterplan.solvers.consolidation.heuristics.list_heuristics import BestFit, ConsolidateOrWait
from clusterplan.solvers.consolidation.heuristics.placement_arrays import (
    ObjectiveLosses,
    Pieces,
    PlacementArrays,
)
from clusterplan.solvers.consolidation.heuristics.placer import Request
from clusterplan.solvers.registry import find_solver

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


def test_what_is_left_out_changes_losses_as_it_changes_the_plan() -> None:
    """Taking jobs off changes every objective but traffic by as much as `evaluate` says."""
    compared = set()
    for seed in range(150):
        formulation = ConsolidationFormulation(random_consolidation(seed))
        plan = (
            find_solver("first-fit-decreasing", "consolidation")
            .solve(formulation, SolveOptions(), Clock())
            .plan
        )
        if plan is None:
            continue
        arrays = PlacementArrays(formulation, plan)
        losses = ObjectiveLosses(arrays)
        jobs, servers = np.zeros(len(arrays.units), int), np.zeros(len(arrays.names), int)
        fewer = arrays.start.where(arrays.start.job % 2 == 0)
        changed = losses.of(fewer, jobs, servers, 1) - losses.of(arrays.start, jobs, servers, 1)
        values = zip(formulation.evaluate(arrays.plan(fewer)), formulation.evaluate(plan), strict=True)
        for objective, (now, before), loss in zip(formulation.objectives, values, changed[:, 0], strict=True):
            if objective.name != "traffic":
                assert np.isclose(loss, (now - before) * (1 if objective.sense == "min" else -1)), seed
                compared |= {objective.name} if loss else set()
    assert compared >= {"value", "servers", "racks", "migrations"}


def test_a_job_on_two_servers_loses_spread_and_speed() -> None:
    """One server more than it needs, and half of its value of two, against the plan on one server."""
    jobs = [job("a", 2, spread="preferred", speed_by_servers={1: 1.0, 2: 0.5})]
    formulation = ConsolidationFormulation(
        placement(["spread", "slowdown"], [server(name, gpu=2) for name in "mn"], jobs)
    )
    found = []
    for servers in ({"m": 1, "n": 1}, {"n": 2}):
        arrays = PlacementArrays(formulation, [JobPlacement(job="a", servers=servers)])
        found.append(ObjectiveLosses(arrays).of(arrays.start, np.zeros(1, int), np.zeros(2, int), 1))
    assert (found[0] - found[1]).tolist() == [[1.0], [1.0]]


def test_traffic_counts_only_beyond_the_largest() -> None:
    """In the plan itself nothing exceeds it; all tasks on the busiest server do."""
    found = 0
    for seed in range(150):
        formulation = ConsolidationFormulation(random_consolidation(seed))
        plan = (
            find_solver("first-fit-decreasing", "consolidation")
            .solve(formulation, SolveOptions(), Clock())
            .plan
        )
        if plan is None or "traffic" not in formulation.instance.objectives:
            continue
        arrays = PlacementArrays(formulation, plan)
        jobs, servers = np.zeros(len(arrays.units), int), np.zeros(len(arrays.names), int)
        at = formulation.instance.objectives.index("traffic")
        losses, pieces = ObjectiveLosses(arrays), arrays.start
        assert losses.of(pieces, jobs, servers, 1)[at, 0] == 0
        pieces.server[:] = arrays.load.argmax()
        on_one = arrays.load.max() + (arrays.rate[pieces.job] * pieces.units).sum()
        beyond = max(0.0, on_one - formulation.evaluate(plan)[at])
        assert np.isclose(losses.of(pieces, jobs, servers, 1)[at, 0], beyond)
        found += beyond > 0
    assert found


def test_tasks_fill_what_is_left_group_after_group() -> None:
    """Two of the first group leave one GPU, which one task of the second takes."""
    request = Request((((0, 2.0),), ((0, 1.0), (1, 4.0))), (2, 3), None)
    assert request.load((2, 3), (5.0, 8.0)) == (2, 1)
    assert request.after((2, 1), (5.0, 8.0)) == (0.0, 4.0)


def test_sums_may_fill_a_server_up_to_rounding() -> None:
    """Three tenths and six tenths are nine tenths, whatever floats say."""
    assert Request((((0, 0.3),),), (3,), None).load((3,), (0.3 * 3,)) == (3,)
    assert Request((((0, 0.1),),), (9,), None).load((9,), (0.3,)) == (3,)


def test_what_must_be_placed_goes_first() -> None:
    """Though it is worth least; where it does not fit there is no plan, and the message says so."""
    jobs = [job("a", 2, value=9), job("b", 2, value=1, must_place=True)]
    formulation = ConsolidationFormulation(placement(["value"], [server(gpu=2)], jobs))
    plan = BestFit().solve(formulation, SolveOptions(), Clock()).plan
    assert plan is not None
    assert [entry.placed for entry in plan] == [False, True]
    jobs = [job("a", 3, must_place=True)]
    servers = [server("n", gpu=2), server("m", gpu=2)]
    free = [{**servers[0], "free": {"gpu": 1}}, servers[1]]
    outcome = ConsolidateOrWait().solve(
        ConsolidationFormulation(placement(["value"], [*free, server("l", gpu=3)], jobs)),
        SolveOptions(),
        Clock(),
    )
    assert outcome.plan is not None
    busy = [{**server("l", gpu=3), "free": {"gpu": 0}}, *free]
    outcome = ConsolidateOrWait().solve(
        ConsolidationFormulation(placement(["value"], busy, jobs)), SolveOptions(), Clock()
    )
    assert outcome.plan is None
    assert outcome.message == (
        "consolidate-or-wait: no room is left on 1 server for job 'a', which must be placed"
    )


def test_without_time_nothing_optional_is_placed() -> None:
    """The plan is empty, and says that time was the limit."""
    formulation = ConsolidationFormulation(placement(["value"], [server(gpu=2)], [job("a")]))
    outcome = BestFit().solve(formulation, SolveOptions(), Clock(0.0))
    assert outcome.limit == "time"
    assert outcome.plan is not None
    assert not outcome.plan[0].placed
