"""Prices of servers: what the check evaluates, and what an empty server adds."""

from __future__ import annotations

import itertools
import random
from typing import Any

import numpy as np
import pytest
from device_instances import job, server
from random_instances import random_consolidation

import clusterplan
from clusterplan.formulations.common.clock import Clock
from clusterplan.formulations.consolidation.check import server_prices
from clusterplan.formulations.consolidation.check.classes import CheckedCluster
from clusterplan.formulations.consolidation.check.server_prices import (
    Knapsack,
    NodeBudget,
    ServerPrices,
    _Relaxation,
    best_split_prices,
)
from clusterplan.formulations.consolidation.plan import JobPlacement
from clusterplan.formulations.consolidation.presolve import LEADING_KEY, STAYING_KEY, WithRunningJobs
from clusterplan.formulations.registry import formulate
from clusterplan.instances.common.arrays import Ints
from clusterplan.instances.common.errors import TooLargeError
from clusterplan.instances.consolidation.instance import ConsolidationInstance
from clusterplan.solvers.common.result import Result, SolveOptions


def test_closure_splits_pieces() -> None:
    """What a piece is paid is at least what its parts are."""
    slots = np.array([[1], [2], [3]])
    assert best_split_prices(slots, slots, np.array([2, 3, 4])).tolist() == [2, 4, 6]
    assert best_split_prices(slots, slots, np.array([0, 3, 4])).tolist() == [0, 3, 4]


