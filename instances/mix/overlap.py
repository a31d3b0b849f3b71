"""Groups of jobs that share devices, made from the seconds that a step of each spends on each resource.

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

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import combinations_with_replacement, islice, permutations

import numpy as np

from ..common.arrays import Floats
from ..common.errors import refuse_faults
from ..common.faults import validated
from ..common.fields import Complaint, Fields
from ..files.reading import fail
from .instance import MAX_CONFIGURATIONS, MixInstance, MixType

JOINED, MAX_PHASES = "+", 6


def with_groups(data: Fields, source: str) -> Fields:
    """Return a document with the groups of up to `share_up_to` jobs, where no configurations are given.

    Only jobs of equally many devices share them. A job makes progress at its seconds alone over the period of
    its group, on hardware of every model.

    Raises
    ------
    InstanceError
        If the document is wrong, a type has no seconds to make groups from, or there are too many groups.
    """
    if data.get("share_up_to") is None or data.get("configurations"):
        return data
    draft = validated(MixInstance, {**data, "configurations": ()}, source)
    types, resources = draft.types, list(draft.types[0].resource_s)
    refuse_faults(source, _complaints(types, set(resources)))
    phases = [name.count(JOINED) + 1 for name in resources]
    if sum(phases) > MAX_PHASES:
        raise fail(source, f"has more than {MAX_PHASES} resources", "types[0].resource_s")
    seconds = np.array([[one.resource_s[name] for name in resources] for one in types])
    rows: list[Fields] = []
    for size in range(1, min(draft.share_up_to or 1, sum(phases)) + 1):
        room = (MAX_CONFIGURATIONS - len(rows)) // len(draft.hardware)
        groups = list(islice(_groups(types, size), room + 1))
        if len(groups) > room:
            what = f"makes more than {MAX_CONFIGURATIONS:,} groups; let fewer share, or join similar types"
            raise fail(source, what, "share_up_to")
        index = np.array(groups, dtype=np.int64).reshape(-1, size)
        # Alone a job makes all its progress, also where its own stages overlap.
        longer = draft.overhead.get(size, 1.0) if size > 1 else 0.0
        for group, period_s in zip(groups, longer * periods(seconds[index], phases), strict=True):
            rows += (
                _row([types[number] for number in group], period_s, each.name) for each in draft.hardware
            )
    return {**data, "configurations": rows}


def _complaints(types: Sequence[MixType], resources: set[str]) -> Iterator[Complaint]:
    for index, one in enumerate(types):
        path, given = f"types[{index}].resource_s", one.resource_s
        if not any(given.values()):
            yield path, "has no seconds; share_up_to makes groups from those of a step on each resource"
        elif set(given) != resources:
            yield path, f"has other resources than types[0], {', '.join(sorted(resources)) or 'none'}"


def _groups(types: Sequence[MixType], size: int) -> Iterator[tuple[int, ...]]:
    """Yield the groups of so many jobs of equally many devices, as numbers of their types."""
    alike = defaultdict[int, list[int]](list)
    for number, one in enumerate(types):
        alike[one.devices].append(number)
    for numbers in alike.values():
        for group in combinations_with_replacement(numbers, size):
            if all(many <= (types[number].count or 0) for number, many in Counter(group).items()):
                yield group


def _row(group: Sequence[MixType], period_s: float, hardware: str) -> Fields:
    alone = {one.name: one.step_s or math.fsum(one.resource_s.values()) for one in group}
    return {
        "hardware": hardware,
        "devices": group[0].devices,
        "jobs": Counter(one.name for one in group),
        "progress": {name: round(step_s / max(step_s, period_s), 9) for name, step_s in alone.items()},
    }


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
        least = np.full((groups, count, count + 1), -np.inf)  # of f_{p+n} − f_p
        for start, times in zip((0, *starts), seconds.swapaxes(0, 1), strict=True):
            following = min((each for each in starts if each > start), default=count)
            step = following - start  # to the next job that uses the same resources
            for first, length, time_s in zip(start + firsts, phases, times.T, strict=True):
                _raise(least, first, length, time_s)
                if step > length:
                    _raise(least, first + length, step - length)
                else:
                    _raise(least, first, step)
                    _raise(least, first + length, step)
        shortest = np.minimum(shortest, _largest_mean(least))
    return shortest


def _raise(least: Floats, phase: int, length: int, seconds: Floats | float = 0.0) -> None:
    """Raise the least difference between the ends of phases that are `length` apart to these seconds."""
    entry = least[:, phase % least.shape[1], length]
    np.maximum(entry, seconds, out=entry)


def _largest_mean(least: Floats) -> Floats:
    """Return the largest seconds for each round of a cycle of differences around the phases, shape (groups,).

    A cycle that has no smaller ones passes each phase at most once, and so has at most as many rounds as
    there are phases.
    """
    groups, count, _ = least.shape
    mean = np.zeros(groups)
    for start in range(count):
        path = [np.zeros(groups)]  # the least seconds from `start` to so many phases later
        for end in range(1, count * count + 1):
            ways = (
                path[end - n] + least[:, (start + end - n) % count, n] for n in range(1, min(end, count) + 1)
            )
            path.append(np.max([*ways], axis=0))
        for rounds in range(1, count + 1):
            mean = np.maximum(mean, path[count * rounds] / rounds)
    return mean
