"""Philly as a trace: submissions in order, short and long durations, and jobs that are too large.

The Philly importer: the jobs of one instant, the spread rule, and what it says about broken files.
"""

from __future__ import annotations

import csv
import io
from collections import Counter
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sample_documents import faults, is_kept

from clusterplan.instances.common.errors import InstanceError
from clusterplan.instances.consolidation.instance import ConsolidationInstance
from clusterplan.instances.importers.traces.philly import import_philly, import_philly_trace

ROWS = (
    "timestamp,duration,num_gpus,gpu_time,cluster",
    "2017-10-01 11:00:10,7200,1,7200,a",
    "2017-10-01 11:00:00,0.5,16,8,b",
    "2017-10-01 11:00:10,30,4,120,a",
)


def imported(folder: Path, rows: tuple[str, ...] = ROWS, **options: Any) -> Any:
    """Return what becomes of three jobs."""
    file = folder / "philly.csv"
    file.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return import_philly_trace(file, **{"gpus": 16, **options})


def test_the_real_trace(shared_data: Path) -> None:
    """Its first 300 jobs by submission, from several tenants."""
    found = import_philly_trace(shared_data / "pollux" / "philly.csv", gpus=215, first=300)
    table = found.table()
    assert len(table) == 300
    assert (table.arrival_s[1:] >= table.arrival_s[:-1]).all()
    assert len(table.tenants) > 1


def test_names_of_ten_jobs_sort_as_they_come(tmp_path: Path) -> None:
    names = list(imported(tmp_path, (ROWS[0], *[ROWS[1]] * 10)).table().names)
    assert (names[0], names[-1]) == ("job-01", "job-10")
    assert names == sorted(names)


PHILLY_ROWS = (
    "2017-10-01 11:00:00,7200,1,7200,a",
    "2017-10-01 11:59:59,2.0,16,32,b",
    "2017-10-01 12:00:00,1,4,4,a",
    "2017-10-01 11:00:00,3600,8,28800,a",
    "2017-10-01 12:00:01,100,2,200,b",
)


def small(folder: Path, rows: tuple[str, ...] = PHILLY_ROWS, **options: Any) -> Any:
    file = folder / "philly.csv"
    file.write_text("\n".join([ROWS[0], *rows]) + "\n", encoding="utf-8")
    return import_philly(file, **{"at": "2017-10-01 12:00", "servers": 4, "gpus_per_server": 8, **options})


def real(shared_data: Path, **options: Any) -> ConsolidationInstance:
    file = shared_data / "pollux" / "philly.csv"
    chosen = {"at": "2017-11-01 12:00", "servers": 100, "gpus_per_server": 8, **options}
    return import_philly(file, **chosen)


def test_the_jobs_of_a_day(shared_data: Path) -> None:
    """At noon of 1 November 2017, 250 jobs ask 654 GPUs, the largest 32."""
    instance = real(shared_data)
    assert len(instance.jobs) == 250
    assert sum(job.worth for job in instance.jobs) == 654
    assert max(job.worth for job in instance.jobs) == 32
    assert len(instance.expanded_servers) == 100
    assert "the 250 of 82247 that run at 2017-11-01 12:00:00" in instance.assumptions[0]
    assert is_kept(instance)


def test_the_same_jobs_as_counted_plainly(shared_data: Path) -> None:
    """Another instant and one virtual cluster give what a plain loop over the file gives."""
    instant = datetime(2017, 10, 9, 8)
    with (shared_data / "pollux" / "philly.csv").open(encoding="utf-8") as file:
        expected = Counter(
            int(row["num_gpus"])
            for row in csv.DictReader(file)
            if row["cluster"] == "6214e9"
            and 0
            <= (instant - datetime.fromisoformat(row["timestamp"])).total_seconds()
            < float(row["duration"])
        )
    instance = real(shared_data, at=instant, virtual_cluster="6214e9")
    assert Counter(job.tasks for job in instance.jobs) == expected
    assert "in virtual cluster 6214e9" in instance.assumptions[0]