@pytest.mark.parametrize("block", range(8))
def test_the_table_and_the_search_agree(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """At random prices of single tasks, of pieces, and of residents that may stay."""
    for seed in range(25 * block, 25 * block + 25):
        instance = random_consolidation(seed)
        assert isinstance(instance, ConsolidationInstance)
        classes, draw = CheckedCluster.of(instance).classes, random.Random(seed)
        prices = [np.array([draw.randint(0, 10**6) for _ in pieces]) for pieces in classes.pieces]
        for pool in classes.pools:
            listed = ServerPrices(classes, pool, prices, effort=NodeBudget(10_000))
            with monkeypatch.context() as patch:
                patch.setattr(server_prices, "MAX_MERGED", -1)
                searched = ServerPrices(classes, pool, prices, effort=NodeBudget(10_000))
            assert listed.table is not None
            assert searched.table is None or not any((gain > 0).any() for _, gain in searched.groups)
            for shape in classes.servers:
                if shape.pool == pool:
                    paid = [each.most(shape.free, shape.residents) for each in (listed, searched)]
                    assert paid[0] == paid[1], seed


Groups = list[tuple[Ints, Ints]]


def drawn(seed: int, largest: int) -> tuple[Groups, tuple[int, ...]]:
    """Return groups of alternatives and what is free."""
    draw = random.Random(seed)
    resources = draw.randint(1, 4)
    groups: Groups = []
    for _ in range(draw.randint(1, 5)):
        number = draw.randint(1, 3)
        weights = [
            [draw.choice([0, draw.randint(0, largest)]) for _ in range(resources)] for _ in range(number)
        ]
        groups.append(
            (np.array(weights), np.array([draw.randint(-5, 10 ** draw.randint(1, 9)) for _ in weights]))
        )
    return groups, tuple(draw.randint(0, 2 * largest) for _ in range(resources))


def enumerated(groups: Groups, free: tuple[int, ...]) -> int:
    """Return the most that is paid for one alternative at most of each group."""
    best = 0
    for chosen in itertools.product(*(range(-1, len(paid)) for _, paid in groups)):
        picked = [(group, a) for group, a in zip(groups, chosen, strict=True) if a >= 0]
        taken = np.sum([weights[a] for (weights, _), a in picked], axis=0) if picked else np.zeros(len(free))
        if (taken <= np.array(free)).all():
            best = max(best, sum(int(paid[a]) for (_, paid), a in picked))
    return best


@pytest.mark.parametrize("largest", [6, 3_000, 10**12])
def test_a_search_finds_the_optimum(largest: int) -> None:
    """Of few amounts and of unlike ones, which are counted in coarse cells; of small servers, too."""
    for seed in range(30):
        groups, free = drawn(seed, largest)
        knapsack = Knapsack(groups, free)
        assert knapsack.most(free, 0, NodeBudget(10_000)) == enumerated(groups, free), seed
        less = tuple(amount // 2 for amount in free)
        assert knapsack.most(less, 0, NodeBudget(10_000)) == enumerated(groups, less), seed


def test_without_a_search_it_is_a_bound() -> None:
    """Also where the time is up, and it is the optimum again where nothing less is to be told apart."""
    for seed in range(30):
        groups, free = drawn(seed, 50)
        most = enumerated(groups, free)
        bound = Knapsack(groups, free).most(free, 0, NodeBudget(0))
        assert most <= bound <= sum(max(0, int(paid.max())) for _, paid in groups)
        with Clock(0.0).enforced():
            assert Knapsack(groups, free).most(free, 0, NodeBudget(10_000)) == bound
        assert Knapsack(groups, free).most(free, most, NodeBudget(10_000)) == most
        assert Knapsack(groups, free).most(free, bound + 1, NodeBudget(0)) <= bound + 1


def test_any_multipliers_give_bounds() -> None:
    """None at all, wild ones, and those that cost more than 64 bits hold."""
    draw = random.Random(1)
    for seed in range(30):
        groups, free = drawn(seed, 1000)
        known = [(weights[paid > 0], paid[paid > 0]) for weights, paid in groups if (paid > 0).any()]
        if not known:
            continue
        limit = [max(amount, *(int(w[:, r].max()) for w, _ in known)) for r, amount in enumerate(free)]
        for size in (0.0, 1.0, 1e5, 1e12):
            multipliers = [size * draw.random() for _ in free]
            relaxation = _Relaxation(known, limit, draw.randrange(len(free)), multipliers)
            most = enumerated(groups, free)
            assert relaxation.root(free) >= most
            bound, exact, looked = relaxation.search(free, 0, 5)
            assert looked <= 5
            assert most <= bound <= relaxation.root(free)
            assert not exact or bound == most


def test_prices_that_cannot_be_added_up_are_refused() -> None:
    """Rather than to leave 64 bits."""
    for paid in ([2**58], [1, 2**58], [2**58, 1]):
        with pytest.raises(TooLargeError):
            Knapsack([(np.array([[1]] * len(paid)), np.array(paid))], [1])


def test_the_last_unit_counts() -> None:
    """Prices of a few units, at multipliers that are no whole numbers: nothing is lost to rounding."""
    draw = random.Random(2)
    for seed in range(150):
        groups, free = drawn(seed, 6)
        groups = [(weights, np.array([draw.randint(-1, 3) for _ in weights])) for weights, _ in groups]
        most = enumerated(groups, free)
        assert Knapsack(groups, free).most(free, 0, NodeBudget(10_000)) == most, seed
        known = [(weights[paid > 0], paid[paid > 0]) for weights, paid in groups if (paid > 0).any()]
        limit = [max(amount, 6) for amount in free]
        for resource in range(len(free) if known else 0):
            relaxation = _Relaxation(known, limit, resource, [draw.random() for _ in free])
            assert relaxation.root(free) >= most, seed
            assert relaxation.search(free, 0, 3)[0] >= most, seed


def test_coarse_cells_hold_what_fits() -> None:
    """Of 4000 units in cells of 4, three times 1333 are 999 cells at least, not 1002."""
    groups: Groups = [(np.array([[1333]]), np.array([1])) for _ in range(3)]
    assert _Relaxation(groups, [4000], 0, [0.0]).root([4000]) == 3
    assert Knapsack(groups, [4000]).most([4000], 0, NodeBudget(0)) == 3


def test_what_parts_cost_at_multipliers_is_rounded_down() -> None:
    """Three alternatives that take a half each of a price of one, of what is worth one and a half."""
    groups: Groups = [(np.array([[0, 1]]), np.array([1])) for _ in range(3)]
    assert _Relaxation(groups, [1, 3], 0, [0.0, 0.5]).root([1, 3]) >= 3


def test_the_largest_prices_that_can_be_added_up() -> None:
    """Eight times as much stays within 60 bits."""
    largest = 2**57
    assert Knapsack([(np.array([[1]]), np.array([largest]))], (1,)).most((1,), 0, NodeBudget(10)) == largest
    with pytest.raises(TooLargeError):
        Knapsack([(np.array([[1]]), np.array([largest + 1]))], (1,))


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
    return [job(f"j{k}", value=value) for k, value in enumerate(values)]


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
    servers = [server(name, gpu=gpu) for name, gpu in (("b", 1_000_001), ("a", 1_000_000))]
    jobs = [job(f"j{k}", demand={"gpu": 1000001}, value=1) for k in range(2)]
    jobs += [job("k", demand={"gpu": 999999}, value=1)]
    assert solved(document(servers, jobs)).prices == {"empty server of 1e+06 gpu": 1}


def drawn_prices(draw: random.Random) -> dict[str, Any]:
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


@pytest.mark.parametrize("number", [60, pytest.param(300, marks=pytest.mark.slow)])
def test_no_server_that_is_bought_adds_more_than_its_price(number: int) -> None:
    draw, bought, tight = random.Random(0), 0, 0
    for _ in range(number):
        before = drawn_prices(draw)
        found = solved(before)
        for name, price in (found.prices or {}).items():
            capacity = next(s["capacity"] for s in before["servers"] if _name(s["capacity"]) == name)
            more = {"name": "more", "capacity": capacity}
            after = solved({**before, "servers": [*before["servers"], more]})
            values = [result.objectives[0].value for result in (after, found)]
            assert None not in values
            gain = values[0] - values[1]  # type: ignore[operator]
            assert price >= 0, before
            assert gain <= price + 1e-9, before
            bought, tight = bought + 1, tight + (gain > price - 1e-9)
    assert bought > number / 3
    assert tight > 0.7 * bought


def _name(capacity: dict[str, float]) -> str:
    return "empty server of " + ", ".join(f"{amount:g} {name}" for name, amount in sorted(capacity.items()))


def test_where_something_moves_prices_of_the_leading_objectives_are_not_those_of_the_plan() -> None:
    """They do not count what the move has cost, which another server may save."""
    jobs = [job(f"j{k}", current={f"s-{k}": 1}) for k in range(70)]
    servers = [{"name": "s", "count": 71, "capacity": {"gpu": 4}}]
    data = clusterplan.parse_instance(
        document(servers, jobs, objectives=["value", "migrations"], restart_cost_h=0.5)
    )
    assert isinstance(data, ConsolidationInstance)
    formulation = formulate(data)
    assert isinstance(formulation, WithRunningJobs)
    leading = clusterplan.solve(formulation.leading.instance, "exact", SolveOptions(threads=1))
    certificate = {LEADING_KEY: leading.certificate, STAYING_KEY: None}
    plan = [JobPlacement(job=f"j{k}", servers={f"s-{k}": 1}) for k in range(70)]
    assert formulation.prices(certificate, plan) == {"empty server of 4 gpu": 0}
    moved = [JobPlacement(job="j0", servers={"s-1": 1}), *plan[1:]]
    assert formulation.prices(certificate, moved) is None
