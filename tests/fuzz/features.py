"""What instances of a kind have, for the counts of a campaign."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from typing import Any

from .consolidation_truth import groups_of


def _of_consolidation(data: dict[str, Any]) -> Iterator[tuple[str, bool]]:
    running = [job for job in data["jobs"] if any(group.get("current") for group in groups_of(job))]
    whole = [
        job
        for job in running
        if all(sum((group.get("current") or {}).values()) == group["tasks"] for group in groups_of(job))
    ]
    pinned = [
        job for job in whole if any(fnmatchcase(job["name"], pattern) for pattern in data.get("pinned") or ())
    ]
    named = [job["name"] for job in pinned]
    staying = [
        job
        for job in whole
        if job["name"] in named or job.get("movable") is False or data.get("running") == "stay"
    ]
    costs = [job for job in running if job.get("restart_s", data.get("restart_cost_h") or 0)]
    yield "running jobs", bool(running)
    yield "pinned jobs", bool(pinned)
    yield "staying jobs", bool(staying)
    yield "restart costs", bool(costs)
    yield "staying jobs and restart costs", bool(staying and costs)
    yield "a limit on moves", bool(running) and data.get("max_moves") is not None
    yield "servers to be freed", data.get("free") is not None
    yield "devices", any(server.get("devices") for server in data["servers"])
    yield "running jobs on devices", any(g.get("current_devices") for job in running for g in groups_of(job))


def _of_allocation(data: dict[str, Any]) -> Iterator[tuple[str, bool]]:
    running = [job for job in data["jobs"] if job.get("current")]
    yield "running jobs", bool(running)
    yield "restart costs", any(job.get("restart_s") for job in running)
    yield "optional jobs", any(job.get("optional") for job in data["jobs"])
    yield "deadlines", any("deadline_s" in job for job in data["jobs"])
    yield "a budget", "budget_usd_per_hour" in data


def _of_staging(data: dict[str, Any]) -> Iterator[tuple[str, bool]]:
    yield "graphs of layers", data.get("edges") is not None
    yield "memory", any("memory_gib" in kind for kind in data["types"])
    yield "a budget", "hourly_budget_usd" in data


def _of_scheduling(data: dict[str, Any]) -> Iterator[tuple[str, bool]]:
    costs = [job.get("restart_s", data.get("restart_s", 0)) for job in data["jobs"]]
    yield "servers", "servers" in data
    yield "restart costs", data["preemption"] == "costs" and any(costs)
    yield "failures or changes", bool(data.get("events"))
    yield "leases", "lease_s" in data


OF: dict[str, Callable[[dict[str, Any]], Iterator[tuple[str, bool]]]] = {
    "allocation": _of_allocation,
    "staging": _of_staging,
    "consolidation": _of_consolidation,
    "scheduling": _of_scheduling,
}


def features(data: dict[str, Any]) -> list[str]:
    """Return what an instance has, in words."""
    return [name for name, there in OF[data["kind"]](data) if there]
