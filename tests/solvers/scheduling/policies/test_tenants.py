"""Queues of tenants: a job that does not fit blocks its own queue alone."""

from __future__ import annotations

from clusterplan.instances.scheduling.instance import SchedulingInstance
from clusterplan.solvers.scheduling.engine import Engine
from clusterplan.solvers.scheduling.policies.tenants import TenantQueues


def test_only_its_own_queue_is_blocked() -> None:
    """The second job of x would fit beside the first ones, and waits behind a wide one; y does not."""
    rows = [
        {"name": "x0", "tenant": "x", "tasks": 2, "demand": {"gpu": 1}, "duration_s": 9},
        {"name": "x1", "tenant": "x", "tasks": 4, "demand": {"gpu": 1}, "duration_s": 9},
        {"name": "x2", "tenant": "x", "demand": {"gpu": 1}, "duration_s": 9},
        {"name": "y0", "tenant": "y", "demand": {"gpu": 1}, "duration_s": 9},
        {"name": "free", "demand": {"gpu": 1}, "duration_s": 9},
    ]
    document = {"name": "t", "resources": {"gpu": 4}, "jobs": rows}
    found = Engine(SchedulingInstance.model_validate(document), TenantQueues(guaranteed=True)).run()
    starts = dict(zip(found.job.tolist(), found.start_s.tolist(), strict=True))
    assert starts == {0: 0, 1: 9, 2: 18, 3: 0, 4: 0}
