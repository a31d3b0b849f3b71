"""Configurations on servers: schedules by hand, and random ones of every policy, which pass the check."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import clusterplan.solvers.run  # noqa: F401  which says how documents are solved
from clusterplan.formulations.common.clock import Clock
from clusterplan.formulations.scheduling.formulation import SchedulingFormulation
from clusterplan.instances.scheduling.instance import SchedulingInstance
from clusterplan.solvers.common.options import SolveOptions
from clusterplan.solvers.registry import solvers_for
from clusterplan.solvers.scheduling.methods import PolicySolver
from clusterplan.solvers.scheduling.placement.places import RULES
from clusterplan.solvers.scheduling.placement.row_places import gangs_of, placeable

BY_NAME = {
    solver.name: solver
    for solver in solvers_for("scheduling", available=True)
    if isinstance(solver, PolicySolver)
}
BUDGETS: dict[str, dict[str, Any]] = {"dl2": {"traces": 1, "passes": 1, "episodes": 0}}
GROWS = {"name": "a", "work": 12, "demand": {"gpu": 1}, "speeds": {1: 2.0, 2: 3.0, 4: 4.0}}


@pytest.fixture(autouse=True)
def little(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the traces on which dl2 learns small."""
    if "dl2" in BY_NAME:
        from clusterplan.solvers.scheduling.dl2 import training

        monkeypatch.setattr(training, "JOBS", 4)
        monkeypatch.setattr(training, "VALIDATION", training.VALIDATION[:1])


def planned(there: SchedulingInstance, name: str, **settings: Any) -> list[tuple[Any, ...]] | None:
    """Return the segments of a policy's plan, which must be feasible."""
    formulation = SchedulingFormulation(there)
    options = SolveOptions(method_options={**BUDGETS.get(name, {}), **settings})
    outcome = BY_NAME[name].solve(formulation, options, Clock())
    if outcome.plan is None:
        assert "nothing will ever happen" in (outcome.message or "")
        return None
    assert formulation.violations(outcome.plan) == []
    return [(s.job, s.start_s, s.end_s, s.configuration, s.servers) for s in formulation.finish(outcome.plan)]


def on_servers(*jobs: dict[str, Any], servers: tuple[float, ...], **more: Any) -> SchedulingInstance:
    """Return jobs on servers s0, s1, … with so many GPUs."""
    there = [{"name": f"s{k}", "capacity": {"gpu": gpus}} for k, gpus in enumerate(servers)]
    return SchedulingInstance.model_validate({"name": "t", "servers": there, "jobs": list(jobs), **more})


def test_a_configuration_has_as_many_tasks_as_it_says() -> None:
    """And its tasks are a gang, which may be spread."""
    there = on_servers(GROWS, servers=(3, 1))
    demand, tasks = gangs_of(there)
    assert tasks.tolist() == [1, 2, 4]
    assert demand.tolist() == [[1], [1], [1]]
    assert planned(there, "optimus") == [("a", 0, 3, "4", {"s0": 3, "s1": 1})]


def test_who_finds_no_place_gets_less_and_others_what_is_left() -> None:
    """Tasks of two GPUs do not fit on servers of three as the pool would have it."""
    job = {"work": 12, "demand": {"gpu": 2}, "speeds": {1: 1.0, 2: 2.0, 3: 3.0}, "requested": 2}
    there = on_servers({"name": "a", **job}, servers=(3, 3))
    assert placeable(there, gangs_of(there)).tolist() == [True, True, False]
    # The third configuration, with six GPUs, is not on the menu.
    assert planned(there, "optimus") == [("a", 0, 6, "2", {"s0": 1, "s1": 1})]
    small = {"name": "b", "demand": {"gpu": 1}, "tasks": 2, "duration_s": 6}
    found = planned(on_servers({"name": "a", **job}, small, servers=(3, 3)), "optimus")
    assert found is not None
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
    assert found is not None
    starts = {name: (start, servers) for name, start, _, _, servers in found}
    assert starts["c"][0] == 3
    assert sum(name in "ab" and start == 3 for name, start, *_ in found) == 1
    (server,) = starts["c"][1]
    assert server not in {**starts["a"][1], **starts["b"][1]}
    # Without it c waits for one of them to end.
    assert [
        start for name, start, *_ in planned(on_servers(*jobs, servers=(4, 4)), "fifo") or [] if name == "c"
    ] == [9]


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
        assert found is not None
        assert [(start, end) for _, start, end, *_ in found] == [(0, 10), (10, 24)], name


