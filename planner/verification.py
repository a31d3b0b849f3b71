"""Verification of a stored result against its instance, without trust in the solver that made it.

The objective is recomputed from the plan, every constraint is checked, bounds are derived again from the
certificate, and every stored figure, word and status has to agree. What cannot be derived is listed as
claimed; what is no claim about the instance, as stated. The claim that no plan exists is verified too,
and so is its diagnosis.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ..formulations.common.clock import Clock
from ..formulations.common.formulation import AnyFormulation
from ..formulations.common.objective import Bounds, Diagnosis, agree, refute_all_plans
from ..formulations.registry import formulate
from ..instances.common.base import Instance
from ..solvers.common.conclude import DEFAULT_DIAGNOSIS, contradiction, objective_records
from ..solvers.common.result import DEFAULT_GAP, ObjectiveRecord, Result, plan_hash
from ..solvers.run import diagnose, find_plan
from .findings import (
    PLAN_IS_FEASIBLE,
    Findings,
    Verification,
    failed_verification,
    identity_faults,
    stated_facts,
)
from .output import some_lines

SEARCH_LIMIT_S = 3.0
"""Time limit in seconds of heuristics that try to refute infeasibility, and of a diagnosis."""


def check_infeasible(
    findings: Findings,
    formulation: AnyFormulation,
    proven: str | None,
    diagnosis: Diagnosis | None,
    versions: Mapping[str, str],
    counts: Callable[[Sequence[Any]], bool] = lambda _: True,
) -> None:
    """Check a claim of infeasibility by counting arguments, the certificate and heuristics.

    A diagnosis is checked too.

    Parameters
    ----------
    proven
        What the certificate proves, as text; None if it does not prove the claim.
    diagnosis, versions
        The stored diagnosis, and the versions of the packages that wrote it.
    counts
        Returns whether a feasible plan refutes the claim, such as one within the cost limit.
    """
    known = formulation.elementary_infeasibility()
    if known is not None:
        findings.confirmed.append("infeasible: " + "; ".join(known.reasons))
    elif proven is not None:
        findings.confirmed.append(f"infeasible: {proven}")
    elif (quick := find_plan(formulation, SEARCH_LIMIT_S)) is not None and counts(quick.plan):
        value, objective = formulation.evaluate(quick.plan)[0], formulation.objectives[0]
        findings.faults.append(
            f"status is stored as infeasible; {quick.method} finds a plan, with {objective.name} {value:.10g}"
        )
    else:
        findings.claimed.append("that no plan exists")
    if findings.confirmed and diagnosis is not None and diagnosis != DEFAULT_DIAGNOSIS:
        _check_diagnosis(findings, formulation, known, diagnosis, versions)


def _check_diagnosis(
    findings: Findings,
    formulation: AnyFormulation,
    known: Diagnosis | None,
    diagnosis: Diagnosis,
    versions: Mapping[str, str],
) -> None:
    """Compare the stored diagnosis with a newly derived one.

    The parts that follow from counting must agree word for word. The others rest on a search, which may end
    differently on another machine: what a search of a few seconds does not reproduce is only claimed.
    """
    stored = [*diagnosis.reasons, *diagnosis.remedies]
    counted = [] if known is None else [*known.reasons, *known.remedies]
    if missing := [line for line in counted if line not in stored]:
        findings.other_words(f"diagnosis does not say what counting shows: {missing[0]}", versions)
        return
    clock = Clock(SEARCH_LIMIT_S)
    derived = diagnose(formulation, known, SEARCH_LIMIT_S)
    if _lines(diagnosis) == _lines(derived):
        findings.confirmed.append("the diagnosis, word for word")
    elif derived is known and not clock.expired:
        findings.other_words("diagnosis says more than what counting shows", versions)
    else:
        findings.claimed.append("the diagnosis, which a search of a few seconds does not say again")


def _lines(diagnosis: Diagnosis) -> tuple[list[str], list[str]]:
    """Return the sorted reasons and the sorted remedies of a diagnosis.

    Their order may depend on that of document keys.
    """
    return sorted(diagnosis.reasons), sorted(diagnosis.remedies)


MORE = "plan: {} more entries like these"
FIGURES = ("value", "bound", "gap", "certified_bound", "certified_gap")
"""Numeric fields of an objective's record; a result repeats those of the deciding objective."""
FACTS = (
    "solver",
    "backend",
    "options",
    "seed",
    "versions",
    "runtime_s",
    "build_s",
    "trace",
    "message",
    "cuts",
)
"""Fields of a result about the run, not about the instance."""


