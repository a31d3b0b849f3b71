"""`exact`: staging to proven optimality, with a certificate that needs no trust in any solver.

Methods that write no certificate get one from this search: its intervals and dual prices. `what_if` solves
the instance again without the limit of one type at a time.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

from ...formulations.common.clock import time_left_s
from ...formulations.common.compiled import is_compiled
from ...formulations.staging.certificate import CUTOFF_MARGIN, MAX_PRICE, CertifiedInterval, named_prices
from ...formulations.staging.formulation import StagingFormulation, formulation_of
from ...formulations.staging.stages import Plan, units_of
from ...instances.common.errors import OutOfTimeError
from ...instances.common.fields import Fields
from ..common.base import Clock, MethodOption, Outcome, Solver
from ..common.conclude import contradiction
from ..common.result import SolveOptions
from .heterps.provisioning import WAYS
from .heterps.type_search import Greedy, SingleType
from .intervals import Cheapest, Fastest, Interval, candidate_of, plan_of
from .kernels import fewest_units
from .search import Search

Solve = Callable[[StagingFormulation], Plan | None]


def what_if_text(formulation: StagingFormulation, plan: Plan, solve: Solve) -> str:
    """Return a text on the gain in the objective from lifting the limit of each exhausted hardware type.

    Parameters
    ----------
    plan
        The best plan within all limits.
    solve
        Returns the best plan of a changed instance, or None if there was no time for it.
    """
    instance, objective = formulation.instance, formulation.objectives[0]
    used, value, notes = units_of(plan), formulation.evaluate(plan)[0], []
    for hardware in instance.types:
        if hardware.limit is None or used[hardware.name] < hardware.limit:
            continue
        free = hardware.model_copy(update={"limit": None})
        types = tuple(free if one is hardware else one for one in instance.types)
        other = formulation_of(instance.model_copy(update={"types": types}))
        best = solve(other)
        if best is None:
            notes.append(f"{hardware.name}: no time to tell")
            continue
        more, reached = units_of(best)[hardware.name] - hardware.limit, other.evaluate(best)[0]
        gain = "nothing"
        if more > 0 and objective.better(reached, value):
            side = "less" if objective.sense == "min" else "more"
            gain = f"{more} more units, {abs(reached - value):.6g} {objective.unit} {side}"
        notes.append(f"{hardware.name}: {gain}")
    if not notes:
        return "no type is used up, so more units of one would change nothing"
    return "what more units would bring, one type at a time: " + "; ".join(notes)


FIRST_PLAN_S = 1.0
"""Most seconds for a heuristic's plan."""
FIRST_PLAN_SHARE = 0.25
"""Share of a short time limit for a heuristic's plan."""
SHORT_LIMIT_S = 10.0
"""Time limit up to which compiling the loops may leave no time for a heuristic after the search."""


