"""The importer of plain CSV traces, and what it says about broken ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from clusterplan.instances.common.errors import InstanceError
from clusterplan.instances.importers.trace import import_trace
from clusterplan.instances.scheduling.instance import SchedulingInstance


def imported(folder: Path, *rows: str, header: str = "submit,num_gpu,run_s,who", **options: Any) -> Any:
    """Return what becomes of a CSV file."""
    file = folder / "jobs.csv"
    file.write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")
    named = {"arrival": "submit", "gpus_column": "num_gpu", "duration": "run_s", "gpus": 8}
    return import_trace(file, **{**named, **options})


def test_columns_are_those_that_are_named(tmp_path: Path) -> None:
    """Jobs are numbered where there is no column of names; any order of arrivals is fine."""
    found = imported(tmp_path, "30,2,5.5,a", "10,1,7,b", tenant="who")
    assert isinstance(found, SchedulingInstance)
    table = found.table()
    assert list(table.names) == ["job-1", "job-2"]
    assert table.arrival_s.tolist() == [30, 10]
    assert table.tasks.tolist() == [2, 1]
    assert table.duration_s.tolist() == [5.5, 7]
    assert table.tenants == ("a", "b")
    assert found.pool == {"gpu": 8}


@pytest.mark.parametrize("zone", ["", "+02:00"])
def test_dates_count_from_the_first(tmp_path: Path, zone: str) -> None:
    """All with a time zone, or all without."""
    found = imported(tmp_path, f"2020-01-01 12:00:30{zone},1,5,a", f"2020-01-01 12:00:00{zone},1,5,a")
    assert found.table().arrival_s.tolist() == [30, 0]


@pytest.mark.parametrize(
    ("rows", "fault"),
    [
        (("-1,1,5,a",), "line 2: arrival: is -1.0, but must be at least 0"),
        (("0,9,5,a",), "jobs[0]: 'job-1' asks for 9 gpu, and the cluster has 8"),
        (("0,1,,a",), "line 2: duration_s: is missing; it must be given"),
        (("0,1,0,a",), "jobs[0].duration_s: is 0.0, but must be greater than 0"),
        (
            ("0,1,1e12,a",),
            "jobs[0].duration_s: is 1e+12 s, but must be at most 1e+11; are these milliseconds?",
        ),
        (
            ("2020-01-01 12:00:00,1,5,a", "2020-01-01 12:00:00+02:00,1,5,a"),
            "line 3: submit: has a time zone and the first row has none, or the reverse; "
            "give all or none of them one",
        ),
        (
            ("2020-01-01 12:00:00,1,5,a", "soon,1,5,a"),
            "line 3: submit: is no date and time, as in the rows before; write 2017-11-01 12:00:00",
        ),
    ],
)
def test_a_bad_row_gets_one_clear_line(tmp_path: Path, rows: tuple[str, ...], fault: str) -> None:
    """With its line, or its number."""
    with pytest.raises(InstanceError) as caught:
        imported(tmp_path, *rows)
    assert str(caught.value) == f"{tmp_path / 'jobs.csv'}: {fault}"


def test_names_that_are_repeated_are_refused(tmp_path: Path) -> None:
    """In one line."""
    with pytest.raises(InstanceError, match=r"'a' is already used by jobs\[0\]"):
        imported(tmp_path, "0,1,5,a", "0,1,5,a", name="who")


def test_jobs_without_a_duration_may_be_left_out(tmp_path: Path) -> None:
    """And it is said how many."""
    found = imported(tmp_path, "0,1,0,a", "0,1,5,a", drop_zero=True)
    assert list(found.table().names) == ["job-2"]
    assert "1 jobs with a duration of 0 are left out." in found.assumptions


def test_a_column_that_is_missing_is_named(tmp_path: Path) -> None:
    """With those that there are."""
    with pytest.raises(InstanceError, match="has no column 'start'; there are: submit, num_gpu, run_s, who"):
        imported(tmp_path, "0,1,5,a", arrival="start")
