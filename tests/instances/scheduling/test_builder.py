"""The builder of a scheduling instance."""

from __future__ import annotations

import pandas as pd
import pytest

import clusterplan
from clusterplan.instances.documents import parse_instance
from clusterplan.instances.scheduling.builder import Scheduling


def test_a_scheduling_is_that_of_its_document() -> None:
    job = {"name": "b", "demand": {"gpu": 1}, "work": 10, "speeds": {1: 1.0, 2: 1.5}, "arrival_s": 5}
    document = {
        "schema_version": 1,
        "kind": "scheduling",
        "name": "s",
        "resources": {"gpu": 2},
        "preemption": "costs",
        "restart_s": 3,
        "events": [{"at_s": 9, "change": {"gpu": -1}}],
        "jobs": [{"name": "a", "demand": {"gpu": 1}, "duration_s": 4, "tasks": 2}, job],
    }
    builder = Scheduling("s", gpu=2, preemption="costs", restart_s=3)
    builder.add_event(9, change={"gpu": -1}).add_job("a", {"gpu": 1}, 4, tasks=2)
    assert builder.add_jobs([job]).build().sha256() == parse_instance(document).sha256()
    on_servers = Scheduling().add_server("n", {"gpu": 8}, count=2)
    frame = pd.DataFrame({"name": ["x", "y"], "demand.gpu": [8, 16], "duration_s": [60.0, 30.0]})
    with pytest.raises(clusterplan.InstanceError, match="all servers together hold"):
        on_servers.add_jobs(frame).build()
    fits = Scheduling().add_server("n", {"gpu": 8}, count=2).add_jobs(frame.iloc[:1])
    assert clusterplan.solve(fits, "fifo").objective == 60
