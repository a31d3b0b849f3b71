"""States of the event loop are as long as they have to be."""

from __future__ import annotations

from clusterplan.instances.scheduling.generate import generate_scheduling
from clusterplan.solvers.scheduling.search.event_loop import ARRIVED, COUNTS
from clusterplan.solvers.scheduling.search.simulator import Server


def test_nothing_has_happened_at_the_start() -> None:
    """And every count has its place."""
    server = Server(generate_scheduling(20, 16, seed=1))
    state = server.simulator.start()
    assert state.counts.tolist() == [0] * COUNTS
    assert ARRIVED < COUNTS
    assert state.left_s.tolist() == server.trace.duration_s.tolist()
