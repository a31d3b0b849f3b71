"""Staging: evaluation, hourly budgets, and the form of certificates."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_instances import random_staging
from staging_instances import diamond, half_serial, random_graph, two_layers

import clusterplan
from clusterplan.formulations.common.objective import Diagnosis
from clusterplan.formulations.staging.certificate import (
    BUDGET,
    MAX_PRICE,
    StagingCertificate,
    limited_types,
    named_prices,
    prices_at,
    read_certificate,
)
from clusterplan.formulations.staging.formulation import (
    GraphFormulation,
    StagingFormulation,
    formulation_of,
)
from clusterplan.formulations.staging.kind import STAGING
from clusterplan.formulations.staging.stages import (
    MAX_UNITS,
    Stage,
    layer_names_text,
    min_units,
    parts_time_s,
)
from clusterplan.instances.documents import parse_instance
from clusterplan.instances.staging.instance import Layer, StagingInstance


def test_stage_times_by_hand() -> None:
    """Amdahl for compute and communication, and the receiver's transfer shared by its units."""
    stages = [(0, 0, "slow", 2), (0, 1, "slow", 4), (1, 1, "fast", 2), (1, 1, "slow", 2)]
    plan = [Stage(first_layer=a, last_layer=b, type=name, units=k) for a, b, name, k in stages]
    times = [2 + 2 / 2, 2 + 10 / 4, 1.5 + (0.5 + 0.5) / 2, 8 / 2]
    assert StagingFormulation(two_layers()).times_of_stages_s(plan) == times


def test_cost_and_throughput_by_hand() -> None:
    """κ·τ·Σπk in USD; B0/τ in samples/s."""
    plan = (
        Stage(first_layer=0, last_layer=0, type="slow", units=2),
        Stage(first_layer=1, last_layer=1, type="fast", units=2),
    )
    # τ = 3 s for 2 samples; 7,200 samples take 10,800 s = 3 h at 2·1 + 2·5 USD/h.
    assert StagingFormulation(two_layers()).evaluate(plan) == pytest.approx((36.0,))
    assert StagingFormulation(two_layers(objective="throughput")).evaluate(plan) == pytest.approx((2 / 3,))


def test_neighbours_of_one_type_are_one_stage_unless_cuts_are_free() -> None:
    """The paper's rule is enforced where it is asked for."""
    plan = [Stage(first_layer=i, last_layer=i, type="slow", units=1) for i in range(2)]
    assert any(v.constraint == "maximal runs" for v in StagingFormulation(two_layers()).violations(plan))
    assert not StagingFormulation(two_layers(stage_rule="free_cuts")).violations(plan)


@settings(max_examples=200, deadline=None)
@given(seed=st.integers(0, 10**6), units=st.integers(1, 4), data=st.data())
def test_fewest_units_at_a_breakpoint(seed: int, units: int, data: st.DataObject) -> None:
    """At exactly the time of k units no more than k are asked for, and one fewer is too slow."""
    made = random_staging(seed)
    assert isinstance(made, StagingInstance)
    formulation = StagingFormulation(made)
    table = formulation.table
    first = data.draw(st.integers(0, len(made.layers) - 1))
    last = data.draw(st.integers(first, len(made.layers) - 1))
    kind = data.draw(st.integers(0, len(made.types) - 1))
    parts = table.parts(first, last, kind)
    time = parts_time_s(parts, units)
    if math.isinf(time) or units > formulation.hardware.limit[kind]:
        return
    if made.types[kind].memory_gib is None:
        assert [time] == formulation.times_of_stages_s([formulation.stage(first, last, kind, units)])
    fewest = min_units(parts, time, MAX_UNITS)
    assert 1 <= fewest <= units
    assert fewest == 1 or parts_time_s(parts, fewest - 1) > time


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_looser_limits_never_hurt(seed: int) -> None:
    """One more unit of a type, or a lower floor, never makes the optimum worse."""
    made = random_staging(seed)
    assert isinstance(made, StagingInstance)
    before = clusterplan.solve(made, "milp:highs")
    types = tuple(kind.model_copy(update={"limit": (kind.limit or 0) + 1}) for kind in made.types)
    after = clusterplan.solve(made.model_copy(update={"types": types}), "milp:highs")
    if before.objective is not None:
        assert after.objective is not None
        sign = -1 if made.objective == "throughput" else 1
        assert sign * after.objective <= sign * before.objective + 1e-6 * abs(before.objective)


def test_a_type_without_any_bound_is_refused_with_what_to_do() -> None:
    """Explicit models need finitely many units; the exact search does not."""
    made = two_layers(
        types=[
            {"name": "slow", "price_usd_per_hour": 0},
            {"name": "fast", "price_usd_per_hour": 5, "limit": 2},
        ]
    )
    with pytest.raises(clusterplan.TooLargeError, match="'slow' has no limit"):
        clusterplan.solve(made, "milp:highs")
    result = clusterplan.solve(made, "auto")
    assert result.status == "optimal"
    assert result.certified_gap is not None
    assert result.certified_gap <= 1e-6


