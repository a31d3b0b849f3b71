"""Pollux's workloads as traces."""

from __future__ import annotations

from pathlib import Path

import pytest

from clusterplan.instances.common.errors import InstanceError
from clusterplan.instances.importers.traces.pollux import import_pollux_trace


def files(folder: Path) -> tuple[Path, Path]:
    """Write a workload of two jobs, and the step times of one application."""
    work = folder / "workload-1.csv"
    rows = ["name,time,application,num_replicas,batch_size", "a-0,107,a,2,80", "b-1,110,b,1,8"]
    work.write_text("\n".join(rows) + "\n")
    app = folder / "a"
    app.mkdir()
    (app / "placements.csv").write_text("placement,local_bsz,step_time\n2,10,1.0\n11,20,2.0\n")
    (app / "scalability.csv").write_text("num_nodes,num_replicas,local_bsz,step_time\n6,6,10,1\n")
    return work, app


def test_a_share_beyond_what_was_measured_is_made_in_parts(tmp_path: Path) -> None:
    """80 samples on two GPUs are 40 each, two parts of 20, which take 2 s each."""
    work, app = files(tmp_path)
    found = import_pollux_trace(work, (app,), 8, steps=10)
    (job,) = found.jobs
    assert (job.name, job.tasks, job.arrival_s, job.duration_s) == ("a-0", 2, 107, 40)
    assert any("1 of 2 jobs are left out" in line for line in found.assumptions)
    (job,) = import_pollux_trace(work, (app,), 8, samples={"a": 160}).jobs
    assert job.duration_s == 8


def test_applications_are_known(tmp_path: Path) -> None:
    """Those of `samples`, and one at least of the workload."""
    work, app = files(tmp_path)
    with pytest.raises(InstanceError, match=r"samples\.c: unknown application; allowed: a"):
        import_pollux_trace(work, (app,), 8, samples={"c": 1})
    work.write_text("name,time,application,num_replicas,batch_size\nb,0,b,1,8\n")
    with pytest.raises(InstanceError, match="has no job of a with measured numbers of GPUs"):
        import_pollux_trace(work, (app,), 8)


def test_a_real_workload(shared_data: Path) -> None:
    """Of 160 jobs those of four applications have measured step times."""
    folder = shared_data / "pollux"
    apps = tuple(folder / name for name in ("bert", "cifar10", "deepspeech2", "imagenet"))
    found = import_pollux_trace(folder / "workloads" / "workload-1.csv", apps, 64)
    assert len(found.jobs) == 89
