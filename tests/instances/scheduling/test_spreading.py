"""Speeds of jobs that are spread over servers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from clusterplan.instances.documents import load, save
from clusterplan.instances.scheduling.generate import generate_scheduling
from clusterplan.instances.scheduling.job import SchedulingJob
from clusterplan.instances.scheduling.spreading import Spreading, speed_on

PLAIN = {"name": "a", "demand": {"gpu": 1}, "duration_s": 1}


def test_the_speed_is_that_of_the_next_smaller_number() -> None:
    """The first that is listed counts below it too."""
    assert [speed_on({2: 0.9, 4: 0.5}, k) for k in (1, 2, 3, 4, 9)] == [0.9, 0.9, 0.9, 0.5, 0.5]


def test_speeds_of_many_jobs_are_looked_up_at_once() -> None:
    """A job without a profile, or without servers, has its full speed."""
    jobs = [SchedulingJob(**PLAIN, speed_by_servers={1: 1, 3: 0.5}), SchedulingJob(**PLAIN, skew=0.2)]
    spreading = Spreading.of(jobs)
    assert spreading is not None
    of, servers = np.array([0, 0, 0, 0, 1]), np.array([0, 2, 3, 99, 3])
    assert spreading.speed(of, servers).tolist() == [1, 1, 0.5, 0.5, 1]
    assert Spreading.of([SchedulingJob(**PLAIN)]) is None


@pytest.mark.parametrize("table", ["csv", "parquet"])
def test_tables_keep_what_jobs_say(tmp_path: Path, table: str) -> None:
    """Skews and speeds have columns of their own."""
    there = generate_scheduling(6, 4)
    extra = [
        {"speed_by_servers": {2: 0.7}},
        {"skew": 0.1},
        {"speed_by_servers": {1: 0.9, 3: 0.6}},
        {},
        {},
        {},
    ]
    jobs = [
        {**job.model_dump(exclude_none=True), **more} for job, more in zip(there.jobs, extra, strict=True)
    ]
    there = there.replace(jobs=jobs)
    save(there, tmp_path / "t.yaml", table=table)  # type: ignore[arg-type]
    assert load(tmp_path / "t.yaml").sha256() == there.sha256()
    assert there.sha256() != generate_scheduling(6, 4).sha256()
