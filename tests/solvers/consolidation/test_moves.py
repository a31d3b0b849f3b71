"""The fewest moves: pricing of contents, prices of tasks, plans and proofs."""

from __future__ import annotations

import itertools
import random
from typing import Any

import numpy as np
import pytest
from device_instances import device_instance, job, placement, server

import clusterplan
from clusterplan.formulations.consolidation.plan import JobPlacement
from clusterplan.formulations.registry import formulate
from clusterplan.instances.common.arrays import Ints
from clusterplan.instances.common.errors import OptionError
from clusterplan.instances.consolidation.instance import ConsolidationInstance
from clusterplan.planner.consolidation.frontier import MovesFrontierCheck, MovesFrontierPage
from clusterplan.planner.pareto import frontier_table
from clusterplan.planner.verification import verify
from clusterplan.solvers.common.result import Result, SolveOptions
from clusterplan.solvers.consolidation.frontier import MovesFrontier
from clusterplan.solvers.consolidation.patterns.contents_pricing import best_contents

PROVING = ("exact", "cp-sat", "milp:highs")
HEURISTIC = ("best-fit", "first-fit-decreasing", "consolidate-or-wait")
OPTIONS = SolveOptions(threads=1, time_limit_s=60)


def made(draw: random.Random) -> ConsolidationInstance:
    """Return three servers and four jobs with unlike amounts; some run, and moves cost or are limited."""
    servers: list[dict[str, Any]] = [
        {"name": f"s{k}", "capacity": {"gpu": draw.choice([2, 4]), "cpu": 8.5}, "rack": f"r{k % 2}"}
        for k in range(3)
    ]
    left = {server["name"]: dict(server["capacity"]) for server in servers}
    jobs = []
    for k in range(4):
        tasks, gpu, cpu = draw.choice([1, 1, 2]), draw.choice([0, 1, 1, 2]), draw.choice([1, 1.75, 2.5])
        job: dict[str, Any] = {"name": f"j{k}", "tasks": tasks, "task_demand": {"gpu": gpu, "cpu": cpu}}
        job["spread"] = draw.choice(["free", "preferred", "required"])
        if draw.random() < 0.3:
            job["value"] = draw.choice([0.5, 1, 3])
        current: dict[str, int] = {}
        for _ in range(tasks if draw.random() < 0.6 else 0):
            fits = [n for n, amounts in left.items() if amounts["gpu"] >= gpu and amounts["cpu"] >= cpu]
            if fits:
                server = draw.choice(fits)
                left[server]["gpu"] -= gpu
                left[server]["cpu"] -= cpu
                current[server] = current.get(server, 0) + 1
        if current:
            job["current"] = current
            job |= {"movable": False} if draw.random() < 0.3 else {}
            job |= {"restart_s": draw.choice([600, 1800, 7200])} if draw.random() < 0.3 else {}
        elif draw.random() < 0.15:
            job["must_place"] = True
        jobs.append(job)
    said: dict[str, Any] = {
        "running": "stay" if draw.random() < 0.1 else None,
        "pinned": ["j[01]"] if draw.random() < 0.2 else None,
        "restart_cost_h": draw.choice([0.1, 0.25, 1.0]) if draw.random() < 0.6 else None,
        "max_moves": draw.choice([0, 1, 2]) if draw.random() < 0.5 else None,
    }
    later = draw.sample(["spread", "servers", "racks", "stops", "migrations", "slowdown"], 2)
    return placement(["value", *later], servers, jobs).replace(**said)


def seated(draw: random.Random) -> ConsolidationInstance:
    """Return such an instance in which two of the jobs have to run; servers may have to be freed as well."""
    aims: dict[str, Any] = {"seat": ["j[13]"], "max_moves": None}
    aims["objectives"] = draw.choice([["migrations"], ["value", "migrations"], ["migrations", "servers"]])
    if draw.random() < 0.3:
        aims["free"] = {"count": 1, "chains": draw.random() < 0.5}
    return ConsolidationInstance.model_validate({**made(draw).document(), **aims})


