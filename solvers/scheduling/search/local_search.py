"""Local search for schedules with full knowledge of the trace: simulated annealing from static rules.

A step changes the multipliers of keys, and simulates from the arrival of the job on; better schedules are
kept. Every schedule that leaves no resources idle which a waiting job could use follows from some order of
priorities at every moment, so that little is lost by searching keys in place of segments. Worse schedules are
accepted at first with a probability that falls with time (simulated annealing, Kirkpatrick et al. 1983).

Presolve: jobs that no other delays are fixed, and reduce the capacity of a smaller trace with the same
schedules. Rules that are found on one pool then make schedules on servers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import ClassVar, NamedTuple

import numpy as np

from ....formulations.scheduling.evaluation import amounts_in_use
from ....formulations.scheduling.formulation import SchedulingFormulation
from ....formulations.scheduling.plan import last_ends_s
from ....instances.common.arrays import Flags, Floats, Ints
from ....instances.common.errors import OutOfTimeError
from ....instances.scheduling.instance import SchedulingInstance
from ...common.base import Clock, MethodOption, Outcome, Solver
from ...common.result import Limit, SolveOptions
from ..engine import Engine, EvictionError, Schedule
from ..policies.contract import RemainingTimePolicy
from ..policies.service_disciplines import Backfill
from ..policy_solvers import loses_work, plan_of, spreading_slows_jobs
from ..view import View
from .event_loop import PriorityScheduler, Rule, Simulator, State, Trace, queues_of

MAX_STORED_STATES = 60
"""Most stored states, so that a trial need not begin at the first arrival."""
STEPS = (0.1, 0.5, 1.5)
"""Standard deviations of small, middle and large steps, of the logarithm of a multiplier."""
DELAY_POWER = 0.25
"""Power of a job's delay with which its chance to be picked grows."""


class SimulatedAnnealing:
    """Simulated annealing on the jobs' multipliers (factors of the priority keys) of one priority rule.

    Parameters
    ----------
    cost
        Objective by the ends of all jobs, shape (J,).

    Attributes
    ----------
    rule, ends_s, cost
        Of the schedule that has been accepted last.
    best, best_cost
        The multipliers and the cost of the best schedule.
    """

    def __init__(self, simulator: Simulator, rule: Rule, cost: Callable[[Floats], float], seed: int) -> None:
        self._simulator, self._cost_of = simulator, cost
        self._trace = simulator.trace
        self._random = np.random.default_rng(seed)
        self.rule = rule._replace(multiplier=rule.multiplier.copy())
        arrivals = np.unique(self._trace.arrival_s)
        self._mark_s: Floats = arrivals[
            np.unique(np.linspace(0, len(arrivals) - 1, MAX_STORED_STATES).astype(int))
        ]
        self._marks: list[State] = [simulator.start]
        self.ends_s = simulator.run(self.rule).end_s
        self.cost = self.best_cost = cost(self.ends_s)
        self.best = self.rule.multiplier.copy()
        self._find_late()

    def try_change(self, temperature: float) -> bool:
        """Try a random change of one or two multipliers; return whether it was accepted.

        Parameters
        ----------
        temperature
            Increase of the cost that is accepted with probability 1/e.
        """
        jobs, factors = self._change()
        multiplier = self.rule.multiplier
        before = multiplier[jobs].copy()
        mark = self._mark_before(float(self._trace.arrival_s[jobs].min()))
        multiplier[jobs] *= factors
        try:
            ends_s = self._simulator.run(self.rule, self._marks[mark]).end_s
            cost = self._cost_of(ends_s)
        except EvictionError:  # a job that must not be interrupted would be evicted
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
        chances = delay[self._late] ** DELAY_POWER
        self._chances: Floats = np.cumsum(chances) / chances.sum() if len(chances) else chances

    def _pick(self) -> int:
        """Return a random job: mostly a delayed one, with a probability that grows with its delay."""
        if not len(self._late) or self._random.random() < ANY_JOB_CHANCE:
            return int(self._random.integers(len(self.ends_s)))
        return int(self._late[np.searchsorted(self._chances, self._random.random())])

    def _change(self) -> tuple[Ints, Floats]:
        """Return one or two random jobs, and the factors by which their multipliers change."""
        j = self._pick()
        if self._random.random() < SWAP_CHANCE:
            k = self._pick()
            ratio = self.rule.multiplier[k] / self.rule.multiplier[j]
            if k != j and 0 < ratio < np.inf:
                return np.array([j, k]), np.array([ratio, 1 / ratio])
        step = self._random.choice(STEPS)
        return np.array([j]), np.exp(np.array([step * self._random.standard_normal()]))

    def _mark_before(self, arrival_s: float) -> int:
        """Return the index of the last stored simulation state before an arrival, in seconds.

        A job with this arrival cannot have influenced that state.
        """
        mark = int(np.searchsorted(self._mark_s, arrival_s, side="right")) - 1
        while len(self._marks) <= mark:
            until_s = float(self._mark_s[len(self._marks)])
            self._marks.append(self._simulator.run(self.rule, self._marks[-1], until_s))
        return mark


