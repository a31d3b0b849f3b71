"""What importers of jobs that ask for GPUs alone share: entries of a consolidation document."""

from __future__ import annotations

from typing import Any


def gpu_job(name: str, gpus: int, spread: str, **others: Any) -> dict[str, Any]:
    """Return a job with one task for each GPU."""
    return {"name": name, "tasks": gpus, "task_demand": {"gpu": 1}, "spread": spread, **others}


def gpu_servers(count: int, gpus: int, gpu_model: str | None = None) -> list[dict[str, Any]]:
    """Return the row of servers that are all alike."""
    return [{"name": "server", "count": count, "capacity": {"gpu": gpus}, "gpu_model": gpu_model}]
