"""Stored results, and what a forger makes of them."""

from __future__ import annotations

import json
from typing import Any

from sample_documents import CONSOLIDATION

import clusterplan
from clusterplan.instances.common.base import Instance
from clusterplan.planner.stored_results import parse_result
from clusterplan.solvers.common.result import SolveOptions, plan_hash

BUSY = {
    **CONSOLIDATION,
    "objectives": ["value"],
    "servers": [{"name": "n", "count": 2, "capacity": {"gpu": 4, "cpu": 8}}],
    "jobs": [
        {"name": "runs", "tasks": 4, "task_demand": {"cpu": 1, "gpu": 1}, "current": {"n-0": 4}},
        {"name": "comes", "tasks": 4, "task_demand": {"gpu": 1}, "value": 8},
        {"name": "waits", "tasks": 4, "task_demand": {"gpu": 1}, "value": 1},
        {"name": "never", "tasks": 1, "task_demand": {"gpu": 5, "cpu": 9}},
    ],
}
"""A job of each action but move and stop, and one that never fits."""


def stored(instance: Instance, solver: str = "exact", **settings: Any) -> dict[str, Any]:
    """Return a result as plain data."""
    options = SolveOptions(method_options=settings) if settings else None
    data: dict[str, Any] = json.loads(clusterplan.solve(instance, solver, options).to_json())
    return data


def rehashed(data: dict[str, Any]) -> dict[str, Any]:
    """Return data whose plan has the right hash."""
    plan = parse_result(data, "r.json").plan
    return {**data, "plan_sha256": plan_hash(plan or ())}


def altered(data: dict[str, Any], index: int, **changes: Any) -> dict[str, Any]:
    """Return data with another plan entry, and the hash that goes with it."""
    plan = [{**entry, **changes} if i == index else entry for i, entry in enumerate(data["plan"])]
    return rehashed({**data, "plan": plan})
