"""The compiled event loop, its state, and the simulator beside it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from malleable_instances import RULES, rows_of

from clusterplan.instances.scheduling.generate import generate_scheduling
from clusterplan.instances.scheduling.instance import SchedulingInstance
from clusterplan.solvers.scheduling.engine import Engine, EvictionError, PolicyError
from clusterplan.solvers.scheduling.policies.service_disciplines import (
    FirstCome,
    Shortest,
    ShortestRemaining,
    ShortestService,
)
from clusterplan.solvers.scheduling.search.event_loop import ARRIVED, COUNTS, pop, push
from clusterplan.solvers.scheduling.search.simulator import (
    PriorityScheduler,
    copy_of_state,
)


def test_jobs_leave_a_heap_by_key_then_number() -> None:
    """In a part of a longer list, whatever comes in between."""
    rng = np.random.default_rng(1)
    keys = rng.integers(0, 5, 50).astype(float)
    waiting, held = np.full(60, -1), list[int]()
    for j in rng.permutation(50).tolist():
        push(waiting, 7, len(held), keys, j)
        held.append(j)
        if rng.random() < 0.4:
            first = min(held, key=lambda j: (keys[j], j))
            assert waiting[7] == first
            pop(waiting, 7, len(held), keys)
            held.remove(first)
    assert (waiting[:7] == -1).all()


def test_nothing_has_happened_at_the_start() -> None:
    """And every count has its place."""
    server = PriorityScheduler(generate_scheduling(20, 16, seed=1))
    state = server.simulator.start()
    assert state.counts.tolist() == [0] * COUNTS
    assert ARRIVED < COUNTS
    assert state.left_s.tolist() == server.trace.duration_s.tolist()


def test_it_goes_on_from_a_moment_that_was_kept() -> None:
    """As often as one likes, with leases and restarts."""
    rules = {"preemption": "costs", "restart_s": 30, "lease_s": 120}
    server = PriorityScheduler(generate_scheduling(200, 32, load=1.5, seed=4).replace(**rules))
    simulator, rule = server.simulator, ShortestRemaining.rule(server)
    expected = simulator.ends_s(rule)
    state = simulator.start()
    for until_s in np.linspace(0, expected.max(), 9):
        simulator.advance_to(rule, state, float(until_s))
        assert state.now_s[0] < max(until_s, 1e-300)
        assert (simulator.ends_s(rule, copy_of_state(state)) == expected).all()


POLICIES = {
    "fifo": FirstCome,
    "sjf": Shortest,
    "srtf": ShortestRemaining,
    "srsf": ShortestService,
}


def of_several_resources(seed: int) -> SchedulingInstance:
    """Return jobs of unlike shapes on GPUs and CPUs."""
    rng = np.random.default_rng(seed)
    rows = [
        {
            "name": f"j{k}",
            "arrival_s": float(rng.integers(0, 50)),
            "demand": {"gpu": int(rng.integers(0, 4)), "cpu": round(float(rng.uniform(0.1, 8)), 3)},
            "tasks": int(rng.integers(1, 3)),
            "duration_s": float(rng.integers(1, 30)),
        }
        for k in range(60)
    ]
    document = {"name": "t", "resources": {"gpu": 6, "cpu": 16.5}, "jobs": rows}
    return SchedulingInstance.model_validate(document)


@pytest.mark.parametrize("rules", RULES, ids=["free", "none", "costs", "lease", "events"])
@pytest.mark.parametrize("name", POLICIES)
def test_a_rule_gives_the_segments_of_the_policy(name: str, rules: dict[str, Any]) -> None:
    """To the last bit, on one resource and on several."""
    policy = POLICIES[name]
    events = "events" in rules
    for there in (
        generate_scheduling(300, 32, load=1.5, seed=4).replace(**rules),
        *(() if events else [of_several_resources(seed).replace(**rules) for seed in range(5)]),
    ):
        server = PriorityScheduler(there)
        assert rows_of(server.schedule(policy.rule(server))) == rows_of(Engine(there, policy()).run())


def test_ends_are_those_of_the_schedule() -> None:
    """In the order of arrival."""
    server = PriorityScheduler(generate_scheduling(200, 16, load=1.2, seed=1))
    schedule = server.schedule(ShortestService.rule(server))
    ends = np.full(200, -np.inf)
    np.maximum.at(ends, schedule.job, schedule.end_s)
    assert (server.simulator.ends_s(ShortestService.rule(server)) == ends[server.order]).all()


def two_jobs(**others: Any) -> SchedulingInstance:
    """Return two jobs that each want both GPUs."""
    rows = [{"name": n, "demand": {"gpu": 2}, "duration_s": 9} for n in "ab"]
    document = {"name": "t", "resources": {"gpu": 2}, "jobs": rows, **others}
    return SchedulingInstance.model_validate(document)


def test_jobs_that_wait_for_ever_and_those_that_lose_their_place_are_said() -> None:
    """With the moment."""
    server = PriorityScheduler(two_jobs(events=[{"at_s": 5, "change": {"gpu": -1}}]))
    with pytest.raises(PolicyError, match="2 jobs wait, and nothing will ever happen"):
        server.schedule(Shortest.rule(server)._replace(preempts=True))
    server = PriorityScheduler(two_jobs(preemption="none", events=[{"at_s": 5, "change": {"gpu": -1}}]))
    with pytest.raises(EvictionError, match="lose their place at 5 s"):
        server.simulator.ends_s(Shortest.rule(server))