def test_segments_stand_by_last_layer_type_and_first_layer() -> None:
    """`index` is the position of each."""
    table = StagingFormulation(two_layers()).table
    found = list(zip(table.last.tolist(), table.first.tolist(), table.type.tolist(), strict=True))
    assert found == [(0, 0, 0), (0, 0, 1), (1, 0, 0), (1, 1, 0), (1, 0, 1), (1, 1, 1)]
    assert [table.index(first, last, t) for last, first, t in found] == list(range(6))
    assert table.index(1, 0, 0) == -1


def test_parts_by_hand() -> None:
    """Sums over the layers, and the transfer of half a second where a stage begins at the second."""
    table = StagingFormulation(two_layers()).table
    assert table.parts(0, 1, 0) == (2.0, 10.0, 1.5, 0.5)
    assert table.parts(1, 1, 0) == (0.0, 8.0, 1.5, 1.0)
    assert parts_time_s(table.parts(1, 1, 0), 2) == 4.0
    assert np.isclose(table.time_s(2)[table.index(0, 1, 0)], 7.0)


@pytest.mark.parametrize(("time", "units"), [(1.0, 1), (0.99, 2), (0.75, 2), (0.5, 0), (0.51, 50)])
def test_fewest_units_by_hand(time: float, units: int) -> None:
    """(1 + 1/k)/2 s on k units: never half a second."""
    assert min_units(StagingFormulation(half_serial(100)).table.parts(0, 0, 0), time, 100) == units


def test_fewest_units_keep_the_limit() -> None:
    """0 where there are not enough."""
    assert min_units(StagingFormulation(half_serial(49)).table.parts(0, 0, 0), 0.51, 49) == 0


LAYER = {"compute_s": {"t": 1.0}, "compute_parallel": 0.5}


def chain(*held: float, room: float | None = 3.0, **fields: Any) -> StagingInstance:
    """Return layers that hold so many GiB, on two units of one type."""
    layers = [{"name": f"l{index}", "memory_gib": gib, **LAYER} for index, gib in enumerate(held)]
    types = [{"name": "t", "price_usd_per_hour": 1, "limit": 2, "memory_gib": room}]
    return half_serial(layers=layers, types=types, **fields)


def found(instance: StagingInstance) -> Diagnosis | None:
    """Return what counting shows."""
    return StagingFormulation(instance).elementary_infeasibility()


def test_named() -> None:
    """Five, and how many more."""
    layers = [Layer(name=f"l{index}", **LAYER) for index in range(7)]
    assert layer_names_text(layers[:2]) == "'l0', 'l1'"
    assert layer_names_text(layers) == "'l0', 'l1', 'l2', 'l3', 'l4' and 2 more"


def test_nothing_to_explain() -> None:
    """Layers that fit, and are fast enough."""
    assert found(chain(1, 2, throughput_floor_samples_per_s=1)) is None


def test_a_layer_that_fits_nowhere() -> None:
    """With what it needs, and what the roomiest type for it has."""
    one = found(chain(1, 4))
    assert one is not None
    assert one.reasons == ("layer 'l1' fits no device: it needs 4 GiB, and a unit of t has 3",)
    types = [
        {"name": name, "price_usd_per_hour": 1, "memory_gib": room} for name, room in (("s", 2), ("t", 3))
    ]
    layer = {
        "name": "a",
        "compute_s": {"s": 1, "t": 1},
        "compute_parallel": 1,
        "memory_gib": {"s": 5, "t": 6},
    }
    by_type = found(half_serial(types=types, layers=[layer]))
    assert by_type is not None
    assert by_type.reasons == ("layer 'a' fits no device: it needs 6 GiB, and a unit of t has 3",)


def test_many_layers_are_one_line() -> None:
    """The farthest from fitting is the example; those that are too slow have a line of their own."""
    many = found(chain(*range(1, 30), throughput_floor_samples_per_s=2))
    assert many is not None
    first, second = many.reasons
    assert first == (
        "26 layers fit no device: 'l3', 'l4', 'l5', 'l6', 'l7' and 21 more; 'l28' needs 29 GiB, and a unit "
        "of t has 3"
    )
    assert second.startswith(
        "layer 'l0': at most 1.33333 samples/s, on all units of t; too slow as well: 'l1'"
    )


def test_the_slowest_layer_stands_for_the_others() -> None:
    """The reason of a single one is what it always was."""
    single = found(half_serial(throughput_floor_samples_per_s=2))
    assert single is not None
    assert single.reasons == ("layer 'a': at most 1.33333 samples/s, on all units of t",)
    assert single.remedies[0] == "no floor above 1.33333 samples/s can be reached"


def test_the_formulation_and_its_compact_model_fit_together() -> None:
    """The model has the objective of the formulation."""
    assert STAGING.milp_model is not None
    formulation = STAGING.formulation(two_layers(objective="time"))
    model = STAGING.milp_model(formulation)
    assert [one.objective for one in model.objectives] == list(formulation.objectives)


def test_only_types_with_a_limit_have_prices() -> None:
    """In the order of the instance."""
    instance = two_layers()
    assert limited_types(instance) == ["slow", "fast"]
    free = instance.types[0].model_copy(update={"limit": None})
    assert limited_types(instance.model_copy(update={"types": (free, instance.types[1])})) == ["fast"]


