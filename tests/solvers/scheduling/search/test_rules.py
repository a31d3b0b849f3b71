"""Static rules hold SRSF, SRTF and SJF."""

from __future__ import annotations

import numpy as np

from clusterplan.instances.scheduling.generate import generate_scheduling
from clusterplan.solvers.scheduling.search.rules import static_rules
from clusterplan.solvers.scheduling.serve import Server, shortest, shortest_remaining, shortest_service


def test_the_policies_that_nothing_may_be_worse_than_are_among_them() -> None:
    """With and without costs of interruptions."""
    server = Server(generate_scheduling(50, 16, seed=1))
    for costs in (False, True):
        rules = list(static_rules(server, costs))
        for policy in (shortest_service(server), shortest_remaining(server), shortest(server)):
            assert any(
                rule[1:] == policy[1:] and np.allclose(rule.multiplier, policy.multiplier) for rule in rules
            )
