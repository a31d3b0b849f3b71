"""Policies with a static order: first come, first served, EASY backfilling, and the shortest job first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from ....instances.common.arrays import Flags, Floats, Ints
from ..kernels import backfill
from ..policy import ByKey
from ..seen import Knowledge, Seen


class FirstCome(ByKey):
    """Starts jobs in the order of their arrival; one that does not fit blocks those after it."""

    def keys_of(self, jobs: Ints) -> Floats:
        """Return the place in the order of arrival."""
        return jobs.astype(float)

    def choose(self, held: Flags) -> Ints:
        """Return the jobs at the head of the queue that fit together."""
        free = self.free(held)
        slack = 1e-9 * self.seen.capacity
        count = 0
        while count < self._count and (self.seen.demand[self._waiting[count]] <= free + slack).all():
            free -= self.seen.demand[self._waiting[count]]
            count += 1
        return self._waiting[:count].copy()


class Backfill(FirstCome):
    """EASY: a later job may start if it delays nobody's promise, by what users say of their jobs.

    Lifka, The ANL/IBM SP scheduling system (1995).
    """

    knows = Knowledge.ESTIMATE

    def begin(self, seen: Seen) -> None:
        """Start without any job."""
        super().begin(seen)
        self._expected_end_s: Floats = np.zeros(len(seen.width))

    def choose(self, held: Flags) -> Ints:
        """Return the jobs that start."""
        seen = self.seen
        return backfill(
            self._waiting[: self._count],
            seen.demand,
            self.free(held),
            seen.capacity,
            seen.running[held],
            self._expected_end_s,
            seen.now_s,
            seen.estimate_s,
        )

    def switched(self, stopped: Sequence[int], started: Sequence[int]) -> None:
        """Note when jobs that start are expected to end."""
        super().switched(stopped, started)
        left = np.maximum(self.seen.estimate_s[started] - self.seen.executed_s[started], 0.0)
        self._expected_end_s[started] = self.seen.now_s + left


class Shortest(ByKey):
    """Serves the job with the least time that is left.

    Parameters
    ----------
    estimates
        Whether it goes by what users claim, less what has run, in place of the truth.
    """

    def __init__(self, estimates: bool = False) -> None:
        self.knows = Knowledge.ESTIMATE if estimates else Knowledge.REMAINING

    def keys_of(self, jobs: Ints) -> Floats:
        """Return the time that is left."""
        if self.knows is Knowledge.ESTIMATE:
            return np.maximum(self.seen.estimate_s[jobs] - self.seen.executed_s[jobs], 0.0)
        return self.seen.remaining_s[jobs]


class ShortestRemaining(Shortest):
    """The same with preemption (SRTF)."""

    preempts: ClassVar[bool] = True


class ShortestService(ShortestRemaining):
    """With preemption, by remaining time × GPUs (SRSF; Gu et al., Tiresias, NSDI'19)."""

    def keys_of(self, jobs: Ints) -> Floats:
        """Return the service that is left."""
        return super().keys_of(jobs) * self.seen.width[jobs]
