"""Exact methods of scheduling: best schedules with certified bounds, and enumeration of job orders.

`exact` takes the best schedule that the methods find, and prices of time prove a bound on the mean completion
time; these prices are the certificate. Enumeration makes a schedule of every order of the jobs of a tiny
trace; without preemption one of these is optimal. Malleable jobs are enumerated in all their configurations
without preemption, else in the requested one.
"""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Iterator

import numpy as np

from ...formulations.common.compiled import interpreted, is_compiled
from ...formulations.common.objective import TOLERANCE, Diagnosis
from ...formulations.scheduling.certificate import certificate_of
from ...formulations.scheduling.evaluation import TIME_ROUNDING
from ...formulations.scheduling.formulation import SchedulingFormulation
from ...formulations.scheduling.plan import Plan, Segment
from ...instances.common.errors import OutOfTimeError, TooLargeError
from ...instances.common.fields import Fields
from ...instances.scheduling.instance import SchedulingInstance
from ..common.base import Clock, Enumeration, Outcome, Solver
from ..common.conclude import joined
from ..common.result import Limit, SolveOptions
from .engine import EvictionError, StuckError
from .lagrangian_dual import best_prices
from .policy_solvers import OPTIMUS_EXACT, POLICIES, event_loop_supports, loses_work, plan_of
from .search.event_loop import Rule, advance
from .search.local_search import Price, schedule_on_servers

UNPROVEN = "all orders were tried; where jobs may be stopped, or have places, that proves nothing"
MAX_JOBS = 8
"""Most jobs for enumeration, with 40,320 orders."""
MAX_SCHEDULES = 100_000
"""Most job orders times choices of configurations."""


def enumeration_proves(instance: SchedulingInstance) -> bool:
    """Return whether enumeration of job orders proves the optimum of an instance.

    It does without preemption, events and servers.
    """
    return instance.preemption == "none" and not instance.events and not instance.servers


def schedule_count(instance: SchedulingInstance) -> int:
    """Return the number of schedules to enumerate: job orders times choices of configurations."""
    sizes = np.diff(instance.menus().first).tolist() if enumeration_proves(instance) else ()
    count = len(instance.table())
    return math.factorial(min(count, 20)) * math.prod(sizes)


class SchedulingBruteForce(Solver[SchedulingFormulation]):
    """Complete enumeration of all orders of the jobs of a tiny trace.

    Without preemption and without events each job starts as early as those before it in the order allow. Some
    order gives an optimal schedule, since both objectives are non-decreasing in the completion times (Baker
    1974). With preemption each job takes what those before it leave at every event, which may miss the
    optimum.
    """

    name, kinds = "brute-force", ("scheduling",)
    proves = True
    what = f"all orders of up to {MAX_JOBS} jobs; a proof where preemption is not allowed"

    def solve(self, formulation: SchedulingFormulation, options: SolveOptions, clock: Clock) -> Outcome:
        """Return the best schedule over all job orders, with its value as bound where that is proven."""
        del options
        instance = formulation.instance
        count = len(instance.table())
        if count > MAX_JOBS or schedule_count(instance) > MAX_SCHEDULES:
            few = f"at most {MAX_JOBS} with few configurations are allowed"
            raise TooLargeError(
                f"brute-force is for tiny instances: there are {count:,} jobs, and {few}; use --solver exact"
            )
        search = Enumeration(formulation, clock)
        proves, first = enumeration_proves(instance), instance.menus().first.tolist()
        rows = [range(a, b) for a, b in itertools.pairwise(first)] if proves else [range(1)] * count
        for order, chosen in itertools.product(
            itertools.permutations(range(count)), itertools.product(*rows)
        ):
            if search.over():
                break
            plan = _in_order(instance, order, chosen) if proves else _by_rank(instance, order)
            if plan is not None:
                search.judge(plan)
        limit: Limit = "time" if search.out_of_time else "none"
        if search.best is None:
            return Outcome(limit=limit)
        values, best = search.best
        message = None if proves else UNPROVEN
        bounds = (_rounded_down(values[0], best),) if proves and not search.out_of_time else ()
        return Outcome(best, bounds=bounds, limit=limit, message=message)


def _rounded_down(value: float, plan: Plan) -> float:
    """Return an objective value in seconds, less the rounding error of the plan's times if not negligible."""
    wrong = TIME_ROUNDING * max(entry.end_s for entry in plan)
    return value - wrong if wrong > 0.1 * TOLERANCE * value else value


def _by_rank(instance: SchedulingInstance, order: tuple[int, ...]) -> list[Segment] | None:
    # The multiplier alone is the key of a job: its rank.
    rule = Rule(np.argsort(order).astype(float), power=0.0, keep=1.0, preempts=True, blocks=False)
    try:
        return plan_of(instance, schedule_on_servers(instance, rule))
    except (EvictionError, StuckError):
        return None


