"""What has to hold of a result, judged by all plans of its instance."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from clusterplan.solvers.common.result import Result

from .truth import Truth

ROUNDING = Fraction(1001, 10**12)
"""Relative; what the documentation allows a comparison of floating-point figures, and a hair for its own."""
TOLERANT = Fraction(2, 10**6)
"""Relative; what the bounds of libraries that work with tolerances may be off."""
LIBRARIES = ("milp", "cp-sat", "minlp", "geometric")


@dataclass(frozen=True)
class Finding:
    """Something that does not hold.

    Attributes
    ----------
    check
        What was checked, in a word or two; failures are of one sort if this and `solver` agree.
    solver
        Whose answer it was.
    text
        What was expected, and what was found.
    """

    check: str
    solver: str
    text: str


def trusts_library(solver: str) -> bool:
    """Return whether bounds of a solver are those of a library with tolerances."""
    return solver.startswith(LIBRARIES)


def beyond(bound: float, best: Fraction, sense: str, slack: Fraction) -> bool:
    """Return whether a bound rules out a value that a plan has, by more than a relative slack."""
    if math.isinf(bound):
        return (bound > 0) == (sense == "min")
    excess = Fraction(bound) - best if sense == "min" else best - Fraction(bound)
    return excess > slack * max(abs(best), abs(Fraction(bound)))


def findings(truth: Truth, result: Result) -> Iterator[Finding]:
    """Yield everything in a result that the plans of its instance refute."""
    for check, text in _refuted(truth, result):
        yield Finding(check, result.solver, text)


def _refuted(truth: Truth, result: Result) -> Iterator[tuple[str, str]]:
    if result.status == "error":
        yield "error", str(result.message)
        return
    if (result.plan is not None) != (result.status in ("optimal", "feasible")):
        yield "status", f"{result.status} with {'a' if result.plan is not None else 'no'} plan"
    if result.status == "infeasible" and truth.feasible:
        yield "infeasible", "there is a plan"
    costs: tuple[int, ...] | None = None
    if result.plan is not None:
        costs, wrong = truth.judge([entry.model_dump(mode="json") for entry in result.plan])
        if wrong:
            yield "plan", "; ".join(wrong)
            return
    yield from _figures(truth, result, costs)
    yield from _conclusion(result)


def _figures(truth: Truth, result: Result, costs: Sequence[int] | None) -> Iterator[tuple[str, str]]:
    """Compare value and bounds of each objective with the plans that are no worse in the earlier ones."""
    if result.objectives and [(r.name, r.sense) for r in result.objectives] != list(truth.objectives):
        yield "objectives", f"are {[r.name for r in result.objectives]}, not {truth.objectives}"
        return
    slack = TOLERANT if trusts_library(result.solver) else ROUNDING
    for index, record in enumerate(result.objectives):
        if costs is not None:
            own = truth.value(index, costs[index])
            if record.value is None or abs(Fraction(record.value) - own) > ROUNDING * abs(own):
                yield "value", f"{record.name} is {float(own):.17g}; the result says {record.value}"
        elif record.value is not None:
            yield "value", f"{record.name} is {record.value} without a plan"
        elif index:
            return
        best = truth.best(costs[:index] if costs is not None else ())
        for key, bound, allowed in (
            ("bound", record.bound, slack),
            ("certified bound", record.certified_bound, ROUNDING),
        ):
            if best is not None and bound is not None and beyond(bound, best, record.sense, allowed):
                yield key, f"{record.name} reaches {float(best):.17g}; the {key} is {bound:.17g}"


def _conclusion(result: Result) -> Iterator[tuple[str, str]]:
    """Check gaps, what is said to be proven, the status and the headline."""
    proven = True
    for record in result.objectives:
        for key, gap, bound in (
            ("gap", record.gap, record.bound),
            ("certified gap", record.certified_gap, record.certified_bound),
        ):
            right = gap_of(record.value, bound)
            if (gap is None) != (right is None) or (gap is not None and not _near(gap, right)):
                yield key, f"of {record.name} is {gap}; value {record.value} and bound {bound} make {right}"
        gap, asked = record.gap, result.options.gap
        if proven and gap is not None and _near(gap, asked):
            proven = record.proven  # as rounding has it
        proven = proven and gap is not None and (gap <= asked or _near(gap, asked))
        if record.proven != proven:
            yield "proven", f"{record.name} with a gap of {record.gap} is said to be {record.proven}"
    if result.plan is not None and (result.status == "optimal") != proven:
        yield "status", f"{result.status}, though the gaps are {[r.gap for r in result.objectives]}"
    record = result.deciding
    headline = (result.objective, result.bound, result.certified_bound)
    if record is not None and not all(
        map(_same, headline, (record.value, record.bound, record.certified_bound))
    ):
        yield "headline", f"is {headline}; it does not repeat {record.name}"


def gap_of(value: float | None, bound: float | None) -> float | None:
    """Return |value − bound| / |value|; 0 if equal, None if unknown or only the value is 0."""
    if value is None or bound is None:
        return None
    if value == bound:
        return 0.0
    return abs(value - bound) / abs(value) if value else None


def _same(a: float | None, b: float | None) -> bool:
    """Return whether two figures are the same up to rounding."""
    if a is None or b is None:
        return a is b
    return math.isclose(a, b, rel_tol=2e-9)


def _near(a: float, b: float | None) -> bool:
    """Return whether two gaps are the same, where value and bound may each be off by rounding."""
    return b is not None and math.isclose(a, b, rel_tol=2e-9, abs_tol=4e-9)
