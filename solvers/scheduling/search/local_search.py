"""Local search on the multipliers of keys: change one, simulate from its arrival on, keep what is better.

Every schedule that leaves nothing idle that somebody could use is made by some order of priorities at every
moment, so that little is lost by searching keys in place of segments. Worse schedules are accepted at first
with a chance that falls with time (simulated annealing, Kirkpatrick et al. 1983).

A smaller trace with the same schedules: jobs that nobody delays become a lack of capacity.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ....instances.common.arrays import Flags, Floats, Ints
from ..engine import EvictionError
from .event_state import Rule, State, Trace
from .simulator import Simulator, classes_of, copied

MARKS = 60
"""Moments whose states are kept, so that a trial need not begin at the first arrival."""
STEPS = (0.1, 0.5, 1.5)
"""Of the logarithm of a multiplier: standard deviations of small, middle and large steps."""
LATER = 0.25
"""The chance that a late job is picked grows with its delay to this power."""


class Climb:
    """A rule, the schedule that it makes, and changes of it.

    Parameters
    ----------
    cost
        Of the ends of all jobs, shape (J,).

    Attributes
    ----------
    rule, ends_s, cost
        Of the schedule that has been accepted last.
    best, best_cost
        The multipliers of the best one.
    """

    def __init__(self, simulator: Simulator, rule: Rule, cost: Callable[[Floats], float], seed: int) -> None:
        self._simulator, self._cost_of = simulator, cost
        self._trace = simulator.trace
        self._random = np.random.default_rng(seed)
        self.rule = rule._replace(multiplier=rule.multiplier.copy())
        arrivals = np.unique(self._trace.arrival_s)
        self._mark_s: Floats = arrivals[np.unique(np.linspace(0, len(arrivals) - 1, MARKS).astype(int))]
        self._marks: list[State] = [simulator.start()]
        self.ends_s = simulator.ends_s(self.rule, copied(self._marks[0]))
        self.cost = self.best_cost = cost(self.ends_s)
        self.best = self.rule.multiplier.copy()
        self._find_late()

    def try_one(self, temperature: float) -> bool:
        """Change one thing; return whether it was accepted.

        Parameters
        ----------
        temperature
            An increase of the cost by so much is accepted with a chance of 1/e.
        """
        jobs, factors = self._change()
        multiplier = self.rule.multiplier
        before = multiplier[jobs].copy()
        mark = self._mark_before(float(self._trace.arrival_s[jobs].min()))
        multiplier[jobs] *= factors
        try:
            ends_s = self._simulator.ends_s(self.rule, copied(self._marks[mark]))
            cost = self._cost_of(ends_s)
        except EvictionError:  # a job would lose a place that it must keep
            cost = np.inf
        if cost > self.cost + temperature * self._random.exponential():
            multiplier[jobs] = before
            return False
        del self._marks[mark + 1 :]
        self.ends_s, self.cost = ends_s, cost
        self._find_late()
        if cost < self.best_cost:
            self.best_cost, self.best = cost, multiplier.copy()
        return True

    def _find_late(self) -> None:
        delay = self.ends_s - self._trace.arrival_s - self._trace.duration_s
        self._late: Ints = np.flatnonzero(delay > 1e-9 * self._trace.duration_s)
        chances = delay[self._late] ** LATER
        self._chances: Floats = np.cumsum(chances) / chances.sum() if len(chances) else chances

    def _pick(self) -> int:
        """Return a job that is late, one with a longer delay more often; sometimes any."""
        if not len(self._late) or self._random.random() < ANY:
            return int(self._random.integers(len(self.ends_s)))
        return int(self._late[np.searchsorted(self._chances, self._random.random())])

    def _change(self) -> tuple[Ints, Floats]:
        """Return jobs and by what their multipliers change."""
        j = self._pick()
        if self._random.random() < SWAPS:
            k = self._pick()
            ratio = self.rule.multiplier[k] / self.rule.multiplier[j]
            if k != j and 0 < ratio < np.inf:
                return np.array([j, k]), np.array([ratio, 1 / ratio])
        step = self._random.choice(STEPS)
        return np.array([j]), np.exp(np.array([step * self._random.standard_normal()]))

    def _mark_before(self, arrival_s: float) -> int:
        """Return the last mark that a job cannot have changed which arrives then."""
        mark = int(np.searchsorted(self._mark_s, arrival_s, side="right")) - 1
        while len(self._marks) <= mark:
            state = copied(self._marks[-1])
            self._simulator.advance_to(self.rule, state, float(self._mark_s[len(self._marks)]))
            self._marks.append(state)
        return mark


ANY = 0.1
"""Chance that any job is picked."""
SWAPS = 0.2
"""Chance that two jobs change places."""


def may_be_reserved(trace: Trace) -> bool:
    """Return whether running jobs may lose their place at any time, which a reservation makes them do."""
    return trace.interruptible and trace.lease_s == 0.0


def with_reserved(trace: Trace, reserved: Flags) -> Trace:
    """Return the trace of the other jobs, where reserved ones run from their arrival on, whatever happens.

    A rule for the others gives the schedule that it gives on the whole trace if reserved jobs have the least
    keys there, as long as these fit all together.

    Parameters
    ----------
    reserved
        Shape (J,).
    """
    begin_s = trace.arrival_s[reserved]
    end_s = begin_s + trace.duration_s[reserved]
    # What ends or begins before time 0 does not happen: times are not negative.
    change_s = np.unique(np.concatenate([trace.change_s, begin_s, end_s]))
    capacity = trace.capacity[np.searchsorted(trace.change_s, change_s, side="right") - 1].copy()
    starts, ends = np.searchsorted(change_s, begin_s), np.searchsorted(change_s, end_s)
    for r, demand in enumerate(trace.demand[reserved].T):
        used = np.bincount(starts, demand, len(change_s)) - np.bincount(ends, demand, len(change_s))
        capacity[:, r] -= np.cumsum(used)
    others = ~reserved
    demand = np.ascontiguousarray(trace.demand[others])
    of_class, first = classes_of(demand)
    return trace._replace(
        arrival_s=trace.arrival_s[others],
        duration_s=trace.duration_s[others],
        restart_s=trace.restart_s[others],
        demand=demand,
        least=demand.min(axis=0),
        of_class=of_class,
        first=first,
        change_s=change_s,
        capacity=_rounded(capacity, trace.capacity.max(axis=0)),
    )


def _rounded(capacity: Floats, most: Floats) -> Floats:
    """Return amounts without what sums are wrong by."""
    return np.where(np.abs(capacity) <= 1e-9 * most, 0.0, capacity)


def calm_jobs(trace: Trace, ends_s: Floats, service: Floats) -> Flags:
    """Return the jobs that nothing delays and that are too small to stand in the way of those delayed.

    Parameters
    ----------
    ends_s
        Of each job in a schedule, shape (J,).
    service
        What counts as size, shape (J,).
    """
    late = ends_s > trace.arrival_s + trace.duration_s
    if not late.any():
        return np.zeros(len(late), dtype=bool)
    small = float(np.quantile(service[late], SMALL))
    return np.asarray(~late & (service < small))


SMALL = 0.25
"""A calm job is smaller than all but this share of the jobs that are delayed."""
