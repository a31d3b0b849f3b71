"""Schedules with places on servers, by rules that were found on one pool."""

from __future__ import annotations

from ....instances.common.arrays import Flags, Floats, Ints
from ....instances.scheduling.instance import SchedulingInstance
from ..engine import Engine, Schedule
from ..event_state import Rule
from ..kernels import fill
from ..policies.first_come import Backfill
from ..policy import ByKey
from ..seen import Knowledge

PLACEMENT = "best-fit"


class Keyed(ByKey):
    """Serves jobs by a rule of the compiled event loop, without preemption.

    Parameters
    ----------
    rule
        Its multipliers are in the order of arrival, as the engine numbers jobs.
    """

    knows = Knowledge.REMAINING

    def __init__(self, rule: Rule) -> None:
        self._rule = rule

    def keys_of(self, jobs: Ints) -> Floats:
        """Return multiplier × remaining time to the power."""
        keys: Floats = self._rule.multiplier[jobs] * self.seen.remaining_s[jobs] ** self._rule.power
        return keys


class KeyedPreempting(Keyed):
    """The same with preemption; running jobs lose what they have less easily, if the rule says so."""

    preempts = True

    def choose(self, held: Flags) -> Ints:
        """Return the jobs with the least keys that fit."""
        seen = self.seen
        keys = self._rule.keep * self.keys_of(seen.running)
        return fill(
            self._waiting, self._count, self._keys, seen.running, held, keys, seen.demand, seen.capacity
        )


def placed(instance: SchedulingInstance, rule: Rule | None) -> Schedule:
    """Return the schedule of a rule with places, of EASY backfilling if there is none.

    A job waits where no servers have room for it; so it can end later than on one pool.

    Raises
    ------
    EvictionError
        If a job that must not be interrupted loses its place.
    """
    if rule is None:
        return Engine(instance, Backfill(), PLACEMENT).run()
    policy = KeyedPreempting(rule) if rule.preempts else Keyed(rule)
    return Engine(instance, policy, PLACEMENT).run()