def drained(draw: random.Random) -> ConsolidationInstance:
    """Return such an instance of which some servers are to be empty; some jobs may be stopped."""
    stop = draw.choice([None, None, [], ["*"], ["j[02]"]])
    aims = {"drain": draw.choice([["s0"], ["s[01]"], ["s1", "s9"]]), "stop": stop, "max_moves": None}
    if draw.random() < 0.3:
        aims["restart_cost_h"] = None
    return ConsolidationInstance.model_validate({**made(draw).document(), **aims})


def freeing(draw: random.Random) -> ConsolidationInstance:
    """Return an instance of `made` in which servers, or racks, are to be freed."""
    data = made(draw).model_dump(mode="json", exclude_none=True)
    data["free"] = {"count": draw.randint(1, 3), "per": draw.choice(["server", "server", "rack"])}
    data["free"] |= draw.choice([{}, {"chains": True}, {"chains": False}, {"into_empty": True}])
    data["objectives"] = ["free", *draw.choice([["migrations"], ["migrations", "value"], ["servers"], []])]
    return ConsolidationInstance.model_validate(data)


QUICK = {made: 3, seated: 12, drained: 12, freeing: 10}
"""How many of each sort are solved in the quick tests."""


def agree(
    instance: ConsolidationInstance,
    seed: int,
    proving: tuple[str, ...] = PROVING,
    heuristic: tuple[str, ...] = HEURISTIC,
) -> str:
    """Check methods on one instance against brute force; return the status."""
    truth = clusterplan.solve(instance, "brute-force", OPTIONS)
    values = [record.value for record in truth.objectives]
    for method in (*proving, *heuristic):
        found = clusterplan.solve(instance, method, OPTIONS)
        assert verify(instance, found).ok, (seed, method)
        if method in proving:
            assert found.status == truth.status, (seed, method)
            assert [record.value for record in found.objectives] == pytest.approx(values), (seed, method)
        elif found.plan is not None:
            sign = 1 if found.objectives[0].sense == "max" else -1
            first, best = found.objectives[0].value or 0.0, values[0] or 0.0
            assert sign * first <= sign * best + 1e-9, (seed, method)
        for ours, value in zip(found.objectives, values, strict=False):
            if ours.certified_bound is not None and value is not None:
                beyond = ours.certified_bound - value
                assert (beyond if ours.sense == "min" else -beyond) <= 1e-9, (seed, method)
    return truth.status


@pytest.mark.parametrize("draw", QUICK)
@pytest.mark.parametrize(
    "first", [0, *(pytest.param(first, marks=pytest.mark.slow) for first in range(100, 600, 100))]
)
def test_all_methods_agree_with_brute_force(draw: Any, first: int) -> None:
    """No certified bound is beyond the optimum, and where there is no plan that is proven."""
    numbers = range(first, first + (100 if first else QUICK[draw]))
    statuses = {agree(draw(random.Random(seed)), seed) for seed in numbers}
    if draw in (seated, drained):
        assert statuses == {"optimal", "infeasible"}


@pytest.mark.parametrize("numbers", [range(8), pytest.param(range(8, 60), marks=pytest.mark.slow)])
def test_servers_with_single_devices_are_drained_as_by_brute_force(numbers: range) -> None:
    for seed in numbers:
        draw, instance = random.Random(seed), device_instance(seed)
        names = [server.name for server in instance.expanded_servers]
        aims = {"drain": [draw.choice(names)], "stop": draw.choice([None, [], ["*"]])}
        agree(instance.replace(**aims), seed, ("exact", "cp-sat"), ("best-fit",))


def test_a_drained_server_is_empty_and_its_jobs_move_unless_they_may_be_stopped() -> None:
    waits = clusterplan.solve(two(drain=["a"]), "exact", OPTIONS)
    assert [record.name for record in waits.objectives] == ["migrations", "value", "spread", "servers"]
    assert {entry.job: entry.servers for entry in waits.plan or ()} == {
        "x": {"b": 1},
        "y": {"b": 1},
        "waits": {},
    }
    full = two(drain=["a"], jobs=[job(name, 4, current={name: 4}) for name in "ab"])
    none = clusterplan.solve(full, "exact", OPTIONS)
    assert none.status == "infeasible"
    assert none.diagnosis.remedies[0].startswith("--stop ")
    strict = two(drain=["a"], jobs=[job(name, 4, current={name: 4}, must_place=True) for name in "ab"])
    counted = clusterplan.solve(strict, "exact", OPTIONS)
    assert counted.message == "no plan exists; counting alone proves it"
    assert counted.diagnosis.reasons[0] == "gpu: jobs that must be placed need 8; 4 are free"
    assert counted.diagnosis.remedies[-1].startswith("--stop ")
    assert verify(strict, counted).ok
    stopped = clusterplan.solve(full.replace(stop=["*"]), "exact", OPTIONS)
    assert [(r.name, r.value, r.certified_bound) for r in stopped.objectives[:2]] == [
        ("stops", 1, 1),
        ("migrations", 4, 4),
    ]


