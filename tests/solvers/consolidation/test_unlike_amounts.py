"""Amounts and values with many digits: plans, bounds and certificates agree with brute force."""

from __future__ import annotations

import random
from typing import Any

import pytest
from random_instances import unlike_consolidation

from clusterplan.formulations.consolidation import build_classes
from clusterplan.formulations.consolidation.check import bounds as check_certificate
from clusterplan.formulations.consolidation.check import server_prices
from clusterplan.formulations.consolidation.formulation import ConsolidationFormulation
from clusterplan.instances.consolidation.instance import ConsolidationInstance
from clusterplan.planner.verification import verify
from clusterplan.solvers.common.result import Result, SolveOptions
from clusterplan.solvers.registry import find_solver
from clusterplan.solvers.run import solve_with


def solved(instance: ConsolidationInstance, name: str) -> Result:
    """Return the result of a method."""
    return solve_with(instance, find_solver(name, "consolidation"), SolveOptions())


def of_seed(seed: int) -> ConsolidationInstance:
    """Return a random instance."""
    instance = unlike_consolidation(seed)
    assert isinstance(instance, ConsolidationInstance)
    return instance


def without_tables(patch: pytest.MonkeyPatch, methods: bool = True) -> None:
    """Let the check search, and the methods as well, as if there were too many sums."""
    patch.setattr(server_prices, "MOST_MERGED", -1)
    if methods:
        patch.setattr(build_classes, "MOST_USAGES", 0)


BATCHES = [
    range(4),
    *(pytest.param(range(first, first + 25), marks=pytest.mark.slow) for first in range(4, 204, 25)),
]


@pytest.mark.parametrize("seeds", BATCHES, ids=str)
@pytest.mark.parametrize("methods", [True, False])
def test_exact_agrees_with_brute_force(methods: bool, seeds: range, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether the methods have a table or not: the same values, and no bound that is beyond them."""
    for seed in seeds:
        instance = of_seed(seed)
        best = solved(instance, "brute-force")
        with monkeypatch.context() as patch:
            without_tables(patch, methods)
            found = solved(instance, "exact")
            assert verify(instance, found).ok, seed
        assert found.status == best.status, seed
        for ours, right in zip(found.objectives, best.objectives, strict=True):
            assert ours.value == pytest.approx(right.value, rel=1e-9), seed
            assert ours.certified_bound is not None, seed


def _with_a_price_off(certificate: dict[str, Any], rng: random.Random) -> dict[str, Any] | None:
    """Return a certificate with one price far off; None if it has none."""
    goals = [
        {**goal, "prices": [list(shape) for shape in goal["prices"]]} for goal in certificate.get("goals", [])
    ]
    places = [
        (g, k, i)
        for g, goal in enumerate(goals)
        for k, shape in enumerate(goal["prices"])
        for i, price in enumerate(shape)
        if price > 0
    ]
    if not places:
        return None
    g, k, i = rng.choice(places)
    goals[g]["prices"][k][i] *= rng.choice([0.0, 5.0])
    return {**certificate, "goals": goals}


def test_prices_that_are_off_prove_no_more_than_is_true(monkeypatch: pytest.MonkeyPatch) -> None:
    """Searched or looked up, bounds of forged prices are the same; they hold, and some are weaker."""
    # Where prices are off, enumeration would close what they leave open.
    monkeypatch.setattr(check_certificate, "none_better", lambda *_: None)
    rng, weaker = random.Random(1), 0
    for seed in range(15):
        instance = of_seed(seed)
        found = solved(instance, "exact")
        forged = _with_a_price_off(found.certificate or {}, rng)
        if forged is None or found.status != "optimal":
            continue
        values = [record.value for record in found.objectives if record.value is not None]
        listed = ConsolidationFormulation(instance).certified_bounds(forged, values)
        with monkeypatch.context() as patch:
            without_tables(patch)
            formulation = ConsolidationFormulation(instance)
            searched = formulation.certified_bounds(forged, values)
        assert searched == pytest.approx(listed, rel=1e-9), seed
        for objective, value, bound in zip(formulation.objectives, values, searched, strict=True):
            assert bound is not None
            assert not objective.better(value, bound) or value == pytest.approx(bound, rel=1e-9)
            weaker += value != pytest.approx(bound, rel=1e-9)
    assert weaker > 1
