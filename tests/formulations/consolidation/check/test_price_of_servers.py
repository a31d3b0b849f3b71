"""What one more empty server adds to the value, bought and solved again: never more than its price."""

from __future__ import annotations

import random
from typing import Any

import pytest

import clusterplan
from clusterplan.formulations.consolidation.plan import JobPlacement
from clusterplan.formulations.consolidation.presolve import LEADING, STAYING, WithRunningJobs
from clusterplan.formulations.registry import formulate
from clusterplan.instances.consolidation.instance import ConsolidationInstance
from clusterplan.solvers.common.result import Result, SolveOptions

TENTHS = (0.1, 0.2, 0.3, 0.4, 0.6, 0.7, 0.8, 0.9)


def solved(document: dict[str, Any]) -> Result:
    """Return the plan of `exact`."""
    return clusterplan.solve(clusterplan.parse_instance(document), "exact", SolveOptions(threads=1))


def document(servers: list[dict[str, Any]], jobs: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    """Return a document in which value comes first."""
    head = {"schema_version": 1, "kind": "consolidation", "name": "small", "objectives": ["value"]}
    return {**head, "servers": servers, "jobs": jobs, **more}


def single(values: tuple[float, ...]) -> list[dict[str, Any]]:
    """Return jobs of one GPU, of these values."""
    return [
        {"name": f"j{k}", "tasks": 1, "task_demand": {"gpu": 1}, "value": value}
        for k, value in enumerate(values)
    ]


@pytest.mark.parametrize(
    ("gpus", "servers", "values", "price"),
    [(1, 2, (0.8, 0.9, 0.6, 0.4), 0.6), (4, 1, (0.1, 0.2), 0.0), (1, 1, (0.1, 0.7), 0.1)],
)
def test_the_rounding_of_a_sum_of_values_costs_no_step(
    gpus: int, servers: int, values: tuple[float, ...], price: float
) -> None:
    found = solved(document([{"name": "s", "count": servers, "capacity": {"gpu": gpus}}], single(values)))
    assert found.prices == {f"empty server of {gpus} gpu": price}


def test_shapes_that_are_written_alike_have_the_larger_price() -> None:
    """Both print as 1e+06; on the larger one there is room for the job that waits."""
    servers = [{"name": name, "capacity": {"gpu": gpu}} for name, gpu in (("b", 1_000_001), ("a", 1_000_000))]
    jobs = [{"name": f"j{k}", "tasks": 1, "task_demand": {"gpu": 1_000_001}, "value": 1} for k in range(2)]
    jobs += [{"name": "k", "tasks": 1, "task_demand": {"gpu": 999_999}, "value": 1}]
    assert solved(document(servers, jobs)).prices == {"empty server of 1e+06 gpu": 1}


def drawn(draw: random.Random) -> dict[str, Any]:
    """Return a few servers and jobs, of which some run, some stay, and moves cost."""
    shapes = [{"gpu": draw.choice([1, 2, 0.6, 0.3]), "cpu": 0}, {"gpu": draw.choice([1, 2, 3]), "cpu": 2}]
    servers = [{"name": f"s{k}", "capacity": draw.choice(shapes)} for k in range(draw.choice([2, 3, 4]))]
    left = {server["name"]: dict(server["capacity"]) for server in servers}
    jobs = []
    for k in range(draw.choice([2, 3, 4, 5])):
        tasks, gpu = draw.choice([1, 1, 2]), draw.choice([0.1, 0.2, 0.3, 0.6, 1, 2])
        job: dict[str, Any] = {"name": f"j{k}", "tasks": tasks, "task_demand": {"gpu": gpu, "cpu": 0}}
        job |= {
            "value": draw.choice([*TENTHS, 1 / 3, 2]),
            "spread": draw.choice(["free", "preferred", "required"]),
        }
        job["task_demand"]["cpu"] = draw.choice([0, 0, 1])
        for _ in range(draw.choice([0, tasks])):
            fits = [n for n, a in left.items() if all(a[r] >= d for r, d in job["task_demand"].items())]
            if fits:
                server = draw.choice(fits)
                left[server] = {r: a - job["task_demand"][r] for r, a in left[server].items()}
                now = job.setdefault("current", {})
                now[server] = now.get(server, 0) + 1
        job |= draw.choice([{}, {}, {"movable": False}, {"restart_s": 900}, {"restart_s": 100}])
        jobs.append(job)
    more = draw.choice([{}, {"restart_cost_h": 0.25}, {"restart_cost_h": 1}, {"max_moves": 1}])
    objectives = ["value", *draw.choice([(), ("servers",), ("migrations", "servers"), ("spread",)])]
    return document(servers, jobs, **more, objectives=objectives)


def test_no_server_that_is_bought_adds_more_than_its_price() -> None:
    draw, bought, tight = random.Random(0), 0, 0
    for number in range(300):
        before = drawn(draw)
        found = solved(before)
        for name, price in (found.prices or {}).items():
            capacity = next(s["capacity"] for s in before["servers"] if _name(s["capacity"]) == name)
            more = {"name": "more", "capacity": capacity}
            after = solved({**before, "servers": [*before["servers"], more]})
            values = [result.objectives[0].value for result in (after, found)]
            assert None not in values
            gain = values[0] - values[1]  # type: ignore[operator]
            assert price >= 0, number
            assert gain <= price + 1e-9, number
            bought, tight = bought + 1, tight + (gain > price - 1e-9)
    assert bought > 100
    assert tight > 0.7 * bought


def _name(capacity: dict[str, float]) -> str:
    return "empty server of " + ", ".join(f"{amount:g} {name}" for name, amount in sorted(capacity.items()))


def test_where_something_moves_prices_of_the_leading_objectives_are_not_those_of_the_plan() -> None:
    """They do not count what the move has cost, which another server may save."""
    jobs = [
        {"name": f"j{k}", "tasks": 1, "task_demand": {"gpu": 1}, "current": {f"s-{k}": 1}} for k in range(70)
    ]
    servers = [{"name": "s", "count": 71, "capacity": {"gpu": 4}}]
    data = clusterplan.parse_instance(
        document(servers, jobs, objectives=["value", "migrations"], restart_cost_h=0.5)
    )
    assert isinstance(data, ConsolidationInstance)
    formulation = formulate(data)
    assert isinstance(formulation, WithRunningJobs)
    leading = clusterplan.solve(formulation.leading.instance, "exact", SolveOptions(threads=1))
    certificate = {LEADING: leading.certificate, STAYING: None}
    plan = [JobPlacement(job=f"j{k}", servers={f"s-{k}": 1}) for k in range(70)]
    assert formulation.prices(certificate, plan) == {"empty server of 4 gpu": 0}
    moved = [JobPlacement(job="j0", servers={"s-1": 1}), *plan[1:]]
    assert formulation.prices(certificate, moved) is None
