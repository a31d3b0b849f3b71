"""Certified bounds of allocation from a certificate of dual prices and a cutoff, independent of their source.

With a dual price λ_r ≥ 0 on each resource, the Lagrangian relaxation of the multiple-choice knapsack (Fisher
1981) splits into one choice for each job:

    L(λ) = Σ_j min_k (ω_j t_jk + λ·a_jk) − λ·C  ≤  the least total completion time.

For the makespan, T is a lower bound if some job has no configuration with t_jk < T, or if
Σ_j min {λ·a_jk : t_jk < T} > λ·C: then no plan ends before T.

All terms are non-negative, so a relative margin wider than the rounding of every sum makes each figure
hold in exact arithmetic. C is the capacity that the check of a plan allows, a tolerance above the stated.

Every configuration whose reduced cost lies beyond the cutoff is dropped (reduced-cost fixing), and all
combinations of the rest are enumerated to find one below the cutoff. Where that enumeration ends without any,
the cutoff is certified; where it gives up or its time is up, the Lagrangian bound is.

On servers the total price of the pieces of a configuration is its demand for one more resource of price 1,
of which there is as much as pieces can cost together on all servers (see `splits`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from ....instances.common.arrays import Floats, Ints
from ....instances.common.errors import OutOfTimeError
from ...common.clock import check_time, time_is_up
from ...common.enumeration import Choices, no_choice_below
from ..certificate import PriceCertificate
from ..splits import PIECES
from .configurations import CheckedConfigurations

ROUNDING_MARGIN = 1e-13
"""Relative margin for rounding: about a hundred errors of 2⁻⁵³; sums over jobs use `math.fsum`."""
UNDERFLOW_MARGIN = 1e-280
"""Absolute margin for the underflow of products of tiny figures."""
JOBS_PER_BLOCK = 4096
MIN_PRICE = 1e-100
"""Threshold below which a price counts as 0, so that no product in a sum underflows."""
MAX_FREE_CONFIGURATIONS = 4000
"""Maximum number of configurations for the enumeration, beyond one for each job."""


def price_bound(configs: CheckedConfigurations, prices: Floats) -> float:
    """Return the Lagrangian bound L(λ) on the total weighted completion time, rounded down, in seconds.

    Parameters
    ----------
    prices
        λ, shape (R,), in seconds per unit of each resource; negative ones count as 0.
    """
    prices = np.maximum(prices, 0.0)
    least = least_priced_cost(configs, prices, configs.cost)
    if not prices.any():
        return least * (1 - ROUNDING_MARGIN)
    return (
        least * (1 - ROUNDING_MARGIN)
        - priced_capacity(configs, prices) * (1 + ROUNDING_MARGIN)
        - UNDERFLOW_MARGIN
    )


def makespan_price_bound(configs: CheckedConfigurations, prices: Floats) -> float:
    """Return the largest lower bound on the makespan that the dual prices prove, in seconds.

    Returns
    -------
    bound
        Seconds; infinite where the prices prove that there is no plan at all.
    """
    prices = np.maximum(prices, 0.0)
    if configs.some_job_has_none:
        return math.inf
    times = np.unique(configs.time_s)
    earliest = float(np.minimum.reduceat(configs.time_s, configs.start[:-1]).max())
    if proves_makespan_bound(configs, prices, math.inf):
        return math.inf
    low, high = int(np.searchsorted(times, earliest)), len(times)
    # Invariant: times[low] is proven; times[high], or no plan at all, is not.
    while high - low > 1 and not time_is_up():
        middle = (low + high) // 2
        if proves_makespan_bound(configs, prices, float(times[middle])):
            low = middle
        else:
            high = middle
    return float(times[low])


def proves_makespan_bound(configs: CheckedConfigurations, prices: Floats, time_s: float) -> bool:
    """Return whether the dual prices prove that every plan has a makespan of at least `time_s`."""
    late = np.where(configs.time_s < time_s, 0.0, math.inf)
    least = least_priced_cost(configs, prices, late)
    return (
        least * (1 - ROUNDING_MARGIN)
        > priced_capacity(configs, prices) * (1 + ROUNDING_MARGIN) + UNDERFLOW_MARGIN
    )


def priced_capacity(configs: CheckedConfigurations, prices: Floats) -> float:
    """Return the value of the capacities at dual prices, λ·C, with the tolerance on C."""
    return math.fsum(p * c for p, c in zip(prices.tolist(), configs.limit.tolist(), strict=True))


def least_priced_cost(configs: CheckedConfigurations, prices: Floats, cost: Floats) -> float:
    """Return the sum over the jobs of the minimum priced cost, Σ_j min_k (cost_k + λ·a_k)."""
    return math.fsum(math.fsum(least) for _, _, least in priced_cost_blocks(configs, prices, cost))


def priced_cost_blocks(
    configs: CheckedConfigurations, prices: Floats, cost: Floats
) -> Iterator[tuple[Ints, Floats, Floats]]:
    """Yield, for blocks of jobs, offsets, priced costs cost_k + λ·a_k, and each job's minimum.

    Offsets are indices of the first configuration of each job, and of the end of the block.
    """
    for first in range(0, configs.jobs, JOBS_PER_BLOCK):
        start = configs.start[first : first + JOBS_PER_BLOCK + 1]
        part = slice(int(start[0]), int(start[-1]))
        value = cost[part] + configs.demand[part] @ prices
        yield start, value, np.minimum.reduceat(value, start[:-1] - start[0])


def certified_bound(configs: CheckedConfigurations, makespan: bool, given: PriceCertificate) -> float:
    """Return the lower bound on the objective that a certificate of dual prices and a cutoff proves.

    Returns
    -------
    bound
        Seconds; infinite if it proves that there is no plan.
    """
    priced = given.prices if given.pieces is None else given.prices | {PIECES: 1.0}
    prices = np.array([priced.get(name, 0.0) for name in configs.resources])
    prices[prices < MIN_PRICE] = 0.0
    if makespan:
        return _makespan_bound(configs, prices, given.cutoff)
    return _total_bound(configs, prices, given.cutoff)


def _total_bound(configs: CheckedConfigurations, prices: Floats, cutoff: float | None) -> float:
    priced = price_bound(configs, prices)
    dearest = math.fsum(np.maximum.reduceat(configs.cost, configs.start[:-1])) * (1 + ROUNDING_MARGIN)
    # A bound above what any choice of configurations costs leaves none that keeps the limits.
    if priced > dearest:
        return math.inf
    claim = dearest if cutoff is None else cutoff
    if priced >= claim:
        return priced
    choices = _survivors(configs, configs.cost, prices, claim - priced)
    try:
        none = choices is not None and no_choice_below(choices, prices, claim)
    except OutOfTimeError:  # the bound of the prices alone remains
        none = False
    if not none:
        return priced
    return math.inf if cutoff is None else claim


def _makespan_bound(configs: CheckedConfigurations, prices: Floats, cutoff: float | None) -> float:
    claim = math.inf if cutoff is None else cutoff
    if proves_makespan_bound(configs, prices, claim):
        return claim
    # Any choice of configurations in time is a counterexample: without costs, one below 0 + margin.
    late = np.where(configs.time_s < claim, 0.0, math.inf)
    least = least_priced_cost(configs, prices, late)
    # What a choice may waste: λ·C − Σ_j min_k λ·a_k over the configurations in time.
    slack = priced_capacity(configs, prices) * (1 + ROUNDING_MARGIN) - least * (1 - ROUNDING_MARGIN)
    choices = _survivors(configs, late, prices, slack)
    if choices is not None and no_choice_below(choices, prices, 0.0):
        return claim
    bound = makespan_price_bound(configs, prices)
    check_time()  # its bisection may have ended early
    return bound


def _survivors(
    configs: CheckedConfigurations, cost: Floats, prices: Floats, threshold: float
) -> Choices | None:
    """Return the configurations of reduced cost at most the threshold; None if those are too many."""
    indices, counts, total = [], [], 0
    for start, value, low in priced_cost_blocks(configs, prices, cost):
        size = np.diff(start)
        # Margins on both sides: a configuration at the threshold survives, whatever the rounding.
        edge = np.repeat(low * (1 + ROUNDING_MARGIN) + threshold * (1 + ROUNDING_MARGIN), size)
        near = (value * (1 - ROUNDING_MARGIN) <= edge) & np.isfinite(value)
        indices.append(start[0] + np.flatnonzero(near))
        counts.append(np.add.reduceat(near, start[:-1] - start[0], dtype=np.int64))
        total += len(indices[-1]) - len(low)
        if total > MAX_FREE_CONFIGURATIONS:
            return None
    kept = np.concatenate(indices)
    offsets = np.concatenate([[0], np.cumsum(np.concatenate(counts))])
    return Choices(offsets, cost[kept], configs.demand[kept], configs.limit)
