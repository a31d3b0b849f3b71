"""From what a solver answers to a result that says no more than is proven."""

from __future__ import annotations

import logging
import math
import platform
from functools import cache
from importlib import metadata
from typing import Any

from ...formulations.common.formulation import Formulation
from ...formulations.common.objective import Diagnosis, Objective, Violation
from ...instances.common.errors import OutOfTimeError
from .base import Clock, Outcome
from .options import SolveOptions
from .result import ObjectiveRecord, Result, Status, plan_hash

log = logging.getLogger("clusterplan")

SNAP = 1e-9
"""A bound this close to the value, relatively, is the value: solvers add floats in another order."""
GRACE, GRACE_S = 0.1, 1.0
"""The search has to end this share of the time limit after it, or so many seconds if that is more; and a
certificate is checked in what is left of the limit, or in as much."""
CONTRADICTION = 1e-6
"""A bound that is better than the value by more than this, relatively, is wrong: a solver's tolerance."""


def patience_of(options: SolveOptions) -> Clock:
    """Return the clock by which a search has to end, a little after its time limit."""
    limit_s = options.time_limit_s
    return Clock(None if limit_s is None else limit_s + _grace_s(limit_s))


def time_to_check(options: SolveOptions, runtime_s: float) -> Clock:
    """Return the clock for the check of a certificate: what the search has left, or a little."""
    limit_s = options.time_limit_s
    return Clock(None if limit_s is None else max(limit_s - runtime_s, _grace_s(limit_s)))


def _grace_s(limit_s: float) -> float:
    return max(GRACE * limit_s, GRACE_S)


@Clock().enforced()  # a plan is checked to the end, whatever the time
def conclude(
    formulation: Formulation[Any, Any],
    solver: str,
    options: SolveOptions,
    outcome: Outcome,
    runtime_s: float,
    diagnosis: Diagnosis | None = None,
) -> Result:
    """Turn a solver's outcome into a result, after verifying its plan."""
    plan = None if outcome.plan is None else tuple(outcome.plan)
    broken = _misfits(formulation, plan) or (formulation.violations(plan) if plan is not None else [])
    values = formulation.evaluate(plan) if plan is not None and not broken else None
    message, status = outcome.message, None
    if broken and outcome.doubtful:  # no fault of anybody: the library sees what it is given only so far
        message = "; ".join(part for part in (message, f"its plan does not hold: {broken[0]}") if part)
        plan, broken = None, []
    if broken:
        plan, status = None, "error"
        message = f"{solver} returned a plan that fails verification: " + "; ".join(map(str, broken[:5]))
    elif plan is not None and outcome.infeasible:
        outcome.infeasible, outcome.bounds, outcome.certificate = False, (), None
        message = _refuted(solver, "said that no plan exists", message)
    certified, unchecked = _certified(formulation, outcome, values, time_to_check(options, runtime_s))
    message = "; ".join(part for part in (message, unchecked) if part) or None
    if plan is None and any(bound is not None and math.isinf(bound) for bound in certified):
        outcome.infeasible = True
    records: tuple[ObjectiveRecord, ...] = ()
    if not broken and not outcome.infeasible:
        if refuted := contradiction(formulation, outcome.bounds, values):
            outcome.bounds, message = (), _refuted(solver, f"claimed {refuted}", message)
        if refuted := contradiction(formulation, certified, values):
            certified, outcome.certificate = formulation.elementary_bounds(), None
            message = _refuted(solver, f"gave a certificate of {refuted}", message)
        records = objective_records(formulation, values, outcome.bounds, certified, options.gap)
        plan = None if plan is None else formulation.finish(plan)
    if status is None:
        status = _status(outcome, plan, records)
    deciding = next((record for record in records if not record.proven), records[-1] if records else None)
    figures = (
        deciding.model_dump(include={"bound", "gap", "certified_bound", "certified_gap"}) if deciding else {}
    )
    return Result(
        instance=formulation.instance.name,
        kind=formulation.kind,
        instance_sha256=formulation.instance.sha256(),
        solver=solver,
        backend=outcome.backend,
        status=status,
        limit=outcome.limit,
        objective=deciding.value if deciding else None,
        **figures,
        objectives=records,
        prices=outcome.prices,
        certificate=outcome.certificate,
        plan=plan,
        plan_sha256=None if plan is None else plan_hash(plan),
        runtime_s=runtime_s,
        build_s=outcome.build_s,
        seed=options.seed,
        options=options,
        versions=library_versions(),
        trace=tuple(outcome.trace),
        message=_with_advice(formulation, outcome, records[0].value if records else None, message),
        diagnosis=diagnosis if status == "infeasible" else None,
    )


