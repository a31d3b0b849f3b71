"""Exact staging of chains, its certificates, and limits of memory by type."""

from __future__ import annotations

import itertools
import math
import random
from typing import Any

import numpy as np
import pytest
from random_instances import random_staging
from staging_instances import alone, half_serial, two_layers

import clusterplan
from clusterplan.formulations.staging.check.interval_bounds import derive_segments
from clusterplan.formulations.staging.formulation import StagingFormulation
from clusterplan.formulations.staging.stages import Stage
from clusterplan.instances.common.errors import OutOfTimeError
from clusterplan.instances.staging.generate import generate_staging
from clusterplan.instances.staging.generate_ctr import generate_ctr
from clusterplan.instances.staging.instance import StagingInstance
from clusterplan.solvers.common.base import Clock, Outcome
from clusterplan.solvers.common.result import SolveOptions
from clusterplan.solvers.staging import search as staging_search
from clusterplan.solvers.staging.exact import certificate, certify, incumbent_of, intervals_of, what_if_text
from clusterplan.solvers.staging.intervals import Cheapest, Fastest, Interval


def one_layer(**fields: Any) -> StagingInstance:
    """Return a layer of one second, all of it parallel, on one type."""
    kind = {"name": "t", "price_usd_per_hour": 1.0, **fields.pop("type", {})}
    layer = {"name": "a", "compute_s": {"t": 1.0}, "compute_parallel": 1.0, **fields.pop("layer", {})}
    return StagingInstance.model_validate(
        {
            "name": "one",
            "training": {"samples": 3600},
            "probe_batch": 1,
            "types": [kind],
            "layers": [layer],
            **fields,
        }
    )


@pytest.mark.parametrize(
    "first", [0, *(pytest.param(first, marks=pytest.mark.slow) for first in range(100, 500, 100))]
)
def test_exact_is_brute_force_and_certified(first: int) -> None:
    """Same status and value on 500 instances of all features, and nothing is left to the solver's word."""
    for seed in range(first, first + 100):
        instance = random_staging(seed)
        expected = clusterplan.solve(instance, "brute-force")
        result = clusterplan.solve(instance, "exact")
        assert result.status == expected.status, seed
        verification = clusterplan.verify(instance, result)
        assert verification.ok, (seed, verification.faults)
        assert not verification.claimed, (seed, verification.claimed)
        if expected.objective is not None:
            assert result.objective == pytest.approx(expected.objective, rel=1e-6), seed
            assert result.certified_gap <= 1e-6, seed


@pytest.mark.parametrize("limits", ["none", "loose", "tight"])
@pytest.mark.parametrize("seed", range(4))
def test_exact_is_never_beaten(limits: str, seed: int) -> None:
    """On chains of six layers no mixed-integer model and no heuristic finds a better plan."""
    instance = generate_staging(6, 3, limits, seed % 2 == 0, seed > 1, seed)  # type: ignore[arg-type]
    best = clusterplan.solve(instance, "exact")
    assert best.status == "optimal"
    assert best.objective is not None
    for name in ("milp:highs", "single-type", "greedy"):
        if name == "milp:highs" and limits == "none":
            continue  # an explicit model needs limits to be small
        other = clusterplan.solve(instance, name, SolveOptions(time_limit_s=20))
        if other.objective is not None:
            assert other.objective >= best.objective * (1 - 1e-6)
        if other.status == "optimal":
            assert other.objective == pytest.approx(best.objective, rel=1e-6)


