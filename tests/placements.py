"""Small placements, written by hand."""

from __future__ import annotations

from typing import Any

import clusterplan
from clusterplan.formulations.consolidation.formulation import ConsolidationFormulation
from clusterplan.instances.consolidation.instance import ConsolidationInstance


def placement(
    objectives: list[str], servers: list[dict[str, Any]], jobs: list[dict[str, Any]]
) -> ConsolidationInstance:
    """Return an instance."""
    made = clusterplan.parse_instance(
        {
            "schema_version": 1,
            "kind": "consolidation",
            "name": "by hand",
            "objectives": objectives,
            "servers": servers,
            "jobs": jobs,
        }
    )
    assert isinstance(made, ConsolidationInstance)
    return made


def server(name: str = "n", **amounts: float) -> dict[str, Any]:
    """Return a server of some capacity."""
    return {"name": name, "capacity": amounts}


def job(name: str, tasks: int = 1, demand: dict[str, float] | None = None, **fields: Any) -> dict[str, Any]:
    """Return a job of one group; its tasks take a GPU each if no demand is given."""
    return {"name": name, "tasks": tasks, "task_demand": demand or {"gpu": 1}, **fields}


def three_jobs(*objectives: str) -> ConsolidationFormulation:
    """Return two servers of four GPUs, and jobs of three, three and two tasks of which only two fit."""
    jobs = [job("a", 3, spread="required"), job("b", 3, spread="preferred"), job("c", 2, value=1)]
    servers = [server("n", gpu=4), {**server("m", gpu=4), "free": {"gpu": 3}}]
    return ConsolidationFormulation(placement(list(objectives) or ["value", "servers"], servers, jobs))
