"""What scheduling registers on this floor."""

from __future__ import annotations

from clusterplan.planner.scheduling.kind import MOST_SEGMENTS, SCHEDULING


def test_a_plan_may_have_many_entries_for_a_job() -> None:
    """Of the other kinds one for each row."""
    assert SCHEDULING.rows_of_plan == "jobs"
    assert SCHEDULING.entries_of_row == MOST_SEGMENTS > 1
