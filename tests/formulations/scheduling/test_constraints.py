"""Constraints on whole columns: of many faults the first are named."""

from __future__ import annotations

import numpy as np

from clusterplan.formulations.scheduling.constraints import (
    MOST_NAMED,
    broken_constraints,
    missing_work,
    restarts_s,
)
from clusterplan.formulations.scheduling.plan import SegmentTable
from clusterplan.instances.scheduling.generate import generate_scheduling


def test_of_many_faults_the_first_are_named() -> None:
    """And the others are counted."""
    instance = generate_scheduling(100, 8)
    nothing, none = np.zeros(0), np.zeros(0, dtype=int)
    empty = SegmentTable(none, nothing, nothing, 100, nothing.astype(bool), none)
    found = list(broken_constraints(instance, empty))
    assert len(found) == MOST_NAMED + 1
    assert str(found[-1]) == "work: 80 more of this sort"


def test_the_slack_is_relative_to_the_time_since_the_first_arrival() -> None:
    """So that a date in seconds since 1970 does not hide a second of work."""
    instance = generate_scheduling(3, 8, load=100.0)
    later = instance.replace(
        jobs=[{**j.model_dump(), "arrival_s": j.arrival_s + 1.5e9} for j in instance.jobs]
    )
    ends = instance.table().arrival_s + 1e5
    assert missing_work(instance, ends).max() < 1e-2
    assert missing_work(later, ends + 1.5e9).max() < 1e-2


def test_restarts_cost_only_where_preemption_does() -> None:
    """A job's own figure comes before the instance's."""
    instance = generate_scheduling(2, 8).replace(restart_s=5)
    assert restarts_s(instance).tolist() == [0, 0]
    assert restarts_s(instance.replace(preemption="costs")).tolist() == [5, 5]
