"""The best schedule that is known, with the bound that prices of time prove.

Certificates of schedules: prices of time, which prove a bound on the mean completion time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...formulations.common.compiled import interpreted, is_ready
from ...formulations.common.objective import Diagnosis
from ...formulations.scheduling.certificate import certificate_of
from ...formulations.scheduling.formulation import SchedulingFormulation
from ...instances.common.errors import OutOfTimeError
from ..common.base import Clock, Outcome, Solver
from ..common.options import SolveOptions
from .brute_force import MOST_JOBS, MOST_SCHEDULES, SchedulingBruteForce, schedules_of
from .dual.ascent import best_prices
from .methods import POLICIES, is_plain, loses_work, slows_down
from .search.event_loop import advance
from .search.price import Price


def certify(
    formulation: SchedulingFormulation, outcome: Outcome, clock: Clock, threads: int | None = None
) -> float | None:
    """Add the best prices of time that are found in what is left of the clock, with what they are worth.

    Return the bound in plain floating point; None without prices: the makespan has elementary bounds only,
    and prices need a schedule to begin with.
    """
    if outcome.plan is None or formulation.instance.objective == "makespan":
        return None
    value = formulation.evaluate(outcome.plan)[0]
    segments = formulation.segments(outcome.plan)
    try:
        found = best_prices(formulation.instance, segments, value, clock, threads)
    except OutOfTimeError as error:
        outcome.message = joined(outcome.message, f"no prices of time: {error}")
        return None
    outcome.certificate = certificate_of(found.grid, tuple(formulation.instance.pool))
    outcome.prices = formulation.prices(outcome.certificate, outcome.plan)
    if clock.expired:
        outcome.limit = "time"
    outcome.trace += [(seconds, value, bound) for seconds, bound in found.trace]
    outcome.message = joined(
        outcome.message,
        f"{found.evaluations} evaluations of the dual; no prices up to twice these, on their grid, would "
        f"prove more than {found.estimate:,.6g} s",
    )
    return found.bound


def joined(*parts: str | None) -> str:
    """Return what there is to say, as one line."""
    return "; ".join(part for part in parts if part)


def diagnose(formulation: SchedulingFormulation, known: Diagnosis | None, clock: Clock) -> Diagnosis | None:
    """Return what is known; a trace has a schedule unless events take the place of its jobs for ever."""
    del formulation, clock
    return known


SHARE = 0.5
"""Part of the time for what comes first: for rigid jobs the bound, which mostly ends by itself."""
FIRST = "srsf"
"""The policy whose schedule is enough to find the bound of rigid jobs."""
CLAIRVOYANT = ("srsf", "srtf", "sjf", "fifo-backfill")
"""The policies that it tries too on servers, and where work may be lost."""
TINY = MOST_JOBS - 2
"""Of so many jobs all orders are tried too."""

ALLOCATING: tuple[dict[str, Any], ...] = (
    {"aim": "speeds", "reacts": True, "power": 0.5},
    {"aim": "speeds", "reacts": True, "power": 0.25},
    {"aim": "speeds", "reacts": True, "power": 1.0},
    {"aim": "speeds"},
    {},
)
"""Settings of `optimus` for malleable jobs, mostly the best first; where restarts cost, fewer changes pay."""

COMPILED_IN_S = 15.0
"""Within this time the loops that a first schedule needs are compiled on any machine."""

Method = tuple[Solver[SchedulingFormulation], dict[str, Any]]


class SchedulingExact(Solver[SchedulingFormulation]):
    """Takes the best schedule that `price` or, for malleable jobs, `optimus` finds, and proves a bound.

    Of a tiny trace it tries all orders. The bound is that of the best prices of time that are found in the
    time that is left.

    Parameters
    ----------
    allocating
        `optimus` with proven allocations, which is tried too: where a further GPU may bring more than the one
        before, marginal gains can be far from what is possible.
    """

    name, kinds = "exact", ("scheduling",)
    proves = True
    what = "the best schedule that we find, and a bound by prices of time; all orders of tiny traces"

    def __init__(self, allocating: Solver[SchedulingFormulation] | None = None) -> None:
        self._allocating = allocating

    def solve(self, formulation: SchedulingFormulation, options: SolveOptions, clock: Clock) -> Outcome:
        """Return the best plan, with the bound that is proven.

        Raises
        ------
        OutOfTimeError
            If no schedule is found in time.
        """
        fallback = _without_compiling(formulation, clock)
        try:
            found = self._proven_plan(formulation, options, clock)
        except OutOfTimeError:
            if fallback is None:
                raise
            found = Outcome(limit="time")
        if found.plan is None and fallback is not None:
            found.plan, found.message = fallback.plan, f"found by {fallback.message}"
        found.bounds = found.bounds or formulation.elementary_bounds()
        return found

    def _proven_plan(
        self, formulation: SchedulingFormulation, options: SolveOptions, clock: Clock
    ) -> Outcome:
        """Return the best plan with a certificate, if there is time for one."""
        known = self._bound_first(formulation, options, clock)
        if known is not None:
            certified, proven = known
            found = self._best_plan(formulation, options, clock, proven)
            _take_over(found, certified)
        else:
            found = self._best_plan(formulation, options, clock.share(SHARE), 0.0)
            certify(formulation, found, clock, options.threads)
        return found

    @staticmethod
    def _bound_first(
        formulation: SchedulingFormulation, options: SolveOptions, clock: Clock
    ) -> tuple[Outcome, float] | None:
        """Return a schedule of rigid jobs with the best prices for it, and what these prove; None elsewhere.

        So that the search has all the time that is left, and ends where a plan is as good as the bound.
        """
        instance = formulation.instance
        if instance.menus().malleable:
            return None
        share = clock.share(SHARE)
        try:
            certified = Outcome(_policy(FIRST).solve(formulation, SolveOptions(), share).plan)
        except OutOfTimeError:
            return None
        proven = certify(formulation, certified, share, options.threads)
        return None if proven is None else (certified, proven)

    def _best_plan(
        self, formulation: SchedulingFormulation, options: SolveOptions, clock: Clock, proven: float
    ) -> Outcome:
        """Return the best plan of all methods.

        Parameters
        ----------
        proven
            No plan is better.
        """
        found = Outcome()
        best: tuple[float, ...] | None = None
        for method, settings in self._methods(formulation, proven):
            if best is not None and clock.expired:
                found.limit = "time"
                break
            try:
                asked = SolveOptions(seed=options.seed, gap=options.gap, method_options=settings)
                outcome = method.solve(formulation, asked, clock)
            except OutOfTimeError:
                if best is None:
                    raise
                found.limit = "time"
                break
            if outcome.plan is None:
                found.message = found.message or outcome.message
                continue
            values = formulation.evaluate(outcome.plan)
            if best is None or formulation.precedes(values, best) or outcome.bounds:
                found, best = outcome, values
                if not (outcome.message or "").startswith("found by"):
                    found.message = joined(f"found by {method.name}", outcome.message)
        return found

    def _methods(self, formulation: SchedulingFormulation, proven: float) -> Iterator[Method]:
        """Yield the methods that it tries, each with its settings."""
        instance = formulation.instance
        by_name = {policy.name: policy for policy in POLICIES}
        if not is_plain(instance):
            yield from ((by_name[name], {}) for name in CLAIRVOYANT)
        if not loses_work(instance) and not (instance.servers and slows_down(instance)):
            yield Price(proven), {}
        if instance.menus().malleable and not loses_work(instance):
            settings = [{"admission": "shortest", **more} for more in ALLOCATING]
            yield from ((by_name["optimus"], own) for own in settings)
            if self._allocating is not None:
                yield self._allocating, settings[0]
        if len(instance.table()) <= TINY and schedules_of(instance) <= MOST_SCHEDULES:
            yield SchedulingBruteForce(), {}


def _take_over(found: Outcome, certified: Outcome) -> None:
    """Give a plan the certificate that another one has."""
    found.certificate, found.prices = certified.certificate, certified.prices
    found.trace = certified.trace + found.trace
    found.message = joined(found.message, certified.message)
    if certified.limit != "none":
        found.limit = certified.limit


def _policy(name: str) -> Solver[SchedulingFormulation]:
    return next(policy for policy in POLICIES if policy.name == name)


def _without_compiling(formulation: SchedulingFormulation, clock: Clock) -> Outcome | None:
    """Return the schedule of first come, first served, made by Python, where there may be no time to compile.

    So that a short time limit does not end without a plan the first time on a machine.
    """
    if clock.remaining_s is None or clock.remaining_s > COMPILED_IN_S or is_ready(advance):
        return None
    with interpreted():
        found = _policy("fifo").solve(formulation, SolveOptions(), clock)
    found.message = "fifo"
    return found if found.plan is not None else None
