"""Why a job can never run, by hand."""

from __future__ import annotations

from typing import Any

import pytest

import clusterplan
from clusterplan.formulations.allocation.explain import why_never
from clusterplan.instances.allocation.instance import AllocationInstance


def instance(speed: dict[str, Any] | None = None, gpus: float = 3, **job: Any) -> AllocationInstance:
    """Return one job that takes two GPUs for each of 2 to 4 workers, and 6/w seconds."""
    given = speed or {"model": "ring_allreduce", "theta": [1, 0, 0, 0], "batch": 6}
    variant = {"name": "v", "worker_demand": {"gpu": 2}, "speed": given}
    if speed is None:
        variant["workers"] = {"min": 2, "max": 4}
    made = clusterplan.parse_instance(
        {
            "schema_version": 1,
            "kind": "allocation",
            "name": "one",
            "resources": {"gpu": gpus},
            "jobs": [{"name": "j", "remaining_steps": 1, "variants": [variant], **job}],
        }
    )
    assert isinstance(made, AllocationInstance)
    return made


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        (instance(), "needs at least 4 gpu, 1 more than the 3 there are"),
        (instance(deadline_s=1), "takes at least 1.5 s; its deadline of 1 s is earlier"),
        (
            instance(gpus=4, deadline_s=1.5),
            "needs at least 8 gpu, 4 more than the 4 there are to keep its deadline of 1.5 s",
        ),
        (
            instance({"model": "table", "rows": [{"workers": 2, "steps_per_s": 1}]}),
            "needs at least 4 gpu, 1 more than the 3 there are",
        ),
    ],
)
def test_the_reason_is_what_is_short(made: AllocationInstance, reason: str) -> None:
    """For every variant of the job."""
    assert why_never(made, made.table(), 0) == [f"job 'j', variant 'v': {reason}"]
