"""Conclude a verified result from a solver's outcome, with bounds and certificate checked.

An infeasible instance gets a diagnosis: the reasons, and the smallest change that would help.
"""

from __future__ import annotations

import logging
import math
import platform
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache, partial
from importlib import metadata
from itertools import zip_longest
from typing import Any

from ...formulations.common.column_plan import ColumnPlan
from ...formulations.common.formulation import AnyFormulation
from ...formulations.common.objective import Bounds, Diagnosis, Objective, Violation, refute_all_plans
from ...instances.common.base import percent
from ...instances.common.errors import OutOfTimeError, TooLargeError
from .base import Clock, Outcome
from .result import (
    ObjectiveRecord,
    Result,
    SolveOptions,
    Status,
    deciding_record,
    first_uncertified,
    plan_hash,
)

log = logging.getLogger("clusterplan")

SNAP_TOLERANCE = 1e-9
"""A bound this close to the value, relatively, equals the value: solvers add floats in another order."""
GRACE, GRACE_S = 0.1, 0.4
"""A solve ends, with its checks, this share of the time limit and so many seconds after it at the latest."""
SEARCH_SHARE = 0.5
"""Share of the grace period in which the search has to end; the rest is for the check of the certificate."""
CONTRADICTION_TOLERANCE = 1e-6
"""A bound that is better than the value by more than this, relatively, exceeds any solver's tolerance."""

MAX_NAMED_VIOLATIONS = 5
"""Largest number of violated constraints that a message lists."""
TIME_LIMIT_NOTE = "the time limit cut in, so that another run may end with another plan"
"""Message of a result that depends on the speed of the machine."""
UNCHECKED_NOTE = "there was no time to check the certificate to the end; it may prove more, see verify"
HEADLINE_FIELDS = {"bound", "gap", "certified_bound", "certified_gap"}
"""Fields that a result copies from the record of its deciding objective, beside the value."""


def hard_deadline(options: SolveOptions) -> Clock:
    """Return the clock of the search: the time limit plus a part of the grace period."""
    limit_s = options.time_limit_s
    return Clock(None if limit_s is None else limit_s + SEARCH_SHARE * (GRACE * limit_s + GRACE_S))


def check_deadline(options: SolveOptions, runtime_s: float) -> Clock:
    """Return the clock for the check of a certificate: the rest of the time limit and its grace period."""
    limit_s = options.time_limit_s
    return Clock(None if limit_s is None else max(0.0, limit_s + GRACE * limit_s + GRACE_S - runtime_s))


@Clock().enforced()  # a plan is checked to the end, whatever the time
def conclude(
    formulation: AnyFormulation,
    solver: str,
    options: SolveOptions,
    outcome: Outcome,
    runtime_s: float,
    diagnosis: Diagnosis | None = None,
) -> Result:
    """Return the result for a solver's outcome, after verifying the plan and checking the bounds.

    Parameters
    ----------
    runtime_s
        Seconds of the search; the certificate is checked in what is left of the time limit and its grace.
    diagnosis
        Diagnosis of infeasibility, used only if there is no plan.
    """
    make_result = partial(_result, formulation, solver, options, runtime_s, diagnosis)
    if outcome.plan is not None and not isinstance(outcome.plan, ColumnPlan):
        outcome = replace(outcome, plan=tuple(outcome.plan))
    if broken := _violations(formulation, outcome.plan):
        if not outcome.doubtful:
            listed = "; ".join(map(str, broken[:MAX_NAMED_VIOLATIONS]))
            fault = f"{solver} returned a plan that fails verification: {listed}"
            return make_result(replace(outcome, plan=None, failed=True, message=fault))
        # No fault of anybody: the library sees what it is given only so far.
        message = joined(outcome.message, f"its plan does not hold: {broken[0]}")
        outcome = replace(outcome, plan=None, message=message)
    values = None if outcome.plan is None else formulation.evaluate(outcome.plan)
    if values is not None and outcome.infeasible:
        message = _refutation_note(solver, "said that no plan exists", outcome.message)
        outcome = replace(outcome, infeasible=False, bounds=(), certificate=None, message=message)
    deadline = check_deadline(options, runtime_s)
    outcome, certified = _certified(formulation, outcome, values, deadline)
    cut_off = outcome.certificate is not None and deadline.expired
    if outcome.infeasible:
        return make_result(outcome)
    outcome, certified = _without_contradicted_bounds(formulation, solver, outcome, certified, values)
    records = objective_records(formulation, values, outcome.bounds, certified, options.gap)
    outcome = replace(
        outcome, message=joined(outcome.message, _uncertified_note(records, options.gap, cut_off))
    )
    if outcome.plan is not None:
        if outcome.certificate is not None:
            with suppress(TooLargeError), deadline.enforced():
                outcome.prices = formulation.prices(outcome.certificate, outcome.plan)
        outcome.plan = formulation.finish(outcome.plan)
    return make_result(outcome, records)


