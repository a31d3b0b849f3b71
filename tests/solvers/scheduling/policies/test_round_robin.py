"""Rounds: who ran goes behind who waits, and nobody is stopped within one."""

from __future__ import annotations

from clusterplan.instances.scheduling.instance import SchedulingInstance
from clusterplan.solvers.scheduling.engine import Engine
from clusterplan.solvers.scheduling.policies.round_robin import RoundRobin


def test_a_job_that_comes_within_a_round_waits_for_its_end() -> None:
    """The second comes at 2 s, and runs from 10 s on."""
    rows = [
        {"name": "a", "demand": {"gpu": 1}, "duration_s": 15},
        {"name": "b", "arrival_s": 2, "demand": {"gpu": 1}, "duration_s": 3},
    ]
    document = {"name": "t", "resources": {"gpu": 1}, "jobs": rows}
    found = Engine(SchedulingInstance.model_validate(document), RoundRobin(10.0)).run()
    segments = sorted(zip(found.job.tolist(), found.start_s.tolist(), found.end_s.tolist(), strict=True))
    assert segments == [(0, 0, 10), (0, 13, 18), (1, 10, 13)]
