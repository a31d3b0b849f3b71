"""Local search keeps what it says that it keeps.

A trace without its calm jobs has the same schedules.
"""

from __future__ import annotations

import numpy as np

from clusterplan.instances.scheduling.generate import generate_scheduling
from clusterplan.solvers.scheduling.search.local_search import (
    Climb,
    calm_jobs,
    may_be_reserved,
    with_reserved,
)
from clusterplan.solvers.scheduling.search.simulator import Server, Simulator, shortest_service


def test_the_best_multipliers_have_the_best_cost() -> None:
    """Also after worse ones have been accepted, and though trials begin in the middle of the trace."""
    server = Server(generate_scheduling(150, 16, load=1.5, seed=1))
    rule = shortest_service(server)
    climb = Climb(server.simulator, rule, lambda ends_s: float(ends_s.sum()), seed=1)
    start = climb.cost
    accepted = [climb.try_one(temperature=start / 1000) for _ in range(200)]
    assert 0 < sum(accepted) < 200
    assert climb.best_cost < start
    assert server.simulator.ends_s(rule._replace(multiplier=climb.best)).sum() == climb.best_cost
    assert server.simulator.ends_s(climb.rule).sum() == climb.cost


def test_other_jobs_end_when_they_would_beside_reserved_ones() -> None:
    """If reserved ones have the least keys, and with an event of the cluster."""
    events = [{"at_s": 20_000, "change": {"gpu": -4}}, {"at_s": 60_000, "change": {"gpu": 4}}]
    for seed in range(5):
        there = generate_scheduling(300, 64, load=0.9, seed=seed).replace(events=events)
        server = Server(there)
        rule = shortest_service(server)
        trace = server.trace
        ends_s = server.simulator.ends_s(rule)
        reserved = calm_jobs(trace, ends_s, trace.duration_s * server.width)
        assert reserved.any()
        assert (ends_s[reserved] == (trace.arrival_s + trace.duration_s)[reserved]).all()
        first = rule._replace(multiplier=np.where(reserved, 0.0, rule.multiplier))
        smaller = Simulator(with_reserved(trace, reserved))
        found = smaller.ends_s(rule._replace(multiplier=rule.multiplier[~reserved]))
        np.testing.assert_allclose(found, server.simulator.ends_s(first)[~reserved], rtol=1e-12)


def test_nobody_is_reserved_where_jobs_may_not_be_stopped_at_once() -> None:
    """Nor is anybody calm where nobody is late."""
    there = generate_scheduling(20, 64, load=0.1, seed=0)
    server = Server(there)
    assert may_be_reserved(server.trace)
    assert not may_be_reserved(Server(there.replace(preemption="none")).trace)
    assert not may_be_reserved(Server(there.replace(lease_s=5)).trace)
    ends_s = server.trace.arrival_s + server.trace.duration_s
    assert not calm_jobs(server.trace, ends_s, server.width).any()