def test_a_job_runs_from_its_start_and_before_its_end(tmp_path: Path) -> None:
    """A job that starts at the instant runs, one that ends there does not; names count the file's jobs."""
    names = [job.name for job in small(tmp_path).jobs]
    assert names == ["job-1 a", "job-2 b", "job-3 a"]


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("one-server", ["required", "preferred", "required"]),
        ("required", ["required"] * 3),
        ("preferred", ["preferred"] * 3),
        ("free", ["free"] * 3),
    ],
)
def test_spread_rules(tmp_path: Path, rule: str, expected: list[str]) -> None:
    """By default a job that fits one server must have one, and a larger one had better use few."""
    assert [job.spread for job in small(tmp_path, spread=rule).jobs] == expected


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ("yesterday,1,1,1,a", "line 7: timestamp: is 'yesterday', which is no date and time; write 2017"),
        ("2017-02-31 10:00:00,1,1,1,a", "line 7: timestamp: is '2017-02-31 10:00:00', which is no date"),
        ("2017-10-01T10:00:00+00:00,1,1,1,a", "line 7: timestamp: is '2017-10-01T10:00:00+00:00', which"),
        (",1,1,1,a", "line 7: timestamp: is missing"),
        ("2017-10-01 10:00:00,long,1,1,a", "line 7: duration: is 'long', which is not a number"),
        ("2017-10-01 10:00:00,nan,1,1,a", "line 7: duration: is nan, which is not a finite number"),
        ("2017-10-01 10:00:00,1e400,1,1,a", "line 7: duration: is "),
        ("2017-10-01 10:00:00,1_0,1,1,a", "line 7: duration: is '1_0', which is not a number"),
        ("2017-10-01 10:00:00,1,1.5,1,a", "line 7: num_gpus: is '1.5', which is not a whole number"),
        ("2017-10-01 10:00:00,1,10000000,1,a", "line 7: num_gpus: is 10000000, but must be at most 1e+06"),
        ("2017-10-01 10:00:00,1,1,1,", "line 7: cluster: is missing"),
        ("2017-10-01 10:00:00,1,1,1,\x07", "line 7: cluster: is blank or holds a control character"),
    ],
)
def test_a_bad_row_is_named_by_its_line(tmp_path: Path, row: str, expected: str) -> None:
    """A fault names file and line, whether the job would run at the instant or not."""
    (fault,) = faults(lambda: small(tmp_path, (*PHILLY_ROWS, row)))
    assert fault.startswith(str(tmp_path / "philly.csv"))
    assert expected in fault


def test_many_bad_rows_end_the_reading(tmp_path: Path) -> None:
    """A hundred faults are named; then reading stops, and the text says so."""
    found = faults(lambda: small(tmp_path, ("x,1,1,1,a",) * 125))
    assert len(found) == 101
    assert "perhaps more" in found[-1]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"servers": 0}, "options: servers: is 0, but must be at least 1"),
        ({"gpus_per_server": 0}, "options: gpus_per_server: is 0, but must be at least 1"),
        ({"spread": "wide"}, "options: spread: is 'wide'; allowed: 'one-server', 'required', 'preferred'"),
        (
            {"virtual_cluster": "b", "at": "2017-10-01 11:00"},
            "no job of virtual cluster b runs at 2017-10-01 11",
        ),
        ({"rows": ()}, "has a header but no rows"),
    ],
)
def test_bad_options_and_files(tmp_path: Path, options: dict[str, Any], expected: str) -> None:
    """A wrong option is one line with what is allowed or what there is."""
    (fault,) = faults(lambda: small(tmp_path, **options))
    assert expected in fault


cells = st.sampled_from(
    ["", "0", "1", "-3", "1e300", "nan", "2017-10-01 11:30:00", "a", "'=x", "\x00", "é" * 300]
)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.lists(cells, min_size=5, max_size=5), min_size=1, max_size=4))
def test_whatever_a_file_holds(tmp_path: Path, rows: list[list[str]]) -> None:
    """Any table is imported or refused; nothing else can come out."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    try:
        instance = small(tmp_path, (*PHILLY_ROWS, text.getvalue()))
    except InstanceError:
        return
    assert isinstance(instance, ConsolidationInstance)