def _result(
    formulation: AnyFormulation,
    solver: str,
    options: SolveOptions,
    runtime_s: float,
    diagnosis: Diagnosis | None,
    outcome: Outcome,
    records: tuple[ObjectiveRecord, ...] = (),
) -> Result:
    """Return the result document for a verified outcome and its objective records."""
    deciding, plan, message = deciding_record(records), outcome.plan, outcome.message
    status: Status = "error" if outcome.failed else "infeasible" if outcome.infeasible else "unknown"
    if plan is not None:
        status = "optimal" if records[-1].proven else "feasible"
    prices = None if plan is None else outcome.prices
    if prices is not None and records[0].value is not None:
        message = joined(message, formulation.advice(prices, records[0].value))
    if outcome.limit == "time" and plan is not None:
        message = joined(message, TIME_LIMIT_NOTE)
    figures = {} if deciding is None else deciding.model_dump(include=HEADLINE_FIELDS)
    return Result(
        instance=formulation.instance.name,
        kind=formulation.kind,
        instance_sha256=formulation.instance.sha256(),
        instance_options=formulation.instance.chosen(),
        solver=solver,
        backend=outcome.backend,
        status=status,
        limit=outcome.limit,
        objective=deciding.value if deciding else None,
        **figures,
        objectives=records,
        prices=prices,
        certificate=outcome.certificate,
        cuts=None if outcome.cuts is None else tuple(outcome.cuts),
        plan=plan,
        plan_sha256=None if plan is None else plan_hash(plan),
        runtime_s=runtime_s,
        build_s=outcome.build_s,
        seed=options.seed,
        options=options.recorded,
        versions=library_versions(),
        trace=tuple(outcome.trace),
        message=message or None,
        diagnosis=diagnosis if status == "infeasible" else None,
    )


def joined(*parts: str | None) -> str | None:
    """Return the parts of a message that are not empty, joined by semicolons; None if all are."""
    return "; ".join(filter(None, parts)) or None


def _violations(formulation: AnyFormulation, plan: Sequence[Any] | None) -> Sequence[Violation]:
    """Return the violated constraints of a plan; if its entries have a wrong type, these instead."""
    if plan is None:
        return ()
    types = {plan.entry} if isinstance(plan, ColumnPlan) else set(map(type, plan))
    if wrong := types - {formulation.entry}:
        names, expected = sorted({kind.__name__ for kind in wrong}), formulation.entry.__name__
        return [Violation("entries", f"are {name}, not {expected}") for name in names]
    return formulation.violations(plan)


def _refutation_note(solver: str, claim: str, message: str | None) -> str | None:
    """Log and return a message that the solver's own plan contradicts one of its claims."""
    note = f"{solver} {claim}; the plan is kept, with the bound that is certified"
    log.warning("%s", note)
    return joined(note, message)


def _certified(
    formulation: AnyFormulation, outcome: Outcome, values: Any, deadline: Clock
) -> tuple[Outcome, Bounds]:
    """Return the outcome updated by the certified bounds, and these bounds, one for each objective."""
    if outcome.infeasible:
        return outcome, ()
    if values is None and outcome.certificate is None and deadline.limit_s is not None:
        deadline = Clock(0.0)  # nothing was found, so only a bound that costs no time is worth it
    try:
        with deadline.enforced():
            bounds = formulation.certified_bounds(outcome.certificate, values)
    except OutOfTimeError:
        if values is None:
            message = joined(outcome.message, "there was no time to check any bound")
            return replace(outcome, message=message), tuple(None for _ in formulation.objectives)
        bounds = formulation.elementary_bounds()
    infeasible = values is None and refute_all_plans(bounds)
    return replace(outcome, infeasible=infeasible), bounds


