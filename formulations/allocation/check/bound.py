"""Certified bounds of allocation from a certificate of dual prices and a cutoff.

The check evaluates the Lagrangian bound with rounding that can only weaken it, drops every configuration
whose reduced cost lies beyond the cutoff (reduced-cost fixing), and enumerates all combinations of the rest
to find one below the cutoff. Where that enumeration ends without any, the cutoff is certified; where it
gives up or its time is up, the Lagrangian bound is.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from pydantic import ValidationError

from ....instances.common.arrays import Floats
from ....instances.common.errors import OutOfTimeError
from ...common.clock import check_time
from ...common.enumeration import Choices, no_choice_below
from ..certificate import PriceCertificate
from .configurations import CheckedConfigurations
from .dual_bound import (
    ROUNDING_MARGIN,
    least_priced_cost,
    makespan_price_bound,
    price_bound,
    priced_capacity,
    priced_cost_blocks,
    proves_makespan_bound,
)

MIN_PRICE = 1e-100
"""Threshold below which a price counts as 0, so that no product in a sum underflows."""
MAX_FREE_CONFIGURATIONS = 4000
"""Maximum number of configurations for the enumeration, beyond one for each job."""


def certified_bound(configs: CheckedConfigurations, makespan: bool, data: Any) -> float | None:
    """Return the lower bound on the objective that a certificate of dual prices and a cutoff proves.

    Returns
    -------
    bound
        Seconds; infinite if it proves that there is no plan, None if it is malformed.
    """
    try:
        given = PriceCertificate.model_validate(data)
    except ValidationError:
        return None
    prices = np.array([given.prices.get(name, 0.0) for name in configs.resources])
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
