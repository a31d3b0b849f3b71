"""Lagrangian bounds that hold in exact arithmetic, as the methods claim them.

For dual prices λ ≥ 0, L(λ) = Σ_j min_k (c_k + λ·a_k) − λ·b bounds every choice from below (Fisher 1981), and
Σ_j min {λ·a_k : t_k < T} > λ·b shows that no plan ends before T. Sums of floats are rounded; each side is
moved by more than that, so that a bound is never too high. The check has an implementation of its own, which
shares nothing with this one; tests compare them.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from ...formulations.allocation.configurations import Configurations
from ...formulations.common.clock import time_is_up
from ...instances.common.arrays import Floats
from .knapsack import MultipleChoice

ROUNDING = 1e-13
"""Relative; more than a thousand roundings of single products and sums."""
UNDERFLOW = 1e-280
"""Absolute; what products of tiny figures may lose."""


def knapsack_bound(problem: MultipleChoice, prices: Floats) -> float:
    """Return L(λ), rounded down; negative prices count as 0.

    Parameters
    ----------
    prices
        λ, shape (R,).
    """
    prices = np.maximum(prices, 0.0)
    least = _least_sum(problem, prices) * (1 - ROUNDING)
    return least - _priced_limit(problem, prices) if prices.any() else least


def makespan_bound(configs: Configurations, prices: Floats) -> float:
    """Return the largest completion time before which the prices prove that no plan ends.

    The bisection over the completion times ends early where the time is up.

    Returns
    -------
    bound
        Seconds; infinite where there is no plan at all.
    """
    prices = np.maximum(prices, 0.0)
    if (np.diff(configs.start) == 0).any():
        return math.inf
    problem = MultipleChoice.of(configs, np.zeros(len(configs.time_s)))
    limit = _priced_limit(problem, prices)

    def excluded(time_s: float) -> bool:
        in_time = replace(problem, cost=np.where(configs.time_s < time_s, 0.0, math.inf))
        return _least_sum(in_time, prices) * (1 - ROUNDING) > limit

    if excluded(math.inf):
        return math.inf
    times = np.unique(configs.time_s)
    slowest_alone = float(np.minimum.reduceat(configs.time_s, configs.start[:-1]).max())
    low, high = int(np.searchsorted(times, slowest_alone)), len(times)
    while low + 1 < high and not time_is_up():
        middle = (low + high) // 2
        low, high = (middle, high) if excluded(float(times[middle])) else (low, middle)
    return float(times[low])


def _least_sum(problem: MultipleChoice, prices: Floats) -> float:
    """Return Σ_j min_k (c_k + λ·a_k)."""
    least = problem.least_costs(prices)
    return math.fsum(math.fsum(least[jobs]) for _, jobs, _ in problem.parts())


def _priced_limit(problem: MultipleChoice, prices: Floats) -> float:
    """Return λ·b, rounded up."""
    return math.fsum((prices * problem.limit).tolist()) * (1 + ROUNDING) + UNDERFLOW
