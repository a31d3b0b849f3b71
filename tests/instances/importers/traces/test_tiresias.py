"""The published workloads of Tiresias and of Pollux."""

from __future__ import annotations

import csv
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from muri import MuriPolicy
from sample_documents import said

from clusterplan.formulations.common.clock import Clock
from clusterplan.formulations.scheduling.formulation import SchedulingFormulation
from clusterplan.instances.common.errors import InstanceError
from clusterplan.instances.importers.traces.pollux import import_pollux_trace
from clusterplan.instances.importers.traces.tiresias import (
    import_muri,
    import_muri_mix,
    import_tiresias_trace,
)
from clusterplan.solvers.common.result import SolveOptions


def test_the_papers_own_jobs(shared_data: Path) -> None:
    """Sixty of them, on 128 GPUs."""
    folder = shared_data / "tiresias"
    found = import_tiresias_trace(folder / "60_job.csv", folder / "n32g4.csv")
    assert len(found.jobs) == 60
    assert found.pool == {"gpu": 128}
    assert found.table().total_demand.sum() == 170


HEADER = "job_id,num_gpu,submit_time,iterations,model_name,iteration_time"
MURI_CLUSTER = "num_switch,num_node_p_switch,num_gpu_p_node\n"
OURS = {"srtf": "srtf", "srsf": "srsf", "tiresias-l": "las"}
TRACES = ("trace1", "trace1_pr", "trace2", "trace2_pr")


def small(folder: Path, cluster: str = "1,2,4\n") -> Any:
    """Return what becomes of one job."""
    (folder / "t.csv").write_text(f"{HEADER}\n7,2,1500,100,dqn,500\n")
    (folder / "n.csv").write_text(MURI_CLUSTER + cluster)
    return import_muri(folder / "t.csv", folder / "n.csv")


def test_a_job_takes_its_iterations(tmp_path: Path) -> None:
    """Times are milliseconds there; servers are those of the cluster."""
    found = small(tmp_path)
    (job,) = found.jobs
    assert (job.name, job.arrival_s, job.tasks, job.model) == ("job-7", 1.5, 2, "dqn")
    assert job.duration_s == pytest.approx(100 * 0.5 * 1.015)
    assert found.pool == {"gpu": 8}


@pytest.mark.slow
@pytest.mark.parametrize("trace", TRACES)
def test_the_published_rows_come_out_to_the_printed_digit(shared_data: Path, trace: str) -> None:
    """Average, makespan and 99th percentile of SRTF, SRSF and Tiresias-L; every plan is feasible."""
    folder = shared_data / "muri"
    file = next(folder.glob(f"{trace}.csv*"))
    formulation = SchedulingFormulation(import_muri(file, folder / "n8g8.csv"))
    with (shared_data / "published" / "muri.csv").open(encoding="utf-8") as published:
        rows = [row for row in csv.DictReader(published) if row["trace"] == trace and row["policy"] in OURS]
    assert len(rows) == 3
    for row in rows:
        plan = MuriPolicy(OURS[row["policy"]]).solve(formulation, SolveOptions(), Clock()).plan
        assert plan is not None
        assert formulation.violations(plan) == []
        found = formulation.metrics(plan)
        for figure, printed in (
            (found.mean_s, row["average_jct_s"]),
            (found.makespan_s, row["makespan_s"]),
            (found.p99_s, row["p99_jct_s"]),
        ):
            digits = -int(Decimal(printed).as_tuple().exponent)
            assert round(figure, digits) == float(printed), (row["policy"], figure, printed)


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
    with pytest.raises(InstanceError, match=r"samples\.c: unknown application 'c'; the applications are: a"):
        import_pollux_trace(work, (app, app), 8, samples={"c": 1})
    work.write_text("name,time,application,num_replicas,batch_size\nb,0,b,1,8\n")
    with pytest.raises(InstanceError, match="has no job of a with measured numbers of GPUs"):
        import_pollux_trace(work, (app,), 8)


def test_a_real_workload(shared_data: Path) -> None:
    """Of 160 jobs those of four applications have measured step times."""
    folder = shared_data / "pollux"
    apps = tuple(folder / name for name in ("bert", "cifar10", "deepspeech2", "imagenet"))
    found = import_pollux_trace(folder / "workloads" / "workload-1.csv", apps, 64)
    assert len(found.jobs) == 89


PROFILES = f"{HEADER},batch_size,resource_time_0,resource_time_1,resource_time_2\n"


def test_muris_jobs_that_share_gpus(tmp_path: Path) -> None:
    """Types are models, batches and numbers of GPUs; groups are of as many GPUs, longer by the overhead."""
    rows = ("7,1,0,9,dqn,490,128,446,8,0", "8,1,0,9,dqn,490,128,446,8,0", "9,2,0,9,gpt2,430,4,0.6,410,10")
    (tmp_path / "t.csv").write_text(PROFILES + "\n".join(rows) + "\n")
    (tmp_path / "n.csv").write_text(f"{MURI_CLUSTER}1,2,4\n")
    found = import_muri_mix(tmp_path / "t.csv", tmp_path / "n.csv")
    assert [(one.name, one.count, one.devices) for one in found.types] == [
        ("dqn, batch 128, 1 GPU", 2, 1),
        ("gpt2, batch 4, 2 GPUs", 1, 2),
    ]
    assert found.types[0].names == ("job-7", "job-8")
    assert "A job counts 1 on however many GPUs" in said(found)
    (tmp_path / "t.csv").write_text(PROFILES + rows[0] + "\n")
    assert "A job counts 1" not in said(import_muri_mix(tmp_path / "t.csv", tmp_path / "n.csv"))
    assert found.hardware[0].limit == 8
    alone, wide, pair = found.configurations
    assert (alone.devices, wide.devices, pair.jobs) == (1, 2, {"dqn, batch 128, 1 GPU": 2})
    assert pair.progress["dqn, batch 128, 1 GPU"] == pytest.approx(
        490 * 1.015 / (462 * 1.33 / 1.015), rel=1e-5
    )


def test_muris_traces_share_gpus(shared_data: Path) -> None:
    """All 1,494 jobs, in groups of up to four."""
    folder = shared_data / "muri"
    found = import_muri_mix(folder / "trace1.csv", folder / "n8g8.csv")
    assert sum(one.count or 0 for one in found.types) == 1494
    assert max(sum(one.jobs.values()) for one in found.configurations) == 4
    two = import_muri_mix(folder / "trace1.csv", folder / "n8g8.csv", share_up_to=2)
    assert len(two.configurations) < len(found.configurations)