def test_a_pinned_job_keeps_its_server_from_being_drained_and_is_named() -> None:
    none = clusterplan.solve(two(drain=["a"], pinned=["x"]), "exact", OPTIONS)
    assert none.status == "infeasible"
    assert none.diagnosis.reasons == ("server 'a' is to be empty, and jobs stay there: x",)


def test_drained_are_the_servers_of_a_rack_of_a_row_and_single_ones() -> None:
    servers = [
        {**server("a", gpu=4), "count": 2, "rack": "left"},
        {**server("b", gpu=4), "count": 2, "devices": {"ssd": {"count": 1}}},
    ]
    jobs = [job("x", 1, {"gpu": 0}, current={"a-0": 1})]
    for patterns, empty in (
        (["left"], {"a-0", "a-1"}),
        (["b"], {"b-0", "b-1"}),
        (["a-1", "b-0"], {"a-1", "b-0"}),
    ):
        instance = two(servers=servers, jobs=jobs, drain=patterns)
        assert instance.drained == empty
        room = {server.name: any(server.available.values()) for server in instance.expanded_servers}
        assert {name for name, is_left in room.items() if not is_left} == empty
    x = JobPlacement(job="x", servers={"a-0": 1})
    assert [
        v.constraint for v in formulate(two(servers=servers, jobs=jobs, drain=["left"])).violations([x])
    ] == ["drain"]


def test_of_equally_good_plans_one_that_stops_and_moves_nothing_is_chosen() -> None:
    """Also where the document names no objectives: two jobs of the same value, and room for one."""
    whole = {"gpu": 4}
    jobs = [
        job("new", 1, whole),
        job("old", 1, whole, current={"a": 1}),
        job("other", 1, whole, current={"b": 1}),
    ]
    for method in PROVING:
        found = clusterplan.solve(two(jobs=jobs), method, OPTIONS)
        assert [record.name for record in found.objectives][-2:] == ["stops", "migrations"]
        assert [record.value for record in found.objectives][-2:] == [0, 0]


def two(**more: Any) -> ConsolidationInstance:
    """Return two servers of 4 GPUs, each with a job of 1 GPU, and one of 4 GPUs that waits."""
    jobs = [job("x", current={"a": 1}), job("y", current={"b": 1}), job("waits", 1, {"gpu": 4})]
    servers = [server(name, gpu=4) for name in "ab"]
    return ConsolidationInstance.model_validate({"name": "two", "servers": servers, "jobs": jobs, **more})


@pytest.mark.parametrize(
    ("more", "value"),
    [
        ({}, 6),
        ({"restart_cost_h": 3.5}, 2.5),
        ({"restart_cost_h": 4.0}, 2),
        ({"restart_cost_h": 4.5}, 2),
        ({"max_moves": 1}, 6),
        ({"max_moves": 0}, 2),
    ],
)
def test_a_move_is_made_where_it_pays_and_the_value_says_what_is_left(
    more: dict[str, Any], value: float
) -> None:
    for method in (*PROVING, "brute-force"):
        found = clusterplan.solve(two(**more), method, OPTIONS)
        assert found.objectives[0].value == value
        assert found.objectives[0].certified_bound == value


def test_a_job_that_says_what_a_restart_costs_pays_that() -> None:
    jobs = [job("x", current={"a": 1}, restart_s=1800), *two().document()["jobs"][1:]]
    found = clusterplan.solve(two(restart_cost_h=9, jobs=jobs), "exact", OPTIONS)
    assert found.objectives[0].value == 5.5


