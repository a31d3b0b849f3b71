"""Policies by keys queue jobs once, and again when they stop."""

from __future__ import annotations

import numpy as np

from clusterplan.instances.common.arrays import Floats, Ints
from clusterplan.solvers.scheduling.policy import ByKey
from clusterplan.solvers.scheduling.seen import Knowledge, Seen


class LastFirst(ByKey):
    """Serves the job that came last."""

    preempts = True

    def keys_of(self, jobs: Ints) -> Floats:
        """Return minus the number."""
        return -jobs.astype(float)


def test_jobs_are_chosen_by_key_and_queued_again_when_they_stop() -> None:
    """On two GPUs, each job wants one."""
    seen = Seen(4, 1, Knowledge.NOTHING)
    seen.capacity, seen.demand[:] = np.array([2.0]), 1.0
    policy = LastFirst()
    policy.begin(seen)
    policy.arrived([0, 1, 2])
    assert policy.choose(np.zeros(0, dtype=bool)).tolist() == [2, 1]
    policy.switched([], [2, 1])
    seen.running = np.array([2, 1])
    policy.arrived([3])
    assert policy.waits() == 2
    assert policy.choose(np.array([False, False])).tolist() == [3, 2]
    assert policy.choose(np.array([False, True])).tolist() == [1, 3]
    policy.switched([1], [3])
    assert policy.waits() == 2
    assert policy.again_s() == np.inf
