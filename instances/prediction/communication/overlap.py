"""Overlap: how much of the communication hides behind the computation."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...common.errors import OptionError


def step_s(compute_s: Any, communication_s: Any, exponent: float = 1.0) -> Any:
    """Return the seconds of a step with both: (a^γ + b^γ)^(1/γ) (Pollux, OSDI'21, section 3.2).

    Parameters
    ----------
    compute_s, communication_s
        Numbers, or arrays of one shape.
    exponent
        γ: 1 adds both up, and infinity hides the shorter one.

    Raises
    ------
    OptionError
        If γ is below 1.
    """
    if not exponent >= 1.0:
        raise OptionError(f"overlap: the exponent is {exponent}; it must be 1 or more")
    longer, shorter = np.maximum(compute_s, communication_s), np.minimum(compute_s, communication_s)
    if np.isinf(exponent):
        return longer
    # Divided by the longer one, so that no power overflows.
    share = np.divide(shorter, longer, out=np.zeros_like(longer, dtype=float), where=np.asarray(longer) > 0)
    return longer * (1.0 + share**exponent) ** (1.0 / exponent)