ANY_JOB_CHANCE = 0.1
"""Chance that any job is picked."""
SWAP_CHANCE = 0.2
"""Chance that two jobs change places."""


def with_reserved(trace: Trace, reserved: Flags) -> Trace:
    """Return the trace of the other jobs, its capacity reduced by the reserved jobs from their arrivals on.

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
    capacity = trace.capacity[np.searchsorted(trace.change_s, change_s, side="right") - 1]
    most = trace.capacity.max(axis=0)
    capacity -= amounts_in_use(change_s, begin_s, end_s, trace.demand[reserved], most)
    capacity[np.abs(capacity) <= 1e-9 * most] = 0.0  # rounding errors of sums
    others = ~reserved
    demand = trace.demand[others]
    return trace._replace(
        arrival_s=trace.arrival_s[others],
        duration_s=trace.duration_s[others],
        restart_s=trace.restart_s[others],
        demand=demand,
        least=demand.min(axis=0, keepdims=True),
        queue=queues_of(demand),
        change_s=change_s,
        capacity=capacity,
    )


def undelayed_jobs(trace: Trace, ends_s: Floats, service: Floats) -> Flags:
    """Return flags of the jobs that a schedule does not delay and that are smaller than most delayed ones.

    There are none where running jobs may not be evicted at any time: capacity cannot be reserved for others.

    Parameters
    ----------
    ends_s
        End of each job in the schedule, shape (J,).
    service
        Size of each job, shape (J,).
    """
    late = ends_s > trace.arrival_s + trace.duration_s
    if not late.any() or not trace.interruptible or trace.lease_s > 0.0:
        return np.zeros(len(late), dtype=bool)
    small = float(np.quantile(service[late], SMALL_QUANTILE))
    return ~late & (service < small)


SMALL_QUANTILE = 0.25
"""Share of the delayed jobs that may be smaller than an undelayed job that is fixed."""


PLACEMENT = "best-fit"


class RulePolicy(RemainingTimePolicy):
    """Priority policy whose keys are those of a rule of the compiled event loop.

    Parameters
    ----------
    rule
        The rule, with multipliers in the order of arrival, as the engine numbers jobs.
    """

    def __init__(self, rule: Rule) -> None:
        self.power, self.keep, self.preempts, self.blocks = rule.power, rule.keep, rule.preempts, rule.blocks
        self._multiplier = rule.multiplier
        super().__init__()

    def multiplier(self, view: View, jobs: Ints) -> Floats:
        """Return the multipliers of the rule, shape (jobs,)."""
        del view
        return self._multiplier[jobs]


PreemptiveRulePolicy = RulePolicy
"""Its former name where the rule preempts."""


def schedule_on_servers(instance: SchedulingInstance, rule: Rule | None) -> Schedule:
    """Return the schedule of a priority rule on the servers, or of EASY backfilling if the rule is None.

    A job waits where it cannot be placed on servers; so it can end later than on one pool.

    Raises
    ------
    EvictionError
        If a job that must not be interrupted is evicted.
    """
    return Engine(instance, Backfill() if rule is None else RulePolicy(rule), PLACEMENT).run()


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
"""Factors of the keys of running jobs where an interruption costs time."""
LEAST_WEIGHT = 1e-9
"""Least weight of a job, relative to the largest, so that its key is finite."""


def static_rules(scheduler: PriorityScheduler, costs: bool) -> Iterator[Rule]:
    """Yield priority rules with keys width^a × duration^b × remaining^c / weight, then SJF.

    Without weights, exponents 1, 0, 1 are SRSF (Tiresias) and 0, 0, 1 are SRTF; with weights these are the
    rules of Smith (1956) for one machine. Rules for SRSF and SRTF without weights come too where jobs have
    weights.

    Parameters
    ----------
    costs
        Whether interruptions cost time.
    """
    weight = np.maximum(scheduler.weight, LEAST_WEIGHT)
    weights: list[Floats] = [weight]
    if (weight != weight[0]).any():
        weights.append(np.ones(len(weight)))
    for scale in weights:
        for width, duration, remaining in SHAPES:
            multiplier = scheduler.width**width * scheduler.trace.duration_s**duration / scale
            for keep in KEEPS if costs else KEEPS[:1]:
                yield Rule(multiplier, remaining, keep, preempts=True, blocks=False)
    # Shortest job first, without preemption.
    yield Rule(np.ones(len(weight)), 1.0, 1.0, preempts=False, blocks=False)


TRIALS = 2_000
"""Trials without a time limit."""
TRIALS_OF_A_JOB = 1_000
"""Most trials for each job, whatever the time limit: few jobs gain nothing from more."""
TEMPERATURE = 1e-4
"""At the start, relative to the sum of all delays; see `Climb.try_one`."""
GREEDY_FROM = 0.85
"""From this share of the search on, only what is better is accepted."""
BACKFILL_S = 2e-4
"""Approximate time of EASY backfilling for each job, in seconds."""
RESERVE = 0.05
"""Share of the time limit that is left for writing the plan, beside the time of some simulations."""
RESERVED_PLACEMENTS = 2
"""Number of placements of a schedule on servers for which time is left."""
RESERVED_SIMULATIONS = 4
"""Number of simulations for which time is left: that of the last change, and those of the written
schedule."""


class Price(Solver[SchedulingFormulation]):
    """Clairvoyant local search over the keys of priority rules, with full knowledge of all jobs.

    Parameters
    ----------
    proven
        A known bound on the objective: the search ends where a schedule attains it.
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
        """Return the best schedule found by static priority rules, EASY backfilling and simulated annealing.

        On one pool it is never worse than that of SRSF, SRTF, SJF or EASY backfilling.

        On servers it places the schedule that it found on one pool.

        Raises
        ------
        OutOfTimeError
            If there is no time for one schedule, or for its placement.
        """
        instance = formulation.instance
        if loses_work(instance) or (instance.servers and spreading_slows_jobs(instance)):
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
                if search.incumbent is None:
                    raise
                limit = "interrupt"
        if search.incumbent is None:
            if limit == "time":
                raise OutOfTimeError("not even one rule can be simulated in time")
            return Outcome(message=f"price: {search.fault}")
        if instance.servers and not search.incumbent.schedule.servers:
            raise OutOfTimeError("there is no time to give even one schedule places on the servers")
        message = f"found by {search.incumbent.how}"
        return Outcome(plan_of(instance, search.incumbent.schedule), message=message, limit=limit)


