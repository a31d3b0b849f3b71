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
    (app / "scalability.csv").write_text("num_nodes,num_replicas,local_bsz,step_time\n6,6,10,1\n6,6,20,2\n")
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


def test_malleable_jobs_run_on_every_measured_number_of_gpus_that_has_its_share(tmp_path: Path) -> None:
    """Of 80 samples two GPUs get two parts of 20, six 13 and a third each; of 40 those get too few."""
    work, app = files(tmp_path)
    (job,) = import_pollux_trace(work, (app,), 8, steps=10, malleable=True).jobs
    assert (job.work, job.requested, dict(job.speeds or {})) == (10, "2", {2: 0.25, 6: pytest.approx(0.75)})
    (job,) = import_pollux_trace(work, (app,), 4, steps=10, malleable=True).jobs
    assert dict(job.speeds or {}) == {2: 0.25}
    work.write_text(work.read_text().replace("a,2,80", "a,2,40"))
    (job,) = import_pollux_trace(work, (app,), 8, malleable=True).jobs
    assert dict(job.speeds or {}) == {2: 0.5}


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
