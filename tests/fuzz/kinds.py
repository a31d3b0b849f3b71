"""The four kinds: how documents are made, what is true of them, who solves them, and what they have."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from . import allocation, consolidation_documents, scheduling, staging
from .allocation import AllocationTruth
from .consolidation_truth import ConsolidationTruth, groups_of
from .scheduling import SchedulingTruth
from .staging import staging_truth
from .truth import Truth


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


@dataclass(frozen=True)
class Kind:
    """One kind of instance.

    Attributes
    ----------
    document
        Makes a random document.
    truth
        Makes all plans of a document.
    sample
        Share of the instances that each further solver tries; `exact` and `brute-force` try all, and graphs
        of layers are for them alone.
    closes
        Whether `exact` and `brute-force` prove an optimum of every instance.
    seconds
        Time limit of each solve; where gaps stay open, `exact` takes all of it.
    """

    document: Callable[[random.Random], dict[str, Any]]
    truth: Callable[[dict[str, Any]], Truth]
    sample: dict[str, float]
    closes: bool = True
    seconds: float = 20.0


KINDS = {
    "allocation": Kind(
        allocation.document,
        AllocationTruth,
        {
            "lagrangian": 0.3,
            "marginal-gain": 0.3,
            "marginal-gain-joint": 0.3,
            "cp-sat": 0.15,
            "milp:highs": 0.15,
            "milp:scip": 0.1,
            "geometric": 0.1,
            "minlp": 0.05,
            "milp:cbc": 0.01,
        },
    ),
    "staging": Kind(
        staging.document,
        staging_truth,
        {
            "greedy": 0.3,
            "single-type": 0.3,
            "cp-sat": 0.15,
            "milp:highs": 0.1,
            "milp:scip": 0.05,
            "genetic": 0.02,
            "bayesian": 0.01,
            "milp:cbc": 0.01,
        },
    ),
    "consolidation": Kind(
        consolidation_documents.document,
        ConsolidationTruth,
        {
            "best-fit": 0.3,
            "first-fit-decreasing": 0.3,
            "consolidate-or-wait": 0.3,
            **dict.fromkeys(("best-fit-l2", "best-fit-dot", "bin-centric"), 0.1),
            "cp-sat": 0.15,
            "milp:highs": 0.1,
            "milp:scip": 0.05,
            "milp:cbc": 0.01,
        },
    ),
    "scheduling": Kind(
        scheduling.document,
        SchedulingTruth,
        {
            **dict.fromkeys(("fifo", "fifo-backfill", "sjf", "srtf", "srsf", "las", "gittins"), 0.3),
            **dict.fromkeys(("yarn-cs", "fair", "drf"), 0.3),
            **dict.fromkeys(("gandiva-timeslice", "themis", "max-min", "optimus"), 0.08),
            "optimus-exact": 0.05,
            "dl2": 0.02,
        },
        closes=False,
        seconds=1.0,
    ),
}
BUDGETS: dict[str, dict[str, Any]] = {
    "genetic": {"evaluations": 60, "population": 10},
    "bayesian": {"evaluations": 15},
    "dl2": {"traces": 1, "passes": 1, "episodes": 0, "training_s": 1.0},
}
"""Settings of methods whose defaults are made for larger instances."""
EVERYWHERE = ("exact", "brute-force")
