"""Allocation instances for tests: jobs by the seconds that they take, on amounts of resources."""

from __future__ import annotations

from typing import Any

from clusterplan.formulations.allocation.formulation import AllocationFormulation
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


def on_servers(
    servers: list[dict[str, Any]], jobs: dict[str, dict[str, Any]], **fields: Any
) -> AllocationInstance:
    """Return an instance of jobs on servers; name → the fields of each beside speeds that grow with workers.

    A worker takes a GPU, a parameter server a CPU.
    """
    speed = {"model": "ps_sync", "theta": [1, 0.1, 0.2, 0.01, 0.01], "batch": 8}
    ranges = {"workers": {"max": 8}, "ps": {"min": 1, "max": 4}}
    demands = {"worker_demand": {"gpu": 1}, "ps_demand": {"cpu": 1}}
    trained = {"name": "trained", **demands, **ranges, "speed": speed}
    variants = [ring({"gpu": 1}, [1, 0, 0, 0], 8), trained]
    made = [{"name": name, "remaining_steps": 9.0, "variants": variants, **of} for name, of in jobs.items()]
    return AllocationInstance.model_validate({"name": "placed", "servers": servers, "jobs": made, **fields})


def tasks(ps: dict[str, int] | None = None, **workers: int) -> dict[str, Any]:
    """Return a configuration by its tasks on each server: keyword → workers, and where its servers are."""
    names = dict.fromkeys((*(ps or {}), *workers))
    placement = {name: {"ps": (ps or {}).get(name, 0), "workers": workers.get(name, 0)} for name in names}
    total = {"ps": sum((ps or {}).values()), "workers": sum(workers.values())}
    return {"variant": "trained" if ps else "v", **total, "placement": placement}


def planned(instance: AllocationInstance, **configurations: dict[str, Any] | None) -> tuple[Any, ...]:
    """Return the plan with these configurations, which has to be feasible; job → None: it waits."""
    formulation = AllocationFormulation(instance)
    entries = [
        {"job": job.name, "placed": False} if made is None else {"job": job.name, **made}
        for job in instance.jobs
        for made in [configurations[job.name.split()[-1]]]
    ]
    plan = formulation.finish(formulation.parse_plan(entries))
    assert formulation.violations(plan) == []
    return tuple(plan)
