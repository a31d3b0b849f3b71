"""What prices prove about an allocation: lower bounds that hold whoever found the prices.

With a price λ_r ≥ 0 on each row of capacity, the Lagrangian dual of the multiple-choice problem splits into
one choice for each job:

    L(λ) = Σ_j min_k (ω_j t_jk + λ·a_jk) − λ·C  ≤  the least total completion time.

For the makespan, T is a lower bound if some job has no configuration with t_jk < T, or if
Σ_j min {λ·a_jk : t_jk < T} > λ·C: then no plan ends before T.

All terms are non-negative, so a relative margin wider than the rounding of every sum makes each figure
hold in exact arithmetic. C is the capacity that the check of a plan allows, a tolerance above the stated.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import numpy as np

from ...instances.allocation.instance import AllocationInstance
from ...instances.common.arrays import Floats, Ints
from ..common.clock import time_is_up
from ..common.tolerance import loosened
from .configurations import BUDGET, Menu

MARGIN = 1e-13
"""Relative; some hundred roundings of 2⁻⁵³ lie within, and sums over jobs are made by `math.fsum`."""
TINY = 1e-280
"""Absolute; what is lost where a product of tiny figures underflows."""
JOBS_AT_ONCE = 4096
HOUR = 3600.0
LEAST_SHOWN = 1e-3
"""Share of the largest price from which on the distance to the bound is shown."""
NOTHING = 1e-6
"""Weighted job-hours, a few milliseconds."""
UNIT = {BUDGET: "budget (USD/h)"}


def price_bound(menu: Menu, prices: Floats) -> float:
    """Return L(λ), rounded down.

    Parameters
    ----------
    prices
        λ, shape (R,), in seconds per unit of each row of `menu.capacity`; negative ones count as 0.
    """
    prices = np.maximum(prices, 0.0)
    least = least_priced(menu, prices, menu.cost)
    if not prices.any():
        return least * (1 - MARGIN)
    return least * (1 - MARGIN) - priced_capacity(menu, prices) * (1 + MARGIN) - TINY


def makespan_price_bound(menu: Menu, prices: Floats) -> float:
    """Return the largest completion time before which the prices prove that no plan ends.

    Returns
    -------
    bound
        Seconds; infinite where the prices prove that there is no plan at all.
    """
    prices = np.maximum(prices, 0.0)
    if (np.diff(menu.start) == 0).any():
        return math.inf
    times = np.unique(menu.time_s)
    earliest = float(np.minimum.reduceat(menu.time_s, menu.start[:-1]).max())
    if proves_none_before(menu, prices, math.inf):
        return math.inf
    low, high = int(np.searchsorted(times, earliest)), len(times)
    # times[low] is proven; times[high], or all of them, is not
    while high - low > 1 and not time_is_up():
        middle = (low + high) // 2
        if proves_none_before(menu, prices, float(times[middle])):
            low = middle
        else:
            high = middle
    return float(times[low])


def proves_none_before(menu: Menu, prices: Floats, time_s: float) -> bool:
    """Return whether the prices prove that no plan has a makespan below `time_s`."""
    late = np.where(menu.time_s < time_s, 0.0, math.inf)
    least = least_priced(menu, prices, late)
    return least * (1 - MARGIN) > priced_capacity(menu, prices) * (1 + MARGIN) + TINY


def priced_capacity(menu: Menu, prices: Floats) -> float:
    """Return λ·C for the capacity that a plan may take."""
    return math.fsum(p * loosened(c) for p, c in zip(prices.tolist(), menu.capacity.tolist(), strict=True))


def buy_next(instance: AllocationInstance, prices: Mapping[str, float], beyond: float) -> str:
    """Say what the prices are, and which resource to buy next.

    One more unit of r saves at most λ_r + V − L(λ): the price, and how far the plan lies above the bound
    that the prices prove. That holds among the configurations that fit in the cluster as it is. A resource
    is only recommended if its price is more than that distance.

    Parameters
    ----------
    prices
        λ of each row of capacity, in weighted job-seconds per unit.
    beyond
        V − L(λ), in weighted job-seconds.
    """
    rest = max(beyond, 0.0) / HOUR
    scarce = {name: price / HOUR for name, price in prices.items() if price > 0}
    more = f" + {rest:.2g}" if rest > LEAST_SHOWN * max(scarce.values(), default=0.0) else ""
    if not scarce and rest < NOTHING:
        return "nothing is scarce: one more unit of anything saves nothing"
    if not scarce:
        return f"nothing is scarce: one more unit saves at most {rest:.2g} weighted job-hours"
    ordered = sorted(scarce.items(), key=lambda item: -item[1])
    parts = [f"{UNIT.get(name, name)} {hours:.4g}{more}" for name, hours in ordered]
    text = f"one more unit saves at most, in weighted job-hours: {', '.join(parts)}"
    usd = instance.prices_usd_per_hour
    value = {
        name: hours / usd[name] for name, hours in scarce.items() if usd.get(name, 0.0) > 0 and hours > rest
    }
    if not value:
        return text
    best = max(value, key=lambda name: value[name])
    return f"{text}; buy {best} next: at most {value[best]:.4g} job-hours for each USD/h, the most of all"


def least_priced(menu: Menu, prices: Floats, cost: Floats) -> float:
    """Return Σ_j min_k (cost_k + λ·a_k)."""
    return math.fsum(math.fsum(low) for _, _, low in priced_parts(menu, prices, cost))


def priced_parts(menu: Menu, prices: Floats, cost: Floats) -> Iterator[tuple[Ints, Floats, Floats]]:
    """Yield some jobs at a time: their offsets in the menu, cost_k + λ·a_k of their rows, and the least.

    Offsets have one entry more than there are jobs.
    """
    for first in range(0, menu.jobs, JOBS_AT_ONCE):
        start = menu.start[first : first + JOBS_AT_ONCE + 1]
        part = slice(int(start[0]), int(start[-1]))
        value = cost[part] + menu.demand[part] @ prices
        yield start, value, np.minimum.reduceat(value, start[:-1] - start[0])
