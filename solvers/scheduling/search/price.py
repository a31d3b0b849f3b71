"""The best schedule that we can find: the best of static rules, improved by local search.

Schedules with places on servers, by rules that were found on one pool.

Static rules: what the search starts from.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, NamedTuple

import numpy as np

from ....formulations.scheduling.formulation import SchedulingFormulation
from ....instances.common.arrays import Flags, Floats, Ints
from ....instances.common.errors import OutOfTimeError
from ....instances.scheduling.instance import SchedulingInstance
from ...common.base import Clock, MethodOption, Outcome, Solver
from ...common.options import SolveOptions
from ...common.result import Limit
from ..engine import Engine, EvictionError, Schedule
from ..kernels import fill
from ..methods import loses_work, plan_of, slows_down
from ..policies.static_order import Backfill
from ..policy import ByKey
from ..seen import Knowledge
from .event_state import Rule
from .local_search import Climb, calm_jobs, may_be_reserved, with_reserved
from .simulator import Server, Simulator

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


SHAPES = (
    # power of the width, power of the duration, power of the remaining time
    (1.0, 0.0, 1.0),
    (0.0, 0.0, 1.0),
    (0.9, 0.0, 1.0),
    (1.0, 0.2, 0.8),
    (0.9, 0.1, 0.9),
    (1.0, 0.5, 0.5),
    (1.0, 0.0, 1.2),
)
"""SRSF and SRTF first, which nothing may be worse than; then what was best on production traces."""
KEEPS = (1.0, 0.7, 0.4)
"""What the keys of running jobs are multiplied by where an interruption costs."""
LEAST_WEIGHT = 1e-9
"""Of the largest one: what a job counts that has no weight, so that its key is finite."""


def static_rules(server: Server, costs: bool) -> Iterator[Rule]:
    """Yield rules in which a job's key is width^a × duration^b × remaining^c / weight.

    Without weights, exponents 1, 0, 1 are SRSF (Tiresias) and 0, 0, 1 are SRTF; with weights these are the
    rules of Smith (1956) for one machine. Rules for SRSF and SRTF without weights come too where jobs have
    weights.

    Parameters
    ----------
    costs
        Whether interruptions cost.
    """
    weight = np.maximum(server.weight, LEAST_WEIGHT * server.weight.max())
    weights: list[Floats] = [weight / weight.max()]
    if (weight != weight[0]).any():
        weights.append(np.ones(len(weight)))
    for scale in weights:
        for width, duration, remaining in SHAPES:
            multiplier = server.width**width * server.trace.duration_s**duration / scale
            for keep in KEEPS if costs else KEEPS[:1]:
                yield Rule(multiplier, remaining, keep, preempts=True, blocks=False)
    # Shortest job first: nobody is stopped.
    yield Rule(np.ones(len(weight)), 1.0, 1.0, preempts=False, blocks=False)


TRIALS = 2_000
"""Changes that are tried where there is no time limit."""
TRIALS_OF_A_JOB = 1_000
"""So many changes for each job are tried at most, whatever the time limit: few jobs have no more to give."""
TEMPERATURE = 1e-4
"""At the start, relative to the sum of all delays; see `Climb.try_one`."""
COLD = 0.85
"""From this share of the search on, only what is better is accepted."""
BACKFILL_S = 2e-4
"""What EASY backfilling takes for a job, about."""
RESERVE = 0.05
"""Share of the time limit that is left for writing the plan down, beside what some simulations take."""
PLACINGS = 2
"""Where there are servers, the time that placing a schedule took is left for so many."""
SIMULATIONS = 4
"""So many: that of the last change, and those whose schedule is written down."""


class Price(Solver[SchedulingFormulation]):
    """Knows all jobs before they come, and searches rules by which to serve them.

    Parameters
    ----------
    proven
        A bound on the objective that is known: it ends where a schedule is as good.
    """

    name, kinds = "price", ("scheduling",)
    what = "the best schedule we can find: rules that know everything, and local search on their keys"
    method_options: ClassVar = {
        "trials": MethodOption(
            0,
            f"Changes that are tried; 0: as many as there is time for, {TRIALS:,} without a limit.",
            least=0,
        )
    }

    def __init__(self, proven: float = 0.0) -> None:
        self._proven = proven

    def solve(self, formulation: SchedulingFormulation, options: SolveOptions, clock: Clock) -> Outcome:
        """Return the best schedule; on one pool never a worse one than SRSF, SRTF, SJF or EASY backfilling.

        On servers it gives places to what it found on one pool.

        Raises
        ------
        OutOfTimeError
            If there is no time for one schedule, or for its places.
        """
        instance = formulation.instance
        if loses_work(instance) or (instance.servers and slows_down(instance)):
            return Outcome(message="price knows neither work that is lost nor jobs that servers slow down")
        trials = self.setting(options, "trials") or (TRIALS if clock.limit_s is None else None)
        limit: Limit = "none"
        with clock.enforced():
            search = Search(instance)
        with clock.share(1 - RESERVE).enforced():
            try:
                search.try_rules()
                search.try_backfill(clock)
                search.place()
                bound = max(self._proven, formulation.elementary_bounds()[0] or 0.0)
                search.improve(clock, trials, options.seed or 0, bound / (1 - options.gap))
            except OutOfTimeError:
                limit = "time"
            except KeyboardInterrupt:
                if search.found is None:
                    raise
                limit = "interrupt"
        if search.found is None:
            if limit == "time":
                raise OutOfTimeError("not even one rule can be simulated in time")
            return Outcome(message=f"price: {search.fault}")
        if instance.servers and not search.found.schedule.servers:
            raise OutOfTimeError("there is no time to give even one schedule places on the servers")
        message = f"found by {search.found.how}"
        return Outcome(plan_of(instance, search.found.schedule), message=message, limit=limit)


class Found(NamedTuple):
    """A schedule, how it was found, and the rule that makes it; None for that of EASY backfilling."""

    schedule: Schedule
    how: str
    rule: Rule | None


class Search:
    """The best schedule of one instance so far.

    Attributes
    ----------
    found
        The best schedule; None before the first. On servers it has places once `place` was called.
    cost
        The objective of the best schedule on one pool, in seconds.
    fault
        Why a rule has none.
    """

    def __init__(self, instance: SchedulingInstance) -> None:
        self._instance, self._server = instance, Server(instance)
        self._rule: Rule | None = None
        self.found: Found | None = None
        self.cost = np.inf
        self.fault = ""
        self._placing_s = 0.0

    def try_rules(self) -> None:
        """Simulate the static rules."""
        for rule in static_rules(self._server, self._instance.preemption == "costs"):
            try:
                cost = self._cost_of(self._server.simulator.ends_s(rule))
                if cost < self.cost:
                    self.found, self.cost = Found(self._server.schedule(rule), "a static rule", rule), cost
                    self._rule = rule
            except EvictionError as error:
                self.fault = str(error)

    def try_backfill(self, clock: Clock) -> None:
        """Simulate EASY backfilling, unless that takes much of the time that is left."""
        if clock.remaining_s is not None and BACKFILL_S * len(self._server.order) > 0.2 * clock.remaining_s:
            return
        try:
            schedule = Engine(self._instance, Backfill()).run()
        except EvictionError as error:
            self.fault = str(error)
            return
        cost = self._objective_of(schedule)
        if cost < self.cost:
            self.found, self.cost = Found(schedule, "EASY backfilling", None), cost

    def place(self) -> None:
        """Give the best schedule places where there are servers; it may become worse by that."""
        if self.found is None or not self._instance.servers:
            return
        one = Clock()
        try:
            schedule = placed(self._instance, self.found.rule)
        except EvictionError as error:
            self.found, self.fault = None, str(error)
            return
        self._placing_s = one.elapsed_s
        self.found = self.found._replace(schedule=schedule)

    def improve(self, clock: Clock, trials: int | None, seed: int, enough: float) -> None:
        """Search from the best static rule on.

        Parameters
        ----------
        clock, trials
            End with the time, or after so many changes.
        enough
            A cost at which to end.

        Raises
        ------
        OutOfTimeError
            If time was up, after what was found has been noted.
        """
        if self._rule is None:
            return
        rule, trace = self._rule, self._server.trace
        one = Clock()
        ends_s = self._server.simulator.ends_s(rule)
        if clock.remaining_s is not None:
            clock = Clock(
                max(
                    0.0,
                    clock.remaining_s * (1 - RESERVE)
                    - SIMULATIONS * one.elapsed_s
                    - PLACINGS * self._placing_s,
                )
            )
        reserved = np.zeros(len(ends_s), dtype=bool)
        if may_be_reserved(trace):
            reserved = calm_jobs(trace, ends_s, trace.duration_s * self._server.width)
        if trials is None:
            trials = TRIALS_OF_A_JOB * int((~reserved).sum())
        climb = self._climb(rule, reserved, ends_s, seed)
        late = climb.cost - self._cost_of(trace.arrival_s + trace.duration_s)
        done = 0
        try:
            while done < trials and climb.best_cost > enough:
                used = clock.elapsed_s / clock.limit_s if clock.limit_s else 0.0
                share = max(used, done / trials)
                climb.try_one(TEMPERATURE * late * (1 - share) ** 2 if share < COLD else 0.0)
                done += 1
                if clock.expired:
                    raise OutOfTimeError("the search has used its time")
        finally:
            if climb.best_cost < self.cost:
                self._note(rule, reserved, climb.best)

    def _climb(self, rule: Rule, reserved: Flags, ends_s: Floats, seed: int) -> Climb:
        """Return the local search on the jobs that are not reserved."""
        others = ~reserved
        trace = self._server.trace
        simulator = Simulator(with_reserved(trace, reserved)) if reserved.any() else self._server.simulator
        rule = rule._replace(multiplier=rule.multiplier[others])
        every = ends_s.copy()

        def cost(ends_s: Floats) -> float:
            every[others] = ends_s
            return self._cost_of(every)

        return Climb(simulator, rule, cost, seed)

    def _note(self, rule: Rule, reserved: Flags, others: Floats) -> None:
        """Simulate the whole trace by what the search has found, and keep the schedule if it is better."""
        multiplier = np.zeros(len(reserved))
        multiplier[~reserved] = others
        rule = rule._replace(multiplier=multiplier)
        with Clock().enforced():  # time may be up, and there is some in reserve for this
            cost = self._cost_of(self._server.simulator.ends_s(rule))
            if cost < self.cost:
                self._take(Found(self._server.schedule(rule), "local search", rule), cost)

    def _take(self, found: Found, cost: float) -> None:
        """Keep a schedule that is better on one pool, if it is so with places."""
        if self._instance.servers:
            try:
                found = found._replace(schedule=placed(self._instance, found.rule))
            except EvictionError:  # one of these places fails
                return
            if self.found and self._objective_of(found.schedule) >= self._objective_of(self.found.schedule):
                return
        self.found, self.cost = found, cost

    def _objective_of(self, schedule: Schedule) -> float:
        ends_s = np.full(len(self._server.order), -np.inf)
        np.maximum.at(ends_s, schedule.job, schedule.end_s)
        return self._cost_of(ends_s[self._server.order])

    def _cost_of(self, ends_s: Floats) -> float:
        """Return the objective of ends, which are in the order of arrival."""
        times = ends_s - self._server.trace.arrival_s
        if self._instance.objective == "makespan":
            return float(ends_s.max() - self._server.trace.arrival_s[0])
        weight = self._server.weight / self._server.weight.max()
        return float(weight @ times / weight.sum())
