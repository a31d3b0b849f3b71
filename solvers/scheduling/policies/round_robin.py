"""Fair shares of time: all jobs in turn, a round each."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

import numpy as np

from ....instances.common.arrays import Flags, Floats, Ints
from ..policy import ByKey
from ..round_policy import rounds_over
from ..seen import Seen


class RoundRobin(ByKey):
    """At the end of each round, jobs that ran go behind those that wait; within it nobody is stopped.

    Parameters
    ----------
    round_s
        How long a round is; rounds are counted from time 0.
    """

    preempts: ClassVar[bool] = True

    def __init__(self, round_s: float) -> None:
        self._round_s = round_s

    def begin(self, seen: Seen) -> None:
        """Start with the first round."""
        super().begin(seen)
        self._turn: Floats = np.zeros(len(seen.width))
        self._turns = 0
        self._round = 0
        self._began_s = -np.inf

    def keys_of(self, jobs: Ints) -> Floats:
        """Return whose turn is when."""
        return self._turn[jobs]

    def arrived(self, jobs: Iterable[int]) -> None:
        """Put jobs at the end."""
        listed = list(jobs)
        self._to_the_end(listed)
        super().arrived(listed)

    def choose(self, held: Flags) -> Ints:
        """Begin a new round if it is time, and serve jobs in turn."""
        seen = self.seen
        now = int(rounds_over(seen.now_s, self._round_s))
        if now > self._round:
            self._round, self._began_s = now, seen.now_s
            running = seen.running
            self._to_the_end(running[np.argsort(self._turn[running], kind="stable")].tolist())
        if self._began_s == seen.now_s:
            return super().choose(held)
        keeps = np.ones(len(seen.running), dtype=bool)
        fits = (self.free(keeps) >= -1e-9 * seen.capacity).all()
        return super().choose(keeps if fits else held)

    def again_s(self) -> float:
        """Return the end of the round, if jobs wait for it."""
        return (self._round + 1) * self._round_s if self.waits() and len(self.seen.running) else np.inf

    def _to_the_end(self, jobs: Iterable[int]) -> None:
        for j in jobs:
            self._turn[j] = self._turns
            self._turns += 1