def _refuted(solver: str, claim: str, message: str | None) -> str:
    """Say, and log, which claim of a solver its own plan refutes; the plan is none the worse for it."""
    said = f"{solver} {claim}; the plan is kept, with the bound that is certified"
    log.warning("%s", said)
    return "; ".join(part for part in (said, message) if part)


def _certified(
    formulation: Formulation[Any, Any], outcome: Outcome, values: Any, patience: Clock
) -> tuple[tuple[float | None, ...], str | None]:
    """Return the bounds that the check derives in time, and what it did not get to."""
    if outcome.infeasible:
        return (), None
    if values is None and outcome.certificate is None and patience.limit_s is not None:
        patience = Clock(0.0)  # only what is at hand
    try:
        with patience.enforced():
            found = formulation.certified_bounds(outcome.certificate, values)
    except OutOfTimeError:
        if values is None:
            return tuple(None for _ in formulation.objectives), "there was no time to check any bound"
        found = formulation.elementary_bounds()
    if outcome.certificate is None or not patience.expired:
        return found, None
    return found, "there was no time to check the certificate to the end; it may prove more, see verify"


def _misfits(formulation: Formulation[Any, Any], plan: tuple[Any, ...] | None) -> list[Violation]:
    """Return what in a plan is no entry of one, which a solver of somebody else may have put there."""
    wrong = {type(entry).__name__ for entry in plan or () if type(entry) is not formulation.entry}
    return [Violation("entries", f"are {name}, not {formulation.entry.__name__}") for name in sorted(wrong)]


def _with_advice(
    formulation: Formulation[Any, Any], outcome: Outcome, value: float | None, message: str | None
) -> str | None:
    advice = None
    if outcome.prices is not None and value is not None:
        advice = formulation.advice(outcome.prices, value)
    return "; ".join(part for part in (message, advice) if part) or None


def _status(outcome: Outcome, plan: Any, records: tuple[ObjectiveRecord, ...]) -> Status:
    if outcome.failed and plan is None:
        return "error"
    if outcome.infeasible:
        return "infeasible"
    if plan is None:
        return "unknown"
    return "optimal" if all(record.proven for record in records) else "feasible"


def _padded(bounds: Any, length: int) -> list[float | None]:
    return [*bounds, *[None] * length][:length]


def excess(objective: Objective, value: float, bound: float) -> float:
    """Return by how much the bound is better than the value, relatively; it never should be."""
    beyond = bound - value if objective.sense == "min" else value - bound
    if math.isinf(beyond):
        return beyond
    return beyond / (max(abs(value), abs(bound)) if value else 1.0)


def contradiction(formulation: Formulation[Any, Any], claimed: Any, values: Any) -> str | None:
    """Return which of the bounds a plan of these values contradicts, if any."""
    if values is None:
        return None
    bounds = _padded(claimed, len(values))
    for objective, value, bound in zip(formulation.objectives, values, bounds, strict=True):
        if bound is not None and excess(objective, value, bound) > CONTRADICTION:
            return (
                f"a bound of {bound:.12g}, which its own plan contradicts: {objective.name} is {value:.12g}"
            )
        if bound is None:
            return None
    return None


def _snapped(objective: Objective, value: float | None, bound: float | None) -> float | None:
    if value is None or bound is None:
        return bound
    close = abs(value - bound) <= SNAP * max(abs(value), abs(bound))
    return value if close or excess(objective, value, bound) > 0 else bound


def objective_records(
    formulation: Formulation[Any, Any], values: Any, bounds: Any, certified_bounds: Any, requested_gap: float
) -> tuple[ObjectiveRecord, ...]:
    """Return what is known about each objective.

    A bound on a later objective holds only where the earlier ones are at their optimum, so it counts
    only if they are proven; certified bounds hold always.
    """
    records, earlier_proven = [], True
    known = _padded(bounds, len(formulation.objectives))
    own = values or [None] * len(known)
    for objective, value, claimed, certified in zip(
        formulation.objectives, own, known, certified_bounds, strict=True
    ):
        certified_bound = _snapped(objective, value, certified)
        bound = objective.tighter(
            _snapped(objective, value, claimed) if earlier_proven else None, certified_bound
        )
        gap = objective.gap(value, bound)
        earlier_proven = earlier_proven and gap is not None and gap <= requested_gap
        records.append(
            ObjectiveRecord(
                name=objective.name,
                sense=objective.sense,
                unit=objective.unit,
                value=value,
                bound=bound,
                gap=gap,
                certified_bound=certified_bound,
                certified_gap=objective.gap(value, certified_bound),
                proven=earlier_proven,
            )
        )
    return tuple(records)


@cache
def library_versions() -> dict[str, str]:
    """Return the versions that a result depends on."""
    return {
        "clusterplan": metadata.version("clusterplan"),
        "python": platform.python_version(),
        "numpy": metadata.version("numpy"),
    }
