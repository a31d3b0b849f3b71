"""Why jobs waited: who ran while they did, and how much work was before them when they came."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...formulations.scheduling.plan import SegmentTable
from ...formulations.scheduling.usage import Usage
from ...instances.common.arrays import Flags, Floats
from ...instances.scheduling.instance import SchedulingInstance
from ..output.text import figure
from ..reports.text import counted

HOUR_S = 3600.0
WIDE = 0.05
"""Part of the cluster from which on a job is hard to fit in."""
MOST_LATER = 0.5
"""Part of what was used while a job waited from which on those that came later are the reason."""


@dataclass(frozen=True)
class Wait:
    """What happened while a job waited.

    Attributes
    ----------
    wanted, there
        Units of a resource: what the job takes, and the most that there is.
    in_use
        Mean units that others used.
    later, later_less
        Jobs that came after it and ran, and those of them with less work than it has.
    later_share
        Their part of what others used.
    earlier, earlier_hours
        Jobs that were there when it came, and unit-hours that they had left.
    """

    wanted: float
    there: float
    in_use: float
    later: int
    later_less: int
    later_share: float
    earlier: int
    earlier_hours: float

    def reason(self, resource: str) -> str:
        """Return why it waited, in a line."""
        said = []
        if self.wanted >= WIDE * self.there:
            said.append(f"wanted {figure(self.wanted, 4)} of {figure(self.there, 4)} {resource}")
        if self.later and self.later_share >= MOST_LATER:
            less = "all" if self.later_less == self.later else f"{self.later_less:,}"
            share = f"{100 * self.later_share:.0f} % of the {resource} in use"
            said.append(
                f"{counted(self.later, 'later job')} took {share} meanwhile, {less} of them with less work"
            )
        elif self.earlier:
            hours = f"{figure(self.earlier_hours, 3)} {resource}-hours left"
            said.append(f"came behind {counted(self.earlier, 'job')} with {hours}")
        if self.there - self.in_use >= self.wanted > 0:
            said.append(f"{figure(self.there - self.in_use, 3)} {resource} were idle on average")
        return (
            "; ".join(said) or f"others used {figure(self.in_use, 4)} of {figure(self.there, 4)} {resource}"
        )


class Waits:
    """The waits of a schedule.

    Parameters
    ----------
    usage
        Of the same segments.
    r
        The resource that is looked at.
    """

    def __init__(self, instance: SchedulingInstance, segments: SegmentTable, usage: Usage, r: int) -> None:
        jobs = instance.table()
        self._arrival_s, self._segments = jobs.arrival_s, segments
        self._takes = instance.menus().usage[segments.row][:, r]
        self._wants = jobs.demand[:, r] * jobs.tasks
        # What is done of a job, in units × seconds, stands for its work: all do the same in one schedule.
        self._used = self._takes * segments.length_s
        self._work = np.bincount(segments.job, self._used, segments.jobs)
        self._there = float(usage.capacity[:, r].max())

    def of(self, j: int) -> Wait:
        """Return what happened while a job waited."""
        held = self._segments
        waited_s = self._waited_during(j)
        used = self._takes * waited_s
        others = (waited_s > 0) & (held.job != j)
        later = others & self._later(j)
        came = np.unique(held.job[later])
        total = float(used[others].sum())
        earlier, left = self._before(j)
        wait_s = self._wait_s(j)
        return Wait(
            wanted=float(self._wants[j]),
            there=self._there,
            in_use=total / wait_s if wait_s > 0 else 0.0,
            later=len(came),
            later_less=int((self._work[came] < self._work[j]).sum()),
            later_share=float(used[later].sum()) / total if total > 0 else 0.0,
            earlier=earlier,
            earlier_hours=left / HOUR_S,
        )

    def _own(self, j: int) -> slice:
        first, last = np.searchsorted(self._segments.job, [j, j + 1])
        return slice(int(first), int(last))

    def _wait_s(self, j: int) -> float:
        own = self._own(j)
        ends = self._segments.end_s[own]
        ran = float(self._segments.length_s[own].sum())
        return float(ends[-1] - self._arrival_s[j]) - ran if len(ends) else 0.0

    def _waited_during(self, j: int) -> Floats:
        """Return how long a job waited while each segment ran, shape (S,)."""
        held, own = self._segments, self._own(j)
        starts, ends = held.start_s[own], held.end_s[own]
        # Up to each of these moments it has waited so long; it waits until a start, and not until an end.
        moments = np.concatenate([[self._arrival_s[j]], np.ravel(np.column_stack([starts, ends]))])
        steps = np.diff(moments)
        steps[1::2] = 0.0
        waited = np.concatenate([[0.0], np.cumsum(steps)])
        found: Floats = np.interp(held.end_s, moments, waited) - np.interp(held.start_s, moments, waited)
        return found

    def _later(self, j: int) -> Flags:
        came: Floats = self._arrival_s[self._segments.job]
        return np.asarray(came > self._arrival_s[j])

    def _before(self, j: int) -> tuple[int, float]:
        """Return the jobs that were there and not done when a job came, and what they had left."""
        held, at = self._segments, self._arrival_s[j]
        after_s = np.clip(held.end_s - np.maximum(held.start_s, at), 0.0, None)
        there = (after_s > 0) & (self._arrival_s[held.job] <= at) & (held.job != j)
        return len(np.unique(held.job[there])), float((self._takes * after_s)[there].sum())
