"""Synthetic staging instances: data-heavy embedding layers first, compute-heavy dense layers after."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np

from ..errors import OptionError
from ..staging import StagingInstance

Limits = Literal["none", "loose", "tight"]


def generate_staging(
    layers: int,
    types: int,
    limits: Limits = "loose",
    memory: bool = False,
    transfers: bool = False,
    seed: int = 0,
) -> StagingInstance:
    """Return a random chain of layers and a random choice of hardware.

    Parameters
    ----------
    layers, types
        How many of each.
    limits
        Units of each type: no limit, enough for everything, or so few that a mix is needed.
    memory, transfers
        Whether units have a memory limit, and whether stages wait for their input.
    seed
        The same seed gives the same instance.

    Raises
    ------
    OptionError
        If a parameter is out of range.
    """
    if not 1 <= layers <= 2000 or not 1 <= types <= 1000:
        raise OptionError("layers must be 1 to 2000 and types 1 to 1000")
    rng = np.random.default_rng(seed)
    speed = rng.uniform(1, 10, types)
    price = speed * rng.uniform(0.7, 1.4, types)
    names = [f"type-{t}" for t in range(types)]
    rows: list[dict[str, Any]] = []
    total = np.zeros(types)
    for index in range(layers):
        embedding = index < max(1, layers // 5)
        work = float(rng.uniform(0.5, 2) * (0.3 if embedding else 1.0))
        data = float(rng.uniform(0.5, 2) * (1.0 if embedding else 0.2))
        compute = work / speed * rng.uniform(0.7, 1.3, types)
        # Embedding layers gain little from fast accelerators.
        compute = compute * (speed**0.6 if embedding else 1.0)
        total += compute
        rows.append(
            {
                "name": f"layer-{index}",
                "kind": "embedding" if embedding else "dense",
                "memory_gib": round(float(rng.uniform(0.1, 2)), 3),
                "output_bytes": round(data * 1e7),
                "compute_s": {n: round(float(c), 6) for n, c in zip(names, compute, strict=True)},
                "communication_s": {n: round(data * 0.05, 6) for n in names},
                "compute_parallel": round(float(rng.uniform(0.9, 0.999)), 4),
                "communication_parallel": round(float(rng.uniform(0.5, 0.95)), 4),
            }
        )
    probe = 32
    # A floor that the fastest type alone reaches with a handful of units.
    floor = probe / float(total.min() * 0.35)
    units = {"none": None, "loose": max(16, 2 * layers), "tight": max(2, math.ceil(8 / types) + 1)}[limits]
    return StagingInstance.model_validate(
        {
            "name": f"synthetic-staging-{layers}-{types}-{limits}-{seed}",
            "source": "synthetic",
            "assumptions": ["all times, sizes and prices are random"],
            "throughput_floor_samples_per_s": round(floor if limits != "tight" else floor * 0.6, 3),
            "training": {"samples": 1_000_000},
            "probe_batch": probe,
            "link_gbit_per_s": 100 if transfers else None,
            "types": [
                {
                    "name": name,
                    "price_usd_per_hour": round(float(price[t]), 4),
                    "limit": units,
                    "memory_gib": round(float(rng.uniform(0.4, 1.0) * layers), 3) + 2 if memory else None,
                }
                for t, name in enumerate(names)
            ],
            "layers": rows,
        }
    )