def test_a_stopped_job_counts_as_moved() -> None:
    formulation = formulate(two(max_moves=0))
    x = JobPlacement(job="x", placed=False)
    y, waits = JobPlacement(job="y", servers={"b": 1}), JobPlacement(job="waits", servers={"a": 1})
    assert [v.constraint for v in formulation.violations([x, y, waits])] == ["max_moves"]
    assert not formulate(two(max_moves=1)).violations([x, y, waits])


@pytest.mark.parametrize("method", ["exact", "best-fit"])
def test_results_of_other_limits_or_costs_are_refused(method: str) -> None:
    instance = two(max_moves=1, restart_cost_h=0.5)
    found = clusterplan.solve(instance, method, OPTIONS)
    assert verify(instance, found).ok
    for more in ({"max_moves": 0}, {"restart_cost_h": 0.25}, {"running": "stay"}, {"pinned": ["x"]}):
        assert not verify(instance.replace(**more), found).ok
    for options in ({"max_moves": 2}, {"max_moves": 1, "restart_cost_h": 0.25}):
        lie = found.model_copy(update={"instance_options": options})
        assert any("instance_options" in fault for fault in verify(instance, lie).faults)


def test_prices_that_forget_the_limit_prove_less() -> None:
    """Tampering with what one more move is worth never proves more than is true."""
    instance = two(max_moves=0)
    found = clusterplan.solve(instance, "exact", OPTIONS)
    assert found.certificate is not None
    for worth in (0.0, 0.5, 3.0, 100.0):
        goals = [goal | {"multipliers": {"moves": worth}} for goal in found.certificate["goals"]]
        other: Result = found.model_copy(update={"certificate": {"goals": goals}})
        assert _bound(instance, other) >= 2


def _bound(instance: ConsolidationInstance, result: Result) -> float:
    """Return the bound on the value that the check derives from a certificate."""
    formulation = formulate(instance)
    values = [record.value or 0.0 for record in result.objectives]
    bound = formulation.certified_bounds(result.certificate, values)[0]
    assert bound is not None
    return bound


@pytest.mark.parametrize("number", [20, pytest.param(500, marks=pytest.mark.slow)])
def test_leave_to_move_is_no_reason_for_a_worse_plan(number: int) -> None:
    """Than that in which all stay, where it breaks no rule that holds for what may move."""
    for seed in range(number):
        instance = made(random.Random(f"stay {seed}")).replace(running=None)
        staying = clusterplan.solve(instance.replace(running="stay"), "exact", OPTIONS)
        formulation = formulate(instance)
        if staying.plan is None or formulation.violations(staying.plan):
            continue
        moving = clusterplan.solve(instance, "exact", OPTIONS)
        assert moving.plan is not None, seed
        values = [[record.value or 0.0 for record in result.objectives] for result in (staying, moving)]
        assert not formulation.precedes(*values), seed


def crowded(draw: random.Random, servers: int, **free: Any) -> ConsolidationInstance:
    """Return servers of 8 GPUs in racks of four, three quarters of which running tasks hold."""
    jobs: list[dict[str, Any]] = []
    for k in range(servers):
        left = 8
        while left > 2:
            gpu = draw.choice([size for size in (1, 1, 2, 4) if size <= left])
            left -= gpu + draw.choice([0, 0, 1])
            jobs.append(job(f"j{len(jobs)}", 1, {"gpu": gpu}, current={f"s{k}": 1}))
    capacity = [{**server(f"s{k}", gpu=8), "rack": f"r{k // 4}"} for k in range(servers)]
    return ConsolidationInstance.model_validate(
        {"name": "crowded", "servers": capacity, "jobs": jobs, "free": free}
    )


@pytest.mark.parametrize(
    ("servers", "free"),
    [
        (40, {"count": 3}),
        (40, {"count": 1, "per": "rack"}),
        (12, {"count": 12}),
        (12, {"count": 2, "chains": True}),
    ],
)
def test_moves_that_free_servers_are_proven(servers: int, free: dict[str, Any]) -> None:
    """More servers than can be freed are wanted, too; `free` is certified, and moves within a few."""
    instance = crowded(random.Random(4), servers, **free)
    found = clusterplan.solve(instance, "exact", OPTIONS)
    freed, moved = found.objectives
    assert found.status == "optimal"
    assert freed.value == freed.bound
    assert moved.value == moved.bound
    assert moved.certified_bound >= 0.6 * moved.value
    other = clusterplan.solve(instance, "cp-sat", OPTIONS)
    assert [record.value for record in other.objectives] == [freed.value, moved.value]
    assert verify(instance, found).ok


