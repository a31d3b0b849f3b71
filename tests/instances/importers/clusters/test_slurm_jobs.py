"""Slurm's jobs as jobs of identical tasks."""

from __future__ import annotations

from typing import Any

import pytest

from clusterplan.instances.importers.clusters.slurm_jobs import JobRecord, jobs_of


def gpus(**more: Any) -> float:
    """Return the GPUs of the only job of a record in the layout of Slurm 21.08, over all its tasks."""
    document = {
        "job_id": 1,
        "job_state": "PENDING",
        "state_reason": "Resources",
        "node_count": 2,
        "tasks": 4,
        "nodes": None,
        "array_job_id": 0,
        "array_task_id": None,
        "gres_detail": [],
        "tres_req_str": "cpu=8,mem=16G,node=2,billing=8",
    }
    (job,) = jobs_of(JobRecord.model_validate(document | more))
    return job.gpus * job.tasks


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({}, 0),
        ({"tres_req_str": "node=2,gres/gpu=6", "tres_per_node": "gres:gpu:1"}, 6),
        ({"tres_per_node": "gres:gpu:a100:2"}, 4),
        ({"tres_per_job": "gres:gpu:6"}, 6),
        ({"tres_per_task": "gres:gpu:1"}, 4),
        ({"tres_per_socket": "gres:gpu:1", "sockets_per_node": 2}, 4),
        ({"tres_per_socket": "gres:gpu:1", "sockets_per_node": None}, 2),
        # A job that runs holds what the detail says of each of its nodes.
        ({"job_state": "RUNNING", "nodes": "n[1-2]", "gres_detail": ["gpu:a100:4(IDX:0-3)", "gpu:1"]}, 5),
        ({"job_state": "RUNNING", "nodes": "n[1-2]", "tres_per_node": "gpu:2"}, 4),
    ],
)
def test_gpus_that_slurm_does_not_track(asked: dict[str, Any], expected: float) -> None:
    """Where the trackable resources list no GPUs, the options of the job say how many it asks for."""
    assert gpus(**asked) == expected
