"""Allocation instances for tests: jobs by the seconds that they take, on amounts of resources."""

from __future__ import annotations

from typing import Any

from clusterplan.instances.allocation.instance import AllocationInstance


def measured(name: str, *choices: tuple[float, dict[str, float]], **fields: Any) -> dict[str, Any]:
    """Return a job whose variants take these seconds and demands."""
    variants = [
        {
            "name": f"v{index}",
            "worker_demand": demand,
            "speed": {"model": "table", "rows": [{"workers": 1, "steps_per_s": 1 / seconds}]},
        }
        for index, (seconds, demand) in enumerate(choices)
    ]
    return {"name": name, "remaining_steps": 1, "variants": variants, **fields}


def ring(demand: dict[str, float], theta: list[float], most: int = 1, **fields: Any) -> dict[str, Any]:
    """Return a variant of up to so many workers, which reduce gradients in a ring."""
    speed = {"model": "ring_allreduce", "theta": theta, "batch": 1}
    return {"name": "v", "worker_demand": demand, "workers": {"max": most}, "speed": speed, **fields}


def allocation(resources: dict[str, float], jobs: list[dict[str, Any]], **fields: Any) -> AllocationInstance:
    """Return an instance of these jobs."""
    return AllocationInstance.model_validate({"name": "few", "resources": resources, "jobs": jobs, **fields})
