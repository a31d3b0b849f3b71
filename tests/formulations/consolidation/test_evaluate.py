"""Each objective by itself."""

from __future__ import annotations

import pytest
from placements import job, placement, server

from clusterplan.formulations.consolidation.cluster_data import OBJECTIVES, ClusterData
from clusterplan.formulations.consolidation.evaluate import VALUE_OF
from clusterplan.formulations.consolidation.plan import JobPlacement

DATA = ClusterData(
    placement(
        list(OBJECTIVES),
        [
            {**server("a", gpu=2), "rack": "r", "traffic_gbit_per_s": 1},
            {**server("b", gpu=2), "rack": "r"},
            server("c", gpu=2),
        ],
        [
            job(
                "j",
                3,
                value=4,
                spread="preferred",
                traffic_gbit_per_s=0.5,
                current={"a": 1, "c": 1},
                speed_by_servers={1: 1, 2: 0.75},
            ),
            job("out", value=9),
        ],
    )
)
PLAN = [JobPlacement(job="j", servers={"a": 2, "c": 1}), JobPlacement(job="out", placed=False)]
EXPECTED = {
    "value": 4.0,
    "spread": 0.0,
    "servers": 2.0,
    "racks": 1.0,
    "migrations": 0.0,
    "slowdown": 1.0,
    "traffic": 2.0,
}


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_an_objective_by_hand(objective: str) -> None:
    """Two servers in two racks, nothing moved, a quarter of the speed lost."""
    assert VALUE_OF[objective](DATA, PLAN) == EXPECTED[objective]


def test_gains_and_losses_cancel_exactly() -> None:
    """A tenth won and a tenth lost are nothing."""
    jobs = [job("a", speed_by_servers={1: 1.1}), job("b", speed_by_servers={1: 0.9})]
    data = ClusterData(placement(["slowdown"], [server(gpu=2)], jobs))
    plan = [JobPlacement(job=name, servers={"n": 1}) for name in "ab"]
    assert VALUE_OF["slowdown"](data, plan) == 0.0