class StagingExact(Solver[StagingFormulation]):
    """Branch and bound over the slowest stage time, with shortest paths of stages, and a certificate."""

    name = "exact"
    kinds = ("staging",)
    proves = True
    features = frozenset({"warm_start"})
    method_options = {
        "what_if": MethodOption(False, "also compute what more units of each used-up type would save")
    }
    what = "search over stage times: shortest paths, prices on scarce units, small cores; certified"

    def solve(self, formulation: StagingFormulation, options: SolveOptions, clock: Clock) -> Outcome:
        """Return the best plan, its bound, and the intervals of stage times that certify the bound.

        A heuristic's plan is returned where a limit ends the search without a better one. The search does not
        know it: it depends on the speed of the machine and on which loops are compiled already, and a plan
        known from the start may change which of several best plans is found.
        """
        short = clock.limit_s is not None and clock.limit_s <= SHORT_LIMIT_S
        known = None
        if short and not self.is_ready(formulation):
            known = self._known_plan(formulation, clock.share(FIRST_PLAN_SHARE))
        try:
            outcome = self.search(formulation, options, clock)
        except OutOfTimeError as error:
            known = known or self._known_plan(formulation, Clock(time_left_s()))
            if known is None:
                raise
            message = f"there was no time to search ({error}); the plan is a heuristic's"
            outcome = Outcome(bounds=formulation.elementary_bounds(), limit="time", message=message)
        if outcome.limit == "time" and outcome.plan is None and known is None:
            known = self._known_plan(formulation, Clock(time_left_s()))
        if outcome.limit != "none" and known is not None:
            keep_better(formulation, outcome, known)
        if options.warm_start is not None and formulation.instance.is_graph:
            # On a graph the search may look at one order of the layers alone, or know no given plan.
            keep_better(formulation, outcome, formulation.parse_plan(options.warm_start))
        if outcome.plan is not None and self.setting(options, "what_if"):
            more = what_if_text(
                formulation, outcome.plan, lambda other: self.solve_changed(other, options, clock)
            )
            outcome.message = "; ".join(filter(None, (outcome.message, more)))
        return outcome

    def is_ready(self, formulation: StagingFormulation) -> bool:
        """Return whether the loops of the search are compiled, so that it finds a plan soon."""
        del formulation
        return is_compiled(fewest_units)

    def heuristic_plan(self, formulation: StagingFormulation, clock: Clock) -> Plan | None:
        """Return the first feasible plan of the single-type and greedy heuristics, None if they find none."""
        for way, method in itertools.product(WAYS, (SingleType(), Greedy())):
            options = SolveOptions(method_options={"provisioning": way})
            plan = method.solve(formulation, options, clock).plan
            if plan is not None and not formulation.violations(plan):
                return plan
        return None

    def _known_plan(self, formulation: StagingFormulation, clock: Clock) -> Plan | None:
        """Return a heuristic's plan within a short time, None if there is none."""
        clock = clock.at_most(FIRST_PLAN_S)
        try:
            with clock.enforced():
                return self.heuristic_plan(formulation, clock)
        except OutOfTimeError:
            return None

    def search(self, formulation: StagingFormulation, options: SolveOptions, clock: Clock) -> Outcome:
        """Return the outcome of the search over paths of stages in the table, or the warm start if better."""
        start = None if options.warm_start is None else formulation.parse_plan(options.warm_start)
        incumbent = incumbent_of(formulation, options, start)
        search = Search(formulation, incumbent, clock)
        intervals = search.run()
        outcome = Outcome(limit=search.limit, trace=search.trace, build_s=search.build_s)
        if incumbent.best is not None:
            outcome.plan = plan_of(formulation, incumbent.best)
        elif search.limit == "none":
            outcome.infeasible = True
        bound = None if outcome.infeasible else _bound(formulation, incumbent, intervals)
        outcome.bounds = (bound,)
        outcome.certificate = certificate(formulation, intervals, bound, search.slowest_s)
        return outcome

    def solve_changed(
        self, formulation: StagingFormulation, options: SolveOptions, clock: Clock
    ) -> Plan | None:
        """Return the best plan of a changed instance, None if it is not found within the time limit."""
        plain = options.model_copy(update={"method_options": {}}).starting_from(None)
        try:
            outcome = self.solve(formulation, plain, Clock(clock.remaining_s))
        except OutOfTimeError:
            return None
        return outcome.plan if outcome.limit == "none" else None


def keep_better(formulation: StagingFormulation, outcome: Outcome, plan: Plan) -> None:
    """Replace the plan of an outcome by a known plan, where that is better or the outcome has none."""
    if outcome.infeasible:
        return  # the two contradict each other, which the conclusion says
    if outcome.plan is None or formulation.precedes(
        formulation.evaluate(plan), formulation.evaluate(outcome.plan)
    ):
        outcome.plan = plan


def incumbent_of(
    formulation: StagingFormulation, options: SolveOptions, known: Plan | None = None
) -> Cheapest | Fastest:
    """Return the incumbent that keeps the cheapest or the fastest plan, by the instance's objective.

    Parameters
    ----------
    known
        A feasible plan, which it keeps if the stage table has its stages; None: it is empty.
    """
    limit = formulation.instance.cost_limit_usd
    keeping = Cheapest if formulation.instance.objective == "cost" else Fastest
    incumbent = keeping(math.inf if limit is None else limit, options.gap)
    candidate = None if known is None else candidate_of(formulation, known)
    if candidate is not None:
        incumbent.update(candidate)
    return incumbent


