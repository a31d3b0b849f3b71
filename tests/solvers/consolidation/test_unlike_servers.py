"""Servers of several GPU models and of unlike amounts."""

from __future__ import annotations

import random
from typing import Any

import pytest
from device_instances import job, server
from random_instances import unlike_consolidation

import clusterplan
from clusterplan.formulations.consolidation import build_classes
from clusterplan.formulations.consolidation.check import bounds as check_certificate
from clusterplan.formulations.consolidation.check import server_prices
from clusterplan.formulations.consolidation.formulation import ConsolidationFormulation
from clusterplan.instances.common.errors import InstanceError
from clusterplan.instances.consolidation.instance import ConsolidationInstance
from clusterplan.planner.verification import verify
from clusterplan.solvers.common.result import Result, SolveOptions
from clusterplan.solvers.registry import find_solver
from clusterplan.solvers.run import solve_with


def solved(instance: ConsolidationInstance, name: str) -> Result:
    """Return the result of a method."""
    return solve_with(instance, find_solver(name, "consolidation"), SolveOptions())


def without_tables(patch: pytest.MonkeyPatch, methods: bool = True) -> None:
    """Let the check search, and the methods as well, as if there were too many sums."""
    patch.setattr(server_prices, "MAX_MERGED", -1)
    if methods:
        patch.setattr(build_classes, "MAX_USAGES", 0)


BATCHES = [
    range(4),
    *(pytest.param(range(first, first + 25), marks=pytest.mark.slow) for first in range(4, 204, 25)),
]


@pytest.mark.parametrize("seeds", BATCHES, ids=str)
@pytest.mark.parametrize("methods", [True, False])
def test_exact_agrees_with_brute_force(methods: bool, seeds: range, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether the methods have a table or not: the same values, and no bound that is beyond them."""
    for seed in seeds:
        instance = unlike_consolidation(seed)
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
    monkeypatch.setattr(check_certificate, "no_better_placement", lambda *_: None)
    rng, weaker = random.Random(1), 0
    for seed in range(15):
        instance = unlike_consolidation(seed)
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


DOCUMENT: dict[str, Any] = {
    "schema_version": 1,
    "kind": "consolidation",
    "name": "models",
    "servers": [
        {**server("a", gpu=4), "gpu_model": "A"},
        {**server("b", gpu=4), "gpu_model": "B"},
        server("c", gpu=4),
    ],
    "jobs": [
        job("either", 2, {"gpu": 2}, gpu_model=["B", "A"]),
        job("only a", 1, {"gpu": 4}, gpu_model="A"),
        job("any", 1, {"gpu": 4}),
        job("none", 1, {"gpu": 4}, gpu_model=["D", "C"]),
    ],
}


def _with(models: Any) -> Any:
    first, *others = DOCUMENT["jobs"]
    return clusterplan.parse_instance({**DOCUMENT, "jobs": [{**first, "gpu_model": models}, *others]})


@pytest.mark.parametrize("solver", ["exact", "brute-force", "milp:highs", "cp-sat"])
def test_a_job_goes_to_any_of_its_models(solver: str) -> None:
    """The optimum needs it on B, for another job can only be on A; the certificate says so too."""
    result = clusterplan.solve(clusterplan.parse_instance(DOCUMENT), solver=solver)
    assert [entry.servers for entry in result.plan] == [{"b": 2}, {"a": 1}, {"c": 1}, {}]
    assert result.objectives[0].certified_bound == result.objectives[0].value == 12.0
    reason = result.plan[-1].reason
    assert reason == "never fits: no server has the GPU model 'C' or 'D'; there are: 'A', 'B'"


@pytest.mark.parametrize("solver", ["best-fit", "first-fit-decreasing", "consolidate-or-wait"])
def test_heuristics_keep_to_the_models(solver: str) -> None:
    """Every constraint of their plans is checked."""
    result = clusterplan.solve(clusterplan.parse_instance(DOCUMENT), solver=solver)
    assert result.status == "feasible"


def test_a_plan_on_another_model_is_no_plan() -> None:
    """The job of two models stands on a server without any."""
    formulation = ConsolidationFormulation(_with(["A", "B"]))
    left = [{"job": job.name, "placed": False} for job in formulation.instance.jobs[1:]]
    plan = formulation.parse_plan([{"job": "either", "servers": {"c": 2}}, *left])
    assert list(map(str, formulation.violations(plan))) == [
        "gpu_model: job 'either' needs A or B; 'c' has another model"
    ]


def test_models_mean_the_same_in_any_order_and_number() -> None:
    """They are sorted, and one alone is no list."""
    assert _with(["B", "A", "B"]).jobs[0].gpu_model == ("A", "B")
    assert _with(["B"]).jobs[0].gpu_model == "B"


@pytest.mark.parametrize(
    ("models", "fault"),
    [
        (5, "jobs[0].gpu_model: is 5, which is not text; write it in quotes"),
        ([], "jobs[0].gpu_model: has 0 entries; at least 1 needed"),
        (["A", 3], "jobs[0].gpu_model[1]: is 3, which is not text; write it in quotes"),
    ],
)
def test_wrong_models_are_refused_in_words(models: Any, fault: str) -> None:
    """With the place in the document."""
    with pytest.raises(InstanceError) as error:
        _with(models)
    assert fault in str(error.value)
