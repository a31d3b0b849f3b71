"""Themis: GPUs for a lease go to those whose finish-time fairness is worst.

Mahajan et al., Themis: Fair and Efficient GPU Cluster Scheduling, NSDI'20. ρ = shared / isolated finish time:
the time since the arrival and what is left as it was requested, over the work on a 1/n share of the cluster
for itself, where n jobs are there. What is free when leases end is offered to the worst share 1 − f of the
jobs, in the order of falling ρ while gangs fit, ties by arrival. What they leave goes to the others, first to
those that ran, so that it is not idle. This is a simplification: there is no auction, and nobody may lie.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from ....instances.common.arrays import Floats, Ints
from ..menu_seen import MenuSeen
from ..round_policy import NEAR, RoundPolicy, admit
from ..seen import Knowledge


class Themis(RoundPolicy):
    """Serves the jobs with the worst finish-time fairness, for a lease each, as it was requested.

    Parameters
    ----------
    round_s
        How long a lease is.
    fairness
        f, from 0 to 1: at 0 everybody is offered what is free, at 1 the worst job alone.
    """

    knows: ClassVar[Knowledge] = Knowledge.PROGRESS
    reacts = True

    def __init__(self, round_s: float, fairness: float = 0.8) -> None:
        super().__init__(round_s)
        self._fairness = fairness

    def begin(self, seen: MenuSeen) -> None:
        """Start without leases."""
        super().begin(seen)
        self._leased_s: Floats = np.zeros(len(seen.row))

    def choose(self, jobs: Ints, free: Floats) -> Ints:
        """Return who runs as requested: who has a lease, then the worst, then the others."""
        seen, rows = self.seen, self.seen.requested[jobs]
        runs = seen.row[jobs] >= 0
        leased = runs & (self._leased_s[jobs] > seen.now_s * (1 + NEAR))
        worst = self.worst(jobs, self.ratios(jobs))
        rank = np.where(leased, 0.0, np.where(worst >= 0, 1.0, np.where(runs, 2.0, 3.0)))
        self.order = order = np.lexsort((worst, rank))
        served = np.zeros(len(jobs), dtype=bool)
        served[order] = admit(seen.usage[rows[order]], free, seen.capacity)
        renewed = served & ~leased
        self._leased_s[jobs[renewed]] = seen.now_s + self.round_s
        return np.where(served, rows, -1)

    def again_s(self) -> float:
        """Return the end of the first lease, if any job waits for it."""
        seen = self.seen
        leased = self._leased_s[seen.running]
        return float(leased[leased > seen.now_s * (1 + NEAR)].min(initial=np.inf))

    def ratios(self, jobs: Ints) -> Floats:
        """Return the finish-time fairness ρ of jobs."""
        seen = self.seen
        speed = seen.speed[seen.requested[jobs]]
        alone = (
            seen.work[jobs]
            / speed
            * np.maximum(self.shares(seen.usage[seen.requested[jobs]]) * len(jobs), 1.0)
        )
        shared = seen.now_s - seen.arrival_s[jobs] + seen.left[jobs] / speed
        return np.asarray(shared / alone)

    def worst(self, jobs: Ints, ratio: Floats) -> Ints:
        """Return the place of each of the worst jobs, counted from 0, and −1 for the others."""
        count = max(1, int(np.ceil((1 - self._fairness) * len(jobs) - NEAR)))
        place = np.full(len(jobs), -1)
        place[np.argsort(-ratio, kind="stable")[:count]] = np.arange(min(count, len(jobs)))
        return place
