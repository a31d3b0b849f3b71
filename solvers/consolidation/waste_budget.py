"""Plans with little unused capacity: covers of all tasks by patterns within the waste budget.

If every job is placed, total capacity less total demand is the *waste budget*. A pattern that leaves more
than that free on its server is in no such plan. If the budget is small, few patterns keep it. They are found
by meet in the middle (Horowitz & Sahni 1974): every pattern is a first half and a second half, and sums of
halves are matched after sorting. Integer solutions are then sought over the columns of these patterns alone.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from fractions import Fraction
from itertools import combinations_with_replacement

import numpy as np

from ...formulations.common.clock import check_time
from ...formulations.consolidation.classes import ClassTable
from ...instances.common.arrays import Ints
from .patterns.column_generation import ROUNDING_MARGIN, PatternProgram
from .patterns.master import RestrictedMaster
from .patterns.pricing import ServerPattern
from .progress import SETTINGS

MAX_TASKS_PER_SERVER = 6
"""Largest number of tasks on one server; halves of up to three tasks are few enough to be listed."""


def requires_all_jobs(
    master: RestrictedMaster, goal: str, bound: float, levels: Mapping[str, Fraction]
) -> bool:
    """Return whether a bound, in steps of the objective, is attained only if every job of value is placed.

    Jobs without value may be left out; a solution with all jobs is as good.
    """
    worth = {True: Fraction(0), False: Fraction(0)}
    for job in master.classes.jobs:
        worth[job.must_place] += job.value * len(job.members)
    level = bound * master.steps[goal] if goal == "value" else levels.get("value", -worth[True])
    return math.isfinite(bound) and level <= -sum(worth.values())


def exact_cover_for_bound(program: PatternProgram, goal: str, bound: float) -> Ints | None:
    """Return column values that place every job if a bound, in steps, requires that; None if not found.

    All jobs are placed by patterns within the waste budget, which are added to the master problem.
    """
    master, classes = program.master, program.master.classes
    plain = classes.jobs and all(job.loose and not job.current for job in classes.jobs)
    if not plain or not requires_all_jobs(master, goal, bound, program.levels):
        return None
    most_servers, most = (round(bound), bound) if goal == "servers" else (None, math.inf)
    for patterns in waste_patterns(classes, most_servers):
        for number, pattern in patterns:
            master.add_server_pattern(number, pattern)
        # All jobs have their only pattern, in which each task is a piece.
        least = np.array([master.most_placed[c.what[0]] if c.type == "job" else 0.0 for c in master.columns])
        within = set(patterns)
        bounds = least, np.array([c.type == "job" or c.what in within for c in master.columns])
        solution, _ = program.solve_integers(goal, bound, None, most, bounds, covers=True)
        if solution is not None:
            return solution
    return None


def waste_patterns(
    classes: ClassTable, most_servers: int | None
) -> Iterator[list[tuple[int, ServerPattern]]]:
    """Yield lists of all server patterns within the waste budget, each of up to one task more than the last.

    The first list has patterns of as many tasks as the servers have on average. The lists end before there
    are too many patterns. A pattern comes with the number of its server class.

    Parameters
    ----------
    most_servers
        Largest number of servers that carry tasks; None for all.
    """
    # The last item is no task, so that patterns of fewer tasks have as many items as the others.
    no_task = len(classes.task_shapes)
    items = np.array([*(shape.demands[0] for shape in classes.task_shapes), [0] * len(classes.units)])
    needs = [(part.shape, part.tasks[0] * len(job.members)) for job in classes.jobs for part in job.parts]
    shapes, counts = np.array(needs).T
    free = [server.free for server in classes.servers for _ in server.members]
    largest = np.sort(free, axis=0)[::-1][:most_servers]
    budget: Ints = largest.sum(axis=0) - counts @ items[shapes]
    if (budget < 0).any() or not items[:no_task].any(axis=1).all():
        return
    # Patterns of less than the mean number of tasks do not hold all.
    mean = math.ceil(counts.sum() / len(largest))
    for size in range(max(2, mean), MAX_TASKS_PER_SERVER + 1):
        larger = size - size // 2
        if math.comb(no_task + larger, larger) > SETTINGS.most_halves:
            return
        halves = _multisets(no_task + 1, larger), _multisets(no_task + 1, size // 2)
        patterns: list[tuple[int, ServerPattern]] = []
        for number, server in enumerate(classes.servers):
            rows = _joined_halves(*halves, items, np.array(server.free), budget)
            if rows is None or len(patterns) + len(rows) > SETTINGS.most_patterns_enumerated:
                return
            most = {k: len(classes.slots[k]) for k in classes.shapes_of(server.pool)}
            for row in rows.tolist():
                tasks = Counter[int](k for k in row if k != no_task)
                # Row n - 1 of a shape's slots is for n tasks.
                if all(n <= most.get(k, 0) for k, n in tasks.items()):
                    patterns.append((number, tuple((k, n - 1) for k, n in tasks.items())))
        yield patterns


def _multisets(items: int, size: int) -> Ints:
    """Return all multisets of so many of the items, in ascending order; shape (N, size)."""
    rows = combinations_with_replacement(range(items), size)
    return np.fromiter(rows, dtype=np.dtype((np.int64, size)))


def _joined_halves(first: Ints, second: Ints, items: Ints, free: Ints, budget: Ints) -> Ints | None:
    """Return all unions of two halves that leave at most the budget of a server; None if there are too many.

    Parameters
    ----------
    first, second
        All multisets of so many items, in ascending order; shape (N, size).
    items
        Demand of each item; shape (items, R).
    """
    check_time()
    left, sums = free - items[first].sum(axis=1), items[second].sum(axis=1)
    # Compared are weighted sums of the resources with the least budget. The weights are random, so that
    # unequal sums of several resources without any budget hardly ever agree.
    scale = np.maximum(free, 1)
    shares = budget / scale
    weights = np.random.default_rng(0).random(len(free)) / scale * (shares == shares.min())
    wanted, keys = left @ weights, sums @ weights
    # What is looked up is sorted as well, which makes it several times as fast.
    by_wanted, by_key = np.argsort(wanted), np.argsort(keys)
    wanted, keys = wanted[by_wanted], keys[by_key]
    low = np.searchsorted(keys, wanted - budget @ weights - ROUNDING_MARGIN)
    count = np.searchsorted(keys, wanted + ROUNDING_MARGIN) - low
    if count.sum() > SETTINGS.most_halves:
        return None
    one = np.repeat(by_wanted, count)
    other = by_key[np.arange(len(one)) + np.repeat(low + count - np.cumsum(count), count)]
    left = left[one] - sums[other]
    # The items of a union are in ascending order too, so that each is found once.
    keep = (first[one, -1] <= second[other, 0]) & ((left >= 0) & (left <= budget)).all(axis=1)
    return np.hstack([first[one[keep]], second[other[keep]]])