def _in_order(instance: SchedulingInstance, order: tuple[int, ...], rows: tuple[int, ...]) -> list[Segment]:
    """Return the schedule of a job order: each job starts as early as the previous ones allow."""
    table, menus = instance.table(), instance.menus()
    demand, capacity = menus.usage[list(rows)], instance.capacity_over_time[1][0] * (1 + 1e-9)
    placed: list[tuple[int, float, float]] = []
    nothing = np.zeros_like(capacity)

    def fits(j: int, start: float, end: float) -> bool:
        moments = [start, *(b for _, b, _ in placed if start < b < end)]
        beside = ([demand[k] for k, b, e in placed if b <= t < e] for t in moments)
        return all((demand[j] + sum(used, nothing) <= capacity).all() for used in beside)

    for j in order:
        length, arrival = float(menus.work[j] / menus.speed[rows[j]]), float(table.arrival_s[j])
        for start in sorted({arrival, *(end for _, _, end in placed if end > arrival)}):
            if fits(j, start, start + length):
                placed.append((j, start, start + length))
                break
    return [
        Segment(job=table.names[j], start_s=start, end_s=end, configuration=menus.labels[rows[j]])
        for j, start, end in placed
    ]


def certify(
    formulation: SchedulingFormulation, outcome: Outcome, clock: Clock, threads: int | None = None
) -> float | None:
    """Add the best dual prices found to an outcome as its certificate; return their bound in seconds.

    It is in plain floating point. None is returned without prices: for the makespan there are only
    combinatorial bounds, and prices need a schedule to begin with.
    """
    if outcome.plan is None or formulation.instance.objective == "makespan":
        return None
    value = formulation.evaluate(outcome.plan)[0]
    segments = formulation.segments(outcome.plan)
    try:
        prices = best_prices(formulation.instance, segments, value, clock, threads)
    except OutOfTimeError as error:
        outcome.message = joined(outcome.message, f"no prices of time: {error}")
        return None
    outcome.certificate = certificate_of(prices.grid, tuple(formulation.instance.pool))
    if clock.expired:
        outcome.limit = "time"
    outcome.trace += [(seconds, value, bound) for seconds, bound in prices.trace]
    outcome.message = joined(
        outcome.message,
        f"{prices.evaluations} evaluations of the dual; no prices up to twice these, on their grid, would "
        f"prove more than {prices.estimate:,.6g} s",
    )
    return prices.bound


def diagnose(formulation: SchedulingFormulation, known: Diagnosis | None, clock: Clock) -> Diagnosis | None:
    """Return the known diagnosis; a trace has a schedule unless events remove capacity for ever."""
    del formulation, clock
    return known


FIRST_STEP_SHARE = 0.5
"""Share of the time for the first step: for rigid jobs the bound, which mostly needs less."""
POLICY_BY_NAME = {policy.name: policy for policy in POLICIES}
BOUND_POLICY = "srsf"
"""The policy whose schedule is the basis for the bound of rigid jobs."""
CLAIRVOYANT = ("srsf", "srtf", "sjf", "fifo-backfill")
"""Policies that are tried too on servers, and where work may be lost."""
MAX_ENUMERATED_JOBS = MAX_JOBS - 2
"""Most jobs for which all orders are enumerated too."""

OPTIMUS_SETTINGS: tuple[Fields, ...] = (
    {"admission": "shortest", "aim": "speeds", "reacts": True, "power": 0.5},
    {"admission": "shortest", "aim": "speeds", "reacts": True, "power": 0.25},
    {"admission": "shortest", "aim": "speeds", "reacts": True, "power": 1.0},
    {"admission": "shortest", "aim": "speeds"},
    {"admission": "shortest"},
)
"""Settings of `optimus` for malleable jobs, mostly the best first; where restarts cost, fewer changes pay."""

COMPILED_IN_S = 15.0
"""Time within which the loops for a first schedule are compiled on any machine."""

Method = tuple[Solver[SchedulingFormulation], Fields]


