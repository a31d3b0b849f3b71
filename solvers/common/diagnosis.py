"""Why an instance that a solver proved infeasible has no plan, and the smallest change that would help."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...formulations.common.formulation import Formulation
from ...formulations.common.objective import Diagnosis
from ...instances.common.errors import TooLargeError
from .base import Clock

PATIENCE_S = 20.0
"""Seconds that a diagnosis may take."""
PLAIN = Diagnosis(reasons=("no plan keeps all constraints together",))
"""What is said where no more is found, or there is no time to look."""

Diagnose = Callable[[Any, Diagnosis | None, Clock], Diagnosis | None]
"""Derives a kind's diagnosis from the formulation, the diagnosis by counting, and a clock."""


def diagnose_with(
    find: Diagnose,
    formulation: Formulation[Any, Any],
    known: Diagnosis | None = None,
    patience_s: float | None = None,
) -> Diagnosis:
    """Return the diagnosis of an infeasible instance; a plain sentence where none is found in time.

    Parameters
    ----------
    known
        What counting alone has found.
    patience_s
        Seconds that are left; at most twenty are taken.
    """
    plain = known or PLAIN
    clock = Clock(PATIENCE_S if patience_s is None else min(PATIENCE_S, patience_s))
    if clock.expired:
        return plain
    try:
        with clock.enforced():
            return find(formulation, known, clock) or plain
    except TooLargeError:
        return plain  # the relaxed model has no bound on units, or there was no time
