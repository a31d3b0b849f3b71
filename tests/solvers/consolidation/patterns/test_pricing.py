"""Pricing of servers by dynamic programming and by search."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest
from device_instances import job, placement, server
from random_instances import random_consolidation

from clusterplan.formulations.consolidation.classes import ClassTable
from clusterplan.formulations.consolidation.formulation import ConsolidationFormulation
from clusterplan.instances.consolidation.generate import generate_consolidation
from clusterplan.solvers.consolidation.patterns.knapsack_pricing import (
    CoarseTable,
    Item,
    PatternRepair,
    SearchPricing,
    multiplier_bound,
    relaxed_knapsack,
    solved_knapsack,
)
from clusterplan.solvers.consolidation.patterns.pricing import ServerPattern, ServerPricing
from clusterplan.solvers.consolidation.progress import SETTINGS, ExactSettings

TABLE = "clusterplan.solvers.consolidation.patterns.knapsack_pricing.SETTINGS"


def worth(pattern: ServerPattern, paid: list[np.ndarray]) -> float:
    """Return what a pattern is paid."""
    return sum(float(paid[k][slot]) for k, slot in pattern)


def random_prices(classes: ClassTable, seed: int) -> list[np.ndarray]:
    """Return what slots are paid; of shapes with single tasks, so much for each of them."""
    rng = np.random.default_rng(seed)
    paid = []
    for pieces, slots in zip(classes.pieces, classes.slots, strict=True):
        single = len(pieces) < len(slots)
        price = rng.random() * (rng.random() < 0.8)
        paid.append(
            slots[:, 0] * price if single else rng.random(len(slots)) * (rng.random(len(slots)) < 0.8)
        )
    return paid


def fits(classes: ClassTable, number: int, pattern: ServerPattern) -> bool:
    """Return whether servers of a class hold a pattern."""
    taken = sum((classes.weights(k, classes.slots[k][[i]])[0] for k, i in pattern), np.zeros(1))
    return bool((taken <= np.array(classes.servers[number].free)).all())


@pytest.mark.parametrize("steps", [3, 900])
def test_a_search_to_the_end_finds_what_the_table_finds(steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """On instances with groups, GPU models and residents, however coarse the first table is."""
    coarse = ExactSettings(most_coarse_steps=steps, most_coarse_cells=steps * steps)
    monkeypatch.setattr(TABLE, coarse)
    looked = 0
    for seed in range(40):
        instance = random_consolidation(seed)
        classes = ConsolidationFormulation(instance).classes
        paid = random_prices(classes, seed)
        for pool in classes.usages:
            table, search = ServerPricing(classes, pool), SearchPricing(classes, pool)
            for mine, theirs in zip(search.best(paid), table.best(paid), strict=True):
                assert mine[0] == theirs[0]
                assert mine[1] == pytest.approx(theirs[1], abs=1e-6), (seed, pool)
                assert worth(mine[2], paid) == pytest.approx(theirs[1], abs=1e-6)
                assert fits(classes, *mine[::2])
                looked += 1
    assert looked > 60


@pytest.mark.parametrize("kept", [1, 2, 5])
def test_of_many_residents_few_selections_are_kept_and_bounds_hold(
    kept: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Six jobs run on each of four servers; without branch and bound some bounds are above the optimum."""
    rng = random.Random(1)
    sizes = [(rng.randint(1, 3), rng.randint(1, 9)) for _ in range(24)]
    jobs = [
        job(f"j{k}", 1, {"gpu": gpu, "cpu": cpu}, current={f"n{k // 6}": 1})
        for k, (gpu, cpu) in enumerate(sizes)
    ]
    servers = [server(f"n{n}", gpu=9, cpu=20) for n in range(4)]
    classes = ConsolidationFormulation(placement(["value", "migrations"], servers, jobs)).classes
    few = ExactSettings(most_priced_selections=kept)
    for module in (TABLE, TABLE.replace("knapsack_", "")):
        monkeypatch.setattr(module, few)
    above = 0
    for seed in range(20):
        paid = random_prices(classes, seed)
        best = {number: most for number, most, _ in ServerPricing(classes, None).best(paid)}
        for number, bound, pattern in SearchPricing(classes, None).best(paid, search=False):
            assert bound >= best[number] - 1e-9
            above += bound > best[number] + 1e-6
            assert fits(classes, number, pattern)
        for number, bound, _ in SearchPricing(classes, None).best(paid):
            assert bound == pytest.approx(best[number], abs=1e-6)
    assert above


