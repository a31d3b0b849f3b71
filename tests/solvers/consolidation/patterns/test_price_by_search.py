"""Pricing by search, against pricing by the table of all sums."""

from __future__ import annotations

import dataclasses
import random

import numpy as np
import pytest
from placements import job, placement, server
from random_instances import random_consolidation

from clusterplan.formulations.consolidation.classes import ClassTable
from clusterplan.formulations.consolidation.formulation import ConsolidationFormulation
from clusterplan.instances.consolidation.generate import generate_consolidation
from clusterplan.instances.consolidation.instance import ConsolidationInstance
from clusterplan.solvers.consolidation.patterns.price_by_search import SearchPricing
from clusterplan.solvers.consolidation.patterns.price_servers import ServerPattern, ServerPricing
from clusterplan.solvers.consolidation.settings import ExactSettings

TABLE = "clusterplan.solvers.consolidation.patterns.coarse_table.SETTINGS"


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
        assert isinstance(instance, ConsolidationInstance)
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


def test_patterns_are_not_listed() -> None:
    """Whoever asks for all of them is told that there are too many."""
    classes = dataclasses.replace(ConsolidationFormulation(generate_consolidation(4, 4, seed=1)).classes)
    pools = list(classes.usages)
    assert SearchPricing(classes, pools[0]).within([], np.zeros(0), 10) is None
