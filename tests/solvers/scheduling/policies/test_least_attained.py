"""Limits of attained service, as exactly as moments can tell."""

from __future__ import annotations

import numpy as np

from clusterplan.solvers.scheduling.policies.least_attained import reached


def test_a_limit_is_reached_up_to_rounding() -> None:
    """An infinite one never is; long after time 0 a moment is less exact."""
    limits = np.array([10.0, 10.0, np.inf])
    service, width = np.array([10 - 1e-9, 9.9, 1e9]), np.ones(3)
    assert reached(service, limits, width, 0.0).tolist() == [True, False, False]
    assert reached(np.array([10 - 1e-6]), limits[:1], width[:1], 0.0).tolist() == [False]
    assert reached(np.array([10 - 1e-6]), limits[:1], width[:1], 1.5e9).tolist() == [True]