class Incumbent(NamedTuple):
    """The best known schedule, the name of the method that found it, and its priority rule.

    The rule is None for EASY backfilling.
    """

    schedule: Schedule
    how: str
    rule: Rule | None


class Search:
    """Search for the best schedule of one instance: the incumbent, and its objective value on one pool.

    Attributes
    ----------
    found
        The best schedule; None before the first. On servers it is placed once `place` was called.
    cost
        The objective of the best schedule on one pool, in seconds.
    fault
        Why a rule has no schedule.
    """

    def __init__(self, instance: SchedulingInstance) -> None:
        self._instance, self._scheduler = instance, PriorityScheduler(instance)
        self._rule: Rule | None = None
        self.incumbent: Incumbent | None = None
        self.cost = np.inf
        self.fault = ""
        self._placing_s = 0.0

    def try_rules(self) -> None:
        """Simulate the static priority rules, and keep the best schedule as the incumbent."""
        for rule in static_rules(self._scheduler, self._instance.preemption == "costs"):
            try:
                cost = self._cost_of(self._scheduler.run(rule).end_s)
                if cost < self.cost:
                    self.incumbent = Incumbent(self._scheduler.schedule(rule), "a static rule", rule)
                    self.cost, self._rule = cost, rule
            except EvictionError as error:
                self.fault = str(error)

    def try_backfill(self, clock: Clock) -> None:
        """Simulate EASY backfilling, unless it would take more than a fifth of the remaining time."""
        left_s = clock.remaining_s
        if left_s is not None and BACKFILL_S * len(self._scheduler.order) > 0.2 * left_s:
            return
        try:
            schedule = Engine(self._instance, Backfill()).run()
        except EvictionError as error:
            self.fault = str(error)
            return
        cost = self._objective_of(schedule)
        if cost < self.cost:
            self.incumbent, self.cost = Incumbent(schedule, "EASY backfilling", None), cost

    def place(self) -> None:
        """Replace the incumbent by its schedule on the servers, if the instance has any."""
        if self.incumbent is None or not self._instance.servers:
            return
        one = Clock()
        try:
            schedule = schedule_on_servers(self._instance, self.incumbent.rule)
        except EvictionError as error:
            self.incumbent, self.fault = None, str(error)
            return
        self._placing_s = one.elapsed_s
        self.incumbent = self.incumbent._replace(schedule=schedule)

    def improve(self, clock: Clock, trials: int | None, seed: int, enough: float) -> None:
        """Improve the incumbent by simulated annealing that starts from the best static rule.

        Parameters
        ----------
        clock, trials
            Time limit, and most changes.
        enough
            Cost at which the search ends.

        Raises
        ------
        OutOfTimeError
            If time is up; what was found is kept.
        """
        if self._rule is None:
            return
        rule, trace = self._rule, self._scheduler.trace
        one = Clock()
        ends_s = self._scheduler.run(rule).end_s
        if clock.remaining_s is not None:
            writing_s = RESERVED_SIMULATIONS * one.elapsed_s + RESERVED_PLACEMENTS * self._placing_s
            clock = Clock(max(0.0, clock.remaining_s * (1 - RESERVE) - writing_s))
        reserved = undelayed_jobs(trace, ends_s, trace.duration_s * self._scheduler.width)
        if trials is None:
            trials = TRIALS_OF_A_JOB * int((~reserved).sum())
        climb = self._climb(rule, reserved, ends_s, seed)
        late = climb.cost - self._cost_of(trace.arrival_s + trace.duration_s)
        done = 0
        try:
            while done < trials and climb.best_cost > enough:
                used = clock.elapsed_s / clock.limit_s if clock.limit_s else 0.0
                share = max(used, done / trials)
                climb.try_change(TEMPERATURE * late * (1 - share) ** 2 if share < GREEDY_FROM else 0.0)
                done += 1
                if clock.expired:
                    raise OutOfTimeError("the search has used its time")
        finally:
            if climb.best_cost < self.cost:
                self._note(rule, reserved, climb.best)

    def _climb(self, rule: Rule, reserved: Flags, ends_s: Floats, seed: int) -> SimulatedAnnealing:
        """Return the simulated annealing on the jobs that are not reserved (fixed at their arrivals)."""
        others, every = ~reserved, ends_s.copy()
        simulator = Simulator(with_reserved(self._scheduler.trace, reserved))
        rule = rule._replace(multiplier=rule.multiplier[others])

        def cost(ends_s: Floats) -> float:
            every[others] = ends_s
            return self._cost_of(every)

        return SimulatedAnnealing(simulator, rule, cost, seed)

    def _note(self, rule: Rule, reserved: Flags, others: Floats) -> None:
        """Simulate the whole trace with the multipliers of the other jobs; keep the schedule if better."""
        multiplier = np.zeros(len(reserved))
        multiplier[~reserved] = others
        rule = rule._replace(multiplier=multiplier)
        with Clock().enforced():  # time may be up, and there is some in reserve for this
            cost = self._cost_of(self._scheduler.run(rule).end_s)
            if cost < self.cost:
                self._take(Incumbent(self._scheduler.schedule(rule), "local search", rule), cost)

    def _take(self, better: Incumbent, cost: float) -> None:
        """Make a schedule the incumbent if it is also better after placement on the servers."""
        if self._instance.servers:
            try:
                better = better._replace(schedule=schedule_on_servers(self._instance, better.rule))
            except EvictionError:  # one of these servers fails
                return
            old = self.incumbent
            if old and self._objective_of(better.schedule) >= self._objective_of(old.schedule):
                return
        self.incumbent, self.cost = better, cost

    def _objective_of(self, schedule: Schedule) -> float:
        order = self._scheduler.order
        return self._cost_of(last_ends_s(len(order), schedule.job, schedule.end_s)[order])

    def _cost_of(self, ends_s: Floats) -> float:
        """Return the objective value in seconds by the ends of all jobs, shape (J,), in order of arrival."""
        arrival_s, weight = self._scheduler.trace.arrival_s, self._scheduler.weight
        if self._instance.objective == "makespan":
            return float(ends_s.max() - arrival_s[0])
        return float(weight @ (ends_s - arrival_s) / weight.sum())
