"""Jobs of an allocation, built one by one."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from pydantic import TypeAdapter
from sample_documents import ALLOCATION

import clusterplan
from clusterplan.instances.allocation.instance import AllocationInstance
from clusterplan.instances.allocation.job import (
    MeasuredSpeed,
    SpeedModel,
    is_throughput,
    job_rules,
    or_measured_loss,
    with_fits,
    with_throughput,
)
from clusterplan.instances.allocation.kind import Allocation
from clusterplan.instances.common.errors import InstanceError
from clusterplan.instances.common.speed import broken
from clusterplan.instances.documents import load, parse_instance, save
from clusterplan.instances.references import Folder
from clusterplan.planner.api import solve

FLAGS = (False, True)


def test_columns_break_the_rules_that_single_jobs_break() -> None:
    """A job is optional if and only if it has a time; a current variant is one of its own."""
    cases = list(itertools.product(FLAGS, repeat=4))
    expected = [optional != unplaced or (runs and not known) for optional, unplaced, runs, known in cases]
    assert [any(flag for _, flag, _ in job_rules(*case)) for case in cases] == expected
    assert broken(job_rules(*np.array(cases).T)).tolist() == expected


def test_the_schema_allows_measurements_in_place_of_coefficients() -> None:
    """They are fitted before the document is validated."""
    schema = TypeAdapter[Any](SpeedModel).json_schema()
    assert schema["anyOf"][1]["title"] == MeasuredSpeed.__name__
    assert MeasuredSpeed(measurements="speeds.csv").model == "auto"


def document(speed: dict[str, Any], **job: Any) -> dict[str, Any]:
    """Return a document with one job."""
    variant = {"name": "v", "worker_demand": {"gpu": 1}, "workers": {"max": 8}, "speed": speed}
    return {"jobs": [{"name": "j", "remaining_steps": 5, "variants": [variant], **job}]}


def write_speeds(folder: Path) -> None:
    """Write speeds of a job whose step takes (8/w + 1) / 10 seconds."""
    rows = [f"{w},{1 / (0.1 * (8 / w + 1))}" for w in (1, 2, 3, 4, 6, 8)]
    (folder / "s.csv").write_text("workers,steps_per_s\n" + "\n".join(rows) + "\n")


def test_a_speed_is_fitted(tmp_path: Path) -> None:
    """The coefficients give the measured times again, and an assumption names the file."""
    write_speeds(tmp_path)
    asked = {"model": "ring_allreduce", "batch": 8, "measurements": "s.csv", "allow_rank_deficient": True}
    given = document(asked)
    found = with_fits(given, "doc", Folder(tmp_path))
    speed = found["jobs"][0]["variants"][0]["speed"]
    t0, t1, t2, t3 = speed["theta"]
    for workers in (1, 4, 8):
        step_s = t0 * 8 / workers + t1 + t2 * (workers - 1) / workers + t3 * (workers - 1)
        assert step_s == pytest.approx(0.1 * (8 / workers + 1), rel=1e-3)
    assert "s.csv" in found["assumptions"][0]
    assert given == document(asked)


def test_what_contradicts_is_refused(tmp_path: Path) -> None:
    """Figures beside measurements, and files outside the folder."""
    write_speeds(tmp_path)
    for given, words in (
        (document({"measurements": "s.csv", "theta": [1]}), "both theta and measurements"),
        (document({"theta": [1]}, loss={"measurements": "l.csv"}), "stands beside remaining_steps"),
        (document({"measurements": "../s.csv"}), "lies outside the folder"),
    ):
        with pytest.raises(InstanceError, match=words):
            with_fits(given, "doc", Folder(tmp_path))


def test_a_document_without_measurements_stays() -> None:
    """No assumption is added."""
    plain = document({"model": "table"})
    assert with_fits(plain, "doc", Folder(Path())) == plain
    assert with_fits({"jobs": "x"}, "doc", Folder(Path())) == {"jobs": "x"}


def test_the_schema_offers_a_loss() -> None:
    """In place of the remaining steps."""
    schema: dict[str, Any] = {"required": ["name", "remaining_steps"], "properties": {}}
    or_measured_loss(schema)
    assert schema["required"] == ["name"]
    assert schema["anyOf"] == [{"required": ["remaining_steps"]}, {"required": ["loss"]}]


DOCUMENT = {"schema_version": 1, "kind": "allocation", "name": "d", "resources": {"gpu": 4}, "jobs": "t.csv"}


def read(tmp_path: Path, text: str, **changes: Any) -> AllocationInstance:
    """Return the instance of a table."""
    (tmp_path / "t.csv").write_text(text)
    (tmp_path / "d.yaml").write_text(yaml.safe_dump({**DOCUMENT, **changes}))
    instance = load(tmp_path / "d.yaml")
    assert isinstance(instance, AllocationInstance)
    return instance


def refusal(tmp_path: Path, text: str) -> list[str]:
    with pytest.raises(InstanceError) as caught:
        read(tmp_path, text)
    return str(caught.value).splitlines()


def test_rows_of_a_job_are_its_speeds(tmp_path: Path) -> None:
    """In any order; a step is a sample."""
    text = "job,gpus,samples_per_s,remaining_samples,weight\na,2,19,1000,2\nb,1,5,50,\na,1,10,1000,2\n"
    a, b = read(tmp_path, text).jobs
    assert (a.name, a.remaining_steps, a.weight, b.name, b.remaining_steps) == ("a", 1000, 2, "b", 50)
    (variant,) = a.variants
    assert variant.worker_demand == {"gpu": 1}
    assert {(row.workers, row.steps_per_s) for row in variant.speed.rows} == {(1, 10), (2, 19)}  # type: ignore[union-attr]


def test_the_plan_is_that_of_brute_force(tmp_path: Path) -> None:
    """Two jobs on four GPUs: the split with the least sum of completion times."""
    instance = read(
        tmp_path,
        "job,gpus,samples_per_s,remaining_samples\n"
        "a,1,10,900\na,2,18,900\na,3,20,900\nb,1,4,800\nb,2,8,800\nb,3,11,800\n",
    )
    speeds = {"a": {1: 10, 2: 18, 3: 20}, "b": {1: 4, 2: 8, 3: 11}}
    best = min(
        900 / fa + 800 / fb for a, fa in speeds["a"].items() for b, fb in speeds["b"].items() if a + b <= 4
    )
    assert solve(instance).objective == pytest.approx(best, rel=1e-9)


def test_gpu_models_are_variants(tmp_path: Path) -> None:
    text = "job,gpus,samples_per_s,gpu_model\na,1,10,v100\na,1,30,a100\n"
    (job,) = read(tmp_path, text, resources={"v100": 1, "a100": 1}).jobs
    assert [(v.name, dict(v.worker_demand)) for v in job.variants] == [
        ("v100", {"v100": 1}),
        ("a100", {"a100": 1}),
    ]


def test_measurements_on_several_numbers_of_servers(tmp_path: Path) -> None:
    """Each number of GPUs once on each; an empty cell is any number; only where there are servers."""
    text = "job,gpus,servers,samples_per_s\na,2,1,18\na,2,2,15\na,1,,10\n"
    servers = [{"name": "n", "count": 2, "capacity": {"gpu": 2}}]
    (tmp_path / "t.csv").write_text(text)
    document = {key: value for key, value in DOCUMENT.items() if key != "resources"}
    (tmp_path / "d.yaml").write_text(yaml.safe_dump({**document, "servers": servers}))
    rows = [{"job": "a", "gpus": 2, "servers": k, "samples_per_s": f} for k, f in ((1, 18), (2, 15))]
    built = (
        Allocation("d")
        .add_server("n", {"gpu": 2}, count=2)
        .add_jobs([*rows, {"job": "a", "gpus": 1, "samples_per_s": 10}])
    )
    instance = load(tmp_path / "d.yaml")
    assert instance.sha256() == built.build().sha256()
    table = instance.table()
    assert list(zip(table.row_workers, table.row_servers, table.row_steps_per_s, strict=True)) == [
        (1, 0, 10),
        (2, 1, 18),
        (2, 2, 15),
    ]
    assert not any("is it a time" in note for note in instance.assumptions)
    assert "the instance has no servers; give servers in place of resources" in refusal(tmp_path, text)[0]
    (twice,) = refusal(tmp_path, text + "a,2,2,16\n")
    assert twice.endswith("for job 'a'; each number of GPUs stands once on 2 servers")


def test_work_that_is_not_given_is_an_hour_and_said(tmp_path: Path) -> None:
    instance = read(tmp_path, "job,gpus,samples_per_s\na,2,7\na,1,4\n")
    assert instance.jobs[0].remaining_steps == 3600 * 4
    assert any("an hour of work on the fewest GPUs measured (a)" in note for note in instance.assumptions)


def test_a_time_in_place_of_a_speed_is_pointed_out(tmp_path: Path) -> None:
    """Where more GPUs are slower throughout, and only there."""
    falling = read(tmp_path, "job,gpus,samples_per_s\na,1,8\na,2,4\na,4,2\n").assumptions
    assert any("is it a time" in note for note in falling)
    rising = read(tmp_path, "job,gpus,samples_per_s\na,1,8\na,2,4\na,4,9\n").assumptions
    assert not any("is it a time" in note for note in rising)


def test_faults_name_the_line(tmp_path: Path) -> None:
    head = "job,gpus,samples_per_s,weight\n"
    assert refusal(tmp_path, head + "a,1,8,\na,1,9,\n")[0].endswith(
        "t.csv: line 3: gpus: is 1 a second time for job 'a'; each number of GPUs stands once"
    )
    assert (
        "line 3: weight: is 3.0, but 2.0 in the first row of job 'a'"
        in refusal(tmp_path, head + "a,1,8,2\na,2,9,3\n")[0]
    )
    assert refusal(tmp_path, head + "a,0,8,\n")[0].endswith("line 2: gpus: is 0, but must be at least 1")
    (one, other) = refusal(tmp_path, "job,gpus,speed\na,1,8\nb,1,8\n")
    assert "line 1: has no column samples_per_s" in one
    assert "line 1: column speed: unknown key" in other


def test_jobs_of_a_document_are_no_throughput() -> None:
    assert not is_throughput([{"name": "a", "job": "b"}])
    assert not is_throughput([])
    assert not is_throughput("t.csv")
    data = {"jobs": [{"name": "a"}]}
    assert with_throughput(data, "d") is data
    assert is_throughput([{"job": "b", "gpus": 1}])


def test_a_large_table_of_throughput_is_read_too(tmp_path: Path) -> None:
    """From 5,000 rows on tables are read in columns."""
    rows = "".join(f"j{k},1,{k + 1}\n" for k in range(5_001))
    assert len(read(tmp_path, "job,gpus,samples_per_s\n" + rows).jobs) == 5_001


def test_a_plan_that_rests_on_assumed_work_says_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """With the solve, where it is read, and not on the page alone; also after the instance was written."""
    note = "remaining_samples is not given: an hour of work on the fewest GPUs measured (a)."
    instance = read(tmp_path, "job,gpus,samples_per_s\na,2,7\na,1,4\n")
    assert instance.figure_notes() == [note]
    save(instance, tmp_path / "written.yaml")
    solve(load(tmp_path / "written.yaml"))
    assert [message for message in caplog.messages if note in message]
    known = read(tmp_path, "job,gpus,samples_per_s,remaining_samples\na,1,4,9\n")
    assert known.figure_notes() == []


def test_the_package_gives_the_builder() -> None:
    assert clusterplan.Allocation is Allocation


def test_an_allocation_is_that_of_its_document() -> None:
    ps, table = ALLOCATION["jobs"]
    (variant,) = ps["variants"]
    built = (
        clusterplan.Allocation("a", cpu=10, gpu=4)
        .add_jobs([ps])
        .add_job("k", {1: 1.5, 2: 2.5}, 100, per_worker={"gpu": 1})
        .build()
    )
    named = {**table, "variants": [{**table["variants"][0], "name": "default"}]}
    assert built.sha256() == parse_instance({**ALLOCATION, "jobs": [ps, named]}).sha256()
    again = clusterplan.Allocation("a", cpu=10, gpu=4).add_job(
        "j", variant["speed"], 100, workers=(1, 3), ps=2, per_worker={"cpu": 1, "gpu": 1}, per_ps={"cpu": 1}
    )
    assert again.build().jobs[0].variants[0].model_dump(exclude={"name"}) == built.jobs[0].variants[
        0
    ].model_dump(exclude={"name"})
