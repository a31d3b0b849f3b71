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
NOTHING = 1e-6
"""Weighted job-hours, a few milliseconds."""
UNIT = {BUDGET: "USD/h of budget"}
"""What one more of is said, where that is not the name of the resource."""


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
    weighted = any(weight != 1 for weight in instance.table().weight)
    unit = "weighted job-hours" if weighted else "job-hours"
    if not scarce and rest < NOTHING:
        return "nothing is scarce: one more unit of anything saves nothing"
    if not scarce:
        return f"nothing is scarce: one more unit saves at most {rest:.2g} {unit}"
    ordered = sorted(scarce.items(), key=lambda item: -item[1])
    units = [f"one more {UNIT.get(name, name)}" for name, _ in ordered]
    most = [f"at most {hours + rest:.4g}" for _, hours in ordered]
    others = [f", {one} {saved}" for one, saved in zip(units[1:], most[1:], strict=True)]
    text = f"{units[0]} saves {most[0]} {unit}{''.join(others)}"
    usd = instance.prices_usd_per_hour
    value = {
        name: hours / usd[name] for name, hours in scarce.items() if usd.get(name, 0.0) > 0 and hours > rest
    }
    if not value:
        return text
    best = max(value, key=lambda name: value[name])
    return f"{text}; buy {best} next: it saves most for its price, at most {value[best]:.4g} {unit} per USD/h"
