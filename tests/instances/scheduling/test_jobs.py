"""Times of a job are seconds within some thousand years.

Speeds of jobs that are spread over servers.

Jobs in columns are the jobs that went in.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from column_reads import most_cells_for_a_row

from clusterplan.instances.common.errors import InstanceError
from clusterplan.instances.common.faults import validated
from clusterplan.instances.documents import load, save
from clusterplan.instances.scheduling.generate import generate_scheduling
from clusterplan.instances.scheduling.jobs import (
    LONGEST_S,
    JobTable,
    SchedulingJob,
    Spreading,
    in_first_order,
    speed_on,
)


def test_milliseconds_since_1970_are_refused() -> None:
    """And the longest time that is allowed is not."""
    job = {"name": "a", "demand": {"gpu": 1}, "duration_s": 1}
    assert validated(SchedulingJob, {**job, "arrival_s": LONGEST_S}, "t").arrival_s == LONGEST_S
    with pytest.raises(InstanceError, match="are these milliseconds"):
        validated(SchedulingJob, {**job, "arrival_s": 1.7e12}, "t")


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


def test_texts_are_numbered_by_their_first_rows() -> None:
    """Those that no row has are dropped."""
    codes, words = in_first_order(np.array([2, -1, 0, 2]), ["p", "q", "r"])
    assert codes.tolist() == [0, -1, 1, 0]
    assert words == ("r", "p")


def test_a_job_of_a_table_is_made_from_its_own_cells() -> None:
    """Work for whole columns, for each job, would be quadratic."""
    jobs = [JOBS[index % 2].model_copy(update={"name": str(index)}) for index in range(50)]
    assert most_cells_for_a_row(JobTable.of(jobs, ("gpu", "cpu"))) <= 2
