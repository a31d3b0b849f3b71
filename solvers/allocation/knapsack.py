"""The multiple-choice knapsack that an allocation is: one row for each job, limits on what the rows take.

    minimise Σ_k c_k x_k  subject to  Σ_{k of j} x_k = 1 for every job j,  Σ_k a_kr x_k ≤ b_r for every r

Methods relax it by prices, drop rows from it and hand what is left to a solver; all of that happens here,
on columns, and a row remembers where in the menu it stands.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...formulations.allocation.configurations import Configurations
from ...instances.common.arrays import Floats, Ints

JOBS_AT_ONCE = 4096
"""Some hundred thousand rows, which fit in a processor's cache."""


@dataclass(frozen=True)
class MultipleChoice:
    """A multiple-choice knapsack in columns; rows of job j are `start[j]` to `start[j + 1]`.

    Attributes
    ----------
    start
        Shape (J + 1,); every job has a row.
    cost, demand
        Shapes (K,) and (K, R).
    limit
        Shape (R,).
    row
        Shape (K,): the row of the configs.
    """

    start: Ints
    cost: Floats
    demand: Floats
    limit: Floats
    row: Ints

    @classmethod
    def of(cls, configs: Configurations, cost: Floats) -> MultipleChoice:
        """Return the problem of a whole configs."""
        return cls(configs.start, cost, configs.demand, configs.limit, np.arange(len(cost)))

    @property
    def jobs(self) -> int:
        """Number of jobs."""
        return len(self.start) - 1

    def parts(self) -> Iterator[tuple[slice, slice, Ints]]:
        """Yield the rows of some jobs at a time, these jobs, and where each starts among the rows."""
        for first in range(0, self.jobs, JOBS_AT_ONCE):
            start = self.start[first : first + JOBS_AT_ONCE + 1]
            rows = slice(int(start[0]), int(start[-1]))
            yield rows, slice(first, first + len(start) - 1), start - start[0]

    def choose(self, prices: Floats) -> tuple[Floats, Ints]:
        """Return min_k (c_k + λ·a_k) of each job, and the row where it is reached; shapes (J,)."""
        least, rows = [], []
        for part, _, start in self.parts():
            value = self.demand[part] @ prices
            value += self.cost[part]
            low = np.minimum.reduceat(value, start[:-1])
            reached = np.flatnonzero(value == np.repeat(low, np.diff(start)))
            least.append(low)
            rows.append(part.start + reached[np.searchsorted(reached, start[:-1])])
        return np.concatenate(least), np.concatenate(rows)

    def least_costs(self, prices: Floats) -> Floats:
        """Return min_k (c_k + λ·a_k) of each job, shape (J,)."""
        least = []
        for part, _, start in self.parts():
            value = self.demand[part] @ prices
            value += self.cost[part]
            least.append(np.minimum.reduceat(value, start[:-1]))
        return np.concatenate(least)

    def reduced_costs(self, prices: Floats) -> Floats:
        """Return c_k + λ·a_k less the least of the row's job, shape (K,)."""
        reduced = np.empty(len(self.cost))
        for part, _, start in self.parts():
            value = self.demand[part] @ prices
            value += self.cost[part]
            reduced[part] = value - np.repeat(np.minimum.reduceat(value, start[:-1]), np.diff(start))
        return reduced

    def take(self, rows: Ints) -> Floats:
        """Return what some rows take together, shape (R,)."""
        total: Floats = self.demand[rows].sum(axis=0)
        return total

    def fits(self, rows: Ints) -> bool:
        """Return whether some rows keep the limits together."""
        return bool((self.take(rows) <= self.limit).all())

    def value(self, rows: Ints) -> float:
        """Return what some rows cost together."""
        return math.fsum(self.cost[rows])

    def only(self, keep: NDArray[np.bool_]) -> MultipleChoice:
        """Return the problem without the rows that are not kept; every job must keep one."""
        counts = np.add.reduceat(keep, self.start[:-1], dtype=np.int64)
        start = np.concatenate([[0], np.cumsum(counts)])
        return MultipleChoice(start, self.cost[keep], self.demand[keep], self.limit, self.row[keep])

    def sample(self, jobs: Ints) -> MultipleChoice:
        """Return the problem of some of the jobs, in order, with their share of the limits."""
        keep = np.zeros(self.jobs, dtype=bool)
        keep[jobs] = True
        counts = np.diff(self.start)
        rows = np.flatnonzero(np.repeat(keep, counts))
        start = np.concatenate([[0], np.cumsum(counts[keep])])
        share = self.limit * (len(jobs) / self.jobs)
        return MultipleChoice(start, self.cost[rows], self.demand[rows], share, self.row[rows])