def random_servers(seed: int) -> SchedulingInstance:
    """Return rigid and malleable jobs on unlike servers, some of which fail, with rules of six sorts."""
    rng = np.random.default_rng(seed)
    worker, ring = (
        {"gpu": 1.0, "cpu": 0.5},
        {"model": "ring_allreduce", "theta": [0.1, 0.05, 0.01, 0.01], "batch": 4},
    )
    jobs: list[dict[str, Any]] = []
    for k in range(12):
        job: dict[str, Any] = {
            "name": f"j{k}",
            "arrival_s": float(rng.integers(0, 40)),
            "tenant": f"t{k % 2}",
        }
        if rng.random() < 0.6:
            job["speed_by_servers"] = {1: 1, 2: 0.8, 3: 0.5}
        demand = {"gpu": int(rng.integers(1, 3)), "cpu": float(rng.choice([0.3, 1, 1.7]))}
        sort = rng.random()
        if sort < 0.3:
            job |= {
                "tasks": int(rng.integers(1, 4)),
                "demand": demand,
                "duration_s": float(rng.integers(1, 30)),
            }
        elif sort < 0.7:
            counts = rng.choice([1, 2, 3, 4], size=int(rng.integers(1, 4)), replace=False).tolist()
            speeds = {count: round(count**0.7, 3) for count in counts}
            job |= {"demand": demand, "work": float(rng.integers(1, 40)), "speeds": speeds}
        else:
            variant = {"name": "v", "worker_demand": worker, "workers": {"max": 6}, "speed": ring}
            job |= {"work": float(rng.integers(10, 200)), "variants": [variant], "requested": "v:2"}
        jobs.append(job)
    servers = [
        {"name": "a", "count": 2, "capacity": {"gpu": 4, "cpu": 8}},
        {"name": "b", "capacity": {"gpu": 8, "cpu": 5}},
    ]
    events = [
        {"at_s": 15, "fails": ["a-0"]},
        {"at_s": 25, "server": "b", "change": {"gpu": -4, "cpu": -3}},
        {"at_s": 45, "returns": ["a-0"]},
        {"at_s": 60, "server": "b", "change": {"gpu": 4, "cpu": 3}},
    ]
    rules: list[dict[str, Any]] = [
        {},
        {"preemption": "none", "evict": "restart"},
        {"preemption": "costs", "restart_s": 3, "lease_s": 7, "checkpoint_s": 5},
        {"checkpoint_s": 4},
        {"preemption": "none", "evict": "restart", "checkpoint_s": 3},
        {"lease_s": 11},
    ]
    document = {"name": "t", "servers": servers, "jobs": jobs, "events": events, **rules[seed % 6]}
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
@pytest.mark.parametrize("name", BY_NAME)
def test_every_plan_of_every_policy_is_feasible(name: str, seed: int) -> None:
    """All jobs run, on servers; the check knows only the segments."""
    found = planned(random_servers(seed), name, placement=RULES[seed % 2], **SHORT.get(name, {}))
    assert found is not None
    assert all(servers for *_, servers in found)
    assert len({job for job, *_ in found}) == 12


@pytest.mark.slow
@pytest.mark.parametrize("name", BY_NAME)
def test_every_plan_with_proven_places_is_feasible(name: str) -> None:
    """Which takes a solve at each moment at which jobs start."""
    for seed in range(2):
        assert planned(random_servers(seed), name, placement="exact", **SHORT.get(name, {})) is not None
