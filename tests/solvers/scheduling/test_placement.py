"""Schedules on servers that are worked out by hand, and random ones of every policy, which pass the check.

Jobs that start at one moment are placed together by consolidation's proven method.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import yaml
from malleable_instances import GROWS, random_trace, segments_of

from clusterplan.formulations.common.clock import Clock
from clusterplan.formulations.scheduling.formulation import SchedulingFormulation
from clusterplan.instances.scheduling.instance import SchedulingInstance
from clusterplan.solvers.common.base import Outcome
from clusterplan.solvers.common.result import SolveOptions
from clusterplan.solvers.registry import solvers_for
from clusterplan.solvers.scheduling.placement import RULES as PLACEMENTS
from clusterplan.solvers.scheduling.placement import place_jointly, placeable_rows, task_demands
from clusterplan.solvers.scheduling.policy_solvers import PolicySolver

SOLVERS = {
    solver.name: solver
    for solver in solvers_for("scheduling", available=True)
    if isinstance(solver, PolicySolver)
}
BUDGETS: dict[str, dict[str, Any]] = {"dl2": {"traces": 1, "passes": 1, "episodes": 0}}


@pytest.fixture(autouse=True)
def little(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the traces on which dl2 learns small."""
    if "dl2" in SOLVERS:
        from clusterplan.solvers.scheduling.policies import dl2_training

        monkeypatch.setattr(dl2_training, "JOBS", 4)
        monkeypatch.setattr(dl2_training, "VALIDATION", dl2_training.VALIDATION[:1])


def outcome_of(there: SchedulingInstance, name: str, **settings: Any) -> Outcome:
    """Return the outcome of a policy."""
    options = SolveOptions(method_options={**BUDGETS.get(name, {}), **settings})
    return SOLVERS[name].solve(SchedulingFormulation(there), options, Clock())


def planned(there: SchedulingInstance, name: str, **settings: Any) -> list[tuple[Any, ...]]:
    """Return job, start, end, configuration and servers of a policy's segments, which must be feasible."""
    plan = outcome_of(there, name, **settings).plan
    assert plan is not None
    return segments_of(there, plan, "configuration", "servers")


def rows(there: SchedulingInstance, name: str, placement: str = "best-fit") -> list[tuple[Any, ...]]:
    """Return the same without the configuration."""
    return [(*when, servers) for *when, _, servers in planned(there, name, placement=placement)]


def trace(*jobs: tuple[float, int, float, float], servers: tuple[float, ...], **more: Any) -> Any:
    """Return jobs a, b, … of (arrival, tasks, GPUs of each, duration) on servers s0, s1, …."""
    listed = [
        {"name": "abcdefgh"[k], "arrival_s": r, "tasks": n, "demand": {"gpu": g}, "duration_s": p}
        for k, (r, n, g, p) in enumerate(jobs)
    ]
    return on_servers(*listed, servers=servers, **more)


def on_servers(*jobs: dict[str, Any], servers: tuple[float, ...], **more: Any) -> SchedulingInstance:
    """Return jobs on servers s0, s1, … with so many GPUs."""
    there = [{"name": f"s{k}", "capacity": {"gpu": gpus}} for k, gpus in enumerate(servers)]
    return SchedulingInstance.model_validate({"name": "t", "servers": there, "jobs": list(jobs), **more})


def with_fields(instance: SchedulingInstance, **fields: dict[str, Any]) -> SchedulingInstance:
    """Return the trace with more fields of jobs, by their names."""
    jobs = [{**job.model_dump(exclude_none=True), **fields.get(job.name, {})} for job in instance.jobs]
    return instance.replace(jobs=jobs)


def test_a_job_waits_for_a_server_although_the_pool_has_room() -> None:
    """Two GPUs on two servers are none for a task of two; fifo blocks those after it, others do not."""
    there = trace((0, 1, 2, 9), (0, 1, 2, 4), (1, 1, 2, 2), (2, 1, 1, 1), servers=(3, 3))
    assert rows(there, "fifo")[2:] == [("c", 4, 6, {"s1": 1}), ("d", 4, 5, {"s0": 1})]
    assert rows(there, "sjf")[2:] == [("d", 2, 3, {"s0": 1}), ("c", 4, 6, {"s0": 1})]


