"""Jobs in columns are the jobs that went in."""

from __future__ import annotations

import numpy as np
from column_reads import most_cells_for_a_row

from clusterplan.instances.scheduling.job import SchedulingJob
from clusterplan.instances.scheduling.job_table import JobTable, in_first_order

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
