"""Times of a job are seconds within some thousand years."""

from __future__ import annotations

import pytest

from clusterplan.instances.common.errors import InstanceError
from clusterplan.instances.common.faults import validated
from clusterplan.instances.scheduling.job import LONGEST_S, SchedulingJob


def test_milliseconds_since_1970_are_refused() -> None:
    """And the longest time that is allowed is not."""
    job = {"name": "a", "demand": {"gpu": 1}, "duration_s": 1}
    assert validated(SchedulingJob, {**job, "arrival_s": LONGEST_S}, "t").arrival_s == LONGEST_S
    with pytest.raises(InstanceError, match="are these milliseconds"):
        validated(SchedulingJob, {**job, "arrival_s": 1.7e12}, "t")
