"""The multiple-choice multi-dimensional knapsack that an allocation is (Sinha & Zoltners 1979).

    minimise Σ_k c_k x_k  subject to  Σ_{k of j} x_k = 1 for every job j,  Σ_k a_kr x_k ≤ b_r for every r

Its items are configurations, its classes are jobs. Methods relax it by dual prices, drop items from it and
hand the rest to a solver; every item remembers the index of its configuration.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ...formulations.allocation.configurations import Configurations
from ...instances.common.arrays import Floats, Ints

JOBS_AT_ONCE = 4096
"""Some hundred thousand items, which fit in a processor's cache."""


@dataclass(frozen=True)
class MultipleChoice:
    """A multiple-choice knapsack in columns; items of job j are `start[j]` to `start[j + 1]`.

    Attributes
    ----------
    start
        Shape (J + 1,); every job has an item.
    cost, demand
        Shapes (K,) and (K, R).
    limit
        Shape (R,).
    configuration
        Shape (K,): index of each item in the configuration table.
    """

    start: Ints
    cost: Floats
    demand: Floats
    limit: Floats
    configuration: Ints

    @classmethod
    def of(cls, configs: Configurations, cost: Floats) -> MultipleChoice:
        """Return the problem of a whole configuration table."""
        return cls(configs.start, cost, configs.demand, configs.limit, np.arange(len(cost)))

    @property
    def jobs(self) -> int:
        """Number of jobs."""
        return len(self.start) - 1

    def parts(self) -> Iterator[tuple[slice, slice, Ints]]:
        """Yield the items of some jobs at a time, these jobs, and where each starts among the items."""
        for first in range(0, self.jobs, JOBS_AT_ONCE):
            start = self.start[first : first + JOBS_AT_ONCE + 1]
            items = slice(int(start[0]), int(start[-1]))
            yield items, slice(first, first + len(start) - 1), start - start[0]

    def _priced(self, prices: Floats) -> Iterator[tuple[slice, Ints, Floats, Floats]]:
        """Yield parts with c_k + λ·a_k of their items, and the least of each job."""
        for part, _, start in self.parts():
            value = self.demand[part] @ prices
            value += self.cost[part]
            yield part, start, value, np.minimum.reduceat(value, start[:-1])

    def choose(self, prices: Floats) -> tuple[Floats, Ints]:
        """Return min_k (c_k + λ·a_k) of each job, and the first item that attains it; shapes (J,)."""
        least, chosen = [], []
        for part, start, value, low in self._priced(prices):
            reached = np.flatnonzero(value == np.repeat(low, np.diff(start)))
            least.append(low)
            chosen.append(part.start + reached[np.searchsorted(reached, start[:-1])])
        return np.concatenate(least), np.concatenate(chosen)

    def least_costs(self, prices: Floats) -> Floats:
        """Return min_k (c_k + λ·a_k) of each job, shape (J,)."""
        return np.concatenate([low for *_, low in self._priced(prices)])

    def reduced_costs(self, prices: Floats) -> Floats:
        """Return c_k + λ·a_k less the least of the item's job, shape (K,)."""
        reduced = np.empty(len(self.cost))
        for part, start, value, low in self._priced(prices):
            reduced[part] = value - np.repeat(low, np.diff(start))
        return reduced

    def take(self, items: Ints) -> Floats:
        """Return what some items take together, shape (R,)."""
        total: Floats = self.demand[items].sum(axis=0)
        return total

    def fits(self, items: Ints) -> bool:
        """Return whether some items keep the limits together."""
        return bool((self.take(items) <= self.limit).all())

    def value(self, items: Ints) -> float:
        """Return what some items cost together."""
        return math.fsum(self.cost[items])

    def only(self, keep: NDArray[np.bool_]) -> MultipleChoice:
        """Return the problem of the items that are kept; to choose, every job must keep one."""
        counts = np.add.reduceat(keep, self.start[:-1], dtype=np.int64)
        start = np.concatenate([[0], np.cumsum(counts)])
        return MultipleChoice(start, self.cost[keep], self.demand[keep], self.limit, self.configuration[keep])

    def sample(self, jobs: Ints) -> MultipleChoice:
        """Return the problem of some of the jobs, in order, with their share of the limits."""
        keep = np.zeros(self.jobs, dtype=bool)
        keep[jobs] = True
        sampled = self.only(np.repeat(keep, np.diff(self.start)))
        # Jobs outside the sample keep nothing, so that they start where the next one does.
        return replace(sampled, start=np.unique(sampled.start), limit=self.limit * (len(jobs) / self.jobs))
