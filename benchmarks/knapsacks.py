"""Multiple-choice knapsacks of many resources as allocations, drawn as Khan's correlated instances.

S. Khan, K. F. Li, E. G. Manning, M. M. Akbar: "Solving the knapsack problem for adaptive multimedia systems",
Studia Informatica Universalis 2, 2002: every group has items that take integers below 10 of each resource;
an item's value is what it takes at prices of the resources, and noise; half of ten times the number of groups
is there of each resource. Of each group one item is chosen, for the largest value.

An item is a variant of a job with one configuration, whose completion time is the best value of its group,
plus 1, less its own value. So the total completion time falls as the value rises, unit by unit:

    value = Σ_j (best value of group j + 1) − total completion time.
"""

from __future__ import annotations

from typing import Any

import numpy as np

ITEMS, RESOURCES = 10, 10
MOST_TAKEN = 10
"""Items take less than this of each resource."""
HIGHEST_PRICE = 10.0
MOST_NOISE = 30.0
SIZES = (100, 200, 400)
SEEDS = range(1, 11)
NEAR_SHARE = 0.0005
"""Of a knapsack's value: a plan no further below another is near it."""


def knapsack(groups: int, seed: int) -> tuple[Any, float]:
    """Return the allocation of a knapsack, and what its value and the total completion time add up to."""
    from clusterplan import parse_instance

    rng = np.random.default_rng(seed)
    prices = rng.uniform(0, HIGHEST_PRICE, RESOURCES)
    taken = rng.integers(0, MOST_TAKEN, (groups, ITEMS, RESOURCES))
    values = np.floor(taken @ prices + rng.uniform(0, MOST_NOISE, (groups, ITEMS)))
    times = values.max(axis=1, keepdims=True) + 1 - values
    names = [f"r{index}" for index in range(RESOURCES)]
    jobs = [
        {
            "name": f"group-{group}",
            "remaining_steps": 1,
            "variants": [
                {
                    "name": f"item-{item}",
                    "worker_demand": dict(zip(names, taken[group, item].tolist(), strict=True)),
                    "workers": {"min": 1, "max": 1},
                    # A step takes as long as the coefficient that counts once.
                    "speed": {"model": "ring_allreduce", "theta": [0, times[group, item], 0, 0], "batch": 1},
                }
                for item in range(ITEMS)
            ],
        }
        for group in range(groups)
    ]
    data = {
        "schema_version": 1,
        "kind": "allocation",
        "name": f"knapsack-{groups}-{ITEMS}-{RESOURCES}-{seed}",
        "source": "synthetic; drawn as the correlated instances of Khan et al. 2002",
        "resources": dict.fromkeys(names, MOST_TAKEN * groups / 2),
        "jobs": jobs,
    }
    return parse_instance(data), float((times + values)[:, 0].sum())