def test_a_job_that_comes_first_takes_the_place_of_one_that_comes_later() -> None:
    """C stops nobody, for a moves to the other server; as moves cost nothing, a loses nothing."""
    there = trace((0, 1, 1, 9), (0, 1, 2, 3), (4, 1, 3, 1), servers=(3, 2))
    # b fills s1, so a is on s0; c needs all of it, and a has room on s1 by then.
    found = rows(there, "srtf")
    assert found[:2] == [("a", 0, 4, {"s0": 1}), ("b", 0, 3, {"s1": 1})]
    assert found[2:] == [("a", 4, 9, {"s1": 1}), ("c", 4, 5, {"s0": 1})]


def test_jobs_on_one_server_are_faster_and_wait_for_it() -> None:
    """Spread over two servers, b would run at half its speed, and end at 12; consolidated it ends at 8."""
    there = trace((0, 1, 2, 4), (2, 2, 1, 4), servers=(3, 1))
    there = with_fields(there, b={"speed_by_servers": {1: 1, 2: 0.5}})
    assert rows(there, "fifo")[1:] == [("b", 2, 10, {"s0": 1, "s1": 1})]
    assert rows(there, "fifo", "consolidate")[1:] == [("b", 4, 8, {"s0": 2})]


def test_tiresias_consolidates_jobs_that_are_skewed() -> None:
    """By the share of the largest tensor; other policies do not look at it."""
    there = with_fields(trace((0, 1, 2, 4), (2, 2, 1, 4), servers=(3, 1)), b={"skew": 0.4})
    assert rows(there, "las")[1][3] == {"s0": 2}
    assert rows(there.replace(skew_threshold=0.5), "las")[1][3] == {"s0": 1, "s1": 1}
    assert rows(there, "srtf")[1][3] == {"s0": 1, "s1": 1}


def test_jobs_that_start_together_are_placed_together() -> None:
    """Best fit gives a the larger server, and spreads b."""
    there = trace((0, 1, 1, 2), (0, 2, 1, 2), (0, 2, 2, 2), servers=(4, 3))
    assert [len(row[3]) for row in rows(there, "fifo", "exact")] == [1, 1, 1]


def test_a_job_moves_when_its_server_fails() -> None:
    """At 2 s, to the server that is free, and with the work since its last checkpoint lost if that is so."""
    there = trace((0, 1, 1, 5), servers=(1, 1), events=[{"at_s": 2, "fails": ["s0"]}])
    for name in ("srtf", "fifo", "las"):
        assert rows(there, name) == [("a", 0, 2, {"s0": 1}), ("a", 2, 5, {"s1": 1})], name
        later = rows(there.replace(checkpoint_s=1.5), name)
        assert later == [("a", 0, 2, {"s0": 1}), ("a", 2, 5.5, {"s1": 1})]


def test_a_job_that_must_not_be_interrupted_begins_again_if_that_is_allowed() -> None:
    """All its work is lost without checkpoints; by default it is an error."""
    events = [{"at_s": 2, "fails": ["s0"]}, {"at_s": 4, "returns": ["s0"]}]
    there = trace((0, 1, 1, 5), servers=(1,), preemption="none", events=events)
    outcome = outcome_of(there, "fifo")
    assert outcome.plan is None
    assert "evict: restart" in str(outcome.message)
    again = there.replace(evict="restart")
    for name in SOLVERS.keys() - {"dl2"}:  # whose features are relative to a capacity, here none
        assert rows(again, name) == [("a", 0, 2, {"s0": 1}), ("a", 4, 9, {"s0": 1})], name


