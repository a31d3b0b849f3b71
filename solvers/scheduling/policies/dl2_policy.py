"""The policy DL²: a neural network enlarges the configurations of jobs step by step, until it stops.

The module has the network's states and actions in one interval, and the policies that DL² may imitate before
it learns.

Peng et al., DL²: A Deep Learning-driven Scheduler for Deep Learning Clusters, TPDS 2021, section 4. There the
state has for each of a fixed number of jobs what it trains, how long it has run, its remaining work, its
dominant share, and its workers and parameter servers; an action adds a worker, a parameter server or both to
a job, or stops. Here a job has several configurations: a step goes to one of the next larger ones, of which
there are two where workers and parameter servers can be added, and one where there are workers alone. The
first step is to the least one; a rigid job has no other. The model is not a part of the state, since speeds
are known.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from ....instances.common.arrays import Flags, Floats, Ints
from ..view import Knowledge, View
from .contract import SLACK
from .optimus import Optimus

SLOTS = 32
"""Jobs of one state; further jobs are served afterwards, from what is left."""
STEPS = 2
"""Steps to larger configurations that each job offers."""
OWN, EACH, COMMON = 9, 3, 3
"""Numbers of features of a job, of each of its steps, and of the cluster."""
FIGURES = OWN + STEPS * EACH
ACTIONS = SLOTS * STEPS + 1
STOP = ACTIONS - 1
TINY = 1e-9


class IntervalState:
    """State (features) and actions of the Markov decision process in one scheduling interval of DL².

    It holds at most `SLOTS` jobs.

    Parameters
    ----------
    jobs
        The jobs of the state, at least one.
    free
        Resources available to them together, shape (R,).
    least
        The least configuration of each job, a row, which is its first step.
    larger
        Returns the next larger rows of a job's row.
    interval_s
        The unit of times in features.

    Attributes
    ----------
    left
        Amounts of the resources that are still free, shape (R,).
    """

    def __init__(
        self,
        view: View,
        jobs: Ints,
        free: Floats,
        least: Ints,
        larger: Callable[[int, int], Ints],
        interval_s: float,
    ) -> None:
        self._view, self.jobs, self.left = view, jobs, free.copy()
        self._least, self._larger = least, larger
        self._slack = SLACK * view.capacity
        self.rows: Ints = np.full(len(jobs), -1)
        self.targets: Ints = np.full((SLOTS, STEPS), -1)
        self.figures: Floats = np.zeros((SLOTS, FIGURES))
        self._least_share: Floats = np.maximum(view.shares(view.usage[least]), TINY)
        self._added: Floats = np.zeros((SLOTS, STEPS, len(free)))
        left_s = view.left[jobs] / view.speed[least]
        service = np.log(np.maximum(left_s * self._least_share, TINY))
        own, now = self.figures[: len(jobs)], view.row[jobs]
        own[:, 0] = np.log(np.maximum(left_s / interval_s, TINY)) / 5
        own[:, 1] = (service - service.min()) / 5
        own[np.argsort(service, kind="stable"), 2] = np.arange(len(jobs)) / SLOTS
        own[:, 3] = 1 - view.left[jobs] / view.work[jobs]
        own[:, 4] = np.log1p((view.now_s - view.arrival_s[jobs]) / interval_s) / 5
        own[:, 5] = now >= 0
        own[:, 6] = np.where(now >= 0, view.shares(view.usage[now]), 0.0)
        for slot in range(len(jobs)):
            self._update_steps(slot)

    @property
    def allowed(self) -> Flags:
        """Flags of the feasible actions (enlarge a job's configuration, or stop), shape (ACTIONS,)."""
        fits = (self._added <= self.left + self._slack).all(axis=2) & (self.targets >= 0)
        return np.append(fits.ravel(), True)

    def state(self) -> Floats:
        """Return the features of the cluster and of each slot's job, shape (SLOTS, COMMON + FIGURES).

        Those of the cluster are the free share of the scarcest resource, the jobs, and those not yet served.
        Slots without a job hold 0 but for these.
        """
        self.figures[:, OWN::EACH] = self.allowed[:-1].reshape(SLOTS, STEPS)
        available = self._view.capacity > 0
        left = (self.left[available] / self._view.capacity[available]).min(initial=1.0)
        common = [left, len(self.jobs) / SLOTS, (self.rows < 0).sum() / SLOTS]
        return np.hstack([np.broadcast_to(common, (SLOTS, COMMON)), self.figures])

    def take(self, action: int) -> None:
        """Apply an action: enlarge one job's configuration, and take what it adds from the free resources."""
        slot, step = divmod(action, STEPS)
        self.left -= self._added[slot, step]
        self.rows[slot] = self.targets[slot, step]
        self._update_steps(slot)

    def towards(self, goal: Ints) -> Flags:
        """Return flags of the actions on the way to the target configuration of each job, shape (ACTIONS,).

        A target of −1 is none; the flag of `STOP` is set if no other is.
        """
        usage, near = self._view.usage, np.zeros((SLOTS, STEPS), dtype=bool)
        slots = np.flatnonzero((goal >= 0) & (goal != self.rows))
        then, aim = self.targets[slots], goal[slots, None]
        near[slots] = (then == aim) | (usage[then] <= usage[aim]).all(axis=2)
        leads: Flags = self.allowed & np.append(near.ravel(), False)
        leads[STOP] = not leads.any()
        return leads

    def _update_steps(self, slot: int) -> None:
        """Recompute the possible enlargements of the job in a slot, and its features."""
        view, row, least = self._view, int(self.rows[slot]), int(self._least[slot])
        larger = np.array([least]) if row < 0 else self._larger(int(self.jobs[slot]), row)[:STEPS]
        self.targets[slot] = -1
        self._added[slot] = 0.0
        figures = self.figures[slot]
        figures[OWN:] = 0.0
        here, speed = np.zeros(len(self.left)), 0.0
        if row >= 0:
            here, speed = view.usage[row], float(view.speed[row])
            figures[7], figures[8] = 1.0, view.shares(here[None])[0]
        for step, then in enumerate(larger.tolist()):
            added = view.usage[then] - here
            share = max(float(view.shares(added[None])[0]), TINY)
            gain = max((float(view.speed[then]) - speed) / float(view.speed[least]), TINY)
            self.targets[slot, step], self._added[slot, step] = then, added
            # Gain in speed over the share that it takes, relative to the first step.
            gain *= float(self._least_share[slot]) / share
            figures[OWN + step * EACH + 1] = share
            figures[OWN + step * EACH + 2] = np.log(max(gain, TINY)) / 3


class ActionSelector(Protocol):
    """Selects one of the allowed actions (flags of shape (ACTIONS,)) in a state of the decision process."""

    def __call__(self, state: Floats, allowed: Flags) -> int:
        """Return the index of the selected action."""


@dataclass
class Trajectory:
    """States, actions and rewards of one simulation of DL², for training.

    Attributes
    ----------
    steps
        Of each step the state, flags of the allowed actions, flags of those that the incumbent could take
        (the allowed ones without an incumbent), and the selected action.
    begins
        Number of the first step of each interval with jobs.
    rewards
        Σ_j progress / work of the jobs in each of these intervals.
    """

    steps: list[tuple[Floats, Flags, Flags, int]] = field(default_factory=list)
    begins: list[int] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)


