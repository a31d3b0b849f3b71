"""openb's pods as a trace."""

from __future__ import annotations

from pathlib import Path

import pytest

from clusterplan.instances.common.errors import InstanceError
from clusterplan.instances.importers.traces.openb import import_openb_trace

NODES = "sn,cpu_milli,memory_mib,gpu,model\nn,8000,1000,4,T4\n"
PODS = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,creation_time,scheduled_time,deletion_time\n"


def files(folder: Path, *pods: str) -> tuple[Path, Path]:
    """Write one server, and pods."""
    (folder / "nodes.csv").write_text(NODES)
    (folder / "pods.csv").write_text(PODS + "".join(f"{pod}\n" for pod in pods))
    return folder / "nodes.csv", folder / "pods.csv"


def test_pods_run_from_being_scheduled_to_their_deletion(tmp_path: Path) -> None:
    """Shares of a GPU are amounts; pods that did not run, or never fit, are left out."""
    pods = ("a,500,10,1,250,100,110,150", "b,1,1,2,1000,90,90,90", "c,1,1,1,1000,5,,", "d,1,1,9,1000,5,6,7")
    found = import_openb_trace(*files(tmp_path, *pods))
    first, second = found.jobs
    assert (first.name, first.arrival_s, first.duration_s) == ("a", 10, 40)
    assert first.demand == {"gpu": 0.25, "cpu": 0.5, "memory_mib": 10}
    assert (second.arrival_s, second.duration_s) == (0, 1)
    said = " ".join(found.assumptions)
    assert "1 pods that did not run" in said
    assert "1 pods that ask for more" in said
    assert "1 durations under 1 s" in said


def test_the_cluster_may_be_smaller(tmp_path: Path) -> None:
    """In proportion."""
    found = import_openb_trace(*files(tmp_path, "a,500,10,1,250,100,110,150"), gpus=2)
    assert found.pool == {"gpu": 2, "cpu": 4, "memory_mib": 500}


def test_lists_without_times_are_refused(tmp_path: Path) -> None:
    """With what is missing."""
    with pytest.raises(InstanceError, match="has no pod that ran, ended and fits"):
        import_openb_trace(*files(tmp_path, "c,1,1,1,1000,5,,"))