@pytest.mark.parametrize(("servers", "per", "most"), [(10, "server", None), (40, "rack", 2)])
def test_every_step_of_a_frontier_is_the_optimum(servers: int, per: Any, most: int | None) -> None:
    """The fewest moves of each number of servers or racks, of which the certificates prove most."""
    instance = crowded(random.Random(7), servers, count=1)
    frontier = clusterplan.pareto(instance, per=per, most=most, error=0.0)
    assert isinstance(frontier, MovesFrontier)
    assert [p.freed for p in frontier.points] == sorted((p.freed for p in frontier.points), reverse=True)
    assert len(frontier.points) > 1
    for point in (*frontier.points, *frontier.others):
        aim = instance.replace(free={"count": point.freed, "per": per})
        best = clusterplan.solve(aim, "cp-sat", OPTIONS)
        assert [record.value for record in best.objectives] == [point.freed, point.migrations]
        assert point.bound <= point.migrations
        assert verify(aim, point.result).ok
    if most is None:
        assert frontier.furthest.objectives[0].certified_bound == frontier.most == frontier.points[0].freed
    again = MovesFrontier.model_validate_json(frontier.to_json())
    assert again == frontier
    assert MovesFrontierCheck(instance, again).verification().ok
    assert frontier.to_frame()["migrations"].tolist() == [point.migrations for point in frontier.points]
    html = MovesFrontierPage(instance, frontier).html(None)
    assert "no plan gets here: proven" in html
    table, notes = frontier_table(frontier)
    assert len(table.rows) == len(frontier.points)
    assert notes[-1].startswith("certified: from 1 to ")


def test_what_cannot_be_freed_has_no_frontier_and_wrong_ranges_are_refused() -> None:
    """Two full servers: neither can be freed; a forged frontier is found out."""
    running = [job(name, 4, current={name: 4}) for name in "ab"]
    full = two(jobs=running, objectives=["value"])
    none = clusterplan.pareto(full)
    assert isinstance(none, MovesFrontier)
    assert (none.status, none.points) == ("infeasible", ())
    assert MovesFrontierCheck(full, none).verification().ok
    forged = none.model_copy(update={"furthest": None})
    faults = MovesFrontierCheck(full, forged).verification().faults
    assert faults == ("status is infeasible, and no bound proves it",)
    both = two(jobs=[*running, job("w", 9, must_place=True)], objectives=["value"])
    stuck = clusterplan.pareto(both)
    assert (stuck.status, stuck.points) == ("infeasible", ())
    assert stuck.diagnosis is not None
    assert MovesFrontierCheck(both, stuck).verification().claimed == ("that there is no plan",)
    for wrong, words in (
        ({"least": 3}, "from 1 to 2"),
        ({"most_usd": 4.0}, "--to N"),
        ({"mix": "any"}, "mix"),
    ):
        with pytest.raises(OptionError, match=words):
            clusterplan.pareto(full, **wrong)
    idle = two(jobs=[job("a")])
    with pytest.raises(OptionError, match="nothing to free"):
        clusterplan.pareto(idle)
    other = two(objectives=["free", "servers"], free={"count": 1})
    with pytest.raises(OptionError, match="give migrations among them"):
        clusterplan.pareto(other)


