"""Gandiva's time slicing: where jobs want more than there is, they take turns, those of one width together.

Xiao et al., Gandiva: Introspective Cluster Scheduling for Deep Learning, OSDI'18. Jobs of one width form a
class, and each class has the share of the cluster that its jobs ask for; within it they take turns.
Packing several jobs on a GPU is outside the model of exclusive GPUs, and on one pool nothing is fragmented,
so that nothing migrates.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from ....instances.common.arrays import Floats, Ints
from ..menu_seen import MenuSeen
from ..round_policy import SLACK, RoundPolicy, admit
from ..seen import Knowledge


class TimeSlice(RoundPolicy):
    """Runs jobs as requested, in turn."""

    knows: ClassVar[Knowledge] = Knowledge.NOTHING
    reacts = True

    def begin(self, seen: MenuSeen) -> None:
        """Start with everybody's turn."""
        super().begin(seen)
        self._turn: Floats = np.zeros(len(seen.row))
        self._round = 0.0
        self._waiting = False

    def choose(self, jobs: Ints, free: Floats) -> Ints:
        """Return who runs: all if they fit; at the end of a quantum those whose turn it is."""
        seen, rows = self.seen, self.seen.requested[jobs]
        usage = seen.usage[rows]
        self._waiting = not (usage.sum(axis=0) <= free + SLACK * seen.capacity).all()
        if not self._waiting:
            return rows
        now = np.floor(seen.now_s / self.round_s + SLACK)
        runs = seen.row[jobs] >= 0
        if now > self._round:
            self._round = now
            # Who ran in this quantum comes last in the next.
            self._turn[jobs[runs]] = seen.now_s
            runs = np.zeros(len(jobs), dtype=bool)
        order = np.lexsort((self._places(jobs), ~runs))
        served = np.zeros(len(jobs), dtype=bool)
        served[order] = admit(usage[order], free, seen.capacity)
        return np.where(served, rows, -1)

    def again_s(self) -> float:
        """Return the end of the quantum, where jobs wait."""
        return super().again_s() if self._waiting else np.inf

    def _places(self, jobs: Ints) -> Floats:
        """Return the place of each job in its class, over the number of jobs in it, shape (jobs,)."""
        width = self.seen.width[jobs]
        last = np.where(self._turn[jobs] > 0, self._turn[jobs], self.seen.arrival_s[jobs])
        order = np.lexsort((jobs, last, width))
        _, first, count = np.unique(width[order], return_index=True, return_counts=True)
        place = np.empty(len(jobs))
        place[order] = (np.arange(len(jobs)) - np.repeat(first, count) + 0.5) / np.repeat(count, count)
        return place
