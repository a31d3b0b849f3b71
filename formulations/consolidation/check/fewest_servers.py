"""m_j once more, for the check alone: servers are listed, and filled in the plainest way.

One group of tasks: take the servers that hold most. Several groups: forward dynamic programming over the
tasks of each group that still have no server, a dictionary entry for each such state.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Mapping, Sequence

from ....instances.consolidation.job import Group
from ...common.clock import check_time
from ...common.tolerance import loosened

MOST_WORK = 200_000
"""States times patterns that are looked at for one job, which takes a fraction of a second."""

Capacity = tuple[tuple[str, float], ...]
"""Amounts by resource, sorted by name."""


def fewest_again(groups: Sequence[Group], servers: Mapping[Capacity, int]) -> int | None:
    """Return the fewest servers that hold all tasks of a job; None if all together do not.

    Parameters
    ----------
    servers
        How many servers there are of each capacity.

    Raises
    ------
    OverflowError
        If this would take too long.
    """
    if len(groups) == 1:
        return _for_one_group(groups[0], servers)
    return _for_several(groups, servers)


def _for_one_group(group: Group, servers: Mapping[Capacity, int]) -> int | None:
    used, left = 0, group.tasks
    holds = Counter[int]()
    for capacity, count in servers.items():
        holds[_fit(group, dict(capacity))] += count
    for each in sorted(holds, reverse=True):
        if not each:
            break
        needed = min(holds[each], -(-left // each))
        used, left = used + needed, left - needed * each
        if left <= 0:
            return used
    return None


def _fit(group: Group, amounts: Mapping[str, float]) -> int:
    """Return how many tasks of a group fit into these amounts, up to the rounding of sums."""
    fits = [
        math.floor(min(group.tasks, loosened(amounts.get(name, 0.0)) / need))
        for name, need in group.demand.items()
        if need > 0
    ]
    return min(fits, default=group.tasks)


def _for_several(groups: Sequence[Group], servers: Mapping[Capacity, int]) -> int | None:
    tasks = tuple(group.tasks for group in groups)
    patterns: dict[tuple[tuple[int, ...], ...], int] = Counter()
    work = 0
    for capacity, count in servers.items():
        patterns[_patterns(groups, dict(capacity))] += count
    states = math.prod(n + 1 for n in tasks)
    for listed, count in patterns.items():
        work += min(count, sum(tasks)) * len(listed) * states
    if work > MOST_WORK:
        raise OverflowError
    used = {tasks: 0}
    for listed, count in patterns.items():
        for _ in range(min(count, sum(tasks))):
            check_time()
            before = dict(used)
            for left, so_far in before.items():
                for held in listed:
                    rest = tuple(max(0, n - h) for n, h in zip(left, held, strict=True))
                    if used.get(rest, math.inf) > so_far + 1:
                        used[rest] = so_far + 1
            if used == before:
                break
    return used.get((0,) * len(tasks))


def _patterns(groups: Sequence[Group], amounts: Mapping[str, float]) -> tuple[tuple[int, ...], ...]:
    """Return every way to fill a server with tasks of a job to which no task can be added."""
    ranges = [range(_fit(group, amounts) + 1) for group in groups]
    if math.prod(map(len, ranges)) > MOST_WORK:
        raise OverflowError
    names = Counter(name for group in groups for name in group.demand)
    fitting = {
        counts
        for counts in itertools.product(*ranges)
        if all(
            sum(n * group.demand.get(name, 0.0) for n, group in zip(counts, groups, strict=True))
            <= loosened(amounts.get(name, 0.0))
            for name in names
        )
    }
    full = []
    for counts in fitting:
        more = (
            tuple(n + (g == h) for h, n in enumerate(counts))
            for g in range(len(groups))
            if counts[g] < groups[g].tasks
        )
        if any(counts) and not any(larger in fitting for larger in more):
            full.append(counts)
    return tuple(sorted(full))