def verify(instance: Instance, result: Result) -> Verification:
    """Verify a result against its instance.

    Returns
    -------
    verification
        `ok` if nothing is false: every constraint holds, and everything stored agrees with what is derived
        here. `complete` if moreover no claim rests on the solver alone.
    """
    if result.kind != instance.kind:
        return failed_verification(
            instance.name, f"the result is of kind {result.kind}; the instance is of kind {instance.kind}"
        )
    findings, formulation = Findings(), formulate(instance)
    findings.faults += _identity_faults(instance, result)
    malformed = None if result.certificate is None else formulation.certificate_fault(result.certificate)
    if malformed is not None:
        findings.faults.append(f"certificate: {malformed}")
    if result.plan is None:
        _check_without_plan(findings, formulation, result)
    else:
        _check_plan(findings, formulation, result, result.plan)
    findings.faults += _headline_faults(result)
    if not findings.faults:
        _note_bounds(findings, result)
        _check_prices(findings, formulation, result)
        findings.stated += stated_facts(result, FACTS, "solve")
        if result.status == "unknown":
            findings.stated.append("that no plan was found; a plan may exist or not")
    return findings.verification(instance.name)


def differs(stored: float | None, derived: float | None, gap: bool = False) -> bool:
    """Return whether two figures differ beyond the rounding tolerance; gaps are compared as 1 + gap."""
    if stored is None or derived is None:
        return stored is not derived
    return not (agree(1.0 + stored, 1.0 + derived) if gap else agree(stored, derived))


def _shown(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.10g}"


def _identity_faults(instance: Instance, result: Result) -> Iterator[str]:
    """Yield faults of the instance's hash and name, the gap, the instance options and the seed."""
    yield from identity_faults(instance, result, "result")
    if not 0 <= result.options.gap < 1:  # a result that was not read from a file may hold anything
        yield f"options.gap is {result.options.gap:g}; it must be at least 0 and below 1"
    if result.instance_options not in ({}, instance.chosen()):
        yield "instance_options are not those of the instance"
    if result.seed != result.options.seed:
        yield f"seed is stored as {result.seed}; options.seed is {result.options.seed}"


def _record_faults(stored: ObjectiveRecord, derived: ObjectiveRecord, place: str) -> Iterator[str]:
    """Yield differences between the stored and the derived record of an objective, for the same bound."""
    for field in ("name", "sense", "unit", "proven"):
        recorded, right = getattr(stored, field), getattr(derived, field)
        if recorded != right:
            yield f"{place}.{field} is stored as {recorded!r}; it is {right!r}"
    for field in FIGURES:
        old, new = getattr(stored, field), getattr(derived, field)
        if differs(old, new, "gap" in field):
            yield f"{place}.{field} is stored as {_shown(old)}; recomputed it is {_shown(new)}"


def _headline_faults(result: Result) -> Iterator[str]:
    """Yield differences between a result's own figures and status, and its records of objectives."""
    record = result.deciding
    for source in FIGURES:
        field = "objective" if source == "value" else source
        old, new = getattr(result, field), getattr(record, source) if record else None
        if differs(old, new):
            yield f"{field} is stored as {_shown(old)}; the objectives say {_shown(new)}"
    proven = bool(result.objectives) and all(record.proven for record in result.objectives)
    if result.plan is not None and (result.status == "optimal") != proven:
        yield f"status is stored as {result.status}; the gaps say {'optimal' if proven else 'feasible'}"
    if (result.plan is not None) != (result.status in ("optimal", "feasible")):
        yield f"status is stored as {result.status}, with{'out' if result.plan is None else ''} a plan"
    if result.diagnosis is not None and result.status != "infeasible":
        yield f"diagnosis says why there is no plan; the status is {result.status}"


def _check_plan(findings: Findings, formulation: AnyFormulation, result: Result, plan: Sequence[Any]) -> None:
    """Check a plan's constraints, then its objectives, derived fields and hash."""
    broken = formulation.violations(plan)
    findings.faults += [f"broken constraint: {violation}" for violation in broken]
    if not broken:
        findings.confirmed.append(PLAN_IS_FEASIBLE)
        _check_records(findings, formulation, result, formulation.evaluate(plan))
        _check_entries(findings, result, plan, formulation.finish(plan))
    if result.plan_sha256 != plan_hash(plan):
        what = "the plan was altered after it was solved"
        findings.faults.append(f"plan_sha256 does not agree with the plan: {what}")


def _check_without_plan(findings: Findings, formulation: AnyFormulation, result: Result) -> None:
    """Check a result without a plan: the claim of infeasibility, or the bounds."""
    if result.plan_sha256 is not None:
        findings.faults.append("plan_sha256 is given, without a plan")
    if result.status != "infeasible":
        if result.objectives:
            _check_records(findings, formulation, result, None)
        return
    if result.objectives:
        findings.faults.append("objectives are given, although no plan exists")
    bounds = formulation.certified_bounds(result.certificate)
    words = "the prices of the certificate prove that there is no plan" if refute_all_plans(bounds) else None
    check_infeasible(findings, formulation, words, result.diagnosis, result.versions)


