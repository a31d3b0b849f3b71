"""Optimus: every interval each job gets its smallest configuration, then more where that gains most.

Peng et al., Optimus: An Efficient Dynamic Resource Scheduler for Deep Learning Clusters, EuroSys'18, section
4.1. The gain of a step from one configuration to a larger one is the drop of the remaining time if the job
kept it, over what the step adds to the dominant share of the cluster. The next larger configurations are
those that take no less of anything, and between which and the present one there is no other.

Jobs that get no configuration wait; the paper's cluster has room for one of each.

The remaining times, each as if its job kept what it gets, are what the paper adds up. Saving a second counts
the same for all then, and most seconds can be saved where jobs are longest. With `aim` speeds the policy adds
up ω v_k / (v τ^power) in their place, where v is the speed of the least configuration and τ the time that is
left in it: jobs that will end soon count for more.
"""

from __future__ import annotations

import heapq
from typing import ClassVar, Literal

import numpy as np

from ....instances.common.arrays import Floats, Ints
from ..menu_seen import MenuSeen
from ..round_policy import SLACK, RoundPolicy, admit
from ..seen import Knowledge

Admission = Literal["arrival", "shortest"]
Aim = Literal["times", "speeds"]
SOONEST_S = 1e-9
"""A time that is left counts as at least this."""


class Optimus(RoundPolicy):
    """Serves all jobs with the least first, then the largest marginal gains.

    Parameters
    ----------
    round_s
        How often it decides.
    admission
        Who comes first where not all jobs can have their least: who arrived first, or who has the least time
        × share of the cluster left in that configuration.
    reacts
        Whether it decides at arrivals and ends too.
    aim, power
        Whether the sum of remaining times is to be small, or that of speeds over a power of them large.
    """

    knows: ClassVar[Knowledge] = Knowledge.PROGRESS

    def __init__(
        self,
        round_s: float,
        admission: Admission = "arrival",
        reacts: bool = False,
        aim: Aim = "times",
        power: float = 0.25,
    ) -> None:
        super().__init__(round_s)
        self._admission, self.reacts = admission, reacts
        self._aim, self._power = aim, power

    def begin(self, seen: MenuSeen) -> None:
        """Start without knowing any menu."""
        super().begin(seen)
        self._larger: dict[int, Ints] = {}
        self._least: Ints = np.full(len(seen.row), -1)
        self._least_of: Floats = seen.capacity.copy()

    def choose(self, jobs: Ints, free: Floats) -> Ints:
        """Return the least configurations, each enlarged as far as that gains more than others would."""
        rows = self.least(jobs)
        served = self.served(jobs, rows, free)
        rows[~served] = -1
        left = free - self.seen.usage[rows[served]].sum(axis=0)
        places = np.flatnonzero(served)
        rows[places] = self.enlarged(jobs[places], rows[places], left)
        return rows

    def least(self, jobs: Ints) -> Ints:
        """Return the row with the least dominant share of each job, of several the fastest."""
        seen = self.seen
        if not np.array_equal(seen.capacity, self._least_of):
            # Shares are those of what there is now.
            self._least_of = seen.capacity.copy()
            self._least[:] = -1
        for j in jobs[self._least[jobs] < 0].tolist():
            own = seen.rows_of(j)
            self._least[j] = own[np.lexsort((-seen.speed[own], self.shares(seen.usage[own])))[0]]
        return self._least[jobs]

    def served(self, jobs: Ints, rows: Ints, free: Floats) -> Ints:
        """Return which jobs get their least configuration, as flags."""
        usage = self.seen.usage[rows]
        order = np.arange(len(jobs))
        if self._admission == "shortest":
            seen = self.seen
            order = np.argsort(seen.left[jobs] / seen.speed[rows] * self.shares(usage), kind="stable")
            self.order = order
        found = np.zeros(len(jobs), dtype=bool)
        found[order] = admit(usage[order], free, self.seen.capacity)
        return found

    def enlarged(self, jobs: Ints, rows: Ints, free: Floats) -> Ints:
        """Return the configurations after all steps that gain and fit, the largest gains first."""
        seen, found = self.seen, rows.copy()
        limit = SLACK * seen.capacity
        choosers = np.flatnonzero(seen.first[jobs + 1] - seen.first[jobs] > 1)
        heap = [step for k in choosers.tolist() for step in self._steps(k, int(jobs[k]), int(rows[k]))]
        heapq.heapify(heap)
        while heap:
            _, k, now, then = heapq.heappop(heap)
            if found[k] != now:
                continue
            added = seen.usage[then] - seen.usage[now]
            if (added > free + limit).any():
                continue
            free = free - added
            found[k] = then
            for step in self._steps(k, int(jobs[k]), then):
                heapq.heappush(heap, step)
        return found

    def _steps(self, k: int, j: int, row: int) -> list[tuple[float, int, int, int]]:
        """Return the steps to larger configurations that gain: −gain, place, from where, to where."""
        seen = self.seen
        larger = self._larger_than(j, row)
        both = np.append(larger, row)
        cost, share = self.costs(j, both), self.shares(seen.usage[both])
        saved = seen.weight[j] * (cost[-1] - cost[:-1])
        added = share[:-1] - share[-1]
        gains = saved / np.maximum(added, SLACK)
        return [
            (-gain, k, row, then)
            for gain, then in zip(gains.tolist(), larger.tolist(), strict=True)
            if gain > 0
        ]

    def costs(self, j: int, rows: Ints) -> Floats:
        """Return what is to be small of a job in each configuration, at least 0, without its weight."""
        seen = self.seen
        speed = seen.speed[rows]
        if self._aim == "times":
            return np.asarray(seen.left[j] / speed)
        least = seen.speed[self.least(np.array([j]))[0]]
        left_s = max(float(seen.left[j] / least), SOONEST_S)
        best = seen.speed[seen.rows_of(j)].max()
        return np.asarray((best - speed) / least / left_s**self._power)

    def _larger_than(self, j: int, row: int) -> Ints:
        """Return the rows that are larger, and between which and this one there is no other."""
        if row not in self._larger:
            own, usage = self.seen.rows_of(j), self.seen.usage
            above = (usage[own] >= usage[row]).all(axis=1) & (usage[own] > usage[row]).any(axis=1)
            candidates = own[above]
            candidates = candidates[np.argsort(usage[candidates].sum(axis=1), kind="stable")]
            kept: list[int] = []
            for one in candidates.tolist():
                if not any(_below(usage[other], usage[one]) for other in kept):
                    kept.append(one)
            self._larger[row] = np.array(kept, dtype=np.int64)
        return self._larger[row]


def _below(one: Floats, other: Floats) -> bool:
    return bool((one <= other).all() and (one < other).any())