def test_without_a_search_values_are_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are no less than the optimum, and patterns are still such that a server holds."""
    monkeypatch.setattr(TABLE, ExactSettings(most_coarse_steps=4, most_coarse_cells=16))
    classes = ConsolidationFormulation(
        generate_consolidation(8, 12, resources=3, load=1.2, preferred_share=0.6, seed=2)
    ).classes
    paid, above = random_prices(classes, 1), 0
    for pool in classes.usages:
        best = {number: most for number, most, _ in ServerPricing(classes, pool).best(paid)}
        for number, bound, pattern in SearchPricing(classes, pool).best(paid, most=4, search=False):
            assert bound >= best[number] - 1e-9
            above += bound > best[number] + 1e-6
            assert worth(pattern, paid) <= best[number] + 1e-9
            assert fits(classes, number, pattern)
    assert above  # or the table was not coarse


def test_amounts_without_a_table_are_priced_exactly() -> None:
    """Milli-GPUs and mebibytes: of all pairs and triples the best is found."""
    rng = random.Random(3)
    demands = [{"gpu": rng.randint(100, 900), "memory": rng.randint(10_000, 90_000)} for _ in range(9)]
    jobs = [job(f"j{i}", 1, demand) for i, demand in enumerate(demands)]
    formulation = ConsolidationFormulation(placement(["value"], [server(gpu=1500, memory=150_001)], jobs))
    classes = formulation.classes
    paid = [np.array([rng.random()]) for _ in classes.slots]
    ((number, bound, pattern),) = SearchPricing(classes, None).best(paid)
    best = 0.0
    for chosen in range(1 << 9):
        members = [k for k in range(9) if chosen >> k & 1]
        if fits(classes, 0, tuple((k, 0) for k in members)):
            best = max(best, sum(float(paid[k][0]) for k in members))
    assert number == 0
    assert bound == pytest.approx(best, abs=1e-6)
    assert worth(pattern, paid) == pytest.approx(best)


def test_one_shape_alone() -> None:
    """As many tasks as each class holds, and no pattern where there is no room."""
    servers = [server("n", gpu=5), server("m", gpu=9), server("k", gpu=1)]
    classes = ConsolidationFormulation(placement(["value"], servers, [job("a", 6, {"gpu": 2})])).classes
    pricing = SearchPricing(classes, None)
    held = {
        classes.servers[number].free[0]: classes.slots[k][slot, 0]
        for number, ((k, slot),) in pricing.alone(0)
    }
    assert held == {2: 2, 4: 4}


FREE = np.array([10, 7])


def random_items(seed: int, count: int = 3) -> list[Item]:
    """Return items of up to three equal tasks, and such with slots of their own."""
    rng = random.Random(seed)
    items = []
    for k in range(count):
        need = np.array([rng.randint(0, 4), rng.randint(1, 4)])
        if rng.random() < 0.5:
            tasks = np.arange(1, rng.randint(1, 3) + 1)
            gain = rng.random()
            items.append(Item(k, tasks - 1, tasks[:, None] * need, tasks * gain, single=True))
        else:
            weights = np.array([need, need + np.array([rng.randint(0, 3), 1])])
            items.append(
                Item(k, np.array([3, 8]), weights, np.array([rng.random(), rng.random()]), single=False)
            )
    return items


def brute(items: list[Item], free: np.ndarray) -> float:
    """Return the best value of all patterns."""
    best = 0.0
    for chosen in itertools.product(*([None, *range(len(item.gains))] for item in items)):
        pairs = [(item, i) for item, i in zip(items, chosen, strict=True) if i is not None]
        taken = sum((item.weights[i] for item, i in pairs), np.zeros(2))
        if (taken <= free).all():
            best = max(best, sum(float(item.gains[i]) for item, i in pairs))
    return best


@pytest.mark.parametrize("seed", range(15))
def test_branch_and_bound_finds_the_best_pattern(seed: int) -> None:
    """Its slots are paid what it says, and fit."""
    items = random_items(seed)
    found = solved_knapsack(items, FREE)
    assert found.value == pytest.approx(brute(items, FREE))
    assert found.bound == pytest.approx(found.value)
    pairs = [(items[k], list(items[k].rows).index(row)) for k, row in found.slots]
    assert sum(float(item.gains[i]) for item, i in pairs) == pytest.approx(found.value)
    assert (sum((item.weights[i] for item, i in pairs), np.zeros(2)) <= FREE).all()


@pytest.mark.parametrize("seed", range(15))
def test_multipliers_bound_every_pattern(seed: int) -> None:
    """Those of the relaxation bound best; any others bound as well."""
    items, rng = random_items(seed), np.random.default_rng(seed)
    best, relaxed = brute(items, FREE), relaxed_knapsack(items, FREE.astype(float))
    assert relaxed.bound >= best - 1e-9
    for _ in range(5):
        assert multiplier_bound(items, FREE, rng.random(2)) >= relaxed.bound - 1e-9


@pytest.mark.parametrize("seed", range(15))
def test_what_is_not_promising_is_in_no_better_pattern(seed: int) -> None:
    """With the slack between relaxation and optimum, what is left has the optimum."""
    items = random_items(seed, 4)
    best, relaxed = brute(items, FREE), relaxed_knapsack(items, FREE.astype(float))
    left = [item.promising(relaxed.multipliers, relaxed.bound - best + 1e-9) for item in items]
    assert brute(left, FREE) == pytest.approx(best)


def test_reduced_costs_leave_out_what_is_paid_too_little() -> None:
    """Of two shapes that take the same, the one that is paid less goes."""
    one = np.array([[1, 1]])
    items = [Item(k, np.array([0]), one, np.array([gain]), single=True) for k, gain in ((0, 1.0), (1, 0.1))]
    multipliers = np.array([0.0, 1.0])
    assert [len(item.promising(multipliers, 0.5).gains) for item in items] == [1, 0]


def test_without_items_nothing_is_paid() -> None:
    """The bound of an empty knapsack is zero."""
    assert relaxed_knapsack([], FREE.astype(float)).bound == 0


COARSE_TABLE_FREE = np.array([[10, 7, 9], [4, 7, 3], [0, 0, 0]])


def coarse_table_random_items(seed: int, largest: int = 4) -> list[Item]:
    """Return items of up to four equal tasks, and one with slots of its own."""
    rng = np.random.default_rng(seed)
    items = []
    for k in range(4):
        tasks = np.arange(1, rng.integers(1, 5) + 1)
        need = rng.integers(1, largest + 1, 3) * [1, 1, k % 2]
        items.append(Item(k, tasks - 1, tasks[:, None] * need, tasks * rng.random(), single=True))
    weights = rng.integers(1, largest + 1, (3, 3))
    return [*items, Item(4, np.arange(3), weights, rng.random(3), single=False)]


def best(items: list[Item], free: np.ndarray) -> float:
    """Return the best value of a server by branch and bound, which has a test of its own."""
    there = [item for item in (item.within(free) for item in items) if len(item.gains)]
    found = solved_knapsack(there, free) if there else None
    return 0.0 if found is None else found.value


@pytest.mark.parametrize("seed", range(12))
def test_no_pattern_is_paid_more_than_the_bound(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """However coarse the units are, and whatever the multipliers of the third resource."""
    rng = np.random.default_rng(seed)
    items = coarse_table_random_items(seed)
    for steps in (2, 5, 100):
        monkeypatch.setattr(
            "clusterplan.solvers.consolidation.patterns.knapsack_pricing.SETTINGS",
            SETTINGS.__class__(most_coarse_steps=steps, most_coarse_cells=steps * steps),
        )
        bounds = CoarseTable(items, COARSE_TABLE_FREE, rng.random(3)).bounds(COARSE_TABLE_FREE)
        assert all(
            bound >= best(items, free) - 1e-9 for bound, free in zip(bounds, COARSE_TABLE_FREE, strict=True)
        )


@pytest.mark.parametrize("seed", range(12))
def test_two_resources_in_their_own_units_are_exact(seed: int) -> None:
    """Bound and pattern are the optimum, up to the rounding of values to integers."""
    items, free = coarse_table_random_items(seed), COARSE_TABLE_FREE.copy()
    free[:2, 2] = 1000
    table = CoarseTable(items, free, np.array([1.0, 1.0, 0.0]))
    for bound, row in zip(table.bounds(free), free, strict=True):
        assert bound == pytest.approx(best(items, row), abs=1e-6)
        chosen = [(items[i], slot) for i, slot in table.slots(row).items()]
        assert sum(float(item.gains[slot]) for item, slot in chosen) == pytest.approx(bound, abs=1e-6)
        assert (sum((item.weights[slot] for item, slot in chosen), np.zeros(3)) <= row).all()


def test_one_resource_has_one_axis() -> None:
    """Three tasks of three units fit in ten."""
    tasks = np.arange(1, 6)
    item = Item(0, tasks - 1, 3 * tasks[:, None], tasks * 1.0, single=True)
    table = CoarseTable([item], np.array([[10]]), np.array([1.0]))
    assert table.bounds(np.array([[10], [5]])) == pytest.approx([3, 1], abs=1e-6)
    assert table.slots(np.array([10])) == {0: 2}


def test_without_items_the_bound_is_zero() -> None:
    """A pool of which nothing is paid."""
    assert CoarseTable([], COARSE_TABLE_FREE, np.zeros(3)).bounds(COARSE_TABLE_FREE).tolist() == [0, 0, 0]


def tasks(k: int, need: list[int], gain: float, most: int) -> Item:
    """Return up to so many equal tasks."""
    count = np.arange(1, most + 1)
    return Item(k, count - 1, count[:, None] * np.array(need), count * gain, single=True)


ITEMS = [tasks(0, [4, 1], 1.0, 5), tasks(1, [1, 4], 3.0, 5), tasks(2, [1, 1], 0.5, 2)]


def test_the_least_dense_is_left_out() -> None:
    """Three of the first shape take too much of the first resource; the second shape takes little of it."""
    assert PatternRepair(ITEMS).repaired({0: 2, 1: 0}, np.array([9, 8])) == {0: 1, 1: 0}


def test_what_is_left_is_filled() -> None:
    """The densest first, as many as fit; then the next."""
    assert PatternRepair(ITEMS).repaired({}, np.array([4, 10])) == {1: 1, 2: 1}


@pytest.mark.parametrize("seed", range(10))
def test_every_pattern_fits_and_is_full(seed: int) -> None:
    """Whatever it was, and whatever the order in which it is filled."""
    rng = np.random.default_rng(seed)
    slots = {0: int(rng.integers(5)), 1: int(rng.integers(5)), 2: int(rng.integers(2))}
    free = rng.integers(0, 12, 2)
    found = PatternRepair(ITEMS).repaired(slots, free, rng)
    taken = sum((ITEMS[i].weights[slot] for i, slot in found.items()), np.zeros(2))
    assert (taken <= free).all()
    for i, item in enumerate(ITEMS):
        more = found.get(i, -1) + 1
        assert more == len(item.gains) or (taken + item.weights[0] > free).any()


def test_one_slot_of_a_shape_is_chosen() -> None:
    """The best that fits, and none beside one that is there."""
    item = Item(0, np.arange(2), np.array([[2, 2], [3, 3]]), np.array([1.0, 5.0]), single=False)
    repair = PatternRepair([item])
    for taken, free, expected in (
        ({}, [9, 9], {0: 1}),
        ({}, [2, 2], {0: 0}),
        ({0: 0}, [9, 9], {0: 0}),
        ({0: 1}, [2, 9], {0: 0}),
    ):
        assert repair.repaired(taken, np.array(free)) == expected


def test_without_items_there_is_no_pattern() -> None:
    """Nothing is paid, so nothing is held."""
    assert PatternRepair([]).repaired({}, np.array([1])) == {}


CLASSES = ConsolidationFormulation(
    generate_consolidation(8, 6, gpus_per_server=4, load=1.2, preferred_share=0.6, seed=2)
).classes


@pytest.mark.parametrize("seed", range(10))
def test_the_best_pattern_of_each_class(seed: int) -> None:
    """Its value is the most that any selection of slots within what is free is paid."""
    rng = random.Random(seed)
    paid = [np.array([rng.choice([0.0, rng.random()]) for _ in slots]) for slots in CLASSES.slots]
    for pool in CLASSES.usages:
        for number, most, pattern in ServerPricing(CLASSES, pool).best(paid):
            server = CLASSES.servers[number]
            shapes = CLASSES.shapes_of(pool)
            options = [[None, *range(len(CLASSES.slots[k]))] for k in shapes]
            best = 0.0
            for chosen in itertools.product(*options):
                pairs = [(k, i) for k, i in zip(shapes, chosen, strict=True) if i is not None]
                taken = sum((CLASSES.weights(k, CLASSES.slots[k][[i]])[0] for k, i in pairs), np.zeros(1))
                if (taken <= np.array(server.free)).all():
                    best = max(best, sum(paid[k][i] for k, i in pairs))
            assert most == pytest.approx(best)
            assert sum(paid[k][i] for k, i in pattern) == pytest.approx(best)


def test_patterns_within_reach_are_all_listed() -> None:
    """Each of them is paid enough, is full, and is listed once."""
    paid = [np.ones(len(slots)) for slots in CLASSES.slots]
    for pool in CLASSES.usages:
        listed = ServerPricing(CLASSES, pool).within(paid, np.ones(len(CLASSES.servers)), 10_000)
        assert listed
        assert len(set(listed)) == len(listed)
        assert all(sum(paid[k][i] for k, i in pattern) >= 1 for _, pattern in listed)
        assert ServerPricing(CLASSES, pool).within(paid, np.zeros(len(CLASSES.servers)), 1) is None
