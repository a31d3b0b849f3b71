"""The policy of DL²: step after step it gives jobs larger configurations, until the network says stop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

import numpy as np

from ....instances.common.arrays import Flags, Floats, Ints
from ..menu_seen import MenuSeen
from ..policies.optimus import Optimus
from ..seen import Knowledge
from .state import SLOTS, STOP, Interval


class Chooser(Protocol):
    """Chooses an action of those that are allowed, shape (ACTIONS,), by the state."""

    def __call__(self, state: Floats, allowed: Flags) -> int:
        """Return the action."""


@dataclass
class Journal:
    """What a run has seen and done, for training.

    Attributes
    ----------
    states, allowed, actions
        Of each step.
    good
        Of each step, what an incumbent could do; where none is imitated what is allowed.
    begins
        Of each interval with jobs, the number of the step with which it begins.
    rewards
        Σ_j progress / work of the jobs in each of these intervals.
    """

    states: list[Floats] = field(default_factory=list)
    allowed: list[Flags] = field(default_factory=list)
    actions: list[int] = field(default_factory=list)
    good: list[Flags] = field(default_factory=list)
    begins: list[int] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)


class DL2(Optimus):
    """Divides the cluster anew in every interval.

    The jobs with the least time × share left come first, `SLOTS` at a time.

    Parameters
    ----------
    round_s
        How often it decides.
    chooser
        Which step comes next.
    journal
        Where everything is noted; None for nowhere.
    incumbent
        A policy whose choices are followed; the chooser chooses among the steps that lead there.
    learned
        What is to be said of its training.
    """

    knows: ClassVar[Knowledge] = Knowledge.PROGRESS

    def __init__(
        self,
        round_s: float,
        chooser: Chooser,
        journal: Journal | None = None,
        incumbent: Optimus | None = None,
        learned: str | None = None,
    ) -> None:
        super().__init__(round_s)
        self._chooser, self._journal, self._incumbent = chooser, journal, incumbent
        self._learned = learned

    def begin(self, seen: MenuSeen) -> None:
        """Start with nothing done."""
        super().begin(seen)
        self._before: tuple[Ints, Floats] = (np.zeros(0, dtype=np.int64), np.zeros(0))
        self._over: set[int] = set()
        if self._incumbent is not None:
            self._incumbent.begin(seen)

    def choose(self, jobs: Ints, free: Floats) -> Ints:
        """Return what all steps of the interval lead to."""
        self.reward()
        seen, found = self.seen, np.full(len(jobs), -1)
        goal = None if self._incumbent is None else self._incumbent.choose(jobs, free)
        least = self.least(jobs)
        service = seen.left[jobs] / seen.speed[least] * self.shares(seen.usage[least])
        self.order = order = np.argsort(service, kind="stable")
        if self._journal is not None:
            self._journal.begins.append(len(self._journal.states))
            self._before = (jobs.copy(), seen.left[jobs] / seen.work[jobs])
        for first in range(0, len(jobs), SLOTS):
            own = order[first : first + SLOTS]
            interval = Interval(
                seen, jobs[own], free, least[own], self._larger_than, self.shares, self.round_s
            )
            self._give(interval, None if goal is None else goal[own], not (found >= 0).any())
            found[own] = interval.rows
            free = interval.left
            if not (free > 0).any():
                break
        return found

    def ended(self, jobs: Sequence[int]) -> None:
        """Note who has nothing left."""
        self._over.update(jobs)

    def summary(self) -> str | None:
        """Return how it was trained."""
        return self._learned

    def reward(self) -> None:
        """Note what was done since the last decision."""
        if self._journal is None or not len(self._before[0]):
            return
        jobs, before = self._before
        now = self.seen.left[jobs] / self.seen.work[jobs]
        now[[j in self._over for j in jobs.tolist()]] = 0.0
        self._journal.rewards.append(float((before - now).sum()))
        self._before = (jobs[:0], before[:0])

    def _give(self, interval: Interval, goal: Ints | None, idle: bool) -> None:
        """Take steps until it says stop; while nobody has anything it must not."""
        while True:
            allowed = interval.allowed
            if not allowed[:-1].any():
                return
            allowed[STOP] = not idle
            state = interval.state()
            good = allowed if goal is None else interval.towards(goal) & allowed
            if not good.any():
                return
            action = self._chooser(state, good)
            if self._journal is not None:
                self._journal.states.append(state)
                self._journal.allowed.append(allowed)
                self._journal.good.append(good)
                self._journal.actions.append(action)
            if action == STOP:
                return
            interval.take(action)
            idle = False
