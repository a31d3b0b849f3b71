"""Columns of jobs, read and written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from clusterplan.instances.allocation.generate import generate_allocation
from clusterplan.instances.allocation.job import Job
from clusterplan.instances.allocation.job_columns import LONGEST_NAME, JobColumns, read_allocation
from clusterplan.instances.allocation.job_table import JobTable, write_jobs
from clusterplan.instances.common.errors import InstanceError
from clusterplan.instances.files.columns import Columns
from clusterplan.instances.files.tables import read_table

V = "variants.0"
FINE: dict[str, Any] = {
    "name": "j",
    "remaining_steps": "10",
    f"{V}.name": "v",
    f"{V}.worker_demand.gpu": "1",
    f"{V}.workers.max": "4",
    f"{V}.speed.model": "ring_allreduce",
    **{f"{V}.speed.theta.{k}": "0.5" for k in range(4)},
    f"{V}.speed.batch": "8",
}


def columns_of(*changes: dict[str, Any]) -> JobColumns:
    """Return the columns of a fine job and of jobs with some cells changed."""
    rows = [FINE | {"name": f"j{j}"} | change for j, change in enumerate(({}, *changes))]
    names = list(dict.fromkeys(name for row in rows for name in row))
    table = pa.table({name: pa.array([row.get(name) for row in rows], pa.string()) for name in names})
    return JobColumns(Columns(table, "t", typed=False), ("gpu",))


@pytest.mark.parametrize(
    "change",
    [
        {"name": "x" * (LONGEST_NAME + 1)},
        {"remaining_steps": None},
        {"remaining_steps": "0"},
        {"weight": "-1"},
        {"optional": "true"},
        {"unplaced_s": "5"},
        {"current.variant": "w", "current.workers": "1"},
        {"current.variant": "v"},
        {f"{V}.workers.min": "5"},
        {f"{V}.workers.min": "0"},
        {f"{V}.workers.max": None},
        {f"{V}.ps.max": "1"},
        {f"{V}.speed.theta.3": None},
        {f"{V}.speed.batch": None},
        {f"{V}.speed.theta.{k}": "0" for k in range(4)},
        {f"variants.1{name.removeprefix(V)}": cell for name, cell in FINE.items() if name.startswith(V)},
        {"colour": "red"},
    ],
    ids=str,
)
def test_a_wrong_row_is_suspected(change: dict[str, Any]) -> None:
    """The row with the change, and not the one without."""
    assert columns_of(change).wrong.tolist() == [False, True]


def test_fine_rows_become_the_table_of_their_objects() -> None:
    """Columns and objects come to the same, with defaults filled in."""
    change = {"optional": "true", "unplaced_s": "7", "current.variant": "v", "current.workers": "2"}
    columns = columns_of(change)
    assert not columns.wrong.any()
    variant = {
        "name": "v",
        "worker_demand": {"gpu": 1},
        "workers": {"max": 4},
        "speed": {"model": "ring_allreduce", "theta": [0.5] * 4, "batch": 8},
    }
    more = {"optional": True, "unplaced_s": 7, "current": {"variant": "v", "workers": 2}}
    jobs = [
        Job.model_validate({"name": f"j{j}", "remaining_steps": 10, "variants": [variant], **extra})
        for j, extra in enumerate(({}, more))
    ]
    assert columns.table().sha256() == JobTable.of(jobs, ("gpu",)).sha256()


def test_demands_for_unknown_resources_are_kept_apart() -> None:
    """The document says what is wrong with them, for the row is fine."""
    columns = columns_of({f"{V}.worker_demand.tpu": "1"})
    assert not columns.wrong.any()
    ((variant, key, resource, rows),) = columns.unknown
    assert (variant, key, resource, rows.tolist()) == (0, "worker_demand", "tpu", [1])


def test_a_table_that_names_many_variants_is_too_wide() -> None:
    """A column of each of a million variants would take more memory than its cells."""
    rows = 2_000
    few = pa.table({"name": ["a"] * rows})
    many = pa.table({f"variants.{v}.name": [None] * rows for v in range(4_000)})
    assert not JobColumns.too_wide(Columns(few, "t", typed=True), 3)
    assert JobColumns.too_wide(Columns(many, "t", typed=True), 3)


HEAD = {"schema_version": 1, "kind": "allocation", "name": "d", "resources": {"gpu": 4}}
CELLS = {
    "name": ["a", "b"],
    "remaining_steps": ["5", "6"],
    "variants.0.name": ["v", "v"],
    "variants.0.worker_demand.gpu": ["1", "1"],
    "variants.0.speed.model": ["table", "table"],
    "variants.0.speed.rows.0.workers": ["1", "2"],
    "variants.0.speed.rows.0.steps_per_s": ["2", "3"],
}


def read(**cells: Any) -> Any:
    """Return what the table with some columns changed becomes."""
    return read_allocation(Columns(pa.table(CELLS | cells), "t", typed=False), HEAD, "doc")


def test_a_fine_table_becomes_columns() -> None:
    """No row becomes an object."""
    instance = read()
    assert isinstance(instance.jobs, JobTable)
    assert instance.jobs.row_steps_per_s.tolist() == [2, 3]


def test_faults_name_the_row_of_the_whole_table() -> None:
    """Types of cells, rules between fields, and resources that there are not."""
    for cells, line in (
        ({"weight": [None, "-1"]}, "doc: jobs[1].weight: is -1.0, but must be at least 0"),
        ({"unplaced_s": [None, "1"]}, "doc: jobs[1].unplaced_s: is set, but the job is not optional"),
        (
            {"variants.0.worker_demand.tpu": [None, "1"]},
            "doc: jobs[1].variants[0].worker_demand.tpu: unknown",
        ),
        ({"name": ["a", "a"]}, "doc: jobs[1].name: 'a' is already used by jobs[0]"),
    ):
        with pytest.raises(InstanceError) as refused:
            read(**cells)
        assert str(refused.value).startswith(line)
        assert len(refused.value.faults) == 1


def test_measurements_are_left_to_the_reader_of_rows() -> None:
    """They have to be fitted first."""
    assert read(**{"loss.measurements": ["a.csv", None]}) is None
    assert read(**{"loss.measurements": pa.array([None, None], pa.string())}) is not None


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_every_job_is_a_row(tmp_path: Path, ending: str) -> None:
    """Columns that hold nothing but defaults are left out."""
    table = generate_allocation(20, 2, seed=1).table()
    write_jobs(table, tmp_path / f"t.{ending}")
    rows = read_table(tmp_path / f"t.{ending}", "t")
    assert [row["name"] for row in rows] == list(table.names)
    assert [float(row["remaining_steps"]) for row in rows] == table.remaining_steps.tolist()
    assert [len(row["variants"]) for row in rows] == [len(job.variants) for job in table]
    assert not any({"optional", "deadline_s", "current"} & set(row) for row in rows)
