"""Whatever a certificate claims, what is derived is a bound: of running jobs, moves and servers in use."""

from __future__ import annotations

import math
import random
from typing import Any

import clusterplan
from clusterplan.formulations.consolidation.certificate import PRICED
from clusterplan.formulations.consolidation.check.classes import CheckedCluster
from clusterplan.formulations.consolidation.formulation import ConsolidationFormulation
from clusterplan.instances.consolidation.instance import ConsolidationInstance

AFTER_VALUE = ("spread", "servers", "slowdown", "migrations", "traffic")


def drawn(draw: random.Random) -> ConsolidationInstance:
    """Return two or three servers and three jobs, most of which run now."""
    servers = [
        {
            "name": f"s{k}",
            "capacity": {"gpu": draw.choice([2, 2, 3])},
            "traffic_gbit_per_s": draw.choice([0, 1]),
        }
        | draw.choice([{}, {"in_use": True}])
        for k in range(draw.choice([2, 3]))
    ]
    left = {server["name"]: server["capacity"]["gpu"] for server in servers}
    jobs = []
    for k in range(3):
        tasks = draw.choice([1, 2, 2, 3])
        job: dict[str, Any] = {"name": f"j{k}", "tasks": tasks, "task_demand": {"gpu": 1}}
        job |= {"value": draw.choice([1, 2, 3]), "spread": draw.choice(["free", "preferred", "required"])}
        job |= {"traffic_gbit_per_s": draw.choice([0, 1, 2])}
        for _ in range(tasks if draw.random() < 0.8 else 0):
            fits = [name for name, free in left.items() if free]
            if fits:
                name = draw.choice(fits)
                left[name] -= 1
                job.setdefault("current", {})[name] = job.get("current", {}).get(name, 0) + 1
        job |= draw.choice([{}, {"speed_by_servers": {"1": 1, "2": 0.5}}, {"must_place": True}])
        jobs.append(job)
    objectives = ["value", *draw.sample(AFTER_VALUE, 2)]
    more = draw.choice([{}, {"restart_cost_h": 0.5}, {"restart_cost_h": 2, "max_moves": 1}])
    head = {"schema_version": 1, "kind": "consolidation", "name": "any", "objectives": objectives}
    made = clusterplan.parse_instance({**head, "servers": servers, "jobs": jobs, **more})
    assert isinstance(made, ConsolidationInstance)
    return made


def certificate(formulation: ConsolidationFormulation, draw: random.Random) -> dict[str, Any]:
    """Return prices and multipliers that nobody has derived from anything."""
    classes, earlier, goals = CheckedCluster(formulation).classes, list[str](), list[dict[str, Any]]()
    scale = draw.choice([0.3, 1.0, 1.0])
    for objective in formulation.instance.objectives:
        if objective in PRICED:
            prices = [
                [scale * int(counts.sum()) * draw.choice([0.9, 1.0, 1.0, 1.1]) for counts in pieces]
                for pieces in classes.pieces
            ]
            multipliers = {name: draw.choice([0.0, 0.5, 1.0, 3.0]) for name in earlier}
            if classes.moves is not None:
                multipliers["moves"] = draw.choice([0.0, 0.5, 2.0])
            goals.append({"objective": objective, "prices": prices, "multipliers": multipliers})
            earlier.append(objective)
    return {"goals": goals}


def test_any_prices_bound_every_objective() -> None:
    draw, tight = random.Random(0), 0
    for number in range(150):
        instance = drawn(draw)
        best = clusterplan.solve(instance, "brute-force")
        formulation = ConsolidationFormulation(instance)
        values = None if best.plan is None else formulation.evaluate(best.plan)
        for _ in range(4):
            bounds = formulation.certified_bounds(certificate(formulation, draw), values)
            if values is None:
                continue
            for objective, bound, value in zip(formulation.objectives, bounds, values, strict=True):
                if bound is not None:
                    assert not math.isinf(bound), number
                    beyond = bound - value if objective.sense == "min" else value - bound
                    assert beyond <= 1e-9, (number, objective.name, bound, value)
                    tight += abs(beyond) <= 1e-9
    assert tight > 500
