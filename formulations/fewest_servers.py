"""m_j: the fewest servers that a job could ever use, from the capacities of eligible servers."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from ..instances.consolidation import Group, Server
from ..instances.errors import TooLargeError
from .base import TOLERANCE

MOST_STATES = 5_000_000


def tasks_that_fit(amounts: Mapping[str, float], demand: Mapping[str, float], most: int) -> int:
    """Return how many tasks of one demand these amounts hold, at most `most`."""
    fit = float(most)
    for name, need in demand.items():
        if need > 0:
            fit = min(fit, amounts.get(name, 0.0) * (1 + TOLERANCE) / need)
    return math.floor(fit)


Shapes = Mapping[tuple[tuple[str, float], ...], int]
"""How many servers there are of each capacity."""


def shape_of(amounts: Mapping[str, float]) -> tuple[tuple[str, float], ...]:
    """Return amounts in a form that can be counted."""
    return tuple(sorted(amounts.items()))


def shapes_of(servers: Iterable[Server]) -> Shapes:
    """Return how many of these servers there are of each capacity."""
    return Counter(shape_of(server.capacity) for server in servers)


def fewest_servers(groups: Sequence[Group], shapes: Shapes) -> int | None:
    """Return how many servers hold all tasks of the job at least, None if all together do not.

    Servers of one capacity are interchangeable. One group: take the servers that hold most. Several
    groups: dynamic programming over the tasks of each group still without a server.
    """
    if len(groups) == 1:
        group = groups[0]
        holds = {shape: tasks_that_fit(dict(shape), group.demand, group.tasks) for shape in shapes}
        left, used = group.tasks, 0
        for shape in sorted(shapes, key=lambda shape: -holds[shape]):
            if holds[shape] == 0:
                return None
            take = min(shapes[shape], -(-left // holds[shape]))
            used, left = used + take, left - take * holds[shape]
            if left <= 0:
                return used
        return None
    return _fewest_for_groups(groups, shapes)


def _loads(capacity: Mapping[str, float], groups: Sequence[Group]) -> list[tuple[int, ...]]:
    """Return the loads of one server, tasks by group, to which no task can be added."""
    loads: list[tuple[int, ...]] = []
    first = [range(tasks_that_fit(capacity, group.demand, group.tasks) + 1) for group in groups[:-1]]
    for counts in itertools.product(*first):
        left = {
            name: amount
            - sum(c * group.demand.get(name, 0.0) for c, group in zip(counts, groups, strict=False))
            for name, amount in capacity.items()
        }
        if any(amount < -TOLERANCE * max(capacity[name], 1e-9) for name, amount in left.items()):
            continue
        slack = {name: amount + TOLERANCE * capacity[name] for name, amount in left.items()}
        loads.append((*counts, max(0, tasks_that_fit(slack, groups[-1].demand, groups[-1].tasks))))
    return [
        a for a in loads if not any(a != b and all(x <= y for x, y in zip(a, b, strict=True)) for b in loads)
    ]


def _fewest_for_groups(groups: Sequence[Group], shapes: Shapes) -> int | None:
    size = tuple(group.tasks + 1 for group in groups)
    if math.prod(size) > MOST_STATES:
        raise TooLargeError(
            f"a job with {' × '.join(str(g.tasks) for g in groups)} tasks in groups is too large"
        )
    # need[t1, t2, …]: servers needed so far for that many tasks of each group
    need: NDArray[np.float64] = np.full(size, np.inf)
    need[(0,) * len(size)] = 0.0
    for shape, count in shapes.items():
        loads = [load for load in _loads(dict(shape), groups) if any(load)]
        for _ in range(min(count, sum(group.tasks for group in groups))):
            better = need.copy()
            for load in loads:
                index = np.ix_(
                    *(np.maximum(np.arange(n) - held, 0) for n, held in zip(size, load, strict=True))
                )
                np.minimum(better, need[index] + 1, out=better)
            if (better == need).all():
                break
            need = better
    best = need[tuple(n - 1 for n in size)]
    return int(best) if np.isfinite(best) else None
