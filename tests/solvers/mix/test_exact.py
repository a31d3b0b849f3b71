"""`exact` for a mix: the optimum of our own enumeration, ends before time, warm starts, diagnoses."""

from __future__ import annotations

from typing import Any

import pytest
from mix_truth import best_values, instances_of

import clusterplan
from clusterplan.formulations.mix.formulation import MixFormulation
from clusterplan.instances.mix.generate import generate_mix
from clusterplan.instances.mix.instance import MixInstance
from clusterplan.instances.mix.kind import Mix
from clusterplan.solvers.backends.base import BackendError
from clusterplan.solvers.common.result import Result, SolveOptions
from clusterplan.solvers.mix.exact import MixExact
from clusterplan.solvers.mix.relaxation import Relaxation

BATCHES = [(0, 30), *(pytest.param(1000 * k, 118, marks=pytest.mark.slow) for k in range(1, 5))]


@pytest.mark.parametrize("serves", [False, True])
@pytest.mark.parametrize(("first", "count"), BATCHES)
def test_the_optimum_is_that_of_another_enumeration(serves: bool, first: int, count: int) -> None:
    """Certified in both objectives; `milp:highs` says the same."""
    for instance in instances_of(serves, first, count):
        best = best_values(instance)
        for solver in (MixExact.name, "milp:highs"):
            result = clusterplan.solve(instance, solver)
            assert result.status == ("optimal" if best else "infeasible"), (instance.name, solver)
            assert clusterplan.verify(instance, result).ok
            for record, value in zip(result.objectives, best or (), strict=bool(best)):
                assert record.value == pytest.approx(value, rel=1e-9, abs=1e-9), (instance.name, solver)
                assert record.certified_bound == pytest.approx(value, rel=1e-8, abs=1e-8), instance.name


def jobs(limit: int = 10**9, **fields: Any) -> MixInstance:
    """Return two types of a thousand million jobs, alone and in pairs."""
    built = Mix(**fields).add_jobs("a", 10**9).add_jobs("b", 10**9 - 1).add_hardware("g", limit=limit)
    return built.add_group("g", {"a": 1.0}).add_group("g", {"a": 0.7, "b": 0.6}).build()


def requests(a: float, b: float, price: float = 1.0, **fields: Any) -> MixInstance:
    """Return requests at rates of this size, and replicas that serve a few times as many."""
    built = Mix(**fields).add_requests("a", a).add_requests("b", 3 * b).add_hardware("g", price)
    built.add_replica("g", {"a": a, "b": 1.1 * b})
    return built.add_replica("g", {"a": 2.1 * a, "b": 1.4 * b}, devices=2).build()


@pytest.mark.parametrize(
    ("instance", "values"),
    [
        pytest.param(jobs(), (1.3e9 - 0.3, 0.6), id="1e9 jobs"),
        pytest.param(jobs(must_run=True), (1.3e9 - 0.3, 0.6), id="all of them"),
        pytest.param(jobs(must_run=True, limit=10**9 - 1), None, id="one GPU too few"),
        pytest.param(jobs(least_progress=0.65), (1e9, 1.0), id="the least progress"),
        pytest.param(jobs(limit=0), (0.0, 0.0), id="no GPUs"),
        pytest.param(jobs(must_run=True, limit=0), None, id="no GPUs for jobs that must run"),
        pytest.param(requests(1e-9, 1e-9), (4.0, 4.0), id="rates of 1e-9"),
        pytest.param(requests(1e12, 1e12), (4.0, 4.0), id="rates of 1e12"),
        pytest.param(requests(1e12, 1e-9), (4.0, 4.0), id="both"),
        pytest.param(requests(1, 1, budget_usd_per_hour=4), (4, 4), id="budget"),
        pytest.param(requests(1, 1, budget_usd_per_hour=3.9), None, id="a budget too small"),
        pytest.param(requests(1, 1, price=0.1, budget_usd_per_hour=0.4), (0.4, 4), id="0.1 four times"),
        pytest.param(requests(1, 1, devices=4), (4.0, 4.0), id="devices"),
        pytest.param(requests(1, 1, devices=3), None, id="too few devices"),
        pytest.param(requests(1, 1, price=0.0), (0.0, 4.0), id="free"),
    ],
)
def test_limits_and_sizes(instance: MixInstance, values: tuple[float, float] | None) -> None:
    """Of counts, rates and prices."""
    result = clusterplan.solve(instance, "exact", time_limit_s=20)
    assert result.status == ("infeasible" if values is None else "optimal")
    assert tuple(o.value for o in result.objectives) == pytest.approx(values or (), rel=1e-9)
    checked = clusterplan.verify(instance, result)
    assert checked.ok
    assert not checked.claimed


def test_a_thousand_types() -> None:
    """All in one pair each."""
    built = Mix().add_hardware("g", limit=600)
    for number in range(1000):
        built.add_jobs(f"t{number}", 1)
    for number in range(999):
        built.add_group("g", {f"t{number}": 0.5, f"t{number + 1}": 0.6})
    result = clusterplan.solve(built.build(), "exact")
    assert (result.status, result.objectives[0].value) == ("optimal", pytest.approx(550))


