"""Certificates of schedules: prices of time, which prove a bound on the mean completion time."""

from __future__ import annotations

from ...formulations.common.objective import Diagnosis
from ...formulations.scheduling.certificate import certificate_of
from ...formulations.scheduling.formulation import SchedulingFormulation
from ...instances.common.errors import OutOfTimeError
from ..common.base import Clock, Outcome
from .dual.ascent import best_prices


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
