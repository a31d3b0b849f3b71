"""Finds runs of policies that would never end: where jobs are stopped before they have done anything."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

MOST_STOPS = 100_000
"""Events that stop jobs, or at which no time passes, after which some work must have been done."""
LEAST_WORK = 1e-9
"""Share of the work that is left that must have been done by then."""


class StallWatch:
    """Looks whether a run comes closer to its end."""

    def __init__(self) -> None:
        self._happened: tuple[int, ...] = ()
        self._count = 0
        self._left = np.inf

    def stalls(self, happened: tuple[int, ...], in_vain: bool, left: Callable[[], float]) -> bool:
        """Note an event; return whether the run does not end.

        Parameters
        ----------
        happened
            How many jobs have arrived and ended, and how often the cluster has changed: none of these goes
            on without end.
        in_vain
            Whether a job was stopped, or no time had passed since the event before.
        left
            Returns how much of the work of jobs that have arrived is left.
        """
        if happened != self._happened:
            self._happened, self._count, self._left = happened, 0, np.inf
        self._count += in_vain
        if self._count < MOST_STOPS:
            return False
        before, self._left, self._count = self._left, left(), 0
        return self._left >= before * (1 - LEAST_WORK)


def stall_text(now_s: float) -> str:
    """Return what is said of a policy that does not end."""
    return (
        f"goes on without end at {now_s:g} s: it stops jobs before they do any work, "
        "or asks for the same moment again"
    )
