"""Tables of jobs derived from a trace."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from table_files import most_cells_for_a_row

from clusterplan.instances.common.errors import InstanceError
from clusterplan.instances.files import tables as files
from clusterplan.instances.files.columns import Columns
from clusterplan.instances.scheduling.instance import SchedulingInstance
from clusterplan.instances.scheduling.jobs import (
    LONGEST_S,
    JobTable,
    SchedulingJob,
    Spreading,
)
from clusterplan.instances.scheduling.kind import read_jobs

CSV = "name,arrival_s,duration_s,demand.gpu,tasks,tenant\n"


@pytest.fixture(autouse=True)
def _few_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MANY_ROWS", 1)


def columns(path: Path) -> Columns:
    """Return a file in columns."""
    table = files.read_table(path, path.name, in_columns=True)
    assert isinstance(table, Columns)
    return table


def test_rows_in_columns_are_what_they_are_one_by_one(tmp_path: Path) -> None:
    """Empty cells stand for defaults."""
    path = tmp_path / "t.csv"
    path.write_text(f"{CSV}a,,5,1,,x\nb,2.5,7,0.5,3,\n")
    table = read_jobs(columns(path), "t")
    assert isinstance(table, JobTable)
    by_rows = SchedulingInstance(name="t", resources={"gpu": 4}, jobs=columns(path).rows())
    assert tuple(table) == by_rows.jobs
    assert table.tasks.tolist() == [1, 3]
    path.write_text("name,duration_s,demand.gpu,demand.tpu\na,5,1,\n")
    table = read_jobs(columns(path), "t")
    assert isinstance(table, JobTable)
    assert table.resources == ("gpu",)


@pytest.mark.parametrize(
    ("row", "fault"),
    [
        ("a,-1,5,1,1,x", "jobs[1].arrival_s: is -1.0, but must be at least 0"),
        ("a,0,,1,1,x", "jobs[1].duration_s: is missing; it must be given"),
        ("a,0,0,1,1,x", "jobs[1].duration_s: is 0.0, but must be greater than 0"),
        (
            "a,0,1000000000000,1,1,x",
            "jobs[1].duration_s: is 1e+12 s, but must be at most 1e+11; are these milliseconds?",
        ),
        ("a,0,5,1,1.5,x", "jobs[1].tasks: is '1.5', which is not a whole number; write a whole number"),
        ("a,0,5,,1,x", "jobs[1].demand: is missing; it must be given"),
        (",0,5,1,1,x", "jobs[1].name: is missing; it must be given"),
    ],
)
def test_a_wrong_row_is_refused_in_one_line(tmp_path: Path, row: str, fault: str) -> None:
    """With its number, as in a small table."""
    path = tmp_path / "t.csv"
    path.write_text(f"{CSV}ok,0,5,1,1,x\n{row}\n")
    with pytest.raises(InstanceError) as caught:
        read_jobs(columns(path), "t")
    assert str(caught.value).startswith(f"t: {fault}")
    assert "\n" not in str(caught.value)


def test_unknown_or_too_many_columns_are_read_row_by_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The validation of rows then says what is unknown."""
    path = tmp_path / "t.csv"
    path.write_text("name,duration_s,demand.gpu,colour\na,5,1,red\n")
    assert isinstance(read_jobs(columns(path), "t"), list)
    path.write_text("name,duration_s,demand.gpu\na,5,1\n")
    assert isinstance(read_jobs(columns(path), "t"), JobTable)
    monkeypatch.setattr("clusterplan.instances.files.columnar.MAX_CELLS", 3)
    assert isinstance(read_jobs(columns(path), "t"), list)


PLAIN = {"name": "a", "demand": {"gpu": 1}, "duration_s": 1}


def test_the_longest_time_is_allowed() -> None:
    """Longer ones, such as milliseconds since 1970, are not."""
    assert SchedulingJob(**PLAIN, arrival_s=LONGEST_S).arrival_s == LONGEST_S


def test_speeds_of_many_jobs_are_looked_up_at_once() -> None:
    """A job without a profile, or without servers, has its full speed."""
    jobs = [SchedulingJob(**PLAIN, speed_by_servers={1: 1, 3: 0.5}), SchedulingJob(**PLAIN, skew=0.2)]
    spreading = Spreading.of(jobs)
    assert spreading is not None
    of, servers = np.array([0, 0, 0, 0, 1]), np.array([0, 2, 3, 99, 3])
    assert spreading.speed(of, servers).tolist() == [1, 1, 0.5, 0.5, 1]
    assert Spreading.of([SchedulingJob(**PLAIN)]) is None


JOBS = (
    SchedulingJob(name="a", demand={"gpu": 2}, duration_s=5, tenant="x", deadline_s=9),
    SchedulingJob(name="b", demand={"cpu": 3}, tasks=4, duration_s=6, step_s=0.5, restart_s=1),
)


def test_jobs_come_out_as_they_went_in() -> None:
    """One by one, by slices, and with resources in another order."""
    table = JobTable.of(JOBS, ("gpu", "cpu"))
    assert tuple(table) == JOBS
    assert table[-1:] == JOBS[1:]
    assert table.total_demand.tolist() == [[2, 0], [0, 12]]
    turned = JobTable.of(table, ("cpu", "gpu"))
    assert tuple(turned) == JOBS
    assert turned.sha256() != table.sha256()


def test_a_job_of_a_table_is_made_from_its_own_cells() -> None:
    """Work for whole columns, for each job, would be quadratic."""
    jobs = [JOBS[index % 2].model_copy(update={"name": str(index)}) for index in range(50)]
    assert most_cells_for_a_row(JobTable.of(jobs, ("gpu", "cpu"))) <= 2
