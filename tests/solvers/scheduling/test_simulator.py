"""A simulation that stops in the middle ends as one that does not."""

from __future__ import annotations

import numpy as np

from clusterplan.instances.scheduling.generate import generate_scheduling
from clusterplan.solvers.scheduling.serve import Server, shortest_remaining
from clusterplan.solvers.scheduling.simulator import copied


def test_it_goes_on_from_a_moment_that_was_kept() -> None:
    """As often as one likes, with leases and restarts."""
    rules = {"preemption": "costs", "restart_s": 30, "lease_s": 120}
    server = Server(generate_scheduling(200, 32, load=1.5, seed=4).replace(**rules))
    simulator, rule = server.simulator, shortest_remaining(server)
    expected = simulator.ends_s(rule)
    state = simulator.start()
    for until_s in np.linspace(0, expected.max(), 9):
        simulator.advance_to(rule, state, float(until_s))
        assert state.now_s[0] < max(until_s, 1e-300)
        assert (simulator.ends_s(rule, copied(state)) == expected).all()
