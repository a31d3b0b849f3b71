"""Synthetic consolidation instances: GPU servers, partly filled, and jobs of 1 to 32 GPUs."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..consolidation import ConsolidationInstance
from ..errors import OptionError

SIZES = (1, 2, 4, 8, 16, 32)
SIZE_SHARES = (0.5, 0.15, 0.15, 0.12, 0.05, 0.03)


def generate_consolidation(
    servers: int,
    jobs: int,
    gpus_per_server: int = 8,
    load: float | None = None,
    required_share: float = 0.3,
    preferred_share: float = 0.3,
    seed: int = 0,
) -> ConsolidationInstance:
    """Return random jobs on servers of one shape, some of them partly filled.

    Parameters
    ----------
    servers, jobs, gpus_per_server
        The size of the cluster and of the queue.
    load
        GPUs asked over GPUs free; the free GPUs are chosen to meet it as far as the servers go. None
        leaves a random quarter of the servers half full.
    required_share, preferred_share
        Shares of the jobs with that spread rule.
    seed
        The same seed gives the same instance.

    Raises
    ------
    OptionError
        If a parameter is out of range.
    """
    if servers < 1 or jobs < 1 or gpus_per_server < 1:
        raise OptionError("servers, jobs and GPUs per server must be at least 1")
    if (load is not None and not 0 < load < math.inf) or not 0 <= required_share <= 1 - preferred_share <= 1:
        raise OptionError("load must be positive, and the two shares must add up to at most 1")
    rng = np.random.default_rng(seed)
    sizes = rng.choice(SIZES, jobs, p=SIZE_SHARES)
    if load is None:
        busy = np.where(rng.random(servers) < 0.25, gpus_per_server // 2, 0)
    else:
        total = servers * gpus_per_server
        wanted = min(total, max(0, total - round(float(sizes.sum()) / load)))
        slots = rng.permutation(total)[:wanted] // gpus_per_server
        busy = np.bincount(slots, minlength=servers)
    draws = rng.random(jobs)
    rows: list[dict[str, Any]] = [
        {
            "name": f"job-{index}",
            "tasks": int(size),
            "task_demand": {"gpu": 1},
            "spread": "required"
            if d < required_share
            else "preferred"
            if d < required_share + preferred_share
            else "free",
        }
        for index, (size, d) in enumerate(zip(sizes.tolist(), draws.tolist(), strict=True))
    ]
    return ConsolidationInstance.model_validate(
        {
            "name": f"synthetic-consolidation-{servers}-{jobs}-{seed}",
            "source": "synthetic",
            "assumptions": ["job sizes, spread rules and occupied GPUs are random"],
            "servers": [
                {
                    "name": f"server-{n}",
                    "capacity": {"gpu": gpus_per_server},
                    "free": {"gpu": int(gpus_per_server - used)},
                    "rack": f"rack-{n // 32}",
                }
                for n, used in enumerate(busy.tolist())
            ],
            "jobs": rows,
        }
    )
