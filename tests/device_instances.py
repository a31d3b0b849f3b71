"""Placements for tests, with and without single devices."""

from __future__ import annotations

import random
from typing import Any

from clusterplan.formulations.consolidation.formulation import ConsolidationFormulation
from clusterplan.instances.common.faults import validated
from clusterplan.instances.consolidation.instance import ConsolidationInstance

SHARES = (100, 250, 300, 334, 400, 460, 500, 510, 600, 700, 999)
PROFILES = {
    "a30-24": ("1g.6gb", "2g.12gb", "4g.24gb"),
    "a100-40": ("1g.5gb", "1g.10gb", "2g.10gb", "3g.20gb", "4g.20gb", "7g.40gb"),
}


def device_instance(seed: int, jobs: int = 4) -> ConsolidationInstance:
    """Return an instance of two or three servers, some of whose devices others hold."""
    choose = random.Random(seed)
    geometry = choose.choice([None, *PROFILES])
    servers = []
    for n in range(choose.randint(1, 3)):
        devices: dict[str, Any] = {"count": choose.randint(1, 3)}
        if geometry is not None:
            devices["geometry"] = geometry
        server: dict[str, Any] = {
            "name": f"n{n}",
            "capacity": {"cpu": choose.choice((4, 8.5, 16))},
            "gpu_model": choose.choice(("A", "B")),
            "devices": {"gpu": devices},
        }
        if choose.random() < 0.3:
            devices["taken"] = [_taken(choose, geometry)]
        elif choose.random() < 0.2:
            server["free"] = {**server["capacity"], "gpu": devices["count"] - 1}
        servers.append(server)
    document = {
        "schema_version": 1,
        "kind": "consolidation",
        "name": f"devices {seed}",
        "objectives": choose.choice(
            (["value"], ["value", "servers"], ["value", "spread", "servers"], ["value", "migrations"])
        ),
        "servers": servers,
        "jobs": [_job(choose, j, geometry, len(servers)) for j in range(choose.randint(1, jobs))],
    }
    return ConsolidationInstance.model_validate(document)


def _taken(choose: random.Random, geometry: str | None) -> dict[str, Any]:
    if geometry is not None and choose.random() < 0.4:
        return {"device": 0, "profile": PROFILES[geometry][0], "slot": choose.randint(0, 2)}
    return {"device": 0, "share": choose.choice((300, 540, 1000))} if choose.random() < 0.7 else {"device": 0}


def _job(choose: random.Random, number: int, geometry: str | None, servers: int) -> dict[str, Any]:
    job: dict[str, Any] = {
        "name": f"j{number}",
        "value": choose.choice((1, 2, 2.5, 4)),
        "spread": choose.choice(("free", "required", "preferred")),
        "must_place": choose.random() < 0.1,
    }
    if choose.random() < 0.2:
        job["gpu_model"] = choose.choice((["A"], ["A", "B"], "B"))
    if choose.random() < 0.15:
        groups = [{"name": name, **_group(choose, geometry, "demand")} for name in ("a", "b")]
        return job | {"groups": groups}
    job |= _group(choose, geometry, "task_demand")
    if choose.random() < 0.3:
        job["current"] = {f"n{choose.randrange(servers)}": 1}
    return job


def _group(choose: random.Random, geometry: str | None, demand: str) -> dict[str, Any]:
    group: dict[str, Any] = {
        "tasks": choose.choice((1, 1, 1, 2, 2, 3)),
        demand: {"cpu": choose.choice((0, 0.5, 1, 3))},
    }
    sort = choose.random()
    if sort < 0.3:
        group["devices"] = {"gpu": choose.randint(1, 2)}
    elif sort < 0.7 or geometry is None:
        group["share"] = {"gpu": choose.choice(SHARES)}
    elif sort < 0.95:
        group["profile"] = {"gpu": choose.choice(PROFILES[geometry])}
    return group


def placement(
    objectives: list[str] | None, servers: list[dict[str, Any]], jobs: list[dict[str, Any]], **fields: Any
) -> ConsolidationInstance:
    """Return an instance; without objectives it has those of a document that names none."""
    aims = {"objectives": objectives} if objectives else {}
    document = {"name": "by hand", **aims, "servers": servers, "jobs": jobs, **fields}
    return validated(ConsolidationInstance, document, "by hand")


def server(name: str = "n", **amounts: float) -> dict[str, Any]:
    """Return a server of some capacity."""
    return {"name": name, "capacity": amounts}


def gpus(name: str, devices: int, cpu: float = 8, **fields: Any) -> dict[str, Any]:
    """Return a server whose GPUs are single devices; fields are its own, or those of its devices."""
    own = {key: fields[key] for key in ("geometry", "taken") if key in fields}
    others = {key: value for key, value in fields.items() if key not in own}
    return {"name": name, "capacity": {"cpu": cpu}, "devices": {"gpu": {"count": devices, **own}}, **others}


def sharing(name: str, share: int, cpu: float = 0, **fields: Any) -> dict[str, Any]:
    """Return a job of one task on a share of a GPU."""
    return job(name, 1, {"cpu": cpu}, share={"gpu": share}) | fields


def job(name: str, tasks: int = 1, demand: dict[str, float] | None = None, **fields: Any) -> dict[str, Any]:
    """Return a job of one group; its tasks take a GPU each if no demand is given."""
    return {"name": name, "tasks": tasks, "task_demand": demand or {"gpu": 1}, **fields}


def three_jobs(*objectives: str) -> ConsolidationFormulation:
    """Return two servers of four GPUs, and jobs of three, three and two tasks of which only two fit."""
    jobs = [job("a", 3, spread="required"), job("b", 3, spread="preferred"), job("c", 2, value=1)]
    servers = [server("n", gpu=4), {**server("m", gpu=4), "free": {"gpu": 3}}]
    return ConsolidationFormulation(placement(list(objectives) or ["value", "servers"], servers, jobs))
