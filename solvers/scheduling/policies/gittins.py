"""The Gittins index of jobs whose durations are like those of the past (2D-Gittins of Tiresias).

Gu et al., Tiresias, NSDI'19, section 4.2; the index is sup_Δ P(S − a ≤ Δ | S > a) / E[min(S − a, Δ) | S > a],
where S is the service in GPU-seconds of jobs that have ended, and a is what a job has attained.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from ....instances.common.arrays import Flags, Floats, Ints
from ..kernels import raise_levels, until_limit
from ..policy import ByKey
from ..seen import Knowledge, Seen
from .least_attained import MOMENT, NEAR

LEVELS = 16
"""Steps of the index, by equal factors from the shortest to the longest service of jobs that have ended."""
GROWTH = 1.1
"""The index is made anew when there are so many times as many jobs that have ended."""
FEWEST = 10
"""Jobs that must have ended before there is an index; until then all are alike."""


def gittins_index(sorted_services: Floats, attained: float, least: float = 0.0) -> float:
    """Return the index of a job by services of the past; 0 where none was larger than what it attained.

    Parameters
    ----------
    least
        The least Δ, for a job is not looked at again before; all that is left where that is less.
    """
    beyond = sorted_services[sorted_services > attained] - attained
    if not len(beyond):
        return 0.0
    # Δ is best at one of the services: (k + 1) jobs end within it, and the others take Δ each.
    ended = np.arange(1, len(beyond) + 1)
    spent = np.cumsum(beyond) + (len(beyond) - ended) * beyond
    chances = ended / spent
    return float(max(chances[beyond >= least].max(initial=0.0), chances[-1]))


class Gittins(ByKey):
    """Serves the job with the highest index; ties go to the first."""

    knows = Knowledge.PAST
    preempts: ClassVar[bool] = True

    def begin(self, seen: Seen) -> None:
        """Start without a past."""
        super().begin(seen)
        self._limits: Floats = np.array([np.inf])
        self._index: Floats = np.zeros(1)
        self._level: Ints = np.zeros(len(seen.width), dtype=np.int64)
        self._built = 0

    def keys_of(self, jobs: Ints) -> Floats:
        """Return minus the index at the level that jobs have reached."""
        return -self._index[self._level[jobs]]

    def ended(self, jobs: Sequence[int]) -> None:
        """Make the index anew once there is enough more to learn from."""
        super().ended(jobs)
        past = self.seen.past
        if len(past) >= max(FEWEST, GROWTH * self._built):
            self._built = len(past)
            self._learn(np.sort([duration * width for duration, width in past]))

    def choose(self, held: Flags) -> Ints:
        """Move jobs to the levels that they have reached, and serve those with the highest index."""
        seen = self.seen
        jobs, tolerances = seen.running, (NEAR, MOMENT * seen.now_s)
        raise_levels(jobs, seen.executed_s, seen.width, self._level, self._limits, *tolerances)
        return super().choose(held)

    def again_s(self) -> float:
        """Return when the next job reaches a level, if any waits: nobody else would take its place."""
        seen = self.seen
        if not self.waits():
            return np.inf
        jobs = seen.running
        return seen.now_s + until_limit(jobs, seen.executed_s, seen.width, self._level, self._limits)

    def _learn(self, services: Floats) -> None:
        steps = np.unique(np.geomspace(services[0], services[-1], LEVELS))
        edges = [0.0, *steps.tolist()]
        pairs = zip(edges, [*edges[1:], edges[-1]], strict=True)
        self._limits = np.append(steps, np.inf)
        self._index = np.array([gittins_index(services, a, b - a) for a, b in pairs])
        service = self.seen.executed_s * self.seen.width
        self._level = np.searchsorted(steps, service, side="right")
        self._sort_again()
