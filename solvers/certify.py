"""Certificates for proving methods that make none themselves: by kind, from prices of our own.

Whether they prove the method's bound is for the check to find out; a wrong bound only stays uncertified.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from ..formulations.common.formulation import Formulation
from ..instances.common.errors import TooLargeError
from .allocation.certify import certify as certify_allocation
from .common.base import Clock, Outcome
from .consolidation.certify import certify as certify_consolidation
from .staging.certify import certify as certify_staging

CERTIFIERS: dict[str, Callable[[Any, Outcome, Clock], None]] = {
    "allocation": certify_allocation,
    "staging": certify_staging,
    "consolidation": certify_consolidation,
}


def certify(formulation: Formulation[Any, Any], outcome: Outcome, clock: Clock) -> None:
    """Add a certificate of the outcome's bound, or of infeasibility, where it has none."""
    bound = outcome.bounds[0] if outcome.bounds else None
    if outcome.certificate is not None or (bound is None and not outcome.infeasible):
        return
    if formulation.kind in CERTIFIERS:
        # Without a certificate nothing is certified beyond what counting gives, and the result says so.
        with suppress(TooLargeError):
            CERTIFIERS[formulation.kind](formulation, outcome, clock)
