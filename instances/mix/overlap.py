"""Periods of groups of jobs that share devices, from the seconds that a step of each spends on each resource.

While one job of a group computes, another reads its data, and a third one sends gradients (Zhao et al.,
*Multi-Resource Interleaving for Deep Learning Training*, SIGCOMM'22; Rivendile/Muri, commit 4e69a78,
`simulator/matching.py`). A step of job j uses the resources r = 1, …, R in their order, for t_jr seconds. The
jobs of a group repeat a common period of T seconds, with P phases, which end at f_1 + kT, …, f_P + kT. A
resource takes one phase, and each job starts in a phase of its own, o_j:

    T = min  f_P − f_0   subject to   f_{p+1} − f_p ≥ t_jr,  p = o_j + r,  f_{p+P} = f_p + T,   over all o,

which is Σ_p max_j t_jr of the stages in phase p. Of resources whose names are joined, as ``storage+cpu``,
only the sum of the seconds is known: these take as many phases in a row, f_{p+2} − f_p ≥ t_jr. A phase that
no stage takes alone may have a negative length, but each resource has its jobs one after the other. By
linear programming duality T is the largest mean of a cycle of such differences around the phases. In Muri's
traces, which have three columns for four resources, the first column is of this sort, and T is that of the
simulator in the long run.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from itertools import permutations

import numpy as np

from ..common.arrays import Floats


def periods(seconds: Floats, phases: Sequence[int]) -> Floats:
    """Return the shortest period T of each group in seconds, shape (groups,).

    Parameters
    ----------
    seconds
        t_jr of each group, shape (groups, members, R).
    phases
        How many phases of a period each resource takes, in their order.
    """
    groups, members, _ = seconds.shape
    count, firsts = sum(phases), np.cumsum([0, *phases[:-1]])
    shortest = np.full(groups, np.inf)
    for starts in permutations(range(1, count), members - 1):
        least = np.full((count + 1, count, groups), -np.inf)  # of f_{p+n} − f_p, by n and p
        for start, times in zip((0, *starts), seconds.swapaxes(0, 1), strict=True):
            # The next job begins and ends its stages no earlier than this one. It begins after this one's end
            # too, unless a stage takes more phases than lie between the starts of both.
            step = min((each for each in starts if each > start), default=count) - start
            for first, length, time_s in zip(start + firsts, phases, times.T, strict=True):
                last = first + length
                for phase, later, bound_s in (
                    (first, length, time_s),
                    (first, step, 0.0),
                    (last, step, 0.0),
                    (last, max(step - length, 0), 0.0),
                ):
                    entry = least[later, phase % count]
                    np.maximum(entry, bound_s, out=entry)
        shortest = np.minimum(shortest, _largest_mean(least))
    return shortest


def _largest_mean(least: Floats) -> Floats:
    """Return the largest seconds for each round of a cycle of differences around the phases, shape (groups,).

    A cycle that has no smaller ones passes each phase at most once, and so has at most as many rounds as
    there are phases.
    """
    _, count, groups = least.shape
    paths = [np.zeros((count, groups))]  # the least seconds from each phase to so many phases later
    for end in range(1, count * count + 1):
        lengths = range(1, min(end, count) + 1)
        ways = (paths[end - n] + np.roll(least[n], n - end, axis=0) for n in lengths)
        paths.append(reduce(np.maximum, ways))
    means = [paths[count * rounds] / rounds for rounds in range(1, count + 1)]
    largest: Floats = np.max(means, axis=(0, 1))
    return largest
