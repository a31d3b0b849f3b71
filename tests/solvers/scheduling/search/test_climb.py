"""Local search keeps what it says that it keeps."""

from __future__ import annotations

from clusterplan.instances.scheduling.generate import generate_scheduling
from clusterplan.solvers.scheduling.search.climb import Climb
from clusterplan.solvers.scheduling.serve import Server, shortest_service


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