def test_a_certificate_is_read_or_its_fault_named() -> None:
    """Intervals have to rise, and prices to be of limited types."""
    given = read_certificate(
        two_layers(), {"cutoff": 3.0, "intervals": [{"until_s": 1, "prices": {"fast": 2}}]}
    )
    assert isinstance(given, StagingCertificate)
    assert given.intervals[0].prices == {"fast": 2.0}
    falling = {"intervals": [{"until_s": 2}, {"until_s": 2}]}
    assert read_certificate(two_layers(), falling) == (
        "intervals: until_s has to rise from one interval to the next"
    )
    stranger = {"intervals": [{"until_s": 2, "prices": {"else": 1}}]}
    assert "intervals.0.prices.else" in str(read_certificate(two_layers(), stranger))


def test_prices_are_written_by_name_within_what_the_form_holds() -> None:
    """Zero and negative ones are left out; infinite ones become the largest; the budget's stands apart."""
    assert named_prices(two_layers(), np.array([-1.0, 2.5])) == ({"fast": 2.5}, 0.0)
    assert named_prices(two_layers(), np.array([math.inf, math.nan])) == ({"slow": MAX_PRICE}, 0.0)
    budget = two_layers(hourly_budget_usd=9)
    assert named_prices(budget, np.array([1.0, 0.0, 0.25])) == ({"slow": 1.0}, 0.25)


@pytest.mark.parametrize(
    ("time", "prices"),
    [
        (0.5, None),  # there units do not suffice, which says nothing about money
        (2.0, {"slow": 0.0, "fast": 3.0, BUDGET: 0.5}),
        (9.0, None),  # beyond the last interval
    ],
)
def test_prices_are_those_of_the_interval_of_the_stage_time(time: float, prices: dict[str, float]) -> None:
    """Both ends of an interval belong to it."""
    data = {
        "intervals": [
            {"until_s": 1.0, "counts_cost": False},
            {"until_s": 2.0, "prices": {"fast": 3.0}, "budget_price": 0.5},
        ]
    }
    assert prices_at(two_layers(hourly_budget_usd=9), StagingCertificate.model_validate(data), time) == prices


def _budgeted(seed: int, graph: bool) -> StagingInstance:
    """Return a random instance in which a budget of some units an hour is all that money limits."""
    document = random_graph(seed) if graph else random_staging(seed).model_dump(mode="json")
    prices = [one["price_usd_per_hour"] for one in document["types"]]
    budget = sum(prices) * (0.4 + seed % 5 / 2)
    changes = {"objective": ("throughput", "time")[seed % 2], "hourly_budget_usd": budget or None}
    dropped = ("cost_limit_usd", "throughput_floor_samples_per_s")
    made = parse_instance({k: v for k, v in (document | changes).items() if k not in dropped})
    assert isinstance(made, StagingInstance)
    return made


@pytest.mark.parametrize("graph", [False, True])
def test_no_plan_is_faster_than_its_budget_allows(graph: bool) -> None:
    """Of random instances, with all rules of cost; in some the budget says the most."""
    solved = said_most = 0
    for seed in range(60):
        instance = _budgeted(seed, graph)
        if instance.hourly_budget_usd is None or any(one.limit is None for one in instance.types):
            continue
        best = clusterplan.solve(instance, "brute-force")
        if best.plan is None:
            continue
        formulation = formulation_of(instance)
        least = formulation.budgeted_s
        assert 0 < least <= formulation.stage_time_s(best.plan)
        (bound,) = formulation.elementary_bounds()
        assert bound is not None
        assert least <= formulation.to_stage_time(bound) * (1 + 1e-12)
        solved += 1
        said_most += bool(least > 1.001 * formulation.fastest_s)
    assert solved >= 20
    assert said_most >= 3


def test_the_bound_of_a_budget_by_hand() -> None:
    """Layer a takes at least 4 s at 1 USD/h or 1 s at 5 USD/h, layer b 8 s or 1 s: 4 + 5 of 3 USD/h."""
    formulation = StagingFormulation(two_layers(objective="throughput", hourly_budget_usd=3))
    assert formulation.budgeted_s == pytest.approx(3.0)
    assert StagingFormulation(two_layers()).budgeted_s == 0.0
    # Layers of 7 s on units of 1 USD/h; two of these take 3.5 s.
    alone = GraphFormulation(diamond(hourly_budget_usd=2))
    assert alone.budgeted_s == pytest.approx(3.5)
    assert alone.elementary_bounds() == (pytest.approx(3.5),)


def test_a_budget_that_a_plan_just_exceeds_within_tolerance_is_kept() -> None:
    """A plan may cost a little more than its budget; the bound allows for it."""
    instance = diamond(1, hourly_budget_usd=1 - 1e-9)
    plan = clusterplan.solve(instance, "exact").plan
    assert plan is not None
    formulation = GraphFormulation(instance)
    assert formulation.budgeted_s <= formulation.stage_time_s(plan) == 7.0