def test_a_limit_shorter_than_compiling_gives_the_plan_of_a_heuristic(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And says that the time was up."""

    def late(*_: Any) -> None:
        raise OutOfTimeError("compiling its loops takes longer")

    instance = generate_staging(6, 3, "loose", seed=0)
    clusterplan.solve(instance, "exact")  # the check's loops are compiled
    monkeypatch.setattr(staging_search.Segments, "of", late)
    result = clusterplan.solve(instance, "exact", SolveOptions(time_limit_s=5))
    assert (result.status, result.limit) == ("feasible", "time")
    assert result.certified_gap is not None


@pytest.mark.slow
def test_a_chain_of_fifty_layers_with_all_limits_binding_is_certified() -> None:
    """Prices, labels and cores close what a mixed-integer model of the whole does not."""
    instance = generate_staging(50, 8, "tight", seed=2)
    result = clusterplan.solve(instance, "exact")
    assert result.status == "optimal"
    assert not clusterplan.verify(instance, result).claimed


@pytest.mark.parametrize("objective", ["throughput", "time"])
@pytest.mark.parametrize("limit", [1000, 100_000, None])
def test_the_fastest_plan_is_not_approached_unit_by_unit(objective: str, limit: int | None) -> None:
    """With hundreds of thousands of units the search halves, and does not walk along breakpoints."""
    layers = [
        {"name": n, "compute_s": {"t": s}, "compute_parallel": 0.99} for n, s in (("a", 1.0), ("b", 1.4))
    ]
    kind = {"name": "t", "price_usd_per_hour": 1, "limit": limit}
    instance = one_layer(objective=objective).model_copy(deep=True)
    document = instance.model_dump(mode="json") | {"layers": layers, "types": [kind]}
    result = clusterplan.solve(clusterplan.parse_instance(document), "exact")
    assert result.status == "optimal"
    assert len(result.certificate["intervals"]) < 200


@pytest.mark.parametrize(
    ("price", "budget"), [(1e-6, 2.9999e-6), (0.1, 0.2999999991), (1e6, 2999999.9955), (0.1, 0.3)]
)
def test_a_budget_at_a_knife_edge_ends(price: float, budget: float) -> None:
    """Where limits are within rounding of a plan the search still ends, with brute force's answer."""
    instance = one_layer(
        objective="time", hourly_budget_usd=budget, type={"price_usd_per_hour": price, "limit": 9}
    )
    result = clusterplan.solve(instance, "exact", SolveOptions(time_limit_s=20))
    assert result.status == "optimal"
    assert result.objective == pytest.approx(clusterplan.solve(instance, "brute-force").objective, rel=1e-6)


def test_a_floor_of_tiny_stage_times_is_as_loose_as_the_check() -> None:
    """Search, certificate and check of a plan accept the same stage times, however small."""
    instance = one_layer(
        throughput_floor_samples_per_s=1.0000005e12,
        layer={"compute_s": {"t": 1e-12}},
        type={"limit": 1},
    )
    result = clusterplan.solve(instance, "exact")
    assert result.status == "optimal"
    assert result.plan == clusterplan.solve(instance, "brute-force").plan


@pytest.mark.parametrize("objective", ["cost", "throughput"])
def test_a_time_limit_is_kept_honestly(objective: str) -> None:
    """A search that is stopped returns what it has, with the bound of what it has not looked at."""
    instance = generate_staging(60, 8, "tight", seed=1).model_copy(update={"objective": objective})
    result = clusterplan.solve(instance, "exact", SolveOptions(time_limit_s=0.3))
    assert result.status in ("feasible", "unknown")
    assert result.limit == "time"
    assert clusterplan.verify(instance, result).ok


def test_an_interrupt_loses_no_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C in the middle of a step ends the search with the plan and bounds from before it."""
    original, calls = staging_search.Search._split, itertools.count()

    def interrupted(*arguments: Any) -> Any:
        if next(calls) == 3:
            raise KeyboardInterrupt
        return original(*arguments)

    monkeypatch.setattr(staging_search.Search, "_split", interrupted)
    instance = generate_ctr(16, 0)
    result = clusterplan.solve(instance, "exact")
    assert result.limit == "interrupt"
    assert result.plan is not None
    assert clusterplan.verify(instance, result).ok


def test_a_warm_start_bounds_the_search() -> None:
    """Started from the optimum the search returns it, or one as good."""
    instance = generate_staging(10, 3, "tight", seed=3)
    first = clusterplan.solve(instance, "exact")
    start = tuple(stage.model_dump() for stage in first.plan)
    again = clusterplan.solve(instance, "exact", SolveOptions(warm_start=start))
    assert again.objective == pytest.approx(first.objective, rel=1e-6)


def test_types_without_limit_need_no_bound_on_units() -> None:
    """A free type, all parallel and without a limit: the cheapest plan costs nothing."""
    instance = one_layer(throughput_floor_samples_per_s=100, type={"price_usd_per_hour": 0})
    result = clusterplan.solve(instance, "exact")
    assert result.objective == 0
    assert result.status == "optimal"


@pytest.mark.slow
def test_a_large_instance_with_limits_gets_a_plan_and_a_certified_gap() -> None:
    """Where the optimum is out of reach there is a plan, and a bound that the check derives."""
    instance = generate_staging(80, 16, "tight", seed=0)
    result = clusterplan.solve(instance, "exact", SolveOptions(time_limit_s=6))
    assert result.plan is not None
    assert result.certified_gap < 0.5


def test_what_more_units_would_save() -> None:
    """The what-if names the types that are used up, with the saving of the optimum without their limit."""
    instance = clusterplan.load("example:opt-350-three-gpus")
    options = SolveOptions(method_options={"what_if": True})
    result = clusterplan.solve(instance, "exact", options)
    types = tuple(
        kind.model_copy(update={"limit": None}) if kind.name == "A100-40" else kind for kind in instance.types
    )
    free = clusterplan.solve(instance.model_copy(update={"types": types}), "exact")
    assert f"{result.objective - free.objective:.6g} USD less" in (result.message or "")
    assert "V100" not in (result.message or "")


def test_a_bound_gets_a_certificate_that_proves_it() -> None:
    """A method that says that one dollar is the least cost is right, and 1.2 is refuted."""
    formulation = StagingFormulation(half_serial(4))
    right = Outcome((alone(1),), (1.0,))
    certify(formulation, right, Clock())
    assert formulation.certified_bounds(right.certificate) == (pytest.approx(1.0, rel=1e-8),)
    wrong = Outcome((alone(2),), (1.2,))
    certify(formulation, wrong, Clock())
    assert (wrong.bounds, wrong.certificate) == ((), None)
    assert "refutes" in (wrong.message or "")


def test_a_wrong_proof_that_there_is_no_plan_is_left_out() -> None:
    """The search finds one."""
    outcome = Outcome(infeasible=True)
    certify(StagingFormulation(half_serial(4)), outcome, Clock())
    assert not outcome.infeasible


def test_the_saving_is_that_of_the_plan_without_the_limit() -> None:
    """3600 probe batches take 0.75 s each on two units, 0.6 s on five."""
    formulation = StagingFormulation(half_serial(2, objective="time"))
    asked: list[int | None] = []

    def solve(other: StagingFormulation) -> tuple[Stage, ...]:
        asked.append(other.instance.types[0].limit)
        return (alone(5),)

    assert "t: 3 more units, 540 s less" in what_if_text(formulation, (alone(2),), solve)
    assert asked == [None]


def test_no_gain_and_no_time_are_said() -> None:
    """The same plan gains nothing; a search without time says so."""
    formulation = StagingFormulation(half_serial(2, objective="time"))
    assert what_if_text(formulation, (alone(2),), lambda _: (alone(2),)).endswith("t: nothing")
    assert what_if_text(formulation, (alone(2),), lambda _: None).endswith("t: no time to tell")


def test_types_that_are_left_over_are_not_asked_about() -> None:
    """Then nothing is solved at all."""
    plan = (Stage(first_layer=0, last_layer=1, type="slow", units=1),)

    def solve(other: StagingFormulation) -> None:
        raise AssertionError(other)

    assert "no type is used up" in what_if_text(StagingFormulation(two_layers()), plan, solve)


def interval(low: float, high: float, price: float, counts_cost: bool = True) -> Interval:
    return Interval(low, high, np.zeros(1), np.zeros(1), np.array([price]), counts_cost)


def test_intervals_become_those_of_a_certificate() -> None:
    """The stage times before the first are one more; the last goes on for ever."""
    formulation = StagingFormulation(half_serial())
    found = intervals_of(formulation, [interval(0.5, 0.7, 2.0, False), interval(0.7, 1.0, 0.0)], 1.0)
    assert found == [
        {"until_s": math.nextafter(0.5, 0)},
        {"until_s": 0.7, "prices": {"t": 2.0}, "counts_cost": False},
        {"until_s": 1e100},
    ]


def test_a_cutoff_lies_just_beyond_the_bound() -> None:
    """Below a cost, above a throughput; there is none for a bound that the form does not hold."""
    cost = certificate(StagingFormulation(half_serial()), [], 2.0, 1.0)
    assert 2.0 * (1 - 1e-8) < cost["cutoff"] < 2.0
    speed = certificate(StagingFormulation(half_serial(objective="throughput")), [], 2.0, 1.0)
    assert 2.0 < speed["cutoff"] < 2.0 * (1 + 1e-8)
    assert certificate(StagingFormulation(half_serial()), [], 1e101, 1.0) is None


def test_the_objective_decides_what_is_searched_for() -> None:
    """The fastest plan for throughput and time, within the cost limit."""
    assert isinstance(incumbent_of(StagingFormulation(half_serial()), SolveOptions()), Cheapest)
    fast = incumbent_of(StagingFormulation(half_serial(objective="time", cost_limit_usd=2)), SolveOptions())
    assert isinstance(fast, Fastest)
    assert fast.cost_limit_usd == pytest.approx(2)


def by_type(seed: int) -> StagingInstance:
    """Return a random instance in which every layer holds another amount on each type."""
    instance, rng = random_staging(seed), random.Random(seed)
    layers = [
        layer.model_copy(
            update={"memory_gib": {one.name: rng.choice([0.0, 1.0, 2.5, 4.0]) for one in instance.types}}
        )
        for layer in instance.layers
    ]
    return instance.model_copy(update={"layers": tuple(layers)})


@pytest.mark.parametrize("first", range(0, 60, 20))
def test_methods_agree_with_brute_force(first: int) -> None:
    """Status, value and certificate."""
    statuses = set()
    for seed in range(first, first + 20):
        instance = by_type(seed)
        expected = clusterplan.solve(instance, "brute-force")
        for name in ("exact", "milp:highs"):
            result = clusterplan.solve(instance, name)
            assert result.status == expected.status, (seed, name)
            if expected.objective is None:
                assert result.objective is None
            else:
                assert result.objective == pytest.approx(expected.objective, rel=1e-6), (seed, name)
            assert clusterplan.verify(instance, result).ok
        statuses.add(expected.status)
    assert statuses == {"optimal", "infeasible"}


def test_the_check_leaves_out_what_the_table_does() -> None:
    """Segment for segment."""
    for seed in range(60):
        table, derived = StagingFormulation(by_type(seed)).table, derive_segments(by_type(seed))
        fits = np.isfinite(table.serial)
        stages = {tuple(one) for one in np.column_stack([table.first, table.last, table.type])[fits].tolist()}
        found = np.column_stack([derived.first, derived.last, derived.type]).tolist()
        assert {tuple(one) for one in found} == stages