class DL2(Optimus):
    """The policy DL²: in every interval it enlarges configurations by the actions that a network selects.

    The jobs with the least remaining time × share come first, `SLOTS` at a time.

    Parameters
    ----------
    round_s
        Length of an interval in seconds.
    chooser
        Selects each step.
    journal
        Where all steps are recorded; None for no record.
    incumbent
        A policy that is imitated: the chooser selects among the steps that lead to its choice.
    learned
        Message about its training.
    """

    knows = Knowledge.PROGRESS

    def __init__(
        self,
        round_s: float,
        chooser: ActionSelector,
        journal: Trajectory | None = None,
        incumbent: Optimus | None = None,
        learned: str | None = None,
    ) -> None:
        super().__init__(round_s, admission="shortest")
        self._chooser, self._journal, self._incumbent = chooser, journal, incumbent
        self._learned = learned

    def begin(self, view: View) -> None:
        """Initialise the policy, and the imitated one if any, before the first interval."""
        super().begin(view)
        self._before: tuple[Ints, Floats] = (np.zeros(0, dtype=np.int64), np.zeros(0))
        self._over: Flags = np.zeros(len(view.row), dtype=bool)
        if self._incumbent is not None:
            self._incumbent.begin(view)

    def assign(self, jobs: Ints, free: Floats) -> tuple[Ints, Ints]:
        """Return the configuration of each job after all actions of the interval, −1 for a job that waits.

        The second array is the order of the jobs, least remaining time × share first.
        """
        self.reward()
        view, rows = self.view, np.full(len(jobs), -1)
        goal = None if self._incumbent is None else self._incumbent.assign(jobs, free)[0]
        least = self.least(jobs)
        order = self.order(jobs, least)
        if self._journal is not None:
            self._journal.begins.append(len(self._journal.steps))
            self._before = (jobs.copy(), view.left[jobs] / view.work[jobs])
        for first in range(0, len(jobs), SLOTS):
            own = order[first : first + SLOTS]
            interval = IntervalState(view, jobs[own], free, least[own], self._larger_than, self.round_s)
            self._take_steps(interval, None if goal is None else goal[own], not (rows >= 0).any())
            rows[own] = interval.rows
            free = interval.left
            if not (free > 0).any():
                break
        return rows, order

    def ended(self, jobs: Ints) -> None:
        """Record completed jobs, which count as progress in the reward of the interval."""
        self._over[jobs] = True

    def summary(self) -> str | None:
        """Return the message about the training of the network, None without one."""
        return self._learned

    def reward(self) -> None:
        """Record the reward of the last interval: the sum over its jobs of the share of their work done."""
        if self._journal is None or not len(self._before[0]):
            return
        jobs, before = self._before
        now = np.where(self._over[jobs], 0.0, self.view.left[jobs] / self.view.work[jobs])
        self._journal.rewards.append(float((before - now).sum()))
        self._before = (jobs[:0], before[:0])

    def _take_steps(self, interval: IntervalState, goal: Ints | None, idle: bool) -> None:
        """Apply the selected actions until `STOP`, which is not allowed while no job has a configuration."""
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
                self._journal.steps.append((state, allowed, good, action))
            if action == STOP:
                return
            interval.take(action)
            idle = False


class ServiceInRounds(Optimus):
    """SRSF in rounds: requested configurations, least remaining time × dominant share first."""

    def __init__(self, round_s: float) -> None:
        super().__init__(round_s, admission="shortest")

    def least(self, jobs: Ints) -> Ints:
        """Return the requested configuration of each job."""
        return self.view.requested[jobs]

    def enlarged(self, jobs: Ints, rows: Ints, free: Floats) -> Ints:
        """Return the configurations as they are."""
        del jobs, free
        return rows


INCUMBENTS: Mapping[str, Callable[[float], Optimus]] = {
    "optimus": lambda interval_s: Optimus(interval_s, admission="shortest", aim="speeds"),
    "srsf": ServiceInRounds,
}
"""Policies to imitate, by name, for the length of an interval; `optimus` has its best settings."""
