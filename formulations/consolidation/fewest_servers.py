"""m_j: the fewest servers that a job could ever use, from the capacities of eligible servers.

Servers of one capacity are interchangeable, so a count for each capacity is enough.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np

from ...instances.common.arrays import Floats, Ints
from ...instances.common.errors import TooLargeError
from ...instances.consolidation.job import Group
from ..common.clock import check_time
from ..common.tolerance import all_loosened, loosened

MOST_STATES = 5_000_000
STATES_AT_ONCE, LOADS_AT_ONCE = 2_000, 10
"""So many states, or patterns of a server, take about as long as whatever else is to be done for it."""


def tasks_that_fit(amounts: Mapping[str, float], demand: Mapping[str, float], most: int) -> int:
    """Return how many tasks of one demand these amounts hold, at most `most`."""
    fit = float(most)
    for name, need in demand.items():
        if need > 0:
            fit = min(fit, loosened(amounts.get(name, 0.0)) / need)
    return math.floor(fit)


Shape = tuple[tuple[str, float], ...]
"""Amounts by resource, in a form that can be counted."""


class Shapes(Counter[Shape]):
    """How many servers there are of each shape; once it was asked what they hold it must not change."""

    @cached_property
    def _columns(self) -> tuple[dict[str, Floats], Ints]:
        """Amounts of each resource, and servers, of each shape."""
        names = {name for shape in self for name, _ in shape}
        amounts = [dict(shape) for shape in self]
        columns = {name: np.array([of.get(name, 0.0) for of in amounts]) for name in names}
        return columns, np.array([*self.values()], dtype=np.int64)

    def hold(self, demand: Mapping[str, float], most: int) -> tuple[Ints, Ints]:
        """Return how many tasks of one demand a server of each shape holds, at most `most`, and servers."""
        columns, count = self._columns
        fit = np.full(len(count), float(most))
        for name, need in demand.items():
            if need > 0:
                amounts = columns.get(name, np.zeros(len(count)))
                with np.errstate(over="ignore"):
                    np.minimum(fit, np.floor(all_loosened(amounts) / need), out=fit)
        return fit.astype(np.int64), count


def shape_of(amounts: Mapping[str, float]) -> Shape:
    """Return amounts in a form that can be counted."""
    return tuple(sorted(amounts.items()))


def fewest_servers(groups: Sequence[Group], shapes: Shapes) -> int | None:
    """Return how many servers hold all tasks of the job at least, None if all together do not.

    Servers of one capacity are interchangeable. One group: take the servers that hold most. Several
    groups: dynamic programming over the tasks of each group still without a server.
    """
    if len(groups) == 1:
        tasks = groups[0].tasks
        holds, count = shapes.hold(groups[0].demand, tasks)
        # The servers that hold most come first: no other choice needs fewer.
        order = np.argsort(-holds, kind="stable")
        holds, count = holds[order], count[order]
        held = np.cumsum(holds * count)
        last = int(np.searchsorted(held, tasks))
        if last == len(held):
            return None
        # Of the last kind of server only as many as the remaining tasks need.
        left = tasks - int(held[last] - holds[last] * count[last])
        return int(count[:last].sum()) - (-left // int(holds[last]))
    return _fewest_for_groups(groups, shapes)


def work_of(groups: Sequence[Group], shapes: Shapes) -> int:
    """Return how much work it is to find the fewest servers, in servers that are looked at."""
    if len(groups) == 1:
        return 0
    tasks, states = sum(group.tasks for group in groups), math.prod(group.tasks + 1 for group in groups)
    loads = states // (groups[-1].tasks + 1)
    each = 1 + states // STATES_AT_ONCE + loads // LOADS_AT_ONCE
    return sum(min(count, tasks) for count in shapes.values()) * each


def _loads(capacity: Mapping[str, float], groups: Sequence[Group]) -> list[tuple[int, ...]]:
    """Return the patterns of one server, tasks by group, to which no task can be added."""
    *others, last = groups
    shape = [tasks_that_fit(capacity, group.demand, group.tasks) + 1 for group in others]
    # Every choice of tasks of the other groups; then as many of the last group as fit.
    counts = np.indices(shape)
    possible = np.ones(shape, dtype=bool)
    most = np.full(shape, float(last.tasks))
    for name in {name for group in groups for name in group.demand}:
        amount, need = capacity.get(name, 0.0), last.demand.get(name, 0.0)
        taken = sum(n * group.demand.get(name, 0.0) for n, group in zip(counts, others, strict=True))
        possible &= taken <= loosened(amount)
        if need > 0:
            np.minimum(most, np.floor((loosened(amount) - taken) / need), out=most)
    most = np.where(possible, np.maximum(most, 0.0), -1.0)
    full = possible
    for g in range(len(others)):
        # With one more task of another group as many of the last one go there: nobody needs this pattern.
        more = np.roll(most, -1, axis=g)
        more[(slice(None),) * g + (-1,)] = -1.0
        full &= more < most
    held = [(*at, most[at]) for at in zip(*np.nonzero(full), strict=True)]
    return [tuple(map(int, load)) for load in held]


def _fewest_for_groups(groups: Sequence[Group], shapes: Shapes) -> int | None:
    size = tuple(group.tasks + 1 for group in groups)
    if math.prod(size) > MOST_STATES:
        raise TooLargeError(
            f"a job with {' × '.join(str(g.tasks) for g in groups)} tasks in groups is too large"
        )
    # need[t1, t2, …]: servers needed so far for that many tasks of each group
    need = np.full(size, np.inf, dtype=np.float32)
    need[(0,) * len(size)] = 0.0
    # Servers with the same patterns are one kind, whatever else they have.
    alike: Counter[tuple[tuple[int, ...], ...]] = Counter()
    for shape, count in shapes.items():
        check_time()
        alike[tuple(load for load in _loads(dict(shape), groups) if any(load))] += count
    for loads, count in alike.items():
        most = [max(held) for held in zip(*loads, strict=True)]
        for _ in range(min(count, sum(group.tasks for group in groups)) if loads else 0):
            # A server that holds more tasks of a group than are left holds just these: the edge goes on.
            before = np.pad(need, [(held, 0) for held in most], mode="edge")
            better = need.copy()
            for load in loads:
                check_time()
                starts = [m - held for m, held in zip(most, load, strict=True)]
                place = tuple(slice(start, start + n) for start, n in zip(starts, size, strict=True))
                np.minimum(better, before[place] + 1, out=better)
            # Further servers of this kind change nothing.
            if (better == need).all():
                break
            need = better
    best = need[tuple(n - 1 for n in size)]
    return int(best) if np.isfinite(best) else None
