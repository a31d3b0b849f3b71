"""Jobs that start at one moment, placed together by the proven method of consolidation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ....instances.common.arrays import Floats, Ints
from ...common.nested import solve_document
from ...common.options import SolveOptions

Place = tuple[Ints, Ints]
"""Servers, and how many tasks of a job are on each."""


def placed_together(
    free: Floats, demand: Floats, tasks: Sequence[int], limit_s: float | None
) -> list[Place] | None:
    """Return the places of jobs that together need the fewest servers more than they must; None without any.

    Parameters
    ----------
    free
        What each server has left, shape (N, R).
    demand
        What a task of each job takes, shape (J, R).
    limit_s
        Seconds after which the best places that were found count.
    """
    resources = [f"r{r}" for r in range(free.shape[1])]
    jobs = [
        {
            "name": f"j{k}",
            "tasks": int(count),
            "task_demand": _amounts(resources, demand[k]),
            "must_place": True,
            "spread": "preferred",
            "value": 1,
        }
        for k, count in enumerate(tasks)
    ]
    useful = np.flatnonzero((free > 0).any(axis=1)).tolist()
    servers = [
        {"name": f"s{n}", "capacity": _amounts(resources, np.maximum(free[n], 0.0), all_of_them=True)}
        for n in useful
    ]
    if not servers:
        return None
    document = {
        "schema_version": 1,
        "kind": "consolidation",
        "name": "jobs that start",
        "objectives": ["spread", "servers"],
        "servers": servers,
        "jobs": jobs,
    }
    options = SolveOptions(time_limit_s=limit_s, threads=1)
    result = solve_document(document, "exact", options)
    if result.plan is None:
        return None
    # Entries of another kind are known by what they say, for their class must not be imported.
    entries: Sequence[Any] = result.plan
    by_job = {entry.job: entry.tasks for entry in entries}
    return [_place(by_job[f"j{k}"]) for k in range(len(tasks))]


def _amounts(resources: Sequence[str], amounts: Floats, all_of_them: bool = False) -> dict[str, float]:
    pairs = zip(resources, amounts.tolist(), strict=True)
    return {name: amount for name, amount in pairs if amount or all_of_them}


def _place(groups: Mapping[str, Mapping[str, int]]) -> Place:
    """Return servers and counts of the only group of a job."""
    (on,) = groups.values()
    servers = sorted((int(name[1:]), count) for name, count in on.items())
    return np.array([n for n, _ in servers]), np.array([count for _, count in servers])