def test_a_server_that_keeps_a_part_keeps_those_who_came_first() -> None:
    """B came later, and loses its place."""
    events = [{"at_s": 3, "server": "s0", "change": {"gpu": -1}}]
    there = trace((0, 1, 1, 9), (1, 1, 1, 9), servers=(2,), events=events)
    assert rows(there, "fifo")[:2] == [("a", 0, 9, {"s0": 1}), ("b", 1, 3, {"s0": 1})]


def test_servers_may_be_added_later() -> None:
    """One that has failed at 0 is there when it returns."""
    events = [{"at_s": 0, "fails": ["s1"]}, {"at_s": 2, "returns": ["s1"]}]
    there = trace((0, 1, 1, 9), (0, 1, 1, 9), servers=(1, 1), events=events)
    assert [row[1:] for row in rows(there, "fifo")] == [(0, 9, {"s0": 1}), (2, 11, {"s1": 1})]


def test_jobs_that_never_find_a_place_are_said() -> None:
    """The server on which b would fit fails for good before it comes."""
    there = trace((0, 1, 1, 3), (2, 1, 2, 1), servers=(2, 1), events=[{"at_s": 1, "fails": ["s0"]}])
    outcome = outcome_of(there, "srtf")
    assert outcome.plan is None
    assert outcome.message == "srtf: 1 jobs wait, and nothing will ever happen"


def test_a_configuration_has_as_many_tasks_as_it_says() -> None:
    """And its tasks are a gang, which may be spread."""
    there = on_servers(GROWS, servers=(3, 1))
    demand, tasks = task_demands(there)
    assert tasks.tolist() == [1, 2, 4]
    assert demand.tolist() == [[1], [1], [1]]
    assert planned(there, "optimus") == [("a", 0, 3, "4", {"s0": 3, "s1": 1})]


def test_who_finds_no_place_gets_less_and_others_what_is_left() -> None:
    """Tasks of two GPUs do not fit on servers of three as the pool would have it."""
    job = {"work": 12, "demand": {"gpu": 2}, "speeds": {1: 1.0, 2: 2.0, 3: 3.0}, "requested": 2}
    there = on_servers({"name": "a", **job}, servers=(3, 3))
    assert placeable_rows(there, task_demands(there)).tolist() == [True, True, False]
    # The third configuration, with six GPUs, is not on the menu.
    assert planned(there, "optimus") == [("a", 0, 6, "2", {"s0": 1, "s1": 1})]
    small = {"name": "b", "demand": {"gpu": 1}, "tasks": 2, "duration_s": 6}
    found = planned(on_servers({"name": "a", **job}, small, servers=(3, 3)), "optimus")
    assert {(name, start) for name, start, *_ in found} == {("a", 0), ("b", 0)}


def test_small_jobs_move_where_that_makes_room() -> None:
    """Gandiva: c fits in the two gaps together, and on a server only after b has moved."""
    jobs = [
        {"name": "x", "demand": {"gpu": 3}, "duration_s": 1},
        {"name": "a", "demand": {"gpu": 1}, "duration_s": 9},
        {"name": "y", "demand": {"gpu": 3}, "duration_s": 1},
        {"name": "b", "demand": {"gpu": 1}, "duration_s": 9},
        {"name": "c", "demand": {"gpu": 4}, "duration_s": 2, "arrival_s": 3},
    ]
    found = planned(on_servers(*jobs, servers=(4, 4)), "gandiva-timeslice")
    starts = {name: (start, servers) for name, start, _, _, servers in found}
    assert starts["c"][0] == 3
    assert sum(name in "ab" and start == 3 for name, start, *_ in found) == 1
    (server,) = starts["c"][1]
    assert server not in {**starts["a"][1], **starts["b"][1]}
    # Without it c waits for one of them to end.
    found = rows(on_servers(*jobs, servers=(4, 4)), "fifo")
    assert [start for name, start, *_ in found if name == "c"] == [9]


def test_jobs_are_slower_where_they_are_spread() -> None:
    """Twice as slow on two servers."""
    job = {**GROWS, "speed_by_servers": {1: 1, 2: 0.5}}
    assert planned(on_servers(job, servers=(2, 2)), "optimus") == [("a", 0, 6, "4", {"s0": 2, "s1": 2})]


