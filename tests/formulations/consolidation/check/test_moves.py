"""Prices of tasks bound what can be freed and what has to move for it, and never say too much."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest
from device_instances import job

import clusterplan
from clusterplan.formulations.consolidation.cluster_data import ClusterData, RequiredTasks
from clusterplan.formulations.consolidation.formulation import ConsolidationFormulation
from clusterplan.instances.consolidation.instance import ConsolidationInstance


def cluster(loads: list[int], **free: Any) -> ConsolidationInstance:
    """Return servers of 4 GPUs in racks of two, each with so many running tasks of 1 GPU."""
    servers = [{"name": f"s{k}", "capacity": {"gpu": 4}, "rack": f"r{k // 2}"} for k in range(len(loads))]
    jobs = [job(f"j{k}-{i}", current={f"s{k}": 1}) for k, load in enumerate(loads) for i in range(load)]
    data = {"name": "c", "servers": servers, "jobs": jobs, "free": free}
    return ConsolidationInstance.model_validate(data)


def bounds(instance: ConsolidationInstance, freed: int, *moves: dict[str, Any]) -> list[float | None]:
    """Return the bounds on `free` and `migrations` that prices prove for plans that free so many units."""
    data = {"goals": [], "moves": moves}
    return list(ConsolidationFormulation(instance).certified_bounds(data, [float(freed), 99.0]))


def priced(goal: str, *prices: float, tree: Sequence[dict[str, Any]] = ()) -> dict[str, Any]:
    """Return a part of a certificate: the price of a task of each shape, and a tree."""
    return {"objective": goal, "prices": list(prices), "tree": list(tree)}


def test_by_hand() -> None:
    """Of servers with 1, 2 and 3 tasks, two are freed by 3 moves only if the third has room for them."""
    instance = cluster([1, 2, 3], count=2)
    assert bounds(instance, 1, priced("migrations", 0.0)) == [2, 1]
    assert bounds(instance, 2, priced("migrations", 0.0)) == [2, 3]
    # Twelve GPUs are priced, and six tasks pay: each freed server takes 4 away, so that two are too many.
    assert bounds(instance, 2, priced("free", 1.0)) == [1, 0]
    # At 2 moves for a task, more tasks would have to move than there are.
    assert bounds(instance, 2, priced("migrations", 2.0)) == [2, 7]
    assert bounds(instance, 2, priced("migrations", 0.0, 0.0)) == [2, 0]  # there is one shape


def test_a_tree_proves_what_all_its_leaves_prove() -> None:
    """Of three servers with two tasks each and two free places, one is freed, by two moves."""
    instance = cluster([3, 3, 3], count=1)
    formulation = ConsolidationFormulation(instance)

    def bound(*leaves: float, first: str = "s0", second: str = "s1") -> float | None:
        nodes = [{"unit": first}, {"unit": second}, *({"prices": [price]} for price in leaves)]
        data = {"goals": [], "moves": [priced("migrations", 0.0, tree=nodes)]}
        return formulation.certified_bounds(data, [1.0, 5.0])[1]

    # No plan frees one of them. At price 9 every leaf says so, at price 0 none does.
    assert bound(9, 9, 9) == 5
    assert bound(9, 0, 9) == bound(0, 9, 9) == bound(9, 9, 0) == 3
    assert bound(9, 9) == bound(9, 9, 9, 0) == 3
    assert bound(9, 9, 9, first="nobody") == bound(9, 9, 9, second="s0") == 3


@pytest.mark.parametrize("data", [{"objective": "value"}, {"prices": [-1]}, {"tree": [{"unit": 3}]}])
def test_what_is_no_price_is_a_fault(data: dict[str, Any]) -> None:
    formulation = ConsolidationFormulation(cluster([1, 1], count=1))
    wrong, right = priced("free", 1.0) | data, priced("free", 1.0, 2.0)
    assert formulation.certificate_fault({"goals": [], "moves": [wrong]}) is not None
    assert formulation.certificate_fault({"goals": [], "moves": [right]}) is None


def test_prices_that_overflow_prove_nothing() -> None:
    assert bounds(cluster([1, 2, 3], count=2), 2, priced("migrations", 1e12)) == [2, 0]


def test_tasks_move_where_they_fit_and_are_allowed() -> None:
    """Only to servers with room now, unless there are chains; never to one that is empty, unless allowed."""
    for more, expected in (
        ({}, [[0, 1, 0]]),
        ({"chains": True}, [[1, 1, 0]]),
        ({"into_empty": True}, [[0, 1, 1]]),
    ):
        tasks = RequiredTasks(ClusterData(cluster([4, 2, 0], count=1, **more)))
        assert tasks.destinations.astype(int).T.tolist() == expected


def test_a_unit_counts_if_something_listed_runs_and_nothing_else() -> None:
    instance = cluster([1, 0, 0, 0, 2, 1], count=9, per="rack")
    assert [*ClusterData(instance).releasable] == ["r0", "r2"]
    used = [
        server.model_copy(update={"in_use": True if server.name == "s5" else None})
        for server in instance.servers
    ]
    assert [*ClusterData(instance.model_copy(update={"servers": tuple(used)})).releasable] == ["r0"]
    assert ClusterData(cluster([1, 0, 2], count=2, gpu_model="v100")).releasable == {}


def test_random_prices_prove_nothing_false() -> None:
    """Neither of single servers nor of racks, with chains or without, also where a job has to start."""
    draw, tight = random.Random(0), 0
    for number in range(60):
        loads = [draw.randint(1, 4), *(draw.randint(0, 4) for _ in range(3))]
        free: dict[str, Any] = {"count": draw.randint(1, 2), "per": draw.choice(["server", "rack"])}
        instance = cluster(loads, **free, chains=draw.random() < 0.5)
        if number % 2:
            waits = job("w", 2, {"gpu": draw.choice([1, 2, 3])})
            jobs = [*instance.document()["jobs"], waits]
            instance = instance.replace(jobs=jobs, seat=["w"])
        best = clusterplan.solve(instance, "cp-sat")
        if best.plan is None:
            continue
        values = [record.value or 0.0 for record in best.objectives]
        formulation = ConsolidationFormulation(instance)
        shapes, units = len(RequiredTasks(formulation).shapes), [*formulation.releasable]
        for _ in range(10):
            prices = [[draw.choice([0, 0.25, 0.5, 1, 2]) for _ in range(shapes)] for _ in range(4)]
            chosen = draw.sample(units, min(2, len(units)))
            leaves = [{"prices": leaf} for leaf in prices[1 : 2 + len(chosen)]]
            tree = [*({"unit": unit} for unit in chosen), *leaves]
            goals = [priced("free", *prices[0]), priced("migrations", *prices[0], tree=tree)]
            # With one move more than the fewest, a tree must not prove it.
            claimed = [values[0], values[1] + draw.choice([0, 1])]
            found = formulation.certified_bounds({"goals": [], "moves": goals}, claimed)
            assert found[0] is not None
            assert found[1] is not None
            assert found[0] >= values[0]
            assert found[1] <= values[1]
            tight += found[0] == values[0]
    assert tight > 50
