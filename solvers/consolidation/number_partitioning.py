"""Tasks spread evenly over servers by their traffic: multiway number partitioning, with capacities.

Whole tasks: in descending order of size, each on the server with the least load that has room (Graham 1969).
Then sets of at most two tasks are exchanged against sets of at most two, between the fullest server and each
other, and between each and the emptiest, as long as that makes their loads more even. New beginnings vary the
sizes in the order at random.

Jobs of many equal tasks: the tasks of one job after the other fill the servers, each with its share of all
tasks (the wrap-around rule of McNaughton 1959). The loads are as even as can be, and of P servers at most
P − 1 begin in the middle of a job.
"""

from __future__ import annotations

from collections import Counter
from itertools import accumulate, combinations, pairwise

import numpy as np

from ...formulations.common.objective import TIE_TOLERANCE
from ...formulations.consolidation.formulation import ConsolidationFormulation
from ...instances.common.arrays import Floats, Ints
from ..common.base import Clock
from ..common.result import SolveOptions
from .list_assignment import Blocks, assigned, blocks_of, plan_of
from .progress import Progress

EVEN_OBJECTIVES = frozenset({"imbalance", "traffic", "spread"})
SPREAD_OF_SIZES = 0.2
"""Standard deviation of the random factors of sizes in the order of a new beginning."""
MAX_PAIRED_TASKS = 24
"""Tasks of one server, chosen at random, whose pairs are exchanged."""


def even_blocks(formulation: ConsolidationFormulation) -> Blocks | None:
    """Return the blocks of an instance where even loads are all that counts; None of any other.

    Blocks have one task each, or all have equal tasks and servers no traffic yet.
    """
    names = formulation.instance.objectives
    if names[0] == "spread" or not EVEN_OBJECTIVES.issuperset(names):
        return None
    blocks = blocks_of(formulation)
    if blocks is None or max(blocks.tasks) == 1 or (len({*blocks.sizes}) == 1 and not blocks.before.any()):
        return blocks
    return None


def even_out_loads(
    progress: Progress, blocks: Blocks, options: SolveOptions, clock: Clock, most_rounds: float
) -> bool:
    """Improve the incumbent until its bounds are attained, or the time or the number of rounds is up.

    Returns whether it found a plan, as it cannot where capacities are too tight for this order of tasks.
    """
    formulation, bounds = progress.formulation, progress.formulation.elementary_bounds()
    rng, spread = np.random.default_rng(options.seed or 0), 0.0
    while True:
        if max(blocks.tasks) > 1:
            placed, most_rounds = _wrap_around(blocks), 0
        else:
            order = np.argsort(blocks.sizes * rng.normal(-1.0, spread, len(blocks.sizes)), kind="stable")
            slices = ((block, 1) for block in order.tolist())
            listed = assigned(blocks, slices, lambda _, loads, __: loads)
            if listed is None:
                return False
            placed = _Exchanges(blocks, listed, rng).evened_out(clock)
        if progress.update_incumbent(plan_of(formulation, placed)) is None:
            return False
        progress.bounds, spread, most_rounds = [*bounds], SPREAD_OF_SIZES, most_rounds - 1
        if most_rounds <= 0 or clock.expired or not progress.is_open(options.gap):
            return True


def _wrap_around(blocks: Blocks) -> list[dict[int, int]]:
    """Return the tasks of each block by server, where equal tasks fill the servers one after the other."""
    total, count = sum(blocks.tasks), len(blocks.before)
    shares = [*pairwise(total * n // count for n in range(count + 1))]
    return [
        {n: max(0, min(end, last) - max(start, first)) for n, (first, last) in enumerate(shares)}
        for start, end in pairwise(accumulate(blocks.tasks, initial=0))
    ]


class _Exchanges:
    """Exchanges of N tasks between P servers, with R resources of which not every server has enough for all.

    Attributes
    ----------
    size, demand
        Traffic of each task in units, shape (N + 1,), and its demand, shape (N + 1, R). The last task stands
        for none: it has neither.
    before, room
        What is on each server in every plan, shape (P,), and its free capacity, shape (P, R).
    where
        Server of each task, shape (N + 1,).
    """

    def __init__(self, blocks: Blocks, placed: list[Counter[int]], rng: np.random.Generator) -> None:
        binding = blocks.demand.sum(axis=0) > blocks.room.min(axis=0)
        self.demand = np.pad(blocks.demand[:, binding], ((0, 1), (0, 0)))
        self.size, self.room = np.append(blocks.sizes, 0.0), blocks.room[:, binding]
        self.before, self.rng = blocks.before, rng
        self.where = np.array([*(server for counts in placed for server in counts), 0])

    def evened_out(self, clock: Clock) -> list[dict[int, int]]:
        """Return the tasks by server after exchanges with the fullest and the emptiest, while these help."""
        improved = True
        while improved and not clock.expired:
            loads = self.before + np.bincount(self.where, self.size, len(self.before))
            left = self.room.copy()
            np.subtract.at(left, self.where, self.demand)
            order = np.argsort(loads)
            pairs = [(order[-1], n) for n in order[:-1]] + [(n, order[0]) for n in order[:0:-1]]
            improved = any(self._exchange(high, low, loads[high] - loads[low], left) for high, low in pairs)
        return [{server: 1} for server in self.where[:-1].tolist()]

    def _exchange(self, high: int, low: int, gap: float, left: Floats) -> bool:
        """Make the exchange after which two loads differ least; return whether they differed more before."""
        given, taken = self._sets(high), self._sets(low)
        moved = self.size[given].sum(axis=1)[:, None] - self.size[taken].sum(axis=1)
        after = np.abs(gap - 2 * moved)
        for demand, here, there in zip(self.demand.T, left[high], left[low], strict=True):
            more = demand[given].sum(axis=1)[:, None] - demand[taken].sum(axis=1)
            after[(more > there) | (-more > here)] = gap
        one, other = np.unravel_index(after.argmin(), after.shape)
        if after[one, other] >= gap * (1 - TIE_TOLERANCE):  # sums of large figures are rounded
            return False
        self.where[given[one]], self.where[taken[other]] = low, high
        return True

    def _sets(self, server: int) -> Ints:
        """Return the sets of at most two tasks of a server, shape (M, 2), filled up with that for none."""
        tasks = np.flatnonzero(self.where[:-1] == server)
        if len(tasks) > MAX_PAIRED_TASKS:
            tasks = self.rng.choice(tasks, MAX_PAIRED_TASKS, replace=False)
        none = len(self.where) - 1
        return np.array([*combinations([none, none, *tasks], 2)])
