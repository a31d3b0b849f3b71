"""Entries of documents whose jobs ask for GPUs alone."""

from __future__ import annotations

from clusterplan.instances.consolidation.instance import ConsolidationInstance
from clusterplan.instances.importers.gpu_jobs import gpu_job, gpu_servers


def test_they_make_an_instance() -> None:
    """A job is one task for each GPU; servers are one row."""
    instance = ConsolidationInstance.model_validate(
        {
            "name": "x",
            "servers": gpu_servers(3, 8),
            "jobs": [gpu_job("a", 4, "free"), gpu_job("b", 2, "from_skew", skew=0.5)],
        }
    )
    assert [server.capacity for server in instance.expanded_servers] == [{"gpu": 8.0}] * 3
    assert [(job.name, job.tasks, job.worth, job.skew) for job in instance.jobs] == [
        ("a", 4, 4.0, None),
        ("b", 2, 2.0, 0.5),
    ]
    assert gpu_servers(1, 4, "v100")[0]["gpu_model"] == "v100"