def test_a_forged_step_or_error_of_a_frontier_is_found_out() -> None:
    """Each result is verified like any other, for the number that it says."""
    instance = crowded(random.Random(7), 8, count=1)
    frontier = clusterplan.pareto(instance, error=0.0)
    assert isinstance(frontier, MovesFrontier)
    first, *others = frontier.points
    record = first.result.objectives[1].model_copy(update={"value": 1.0})
    objectives = (first.result.objectives[0], record)
    changes: dict[str, tuple[Any, str]] = {
        "value": ({"objectives": objectives}, "points[0].result"),
        "plan": ({"plan": others[-1].result.plan}, "points[0].result"),
        "aim": ({"instance_options": {}}, "does not say how many units"),
        "furthest": ({}, "does not free"),
    }
    assert frontier.furthest is not None
    for name, (change, words) in changes.items():
        known = frontier.furthest if name == "furthest" else first.result
        point = first.model_copy(update={"result": known.model_copy(update=change)})
        forged = frontier.model_copy(update={"points": (point, *others)})
        faults = MovesFrontierCheck(instance, forged).verification().faults
        assert any(words in fault for fault in faults), (name, faults)
    for change, words in (
        ({"points": frontier.points[1:]}, "the certificates prove nothing"),
        ({"points": frontier.points[::-1]}, "not slower and cheaper"),
    ):
        faults = MovesFrontierCheck(instance, frontier.model_copy(update=change)).verification().faults
        assert any(words in fault for fault in faults), faults


def test_objectives_of_a_document_give_way_to_what_is_freed() -> None:
    """Where they do not begin with it; with it, there must be a number."""
    assert two(objectives=["value"], free={"count": 1}).objectives == ("free", "migrations")
    kept = ["free", "migrations", "value"]
    assert two(objectives=kept, free={"count": 1}).objectives == tuple(kept)
    for wrong in ({"objectives": ["free"]}, {"objectives": ["value", "free"], "free": {"count": 1}}):
        with pytest.raises(ValueError, match="stands first"):
            two(**wrong)


def test_what_may_not_move_frees_nothing() -> None:
    """One of two jobs stays, and the other may not go to where it is alone."""
    jobs = [job("x", current={"a": 1}, movable=False), job("y", current={"b": 1})]
    instance = two(jobs=jobs, free={"count": 2})
    found = clusterplan.solve(instance, "exact", OPTIONS)
    assert [(record.value, record.certified_bound) for record in found.objectives] == [(1, 1), (1, 1)]
    assert found.plan[1].action == "move"


def test_where_a_method_has_no_plan_nothing_moves() -> None:
    """List heuristics know no running jobs, and find no room for the last one; as they run, all fit."""
    held = {"a": [(1, 2), (2, 2), (1, 0)], "b": [(1, 3), (2, 0), (1, 1)]}
    jobs = [
        job(f"{name}{k}", 1, {"gpu": gpu, "cpu": cpu}, must_place=True, current={name: 1})
        for name, demands in held.items()
        for k, (gpu, cpu) in enumerate(demands)
    ]
    full = two(servers=[server(name, gpu=4, cpu=4) for name in "ab"], jobs=jobs)
    for method in HEURISTIC:
        assert clusterplan.solve(full, method, OPTIONS).plan is None
        found = clusterplan.solve(full.replace(max_moves=0), method, OPTIONS)
        assert [entry.servers for entry in found.plan] == [{"a": 1}] * 3 + [{"b": 1}] * 3
        assert found.message is None


def best_by_enumeration(gains: Ints, demands: Ints, most: Ints, limit: Ints) -> int:
    """Return what the contents of a server are worth at most."""
    ranges = [range(number + 1) for number in most.tolist()]
    counts = np.array(list(itertools.product(*ranges)))
    return int((counts @ gains)[(counts @ demands <= limit).all(axis=1)].max())


@pytest.mark.parametrize("seed", range(40))
def test_contents_are_worth_what_enumeration_finds(seed: int) -> None:
    """A bound if the search has few steps; the contents that are found fit, and are worth no more."""
    rng = np.random.default_rng(seed)
    gains, demands = rng.integers(0, 9, 5), rng.integers(0, 5, (5, 2))
    most, limits = rng.integers(0, 4, (3, 5)), rng.integers(-1, 12, (3, 2))
    exact, contents = best_contents(gains, demands, most, limits, 10**6)
    bound, _ = best_contents(gains, demands, most, limits, 0)
    for m in range(3):
        fits = (limits[m] >= 0).all()
        expected = best_by_enumeration(gains, demands, most[m], limits[m]) if fits else 0
        assert exact[m] == contents[m] @ gains == expected
        assert (contents[m] <= most[m]).all()
        assert not fits or (contents[m] @ demands <= limits[m]).all()
        assert bound[m] >= exact[m]
