"""Synthetic allocation instances: published speed coefficients, heavy-tailed remaining work."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..allocation import AllocationInstance
from ..errors import OptionError

# Non-negative least squares on speeds published with DL2 for eight models (ps_sync, batch 256 assumed).
SPEEDS: dict[str, list[float]] = {
    "resnet-50": [0.0039, 0.4178, 0.4213, 0.0074, 0.0],
    "vgg-16": [0.0170, 0.5812, 0.8072, 0.1356, 0.0],
    "resnext-110": [0.0005, 0.1561, 0.1104, 0.0199, 0.0012],
    "inception-bn": [0.0031, 0.1541, 0.1664, 0.0194, 0.0028],
    "seq2seq": [0.0010, 0.0541, 0.0242, 0.0131, 0.0],
    "cnn-text-classification": [0.0075, 0.3445, 0.0237, 0.0169, 0.0],
    "dssm": [0.0016, 0.1177, 0.0, 0.0073, 0.0002],
    "wlm": [0.0006, 0.2394, 0.1586, 0.0308, 0.0],
}
RESOURCES = ("cpu", "gpu", "memory_gib", "network_gbit_per_s")


def generate_allocation(
    jobs: int, resources: int = 3, tightness: float = 0.5, optional_share: float = 0.0, seed: int = 0
) -> AllocationInstance:
    """Return a random mix of jobs.

    Parameters
    ----------
    jobs, resources
        How many jobs, and how many of cpu, gpu, memory and network there are (1 to 4).
    tightness
        0: everybody can have the most tasks; 1: only the smallest configurations fit.
    optional_share
        Share of the jobs that may stay unplaced.
    seed
        The same seed gives the same instance.

    Raises
    ------
    OptionError
        If a parameter is out of range.
    """
    if jobs < 1 or not 1 <= resources <= len(RESOURCES):
        raise OptionError(f"jobs must be at least 1 and resources 1 to {len(RESOURCES)}")
    if not 0 <= tightness <= 1 or not 0 <= optional_share <= 1:
        raise OptionError("tightness and optional share must lie between 0 and 1")
    rng = np.random.default_rng(seed)
    names, models = RESOURCES[:resources], list(SPEEDS)
    least, most = np.zeros(resources), np.zeros(resources)
    rows: list[dict[str, Any]] = []
    for index in range(jobs):
        model = models[int(rng.integers(len(models)))]
        worker = np.array([int(rng.integers(1, 5)), 1, int(rng.integers(4, 13)), int(rng.integers(1, 4))])
        ps = np.array([int(rng.integers(1, 5)), 0, int(rng.integers(4, 13)), int(rng.integers(1, 6))])
        high = int(rng.integers(4, 17)), int(rng.integers(2, 9))
        least += (worker + ps)[:resources]
        most += (high[0] * worker + high[1] * ps)[:resources]
        theta = [round(t * float(rng.lognormal(0, 0.2)), 6) for t in SPEEDS[model]]
        job: dict[str, Any] = {
            "name": f"job-{index} {model}",
            "remaining_steps": round(float(1000 * (1 + rng.pareto(1.5))), 1),
            "variants": [
                {
                    "name": "default",
                    "worker_demand": dict(zip(names, worker.tolist(), strict=False)),
                    "ps_demand": dict(zip(names, ps.tolist(), strict=False)),
                    "workers": {"min": 1, "max": high[0]},
                    "ps": {"min": 1, "max": high[1]},
                    "speed": {"model": "ps_sync", "theta": theta, "batch": 256},
                }
            ],
        }
        if rng.random() < optional_share:
            job |= {"optional": True, "unplaced_s": round(job["remaining_steps"] * 5, 1)}
        rows.append(job)
    capacity = np.ceil(least + (1 - tightness) * (most - least))
    return AllocationInstance.model_validate(
        {
            "name": f"synthetic-allocation-{jobs}-{resources}-{seed}",
            "source": "synthetic; speed coefficients fitted to speeds published with DL2, jittered",
            "assumptions": ["demands, ranges and remaining steps are random", "batch 256 for every model"],
            "resources": dict(zip(names, capacity.tolist(), strict=True)),
            "jobs": rows,
        }
    )
