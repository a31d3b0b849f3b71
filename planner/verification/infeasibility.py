"""Verification of infeasibility: the claim that no plan exists, and the diagnosis."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...formulations.common.clock import Clock
from ...formulations.common.formulation import Formulation
from ...formulations.common.objective import Diagnosis
from ...solvers.common.diagnosis import PLAIN
from ...solvers.quick import find_plan
from ...solvers.run import diagnose
from .findings import Findings

PATIENCE_S = 3.0
"""Seconds in which the quick methods may refute the claim, and as many for a diagnosis."""


def check_infeasible(
    found: Findings,
    formulation: Formulation[Any, Any],
    proven: str | None,
    diagnosis: Diagnosis | None,
    versions: Mapping[str, str],
    counts: Callable[[Sequence[Any]], bool] = lambda _: True,
) -> None:
    """Check that no plan exists, by counting, by the certificate, or by searching for one; and the diagnosis.

    Parameters
    ----------
    proven
        What the certificate proves, in words; None if it does not prove the claim.
    diagnosis, versions
        What is said of why there is none, and by which version of this package.
    counts
        Whether a feasible plan is one of those that are said not to exist.
    """
    known = formulation.elementary_infeasibility()
    if known is not None:
        found.confirmed.append("infeasible: " + "; ".join(known.reasons))
    elif proven is not None:
        found.confirmed.append(f"infeasible: {proven}")
    elif (quick := find_plan(formulation, PATIENCE_S)) is not None and counts(quick.plan):
        value, objective = formulation.evaluate(quick.plan)[0], formulation.objectives[0]
        found.faults.append(
            f"status is stored as infeasible; {quick.method} finds a plan, with {objective.name} {value:.10g}"
        )
    else:
        found.claimed.append("that no plan exists")
    if found.confirmed and diagnosis is not None and diagnosis != PLAIN:
        _check_diagnosis(found, formulation, known, diagnosis, versions)


def _check_diagnosis(
    found: Findings,
    formulation: Formulation[Any, Any],
    known: Diagnosis | None,
    diagnosis: Diagnosis,
    versions: Mapping[str, str],
) -> None:
    """Derive again why there is no plan.

    What counting alone shows has to be there, word for word. Beyond that a diagnosis rests on a search, which
    may end elsewhere on another machine: what a search of a few seconds does not say again is only claimed.
    """
    stored = [*diagnosis.reasons, *diagnosis.remedies]
    counted = [] if known is None else [*known.reasons, *known.remedies]
    if missing := [line for line in counted if line not in stored]:
        found.other_words(f"diagnosis does not say what counting shows: {missing[0]}", versions)
        return
    clock = Clock(PATIENCE_S)
    derived = diagnose(formulation, known, PATIENCE_S)
    if _lines(diagnosis) == _lines(derived):
        found.confirmed.append("the diagnosis, word for word")
    elif derived is known and not clock.expired:
        found.other_words("diagnosis says more than what counting shows", versions)
    else:
        found.claimed.append("the diagnosis, which a search of a few seconds does not say again")


def _lines(diagnosis: Diagnosis) -> tuple[list[str], list[str]]:
    """Return reasons and remedies, each sorted: their order may depend on that of keys in a document."""
    return sorted(diagnosis.reasons), sorted(diagnosis.remedies)