def _uncertified_note(records: Sequence[ObjectiveRecord], gap: float, cut_off: bool) -> str | None:
    """Return a note on the claims that the independent check does not prove; None if it proves all.

    Parameters
    ----------
    cut_off
        Whether the time ended before the certificate was checked.
    """
    left = first_uncertified(records, gap)
    if left is None:
        return None
    claim = None
    if records[-1].proven:
        proven = "no gap" if left.certified_gap is None else f"a gap of {percent(left.certified_gap)}"
        claim = f"that the plan is optimal is only what the method claims; proven is {proven} in {left.name}"
    return joined(claim, UNCHECKED_NOTE if cut_off else None)


def _without_contradicted_bounds(
    formulation: AnyFormulation,
    solver: str,
    outcome: Outcome,
    certified: Bounds,
    values: Any,
) -> tuple[Outcome, Bounds]:
    """Return the outcome and certified bounds without those that contradict the plan."""
    if refuted := contradiction(formulation, outcome.bounds, values):
        message = _refutation_note(solver, f"claimed {refuted}", outcome.message)
        outcome = replace(outcome, bounds=(), message=message)
    if refuted := contradiction(formulation, certified, values):
        message = _refutation_note(solver, f"gave a certificate of {refuted}", outcome.message)
        outcome = replace(outcome, certificate=None, message=message)
        certified = formulation.elementary_bounds()
    return outcome, certified


def excess(objective: Objective, value: float, bound: float) -> float:
    """Return the relative amount by which a bound is better than the value; positive if it is wrong."""
    beyond = bound - value if objective.sense == "min" else value - bound
    if math.isinf(beyond):
        return beyond
    return beyond / (max(abs(value), abs(bound)) if value else 1.0)  # of a value of 0 the excess is absolute


def contradiction(formulation: AnyFormulation, claimed: Any, values: Any) -> str | None:
    """Return a text on the first bound that the plan's objective values contradict; None if none does."""
    if values is None:
        return None
    for objective, value, bound in zip(formulation.objectives, values, claimed, strict=False):
        if bound is not None and excess(objective, value, bound) > CONTRADICTION_TOLERANCE:
            return (
                f"a bound of {bound:.12g}, which its own plan contradicts: {objective.name} is {value:.12g}"
            )
        if bound is None:
            return None  # bounds on later objectives suppose that this one is optimal
    return None


def _snapped(objective: Objective, value: float | None, bound: float | None) -> float | None:
    if value is None or bound is None:
        return bound
    close = abs(value - bound) <= SNAP_TOLERANCE * max(abs(value), abs(bound))
    return value if close or excess(objective, value, bound) > 0 else bound


def objective_records(
    formulation: AnyFormulation, values: Any, bounds: Any, certified_bounds: Any, requested_gap: float
) -> tuple[ObjectiveRecord, ...]:
    """Return the record of each objective: value, bounds, gaps, and whether it is proven optimal.

    A bound on a later objective holds only where the earlier ones are at their optimum, so it counts
    only if they are proven; certified bounds hold always.
    """
    records, earlier_proven = [], True
    given = certified_bounds, values or (), bounds[: len(formulation.objectives)]
    for objective, certified, value, claimed in zip_longest(formulation.objectives, *given):
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
    """Return the versions of clusterplan, Python and NumPy by name, which a result depends on."""
    return {
        "clusterplan": metadata.version("clusterplan"),
        "python": platform.python_version(),
        "numpy": metadata.version("numpy"),
    }


DIAGNOSIS_LIMIT_S = 20.0
"""Seconds that a diagnosis may take."""
DEFAULT_DIAGNOSIS = Diagnosis(reasons=("no plan keeps all constraints together",))
"""Diagnosis without details, if none is found in time."""

Diagnose = Callable[[Any, Diagnosis | None, Clock], Diagnosis | None]
"""Derives a kind's diagnosis from the formulation, the diagnosis by combinatorial bounds, and a clock."""


def diagnose_with(
    find: Diagnose,
    formulation: AnyFormulation,
    known: Diagnosis | None = None,
    patience_s: float | None = None,
) -> Diagnosis:
    """Return the diagnosis of an infeasible instance; a general sentence if time is too short.

    Parameters
    ----------
    known
        Diagnosis by combinatorial bounds alone, if any.
    patience_s
        Seconds that are left; at most twenty are taken.
    """
    plain = known or DEFAULT_DIAGNOSIS
    clock = Clock(patience_s).at_most(DIAGNOSIS_LIMIT_S)
    if clock.expired:
        return plain
    try:
        with clock.enforced():
            return find(formulation, known, clock) or plain
    except TooLargeError:
        return plain  # the relaxed model has no bound on units, or there was no time