@pytest.fixture(scope="module")
def hard() -> tuple[MixInstance, Result]:
    """Return an instance whose proof takes more than a tenth of a second, and what is found till then."""
    instance = generate_mix(10, 4, 400, load=60, seed=1)
    return instance, clusterplan.solve(instance, "exact", time_limit_s=0.1)


def test_little_time_leaves_a_plan_with_a_bound(hard: tuple[MixInstance, Result]) -> None:
    """An unfinished tree proves what its leaves say."""
    instance, result = hard
    assert result.status == "feasible"
    assert result.certified_bound is not None
    assert 0 < result.certified_bound < result.objectives[0].value
    assert clusterplan.verify(instance, result).ok


@pytest.mark.parametrize(
    ("most", "says"), [(0, "exact: HiGHS ended"), (30, "HiGHS ended"), (161, None), (200, None)]
)
def test_what_was_proven_stays_where_highs_fails(
    most: int, says: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the root, in the first tree, in the second: a tree as far as it was made is the certificate."""
    instance, runs, run = generate_mix(3, 3, 60, load=90, seed=3), [0], Relaxation._run

    def fails(self: Relaxation, *given: Any) -> bool | None:
        runs[0] += 1
        if runs[0] > most:
            raise BackendError("HiGHS ended")
        return run(self, *given)

    assert clusterplan.solve(instance, "exact").status == "optimal"
    monkeypatch.setattr(Relaxation, "_run", fails)
    result = clusterplan.solve(instance, "exact")
    assert (result.message, result.status) == (says, "feasible")
    assert (result.certificate is None) == (most == 0)
    assert clusterplan.verify(instance, result).ok


def test_a_warm_start_is_not_lost() -> None:
    """The optimum of a longer solve is the plan of one without time."""
    instance = generate_mix(8, 3, 200, load=60, seed=1)
    best = clusterplan.solve(instance, "exact", time_limit_s=20)
    assert best.plan is not None
    options = SolveOptions(time_limit_s=0.05, warm_start=best.plan)
    again = clusterplan.solve(instance, "exact", options)
    assert again.objectives[0].value <= best.objectives[0].value * (1 + 1e-9)


def test_a_diagnosis_names_what_is_in_the_way() -> None:
    """The rows with prices."""
    instance = requests(1, 1, devices=3)
    result = clusterplan.solve(instance, "exact")
    assert result.diagnosis is not None
    assert "devices" in result.diagnosis.reasons[0]


def test_prices_are_what_one_more_is_worth() -> None:
    """One more GPU, where pairs are alike."""
    result = clusterplan.solve(jobs(limit=10), "exact")
    assert result.prices is not None
    assert result.prices["g"] == pytest.approx(1.3)
    assert result.message is not None
    assert "one more g would raise" in result.message
    assert MixFormulation(jobs(limit=10)).prices({"first": {}}, []) is None


def test_one_more_is_worth_what_it_brings_and_not_what_the_last_one_brought() -> None:
    """As many devices as jobs of the better type."""
    mix = Mix().add_jobs("a", 2000).add_jobs("b", 3000).add_hardware("g", limit=2000)
    instance = mix.add_group("g", {"a": 1.0}).add_group("g", {"b": 0.2}).build()
    assert clusterplan.solve(instance, "exact").prices == pytest.approx({"a": 0.8, "b": 0.0, "g": 0.2})


@pytest.mark.parametrize(
    ("rate", "asked", "price"),
    [(1e-12, 1e-300, 1e10), (1.0, 999_999_998.0, 1.0), (1e-12, 9.9e-4, 1.0), (2e6, 1e15, 1.0)],
)
def test_extreme_figures_make_no_wrong_claim(rate: float, asked: float, price: float) -> None:
    """Nothing is infeasible by an infinite figure alone, and nothing fails with an error of Python."""
    instance = Mix().add_requests("a", asked).add_hardware("g", price).add_replica("g", {"a": rate}).build()
    for solver in ("exact", "one-configuration", "cheapest-for-each-type"):
        result = clusterplan.solve(instance, solver, time_limit_s=5)
        assert result.status in ("optimal", "feasible", "unknown", "infeasible")
        assert clusterplan.verify(instance, result).ok
    if asked < rate:
        assert clusterplan.solve(instance).plan is not None


@pytest.mark.parametrize("rate", [1e-3, 1e-9, 1e-15, 1e-200])
def test_few_requests_of_a_type_are_served_beside_many_of_another(rate: float) -> None:
    """What no tolerance hides: they need a copy that has time left."""
    mix = Mix().add_requests("a", rate).add_requests("b", 4).add_hardware("g", 1.0)
    instance = mix.add_replica("g", {"a": 3}, name="a").add_replica("g", {"a": 2, "b": 1.1}).build()
    result = clusterplan.solve(instance, "exact")
    assert (result.status, result.objectives[0].value) == ("optimal", 4.0)


def test_nothing_to_run_is_a_plan() -> None:
    """No group can have a copy."""
    built = Mix().add_jobs("a", 0).add_hardware("g", limit=2).add_group("g", {"a": 1.0})
    result = clusterplan.solve(built.build())
    assert (result.status, result.plan) == ("optimal", ())
