"""The compact model, from where classes end."""

from __future__ import annotations

import pytest
from placements import job, placement, server

from clusterplan.formulations.consolidation.formulation import ConsolidationFormulation
from clusterplan.instances.common.errors import TooLargeError
from clusterplan.solvers.common.base import Clock
from clusterplan.solvers.common.result import SolveOptions
from clusterplan.solvers.consolidation import cp_sat


def test_settled_objectives_keep_their_values() -> None:
    """Two racks of two servers: a job of four tasks fits in one, with its value kept."""
    servers = [{**server(f"n{k}", gpu=2), "rack": f"r{k % 2}"} for k in range(4)]
    formulation = ConsolidationFormulation(placement(["value", "racks"], servers, [job("a", 4)]))
    start = formulation.parse_plan([{"job": "a", "servers": {"n0": 2, "n1": 2}}])
    outcome = cp_sat.solve(formulation, start, [4.0], SolveOptions(threads=1), Clock())
    assert outcome.plan is not None
    assert formulation.evaluate(outcome.plan) == (4.0, 0.0)


def test_too_many_servers_are_not_named() -> None:
    """The message says how many there are."""
    instance = placement(["racks"], [{**server(gpu=1), "count": 200_000}], [job("a"), job("b")])
    with pytest.raises(TooLargeError, match="2 groups of tasks on 200,000 servers"):
        cp_sat.solve(ConsolidationFormulation(instance), None, [], SolveOptions(), Clock())