class SchedulingExact(Solver[SchedulingFormulation]):
    """Takes the best schedule of several methods, and proves a bound by dual prices of resource-time.

    For a tiny trace it enumerates all orders too. The bound is that of the best prices of time that are found
    in the remaining time.
    """

    name, kinds = "exact", ("scheduling",)
    proves = True
    features = frozenset({"warm_start"})
    what = "the best schedule that we find, and a bound by prices of time; all orders of tiny traces"

    def solve(self, formulation: SchedulingFormulation, options: SolveOptions, clock: Clock) -> Outcome:
        """Return the best schedule found, and a proven lower bound on its objective value.

        Raises
        ------
        OutOfTimeError
            If no schedule is found in time.
        """
        fallback = _without_compiling(formulation, clock)
        try:
            outcome = self._proven_plan(formulation, options, clock)
        except OutOfTimeError:
            if fallback is None:
                raise
            outcome = Outcome(limit="time")
        if outcome.plan is None and fallback is not None:
            outcome.plan, outcome.message = fallback, "found by fifo"
        if options.warm_start is not None:
            start = formulation.parse_plan(options.warm_start)
            values = None if outcome.plan is None else formulation.evaluate(outcome.plan)
            if values is None or formulation.precedes(formulation.evaluate(start), values):
                outcome.plan, outcome.message = start, "nothing better than the plan to start from was found"
        outcome.bounds = outcome.bounds or formulation.elementary_bounds()
        return outcome

    def _proven_plan(
        self, formulation: SchedulingFormulation, options: SolveOptions, clock: Clock
    ) -> Outcome:
        """Return the best schedule found, with a certificate of its bound if time allows.

        For rigid jobs the bound comes first, of the schedule of a policy: the search then has all the
        remaining time, and ends where a plan attains the bound.
        """
        certified, proven = Outcome(), None
        if not formulation.instance.menus().malleable:
            share = clock.share(FIRST_STEP_SHARE)
            with contextlib.suppress(OutOfTimeError):
                certified.plan = POLICY_BY_NAME[BOUND_POLICY].solve(formulation, SolveOptions(), share).plan
            proven = certify(formulation, certified, share, options.threads)
        if proven is None:
            outcome = self._best_plan(formulation, options, clock.share(FIRST_STEP_SHARE), 0.0)
            certify(formulation, outcome, clock, options.threads)
            return outcome
        outcome = self._best_plan(formulation, options, clock, proven)
        outcome.certificate, outcome.trace = certified.certificate, certified.trace + outcome.trace
        outcome.message = joined(outcome.message, certified.message)
        if certified.limit != "none":
            outcome.limit = certified.limit
        return outcome

    def _best_plan(
        self, formulation: SchedulingFormulation, options: SolveOptions, clock: Clock, proven: float
    ) -> Outcome:
        """Return the outcome of the method whose schedule has the best objective value.

        Parameters
        ----------
        proven
            A proven bound on the objective.
        """
        best_outcome = Outcome()
        best: tuple[float, ...] | None = None
        for method, settings in self._methods(formulation, proven):
            if best is not None and clock.expired:
                best_outcome.limit = "time"
                break
            try:
                asked = SolveOptions(seed=options.seed, gap=options.gap, method_options=settings)
                outcome = method.solve(formulation, asked, clock)
            except OutOfTimeError:
                if best is None:
                    raise
                best_outcome.limit = "time"
                break
            if outcome.plan is None:
                best_outcome.message = best_outcome.message or outcome.message
                continue
            values = formulation.evaluate(outcome.plan)
            if best is None or formulation.precedes(values, best) or outcome.bounds:
                best_outcome, best = outcome, values
                if not (outcome.message or "").startswith("found by"):
                    best_outcome.message = joined(f"found by {method.name}", outcome.message)
        return best_outcome

    def _methods(self, formulation: SchedulingFormulation, proven: float) -> Iterator[Method]:
        """Yield the solvers to be tried for the best schedule, each with its method options."""
        instance = formulation.instance
        if not event_loop_supports(instance):
            yield from ((POLICY_BY_NAME[name], {}) for name in CLAIRVOYANT)
        yield Price(proven), {}
        if instance.menus().malleable and not loses_work(instance):
            yield from ((POLICY_BY_NAME["optimus"], settings) for settings in OPTIMUS_SETTINGS)
            # Where a further GPU may bring more than the one before, marginal gains can be far from what is
            # possible.
            yield OPTIMUS_EXACT, OPTIMUS_SETTINGS[0]
        if len(instance.table()) <= MAX_ENUMERATED_JOBS and schedule_count(instance) <= MAX_SCHEDULES:
            yield SchedulingBruteForce(), {}


def _without_compiling(formulation: SchedulingFormulation, clock: Clock) -> Plan | None:
    """Return a FIFO schedule by uncompiled loops if time may not allow compiling, None otherwise.

    Then a short time limit does not end without a plan at the first use on a machine.
    """
    if clock.remaining_s is None or clock.remaining_s > COMPILED_IN_S or is_compiled(advance):
        return None
    with interpreted():
        return POLICY_BY_NAME["fifo"].solve(formulation, SolveOptions(), clock).plan
