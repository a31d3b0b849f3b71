"""Philly as a trace: submissions in order, short and long durations, and jobs that are too large."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from clusterplan.instances.common.errors import InstanceError
from clusterplan.instances.importers.traces.philly import import_philly_trace

ROWS = (
    "timestamp,duration,num_gpus,gpu_time,cluster",
    "2017-10-01 11:00:10,7200,1,7200,a",
    "2017-10-01 11:00:00,0.5,16,8,b",
    "2017-10-01 11:00:10,30,4,120,a",
)


def imported(folder: Path, **options: Any) -> Any:
    """Return what becomes of three jobs."""
    file = folder / "philly.csv"
    file.write_text("\n".join(ROWS) + "\n", encoding="utf-8")
    return import_philly_trace(file, **{"gpus": 16, **options})


def test_jobs_come_in_the_order_of_their_submission(tmp_path: Path) -> None:
    """Those of one moment as in the file; a duration under a second counts as one."""
    table = imported(tmp_path).table()
    assert table.arrival_s.tolist() == [0, 10, 10]
    assert table.duration_s.tolist() == [1, 7200, 30]
    assert table.tasks.tolist() == [16, 1, 4]
    assert list(table.names) == ["job-1", "job-2", "job-3"]
    assert [table.tenants[code] for code in table.tenant] == ["b", "a", "a"]


def test_the_first_jobs_and_the_longest_duration_may_be_chosen(tmp_path: Path) -> None:
    """By submission, not by the order of the file; what was changed is said."""
    found = imported(tmp_path, first=2, max_duration_s=60.0)
    assert found.table().duration_s.tolist() == [1, 60]
    assert "1 durations are cut to 60 s." in found.assumptions


def test_a_job_that_is_larger_than_the_cluster_is_refused(tmp_path: Path) -> None:
    """In one line."""
    with pytest.raises(InstanceError, match=r"^[^\n]*asks for 16 gpu, and the cluster has 8$"):
        imported(tmp_path, gpus=8)


def test_the_real_trace(shared_data: Path) -> None:
    """Its first 300 jobs by submission, from several tenants."""
    found = import_philly_trace(shared_data / "pollux" / "philly.csv", gpus=215, first=300)
    table = found.table()
    assert len(table) == 300
    assert (table.arrival_s[1:] >= table.arrival_s[:-1]).all()
    assert len(table.tenants) > 1


def test_names_of_ten_jobs_sort_as_they_come(tmp_path: Path) -> None:
    file = tmp_path / "philly.csv"
    file.write_text("\n".join([ROWS[0], *[ROWS[1]] * 10]) + "\n", encoding="utf-8")
    names = list(import_philly_trace(file, gpus=16).table().names)
    assert (names[0], names[-1]) == ("job-01", "job-10")
    assert names == sorted(names)
