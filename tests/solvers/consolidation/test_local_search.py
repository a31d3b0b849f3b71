"""Local search: plans stay feasible and never get worse; small optima are reached; insertion by best fit."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from device_instances import job, placement, server
from random_instances import random_consolidation

from clusterplan.formulations.common.compiled import interpreted
from clusterplan.formulations.consolidation.formulation import ConsolidationFormulation
from clusterplan.formulations.consolidation.plan import JobPlacement
from clusterplan.instances.consolidation.generate import generate_consolidation
from clusterplan.instances.consolidation.instance import ConsolidationInstance
from clusterplan.solvers.common.base import Clock
from clusterplan.solvers.common.result import SolveOptions
from clusterplan.solvers.consolidation.local_search import (
    CLOSED_PENALTY,
    anneal,
    first_state,
    improve,
    insert,
)
from clusterplan.solvers.consolidation.placement_arrays import (
    HOMEWARD,
    LOSSES,
    NEAR,
    PlacementArrays,
)
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
    cluster = arrays.cluster
    assert cluster.units[cluster.of_class].tolist() == [3, 1, 1]
    assert cluster.most[cluster.of_class].tolist() == [1, 1, 0]
    assert cluster.demand[cluster.of_class].tolist() == [[1, 0], [2, 2], [2, 2]]
    assert arrays.movable.tolist() == [True, True, False]
    assert cluster.taken.tolist() == [True, True]
    assert cluster.free.tolist() == [[4, 2], [2, 4]]


def test_pieces_are_the_plan() -> None:
    """The plan of the first pieces is the one that was given; jobs without pieces are not placed."""
    formulation, plan = three()
    plan[0] = JobPlacement(job="a", servers={"n": 3})
    arrays = PlacementArrays(formulation, plan)
    counts, server_of, units = arrays.pieces()
    assert first_state(arrays.cluster, (counts, server_of, units)).left.tolist() == [[-1, 0], [2, 4]]
    assert arrays.plan(counts, server_of, units) == plan
    left_out = arrays.plan(counts * [0, 1, 1], server_of, units)
    assert [entry.placed for entry in left_out] == [False, True, True]


def test_eligible_servers_of_each_job() -> None:
    """Jobs that accept the same GPU models share a row."""
    jobs = [job("a"), job("b", gpu_model="v100"), job("c")]
    servers = [{**server("n", gpu=4), "gpu_model": "p100"}, {**server("m", gpu=4), "gpu_model": "v100"}]
    waiting = [JobPlacement(job=name, placed=False) for name in "abc"]
    arrays = PlacementArrays(ConsolidationFormulation(placement(["value"], servers, jobs)), waiting)
    cluster = arrays.cluster
    assert cluster.kind[cluster.of_class].tolist() == [0, 1, 0]
    assert cluster.allowed.tolist() == [[True, True], [False, True]]


def test_a_job_on_two_servers_loses_spread_and_speed() -> None:
    """One server more than it needs, and half of its value of two, against the plan on one server."""
    jobs = [job("a", 2, spread="preferred", speed_by_servers={1: 1.0, 2: 0.5})]
    formulation = ConsolidationFormulation(
        placement(["spread", "slowdown"], [server(name, gpu=2) for name in "mn"], jobs)
    )
    found = []
    for servers in ({"m": 1, "n": 1}, {"n": 2}):
        arrays = PlacementArrays(formulation, [JobPlacement(job="a", servers=servers)])
        found.append(first_state(arrays.cluster, arrays.pieces()).total)
    change = dict(zip(LOSSES, found[0] - found[1], strict=True))
    assert (change["spread"], change["slowdown"], change["value"]) == (1, 1, 0)


def test_traffic_counts_only_beyond_a_limit() -> None:
    """Two tasks of 3 Gbit/s on a server with 1: 7, which is 2 more than 5."""
    group = {"name": "w", "tasks": 2, "demand": {"gpu": 1}, "traffic_gbit_per_s": 3}
    servers = [{**server("n", gpu=4), "traffic_gbit_per_s": 1}]
    formulation = ConsolidationFormulation(
        placement(["traffic"], servers, [{"name": "a", "groups": [group]}])
    )
    arrays = PlacementArrays(formulation, [JobPlacement(job="a", groups={"w": {"n": 2}})])
    for most, beyond in ((5.0, 2.0), (7.0, 0.0)):
        state = first_state(arrays.cluster._replace(most_traffic=most), arrays.pieces())
        assert state.total[LOSSES.index("traffic")] == beyond


FEW = 150
"""Steps for each server."""


def started(instance: ConsolidationInstance, name: str) -> tuple[ConsolidationFormulation, Any]:
    """Return the formulation and the plan of a list heuristic."""
    formulation = ConsolidationFormulation(instance)
    return formulation, find_solver(name, "consolidation").solve(formulation, SolveOptions(), Clock()).plan


def improved(formulation: ConsolidationFormulation, plan: Sequence[JobPlacement], **given: Any) -> list[Any]:
    """Return the plan after a short search."""
    options = SolveOptions(seed=given.get("seed", 1))
    return improve(
        formulation, plan, options, Clock(), given.get("stop", lambda _: False), given.get("steps", FEW)
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
    found = improved(formulation, plan, steps=400)
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


def test_required_jobs_are_placed_from_nothing() -> None:
    """The plan to start from places none; what need not run makes room."""
    jobs = [job("a", 1, {"gpu": 3}, value=9), job("b", 2, must_place=True), job("c", 2, must_place=True)]
    formulation = ConsolidationFormulation(placement(["value"], [server(gpu=4)], jobs))
    found = improved(formulation, [JobPlacement(job=name, placed=False) for name in "abc"])
    assert [entry.placed for entry in found] == [False, True, True]


def test_no_more_jobs_move_than_may() -> None:
    """Each move lets one more job start; two may move."""
    jobs = [job(f"j{n}", 1, current={f"n{n}": 1}) for n in range(8)]
    jobs += [job(f"w{n}", 2, spread="required", value=5) for n in range(4)]
    servers = [server(f"n{n}", gpu=2) for n in range(8)]
    for most, value in ((0, 8), (2, 18), (8, 28)):
        limited = placement(["value"], servers, jobs).model_copy(update={"max_moves": most})
        formulation = ConsolidationFormulation(limited)
        now = [JobPlacement(job=f"j{n}", servers={f"n{n}": 1}) for n in range(8)]
        now += [JobPlacement(job=f"w{n}", placed=False) for n in range(4)]
        found = improved(formulation, now)
        assert formulation.violations(found) == []
        assert formulation.evaluate(found) == (value,)


def test_jobs_that_run_on_many_servers_are_tried_for_each() -> None:
    """Two stopped jobs ran on eight servers each, so that more is listed than jobs; both start."""
    servers = [server(f"n{n}", gpu=2) for n in range(8)]
    now = {f"n{n}": 1 for n in range(8)}
    jobs = [job(name, 8, current=now) for name in "ab"]
    formulation = ConsolidationFormulation(placement(["value"], servers, jobs))
    with interpreted():  # where the bounds of arrays are checked
        found = improved(formulation, [JobPlacement(job=name, placed=False) for name in "ab"], steps=500)
    assert formulation.violations(found) == []
    assert formulation.evaluate(found) == (16,)


@pytest.mark.parametrize("block", range(3))
def test_the_state_is_that_of_its_pieces(block: int) -> None:
    """After any steps, capacities and losses are those of a state made anew, and of the plan."""
    compared = set[str]()
    for seed in range(40 * block, 40 * block + 40):
        formulation, plan = started(random_consolidation(seed), "first-fit-decreasing")
        if plan is None:
            continue
        arrays = PlacementArrays(formulation, plan)
        state = first_state(arrays.cluster, arrays.pieces())
        first = state.total.copy()
        state.draws[:] = np.random.default_rng(seed).random(len(state.draws))
        anneal(arrays.cluster, state, np.full(len(LOSSES), 0.5), 100)
        again = first_state(arrays.cluster, (state.pieces, state.server, state.units))
        assert np.allclose(again.left, state.left), seed
        assert np.allclose(again.total, state.total), seed
        found = arrays.plan(state.pieces, state.server, state.units)
        assert formulation.violations(found) == [], seed
        before = formulation.evaluate(plan)
        for objective, old, now in zip(
            formulation.objectives, before, formulation.evaluate(found), strict=True
        ):
            at = LOSSES.index(objective.name)
            change = (now - old) * (1 if objective.sense == "min" else -1)
            if objective.name != "traffic":
                assert np.isclose(state.total[at] - first[at], change), (seed, objective.name)
                compared |= {objective.name} if change else set()
    assert len(compared) > 1


def inserted(gpus: list[float], jobs: list[dict[str, Any]], **given: Any) -> list[list[int]]:
    """Return job, server and tasks of all pieces after an insertion of the jobs in order."""
    servers = [{**server(f"n{n}", gpu=free), "gpu_model": f"g{n}"} for n, free in enumerate(gpus)]
    formulation = ConsolidationFormulation(placement([given.get("goal", "value")], servers, jobs))
    arrays = PlacementArrays(formulation, [JobPlacement(job=each["name"], placed=False) for each in jobs])
    state = first_state(arrays.cluster, arrays.pieces())
    state.near[: len(gpus)], state.counts[NEAR] = range(len(gpus)), len(gpus)
    state.counts[HOMEWARD], state.weights[:] = 1, 1.0
    state.penalty[: len(gpus)] = given.get("penalty", 0.0)
    for j in range(len(jobs)):
        assert insert(arrays.cluster, state, j) == (state.pieces[j] > 0)
    pieces = [(j, p) for j in range(len(jobs)) for p in range(state.pieces[j])]
    first = arrays.cluster.first_piece
    return [[j, int(state.server[first[j] + p]), int(state.units[first[j] + p])] for j, p in pieces]


def test_each_job_goes_where_least_is_left() -> None:
    """In the order of the queue; a job that does not fit is left out."""
    jobs = [job("a", 1, {"gpu": 2}), job("b", 1, {"gpu": 3}), job("c", 1, {"gpu": 2})]
    assert inserted([4, 3], jobs) == [[0, 1, 1], [1, 0, 1]]


def test_tasks_fill_the_servers_that_hold_most() -> None:
    """One server if any holds all; else as few as the spread rule allows, or none."""
    assert inserted([2, 4, 3], [job("a", 3)]) == [[0, 2, 3]]
    assert inserted([2, 4, 3], [job("a", 6)]) == [[0, 1, 4], [0, 0, 2]]
    assert inserted([2, 4, 3], [job("a", 4), job("b", 4, spread="required")]) == [[0, 1, 4]]
    assert inserted([2, 4, 3], [job("a", 10)]) == []


def test_tenths_fill_three_tenths() -> None:
    """Whatever floating point makes of their sums; a fourth is too much."""
    tenths = [job(name, 1, {"gpu": 0.1}) for name in "abcd"]
    assert len(inserted([0.3], tenths)) == 3
    assert inserted([0.3], [job("a", 3, {"gpu": 0.1})]) == [[0, 0, 3]]


def test_penalties_homes_and_models_decide() -> None:
    """A server with a penalty is the last, a current one the first; GPU models are kept."""
    closed = np.array([CLOSED_PENALTY, 0.0])
    assert inserted([1, 4], [job("a"), job("b")], penalty=closed) == [[0, 1, 1], [1, 1, 1]]
    assert inserted([1, 4], [job("a", 1, {"gpu": 4}), job("b")], penalty=closed) == [[0, 1, 1], [1, 0, 1]]
    assert inserted([1, 4], [job("a", current={"n1": 1})]) == [[0, 1, 1]]
    assert inserted([1, 4], [job("a", gpu_model="g1")]) == [[0, 1, 1]]
    assert inserted([4], [job("a")], goal="servers") == []