def test_what_falls_takes_the_work_since_the_last_checkpoint() -> None:
    """Ten seconds of work were done, six are kept, and the other server has room."""
    events = [{"at_s": 10, "fails": ["s0"]}]
    job = {"name": "a", "demand": {"gpu": 2}, "duration_s": 20}
    there = on_servers(job, servers=(2, 2), events=events, checkpoint_s=6)
    for name in ("themis", "gandiva-timeslice", "max-min", "optimus", "srsf"):
        found = planned(there, name)
        assert [(start, end) for _, start, end, *_ in found] == [(0, 10), (10, 24)], name


ON_SERVERS = """
name: t
servers: [{name: a, count: 2, capacity: {gpu: 4, cpu: 8}}, {name: b, capacity: {gpu: 8, cpu: 5}}]
events:
- {at_s: 15, fails: [a-0]}
- {at_s: 25, server: b, change: {gpu: -4, cpu: -3}}
- {at_s: 45, returns: [a-0]}
- {at_s: 60, server: b, change: {gpu: 4, cpu: 3}}
"""
RULES: list[dict[str, Any]] = [
    {},
    {"preemption": "none", "evict": "restart"},
    {"preemption": "costs", "restart_s": 3, "lease_s": 7, "checkpoint_s": 5},
    {"checkpoint_s": 4},
    {"preemption": "none", "evict": "restart", "checkpoint_s": 3},
    {"lease_s": 11},
]


def random_servers(seed: int) -> SchedulingInstance:
    """Return rigid and malleable jobs on unlike servers, some of which fail, with rules of six sorts."""
    rng = np.random.default_rng(seed)
    jobs = [job.model_dump(exclude_none=True) for job in random_trace(seed).jobs]
    for k, job in enumerate(jobs):
        job |= {"tenant": f"t{k % 2}", "skew": float(rng.random())}
        if rng.random() < 0.6:
            job["speed_by_servers"] = {1: 1, 2: 0.8, 3: 0.5}
    document = {**yaml.safe_load(ON_SERVERS), "jobs": jobs, **RULES[seed % 6]}
    return SchedulingInstance.model_validate(document)


SHORT = {
    "gandiva-timeslice": {"round_s": 5},
    "themis": {"round_s": 8},
    "max-min": {"round_s": 6},
    "optimus": {"interval_s": 7, "reacts": True, "aim": "speeds"},
    "optimus-exact": {"interval_s": 9, "admission": "shortest"},
    "dl2": {"interval_s": 6},
}


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("name", SOLVERS)
def test_every_plan_of_every_policy_is_feasible(name: str, seed: int) -> None:
    """All jobs run, on servers; the check knows only the segments."""
    there = random_servers(seed)
    found = planned(there, name, placement=PLACEMENTS[seed % 2], **SHORT.get(name, {}))
    assert all(servers for *_, servers in found)
    assert len({job for job, *_ in found}) == len(there.jobs)


@pytest.mark.slow
@pytest.mark.parametrize("name", SOLVERS)
def test_every_plan_with_proven_places_is_feasible(name: str) -> None:
    """Which takes a solve at each moment at which jobs start."""
    for seed in range(2):
        planned(random_servers(seed), name, placement="exact", **SHORT.get(name, {}))


def test_jobs_are_on_as_few_servers_as_possible_together() -> None:
    """One after the other, the first would take the server that the second needs."""
    free = np.array([[4.0], [3.0]])
    places = place_jointly(free, np.array([[1.0], [1.0]]), [3, 4], None)
    assert places is not None
    assert [dict(zip(*map(np.ndarray.tolist, place), strict=True)) for place in places] == [{1: 3}, {0: 4}]


def test_there_may_be_no_places() -> None:
    """A task of three GPUs fits nowhere, and nothing is free."""
    assert place_jointly(np.array([[2.0], [2.0]]), np.array([[3.0]]), [1], None) is None
    assert place_jointly(np.zeros((2, 1)), np.array([[1.0]]), [1], None) is None
