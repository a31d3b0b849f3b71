"""What importers of traces share: jobs that ask for GPUs for some time, as a scheduling instance."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..common.faults import validated
from ..scheduling.instance import SchedulingInstance

ASSUMED = (
    "A job is one task for each GPU that it asks for; all of them run at the same time.",
    "CPU and memory of a task are not in the source and not asked for.",
    "A job may be stopped and goes on later without loss: preemption is free.",
)


def gpu_row(name: str, arrival_s: float, gpus: int, duration_s: float, **others: Any) -> dict[str, Any]:
    """Return a job with one task for each GPU."""
    row = {
        "name": name,
        "arrival_s": arrival_s,
        "tasks": gpus,
        "demand": {"gpu": 1},
        "duration_s": duration_s,
    }
    return {**row, **others}


def gpu_trace(
    name: str,
    source: str,
    cluster: Mapping[str, Any],
    jobs: Sequence[dict[str, Any]],
    assumptions: Iterable[str],
    file: str,
) -> SchedulingInstance:
    """Return the instance of jobs on a cluster, which is its resources or its servers.

    Raises
    ------
    InstanceError
        If anything is wrong with them; `file` is where that is.
    """
    document = {
        "name": name,
        "source": source,
        "assumptions": [*assumptions, *ASSUMED],
        **cluster,
        "jobs": jobs,
    }
    return validated(SchedulingInstance, document, file)
