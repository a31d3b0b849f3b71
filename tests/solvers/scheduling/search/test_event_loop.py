"""The compiled event loop, its state, and the simulator beside it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from malleable_instances import RULES, on_several_resources, random_trace, rigid_trace, rows_of

from clusterplan.instances.scheduling.generate import generate_scheduling
from clusterplan.solvers.scheduling.engine import Engine, EvictionError, PolicyError
from clusterplan.solvers.scheduling.policies.service_disciplines import (
    FirstCome,
    Shortest,
    ShortestRemaining,
    ShortestService,
)
from clusterplan.solvers.scheduling.policy_solvers import rule_of
from clusterplan.solvers.scheduling.search.event_loop import PriorityScheduler


def test_it_goes_on_from_a_moment_that_was_kept() -> None:
    """As often as one likes, with leases and restarts."""
    rules = {"preemption": "costs", "restart_s": 30, "lease_s": 120}
    there = generate_scheduling(200, 32, load=1.5, seed=4).replace(**rules)
    server, rule = PriorityScheduler(there), rule_of(there, ShortestRemaining())
    state = server.start
    expected = server.run(rule).end_s
    for until_s in np.linspace(0, expected.max(), 9):
        state = server.run(rule, state, float(until_s))
        assert state.now_s[0] < max(until_s, 1e-300)
        assert (server.run(rule, state).end_s == expected).all()
    assert not server.start.counts.any()


@pytest.mark.parametrize("rules", RULES, ids=["free", "none", "costs", "lease", "events"])
@pytest.mark.parametrize("policy", [FirstCome, Shortest, ShortestRemaining, ShortestService])
def test_a_rule_gives_the_segments_of_the_policy(policy: Any, rules: dict[str, Any]) -> None:
    """To the last bit, on one resource and on several, and where many keys are equal."""
    traces = [generate_scheduling(300, 32, load=1.5, seed=4).replace(**rules)]
    if "events" not in rules:
        equal = [random_trace(seed, 40, whole=True) for seed in range(5)]
        traces += [t.replace(**{"preemption": "free", **rules}) for t in (on_several_resources(), *equal)]
    for there in traces:
        server, rule = PriorityScheduler(there), rule_of(there, policy())
        schedule = server.schedule(rule)
        assert rows_of(schedule) == rows_of(Engine(there, policy()).run())
        ends = np.full(len(server.order), -np.inf)
        np.maximum.at(ends, schedule.job, schedule.end_s)
        assert (server.run(rule).end_s == ends[server.order]).all()


def test_jobs_that_wait_for_ever_and_those_that_lose_their_place_are_said() -> None:
    """With the moment."""
    shrinks: dict[str, Any] = {"events": [{"at_s": 5, "change": {"gpu": -1}}]}
    there = rigid_trace((0, 2, 9), (0, 2, 9), **shrinks)
    rule = rule_of(there, Shortest())
    with pytest.raises(PolicyError, match="2 jobs wait, and nothing will ever happen"):
        PriorityScheduler(there).schedule(rule._replace(preempts=True))
    with pytest.raises(EvictionError, match="lose their place at 5 s"):
        PriorityScheduler(there.replace(preemption="none")).run(rule)
