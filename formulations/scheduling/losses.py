"""What a job loses when the cluster takes its place away: the work since its last checkpoint."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from ...instances.common.arrays import Flags, Floats, Ints
from ...instances.scheduling.instance import SchedulingInstance


def interval_s(instance: SchedulingInstance) -> float:
    """Return the work between two checkpoints: 0 where nothing is ever lost, infinite where all of it is."""
    if instance.checkpoint_s is not None:
        return instance.checkpoint_s
    return math.inf if instance.preemption == "none" else 0.0


def runs_at_once(instance: SchedulingInstance) -> bool:
    """Return whether each job does all its work in one run.

    Without preemption it does, even if it has to begin again; but not if it loses its place and goes on from
    a checkpoint.
    """
    return instance.preemption == "none" and not (
        instance.evict == "restart" and instance.checkpoint_s is not None and bool(instance.events)
    )


def kept_s(progress_s: float, interval: float, slack_s: float = 0.0) -> float:
    """Return the work that is left of a job's progress when it loses its place.

    Parameters
    ----------
    interval
        Work between two checkpoints, which are counted from the job's first second.
    slack_s
        Work that may be missing to a checkpoint that counts.
    """
    if interval == 0:
        return progress_s
    if interval == math.inf:
        return 0.0
    return max(0.0, min(progress_s, math.floor((progress_s + slack_s) / interval) * interval))


class Falls:
    """The moments at which amounts fall, of the whole cluster, and of each server."""

    def __init__(self, instance: SchedulingInstance) -> None:
        times, amounts = instance.capacity_over_time
        falls = (amounts[1:] < amounts[:-1]).any(axis=1)
        self.of_all: Floats = times[1:][falls]
        self._of_servers: set[tuple[float, str]] = set()
        if instance.servers:
            states = instance.server_states
            now = states.amounts.copy()
            for at_s, n, there in states.changes:
                if (there < now[n]).any():
                    self._of_servers.add((at_s, states.names[n]))
                now[n] = there

    def hit(self, end_s: float, servers: Mapping[str, int]) -> bool:
        """Return whether a run that ends then loses its place; without servers it is one of the pool."""
        if servers:
            return any((end_s, name) in self._of_servers for name in servers)
        return bool((self.of_all == end_s).any())


def hit_runs(
    instance: SchedulingInstance, of: Ints, end_s: Floats, servers: Sequence[Mapping[str, int]]
) -> Flags:
    """Return which runs, sorted by job, end before their job does at a moment at which amounts fall.

    Parameters
    ----------
    servers
        Of each run; empty where no segment names any.
    """
    found = np.zeros(len(of), dtype=bool)
    if not instance.events:
        return found
    falls = Falls(instance)
    later = np.zeros(len(of), dtype=bool)
    later[:-1] = of[1:] == of[:-1]
    moments = instance.capacity_over_time[0] if instance.servers else falls.of_all
    for k in np.flatnonzero(later & np.isin(end_s, moments)).tolist():
        found[k] = falls.hit(float(end_s[k]), servers[k] if servers else {})
    return found


def progress_of(gain: Floats, of: Ints, hit: Flags, interval: Floats, slack: Floats) -> Floats:
    """Return the work that is done of each job in the end, shape (J,).

    Parameters
    ----------
    gain, of, hit
        What each run adds, of which job, and whether it loses its place; sorted by job, then time.
    interval, slack
        Work between two checkpoints of each job, and how much of it may be missing, shape (J,).
    """
    total = np.bincount(of, gain, len(slack)).astype(float)
    if not interval.any():
        return total
    for j in np.unique(of[hit]).tolist():
        progress = 0.0
        first, beyond = np.searchsorted(of, [j, j + 1]).tolist()
        for k in range(first, beyond):
            progress += float(gain[k])
            if hit[k]:
                progress = kept_s(progress, float(interval[j]), float(slack[j]))
        total[j] = progress
    return total
