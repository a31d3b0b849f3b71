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

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

ITEMS, RESOURCES = 10, 10
MAX_TAKEN = 10
"""Items take less than this of each resource."""
HIGHEST_PRICE = 10.0
MAX_NOISE = 30.0
SIZES = (100, 200, 400)
SEEDS = range(1, 11)
NEAR_SHARE = 0.0005
"""Of a knapsack's value: a plan no further below another is near it."""


PUBLISHED = {"I07": 24592, "I09": 49181, "I11": 73791, "I12": 86093, "I13": 98441}
"""Of Khan's instances: the largest values in the stored results of M. Caserta and S. Voß's matheuristic with
CPLEX (github.com/marcocaserta/mmkp, 51dbd8a), found in 300 to 720 seconds."""


def knapsack(groups: int, seed: int) -> tuple[Any, float]:
    """Return the allocation of a knapsack, and what its value and the total completion time add up to."""
    rng = np.random.default_rng(seed)
    prices = rng.uniform(0, HIGHEST_PRICE, RESOURCES)
    taken = rng.integers(0, MAX_TAKEN, (groups, ITEMS, RESOURCES))
    values = np.floor(taken @ prices + rng.uniform(0, MAX_NOISE, (groups, ITEMS)))
    name = f"knapsack-{groups}-{ITEMS}-{RESOURCES}-{seed}"
    source = "synthetic; drawn as the correlated instances of Khan et al. 2002"
    return _allocation(name, source, [MAX_TAKEN * groups / 2] * RESOURCES, values, taken)


def khan(file: Path) -> tuple[Any, float]:
    """Return one of Khan's own instances in the same way.

    A file holds the numbers of groups, items and resources, what there is of each resource, and for each
    group its number and rows of an item's value and what it takes; from "Solutions" on answers.
    """
    figures = iter(file.read_text(encoding="utf-8").split("Solutions")[0].split())
    groups, items, resources = (int(next(figures)) for _ in range(3))
    capacity = [float(next(figures)) for _ in range(resources)]
    rows = np.empty((groups, items, 1 + resources))
    for group in range(groups):
        next(figures)  # its number
        rows[group] = np.reshape([float(next(figures)) for _ in range(rows[group].size)], rows[group].shape)
    return _allocation(file.name, "Khan et al. 2002", capacity, rows[..., 0], rows[..., 1:])


def _allocation(
    name: str, source: str, capacity: Sequence[float], values: Any, taken: Any
) -> tuple[Any, float]:
    """Return the allocation of values, shape (J, K), and what items take, shape (J, K, R)."""
    from clusterplan import parse_instance

    times = values.max(axis=1, keepdims=True) + 1 - values
    names = [f"r{index}" for index in range(len(capacity))]
    jobs = [
        {
            "name": f"group-{group}",
            "remaining_steps": 1,
            "variants": [
                {
                    "name": f"item-{item}",
                    "worker_demand": dict(zip(names, demand, strict=True)),
                    "workers": {"min": 1, "max": 1},
                    # A step takes as long as the coefficient that counts once.
                    "speed": {"model": "ring_allreduce", "theta": [0, times[group, item], 0, 0], "batch": 1},
                }
                for item, demand in enumerate(demands)
            ],
        }
        for group, demands in enumerate(taken.tolist())
    ]
    data = {
        "schema_version": 1,
        "kind": "allocation",
        "name": name,
        "source": source,
        "resources": dict(zip(names, capacity, strict=True)),
        "jobs": jobs,
    }
    return parse_instance(data), float((times + values)[:, 0].sum())