def _bound(
    formulation: StagingFormulation, incumbent: Cheapest | Fastest, intervals: Sequence[Interval]
) -> float | None:
    """Return the bound on the objective that the intervals' bounds imply, None if it is not finite."""
    if isinstance(incumbent, Cheapest):
        least = min((interval.bound for interval in intervals), default=math.inf)
        if incumbent.best is not None:
            least = min(least, incumbent.best.cost_usd)
        return least if math.isfinite(least) else None
    # An interval whose bound reaches the cost limit holds no plan, however fast.
    lows = [interval.low for interval in intervals if interval.bound < incumbent.most_usd]
    if incumbent.best is not None:
        lows.append(incumbent.best.time_s)
    time = min(lows, default=0.0)
    return formulation.of_stage_time(time) if time > 0 else None


def certificate(
    formulation: StagingFormulation, intervals: Sequence[Interval], bound: float | None, slowest_s: float
) -> Fields | None:
    """Return the certificate (intervals of stage times with prices) of a bound, or of infeasibility.

    A bound of None certifies infeasibility. The certificate is None where the bound is beyond the figures
    that it may hold.
    """
    if bound is not None and not abs(bound) < MAX_PRICE:
        return None
    sign = 1 if formulation.objectives[0].sense == "min" else -1
    cutoff = None if bound is None else bound - sign * CUTOFF_MARGIN * abs(bound)
    return {"cutoff": cutoff, "intervals": intervals_of(formulation, intervals, slowest_s)}


def intervals_of(
    formulation: StagingFormulation, intervals: Sequence[Interval], slowest_s: float
) -> list[Fields]:
    """Convert searched intervals of the stage time to certificate entries, in ascending order."""
    certified, earlier = [], 1 - formulation.time_rounding
    if intervals and intervals[0].low > 0:
        # Faster than any plan can be: without prices no path of segments is fast enough there.
        certified.append(CertifiedInterval(until_s=math.nextafter(intervals[0].low, 0.0) * earlier))
    for interval in intervals:
        named, budget = named_prices(formulation.instance, interval.prices)
        # At the slowest stage time every segment has one unit; from there on nothing changes.
        until = MAX_PRICE if interval.high >= slowest_s else min(interval.high * earlier, MAX_PRICE)
        certified.append(
            CertifiedInterval(
                until_s=until, prices=named, budget_price=budget, counts_cost=interval.counts_cost
            )
        )
    return [one.model_dump(exclude_defaults=True) for one in certified]


CERTIFICATE_LIMIT_S = 5.0
"""Seconds that the search for a certificate may take."""


def _refutes(formulation: StagingFormulation, plan: Plan, bound: float | None) -> bool:
    """Return whether a feasible plan is better than a bound, or refutes the claim of infeasibility.

    That claim is a bound of None.
    """
    if formulation.violations(plan):
        return False
    return bound is None or contradiction(formulation, (bound,), formulation.evaluate(plan)) is not None


def certify(formulation: StagingFormulation, outcome: Outcome, clock: Clock) -> None:
    """Add a certificate of an outcome's bound, or of its infeasibility, from a search of limited time.

    Raises
    ------
    TooLargeError
        If there are too many possible stages, or there is no time for a search.
    """
    bound = None if outcome.infeasible else outcome.bounds[0]
    if outcome.plan is not None and _refutes(formulation, outcome.plan, bound):
        return  # the answer contradicts itself, and the conclusion says so
    broken = outcome.plan is not None and formulation.violations(outcome.plan)
    incumbent = incumbent_of(formulation, SolveOptions(), None if broken else outcome.plan)
    # The search has a clock of its own: what it does not settle in time keeps a weaker bound.
    patience = clock.at_most(CERTIFICATE_LIMIT_S)
    search = Search(formulation, incumbent, patience)
    with patience.enforced():
        intervals = search.run()
    if incumbent.best is not None and _refutes(formulation, plan_of(formulation, incumbent.best), bound):
        outcome.infeasible, outcome.bounds = False, ()
        outcome.message = "its bound, which a better plan refutes, is left out"
        return
    if bound is None or math.isfinite(bound):
        outcome.certificate = certificate(formulation, intervals, bound, search.slowest_s)
