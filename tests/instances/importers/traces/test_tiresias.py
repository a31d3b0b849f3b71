"""Tiresias's jobs as a trace."""

from __future__ import annotations

from pathlib import Path

import pytest

from clusterplan.instances.common.errors import InstanceError
from clusterplan.instances.importers.traces.tiresias import import_tiresias_trace

CLUSTER = "num_switch,num_node_p_switch,num_gpu_p_node,num_cpu_p_node,mem_p_node\n2,3,4,64,256\n"


def test_jobs_come_when_they_were_submitted(tmp_path: Path) -> None:
    """On the servers of the cluster, whose switches are racks."""
    (tmp_path / "jobs.csv").write_text("job_id,num_gpu,submit_time,duration,model_name\n7,8,30,147,vgg11\n")
    (tmp_path / "cluster.csv").write_text(CLUSTER)
    found = import_tiresias_trace(tmp_path / "jobs.csv", tmp_path / "cluster.csv")
    (job,) = found.jobs
    assert (job.name, job.tasks, job.arrival_s, job.duration_s, job.model) == ("job-7", 8, 30, 147, "vgg11")
    assert found.pool == {"gpu": 24}
    assert [(server.count, server.rack) for server in found.servers] == [(3, "switch-0"), (3, "switch-1")]


def test_a_cluster_is_one_row(tmp_path: Path) -> None:
    """Of its own file."""
    (tmp_path / "cluster.csv").write_text(CLUSTER + "1,1,1,1,1\n")
    with pytest.raises(InstanceError, match="has 2 rows; a cluster is one row"):
        import_tiresias_trace(tmp_path / "jobs.csv", tmp_path / "cluster.csv")


def test_the_papers_own_jobs(shared_data: Path) -> None:
    """Sixty of them, on 128 GPUs."""
    folder = shared_data / "tiresias"
    found = import_tiresias_trace(folder / "60_job.csv", folder / "n32g4.csv")
    assert len(found.jobs) == 60
    assert found.pool == {"gpu": 128}
    assert found.table().total_demand.sum() == 170
