"""The marginal value of a resource: what dual prices say one more unit of it saves.

With V(C) the optimum at capacities C, e_r one unit of r and V the value of the plan,
0 ≤ V(C) − V(C + e_r) ≤ λ_r + V − L(λ): the dual price, and how far the plan lies above the Lagrangian bound.
That holds among the configurations that fit in the cluster as it is.
"""

from __future__ import annotations

from collections.abc import Mapping

from ...instances.allocation.instance import AllocationInstance
from .configurations import BUDGET

HOUR = 3600.0
LEAST_SHOWN = 1e-3
"""Share of the largest dual price from which on the distance to the bound is shown."""
NOTHING = 1e-6
"""Weighted job-hours, a few milliseconds."""
UNIT = {BUDGET: "budget (USD/h)"}


def buy_next(instance: AllocationInstance, prices: Mapping[str, float], beyond: float) -> str:
    """Return the marginal values in words, and which resource to buy next.

    A resource is only recommended if its dual price exceeds the distance of the plan from the bound.

    Parameters
    ----------
    prices
        λ of each resource, in weighted job-seconds per unit.
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
