"""The engine refuses choices that cannot run, and policies that leave jobs waiting for ever."""

from __future__ import annotations

import numpy as np
import pytest

from clusterplan.instances.common.arrays import Flags, Ints
from clusterplan.instances.scheduling.instance import SchedulingInstance
from clusterplan.solvers.scheduling.engine import Engine, PolicyError
from clusterplan.solvers.scheduling.policies.service_disciplines import FirstCome, ShortestRemaining


def instance(**others: object) -> SchedulingInstance:
    """Return two jobs that each want both GPUs; the second comes at 2 s and is shorter."""
    rows = [
        {"name": "a", "demand": {"gpu": 2}, "duration_s": 9},
        {"name": "b", "arrival_s": 2, "demand": {"gpu": 2}, "duration_s": 3},
    ]
    return SchedulingInstance.model_validate({"name": "t", "resources": {"gpu": 2}, "jobs": rows, **others})


class Chooses(FirstCome):
    """Starts the same jobs at every event."""

    def __init__(self, *jobs: int) -> None:
        self._jobs = jobs

    def choose(self, held: Flags) -> Ints:
        """Return them."""
        del held
        return np.array(self._jobs, dtype=np.int64)


@pytest.mark.parametrize(
    ("jobs", "fault"),
    [
        ((), "nothing will ever happen"),
        ((1,), "has not arrived at 0 s"),
        ((0, 0), "a job twice at 0 s"),
        ((-1,), "not arrived"),
    ],
)
def test_a_choice_that_cannot_be_is_refused(jobs: tuple[int, ...], fault: str) -> None:
    """With the moment."""
    with pytest.raises(PolicyError, match=fault):
        Engine(instance(), Chooses(*jobs)).run()


def rows_of(there: SchedulingInstance) -> list[tuple[int, float, float]]:
    """Return the segments of shortest remaining time first."""
    found = Engine(there, ShortestRemaining()).run()
    return sorted(zip(found.job.tolist(), found.start_s.tolist(), found.end_s.tolist(), strict=True))


def test_a_restart_takes_its_time() -> None:
    """The first job makes no progress for a second after it comes back."""
    there = instance(preemption="costs", restart_s=1)
    assert rows_of(there) == [(0, 0, 2), (0, 5, 13), (1, 2, 5)]


def test_a_lease_holds_a_job() -> None:
    """To its end, at which the policy decides anew."""
    assert rows_of(instance(lease_s=4)) == [(0, 0, 4), (0, 7, 12), (1, 4, 7)]


def test_without_preemption_a_job_runs_to_its_end() -> None:
    """Whatever the policy would rather do."""
    assert rows_of(instance(preemption="none")) == [(0, 0, 9), (1, 9, 12)]


def test_a_job_that_loses_its_place_goes_on_later() -> None:
    """When the cluster has recovered; what it has done is not lost."""
    events = [{"at_s": 1, "change": {"gpu": -1}}, {"at_s": 6, "change": {"gpu": 1}}]
    assert rows_of(instance(events=events)) == [(0, 0, 1), (0, 9, 17), (1, 6, 9)]