def _check_records(
    findings: Findings, formulation: AnyFormulation, result: Result, values: tuple[float, ...] | None
) -> None:
    """Compare the stored record of each objective with a newly derived one."""
    certified = formulation.certified_bounds(result.certificate, values)
    if note := formulation.shared_tables():
        findings.confirmed.append(note)
    if refuted := contradiction(formulation, certified, values):
        findings.faults.append(f"certificate: it would prove {refuted}")
        certified = formulation.elementary_bounds()
    elif values is None and refute_all_plans(certified):
        findings.faults.append(f"status is stored as {result.status}; the certificate proves infeasible")
        return
    # A solve under a time limit may have certified less than this check, which has time, derives now.
    certified = _weakened_bounds(formulation, certified, result)
    bounds = [record.bound for record in result.objectives]
    derived = objective_records(formulation, values, bounds, certified, result.options.gap)
    if len(result.objectives) != len(derived):
        findings.faults.append(f"objectives has {len(result.objectives)} records; there are {len(derived)}")
    for index, (old, new) in enumerate(zip(result.objectives, derived, strict=False)):
        place = f"objectives[{index}] ({new.name})"
        findings.faults += _record_faults(old, new, place)
        objective = formulation.objectives[index]
        if new.value is not None and old.bound is not None and objective.better(new.value, old.bound):
            findings.faults.append(f"{place}: the plan is better than the stored bound")


def _weakened_bounds(formulation: AnyFormulation, derived: Bounds, result: Result) -> Bounds:
    """Return the certified bounds, weakened to the stored ones where the solve certified less.

    A solve may have had time for combinatorial bounds only, or without a plan for none; the check of an older
    version may have proven less.
    """
    bounds = list(derived)
    for index, (record, objective) in enumerate(zip(result.objectives, formulation.objectives, strict=False)):
        stored = record.certified_bound
        if stored is None and result.plan is None:
            bounds[index] = None
        elif stored is not None and objective.tighter(stored, derived[index]) == derived[index]:
            bounds[index] = stored
    return tuple(bounds)


def _check_entries(findings: Findings, result: Result, plan: Sequence[Any], finished: Sequence[Any]) -> None:
    """Compare the derived fields of plan entries: actions, reasons and times."""
    if finished is plan:
        return
    jobs = [[getattr(entry, "job", None) for entry in entries] for entries in (plan, finished)]
    if jobs[0] != jobs[1]:
        findings.faults.append("plan: the jobs are not in the order of the instance")
        return
    wrong = [
        (field, f"plan[{index}].{field} is stored as {old!r}; it is {new!r}")
        for index, (entry, right) in enumerate(zip(plan, finished, strict=True))
        if entry != right
        for field in type(entry).model_fields
        if (old := getattr(entry, field)) != (new := getattr(right, field))
    ]
    # Reasons are sentences, which another version of this package may have worded differently.
    words = [what for field, what in wrong if field == "reason"]
    others = [what for field, what in wrong if field != "reason"]
    findings.faults += some_lines(others, MORE)
    for what in some_lines(words, MORE):
        findings.other_words(what, result.versions)


def _note_bounds(findings: Findings, result: Result) -> None:
    """Record the value and certified bound of each objective; stronger stored bounds are only claimed."""
    for record in result.objectives:
        unit = "" if record.unit == record.name else f" {record.unit}"
        plan = f"{record.name} = {_shown(record.value)}{unit}"
        certified = f"certified bound {_shown(record.certified_bound)}"
        findings.confirmed.append(f"{plan}, {certified}" if result.plan else f"{record.name}: {certified}")
        if differs(record.bound, record.certified_bound):
            findings.claimed.append(f"the bound {_shown(record.bound)} on {record.name}")
    gap = result.options.gap
    if result.status != "optimal":
        return
    if not result.only_claimed:
        findings.confirmed.append("optimal, by the certified bounds alone")
    else:
        findings.claimed.insert(0, "that the plan is optimal")  # the verdict names the first two claims
    if gap > DEFAULT_GAP:
        worst = max(record.gap or 0.0 for record in result.objectives)
        findings.within = f"optimal means a gap of at most {gap:g} here, and it is {worst:.3g}"


def _check_prices(findings: Findings, formulation: AnyFormulation, result: Result) -> None:
    """Check the dual prices against the certificate, and the purchasing advice against the prices.

    Prices that the certificate does not give are only claimed, since purchases depend on them.
    """
    if result.prices is None:
        return
    stored, derived = result.prices, formulation.prices(result.certificate, result.plan or ())
    if (
        derived is None
        or stored.keys() != derived.keys()
        or not all(agree(stored[name], derived[name]) for name in stored)
    ):
        findings.claimed.append("the prices")
        return
    findings.confirmed.append("the prices")
    value = result.objectives[0].value if result.objectives else None
    advice = None if value is None else formulation.advice(result.prices, value)
    if advice is not None and advice not in (result.message or ""):
        findings.other_words(f"message does not say what follows from the prices: {advice}", result.versions)
