"""Bounds from prices by shape, known by hand and against enumeration.

The check of device certificates: later bounds count only where earlier objectives are proven.
"""

from __future__ import annotations

import itertools
import math
import random
from fractions import Fraction
from typing import Any

import pytest
from device_instances import device_instance, job, placement

import clusterplan
from clusterplan.formulations.consolidation.certificate import DeviceCertificate, DevicePrices, PricedGoal
from clusterplan.formulations.consolidation.check.device_bound import (
    PRICE_SCALE,
    ShapeBound,
    group_jobs,
    max_device_price,
    read_device_certificate,
    round_up_bound,
    server_shapes,
    shape_bounds,
)
from clusterplan.formulations.consolidation.formulation import DeviceFormulation
from clusterplan.instances.common.hardware import GEOMETRIES
from clusterplan.instances.consolidation.devices import Device
from clusterplan.instances.consolidation.instance import ConsolidationInstance

A100 = GEOMETRIES["a100-40"]


def _paid(state: Device, **prices: Any) -> float:
    return max_device_price(state, DevicePrices.model_validate(prices), A100) / PRICE_SCALE


def test_the_best_contents_of_a_device() -> None:
    """Whole, shares by a knapsack, or partitions that do not overlap; beside what others hold."""
    shares = {460: 5.0, 300: 3.0, 333: 3.5}
    assert _paid(Device(), whole=9.0, shares=shares) == 10.5
    assert _paid(Device(), whole=11.0, shares=shares) == 11.0
    assert _paid(Device("shared", 100), whole=11.0, shares=shares) == 9.0
    assert _paid(Device("shared", 600), whole=11.0, shares=shares) == 3.5
    assert _paid(Device("whole"), whole=11.0, shares=shares) == 0.0
    profiles = {"1g.5gb": 1.0, "3g.20gb": 3.5, "4g.20gb": 4.0}
    assert _paid(Device(), profiles=profiles) == 7.5
    assert _paid(Device(), profiles={**profiles, "3g.20gb": 2.0}) == 7.0
    assert _paid(Device("parted", 0b1), profiles=profiles) == 6.5
    assert _paid(Device("parted", 0b1), whole=99.0, shares=shares) == 0.0


@pytest.mark.parametrize("seed", range(30))
def test_shares_at_random_prices(seed: int) -> None:
    """Against every multiset of shares that fits."""
    choose = random.Random(seed)
    prices = {s: choose.choice((0.0, 1.0, 2.5, 4.0)) for s in choose.sample((210, 330, 340, 410, 500), 3)}
    room = choose.choice((1000, 770, 500))
    counts = itertools.product(*(range(room // share + 1) for share in prices))
    held = [dict(zip(prices, count, strict=True)) for count in counts]
    best = max(
        math.fsum(n * prices[s] for s, n in each.items())
        for each in held
        if sum(s * n for s, n in each.items()) <= room
    )
    assert _paid(Device("shared", 1000 - room), shares=prices) == best


def _goal(
    instance: ConsolidationInstance, choose: random.Random, objective: str, **fields: Any
) -> PricedGoal:
    """Return any prices at all."""

    def price() -> float:
        return choose.choice((0.0, 0.1, 0.5, 1.0, 2.0))

    asks = [ask for job in instance.jobs for group in job.task_groups for ask in group.asks.values()]
    shapes = [
        {
            "resources": {"cpu": price() / 10},
            "devices": {
                "gpu": {
                    "whole": price(),
                    "shares": {ask.share: price() for ask in asks if ask.share},
                    "profiles": {ask.profile: price() for ask in asks if ask.profile},
                }
            },
        }
        for _ in server_shapes(instance)
    ]
    return PricedGoal.model_validate({"objective": objective, "shapes": shapes, **fields})


@pytest.mark.parametrize("seed", range(60))
def test_any_prices_bound_the_optimum(seed: int) -> None:
    """Value and servers of the best plan, whatever is claimed of prices and multipliers."""
    instance = device_instance(seed, jobs=3)
    best = clusterplan.solve(instance, solver="brute-force")
    if best.plan is None:
        return
    values = {o.name: o.value for o in best.objectives}
    choose, formulation = random.Random(seed), DeviceFormulation(instance)
    for _ in range(5):
        goals = [_goal(instance, choose, "value")]
        if "servers" in values:
            goals.append(
                _goal(instance, choose, "servers", multipliers={"value": choose.choice((0.0, 0.5, 3.0))})
            )
        reached = [value or 0.0 for value in values.values()]
        found = shape_bounds(instance, formulation.objectives, goals, reached, [None] * len(values))
        bounds = dict(zip(values, found, strict=True))
        assert bounds["value"] is not None
        assert values["value"] is not None
        assert bounds["value"] >= values["value"] - 1e-9
        if bounds.get("servers") is not None:
            assert bounds["servers"] <= values["servers"] + 1e-9  # type: ignore[operator]


def test_a_job_that_goes_nowhere() -> None:
    """Is worth nothing to the bound; if it must be placed, there is no plan."""
    document = {
        "schema_version": 1,
        "kind": "consolidation",
        "name": "none",
        "servers": [{"name": "n", "capacity": {"cpu": 8}, "devices": {"gpu": {"count": 1}}}],
        "jobs": [job("j", demand={"cpu": 1}, devices={"gpu": 2})],
    }
    for must, expected in ((False, Fraction(0)), (True, None)):
        document["jobs"][0]["must_place"] = must  # type: ignore[index]
        instance = clusterplan.parse_instance(document)
        assert isinstance(instance, ConsolidationInstance)
        goal = PricedGoal.model_validate({"objective": "value", "shapes": [{}]})
        assert ShapeBound(server_shapes(instance), group_jobs(instance), goal).value({}) == expected


def test_servers_that_differ_are_different_shapes() -> None:
    """By model, free amounts, or the states of devices; names and racks do not count."""
    gpu = {"count": 2}
    rows = [
        {"name": "a", "capacity": {"cpu": 8}, "devices": {"gpu": gpu}, "rack": "r"},
        {"name": "b", "count": 3, "capacity": {"cpu": 8}, "devices": {"gpu": gpu}},
        {"name": "c", "capacity": {"cpu": 9}, "devices": {"gpu": gpu}},
        {"name": "d", "capacity": {"cpu": 8}, "devices": {"gpu": {**gpu, "taken": [{"device": 0}]}}},
        {"name": "e", "capacity": {"cpu": 8}, "devices": {"gpu": {**gpu, "geometry": "a30-24"}}},
        {"name": "f", "capacity": {"cpu": 8}, "devices": {"gpu": gpu}, "gpu_model": "A"},
    ]
    jobs = [job("j", demand={"cpu": 1}, share={"gpu": 300})]
    document = {"schema_version": 1, "kind": "consolidation", "name": "s", "servers": rows, "jobs": jobs}
    instance = clusterplan.parse_instance(document)
    assert isinstance(instance, ConsolidationInstance)
    assert [(s.first.name, s.count) for s in server_shapes(instance)] == [
        ("a", 4),
        ("c", 1),
        ("d", 1),
        ("e", 1),
        ("f", 1),
    ]
    assert round_up_bound(instance, "value", Fraction(-95, 100)) == Fraction(-9, 10)
    assert round_up_bound(instance, "servers", Fraction(3, 2)) == 2


def by_hand(servers: list[dict[str, Any]], jobs: list[dict[str, Any]]) -> ConsolidationInstance:
    """Return an instance in which each job has one task that asks for a CPU and for devices."""
    plain = {"tasks": 1, "task_demand": {"cpu": 1}, "value": 1}
    return placement(
        None,
        [{"capacity": {"cpu": 8}, **server} for server in servers],
        [{"name": f"j{k}", **plain, **job} for k, job in enumerate(jobs)],
    )


def least(instance: ConsolidationInstance, **prices: Any) -> Fraction | None:
    """Return the bound on value, to be minimised, of the same prices on servers of every shape."""
    shape = {"devices": {"gpu": prices}}
    goal = PricedGoal.model_validate({"objective": "value", "shapes": [shape] * len(server_shapes(instance))})
    return ShapeBound(server_shapes(instance), group_jobs(instance), goal).value({})


def test_every_server_of_a_shape_is_paid() -> None:
    instance = by_hand(
        [{"name": "n", "count": 3, "devices": {"gpu": {"count": 1}}}], [{"devices": {"gpu": 1}}] * 3
    )
    assert least(instance, whole=1.0) == -3


def test_a_share_that_fills_a_device_is_held() -> None:
    taken = [{"device": 0, "share": 600}]
    instance = by_hand(
        [{"name": "n", "devices": {"gpu": {"count": 1, "taken": taken}}}], [{"share": {"gpu": 400}}]
    )
    assert least(instance) == -1


def test_a_job_that_must_be_placed_costs_what_it_pays_for() -> None:
    servers = [{"name": "n", "devices": {"gpu": {"count": 2}}}]
    for must, expected in ((True, 1), (False, 0)):
        instance = by_hand(servers, [{"devices": {"gpu": 2}, "value": 3, "must_place": must}])
        assert least(instance, whole=2.0) == expected - 4


def test_jobs_that_prices_tell_apart_are_not_alike() -> None:
    servers = [{"name": "n", "gpu_model": "a", "devices": {"gpu": {"count": 1}}}]
    job = {"share": {"gpu": 200}}
    others: list[dict[str, Any]] = [
        {"must_place": True},
        {"gpu_model": "a"},
        {"value": 2},
        {"share": {"gpu": 300}},
        {"tasks": 2},
        {"task_demand": {"cpu": 2}},
    ]
    instance = by_hand(servers, [job, job, *({**job, **other} for other in others)])
    assert [count for _, count in group_jobs(instance)] == [2, 1, 1, 1, 1, 1, 1]


def test_after_an_objective_that_is_not_proven_no_level_counts() -> None:
    """The best value among plans of an unproven spread is not a level of the best plans."""
    instance = by_hand([{"name": "n", "devices": {"gpu": {"count": 1}}}], [{"share": {"gpu": 200}}])
    instance = instance.model_copy(update={"objectives": ("spread", "value", "servers")})
    goal = PricedGoal.model_validate({"objective": "servers", "shapes": [{}], "multipliers": {"value": 1.0}})
    objectives = DeviceFormulation(instance).objectives
    for spread, proven in ((0.0, True), (None, False)):
        found = shape_bounds(instance, objectives, [goal], [0.0, 1.0, 1.0], [spread, None, None])
        assert (found[2] is not None) == proven


INSTANCE = placement(
    ["value", "servers"],
    [{"name": "n", "count": 4, "capacity": {"cpu": 8}, "devices": {"gpu": {"count": 1}}}],
    [job(f"j{n}", demand={"cpu": 1}, share={"gpu": 600}, value=1) for n in range(3)],
)
GOALS = {
    "devices": [
        {"objective": "value", "shapes": [{}]},
        {
            "objective": "servers",
            "shapes": [{"devices": {"gpu": {"shares": {600: 1.0}}}}],
            "multipliers": {"value": 1.0},
        },
    ]
}


def test_fewest_servers_at_the_best_value() -> None:
    """Three shares of 600 need three devices, where their sum would fit on two."""
    assert isinstance(INSTANCE, ConsolidationInstance)
    certificate = read_device_certificate(INSTANCE, GOALS)
    assert isinstance(certificate, DeviceCertificate)
    objectives = DeviceFormulation(INSTANCE).objectives
    assert shape_bounds(INSTANCE, objectives, certificate.devices, (3.0, 3.0), (3.0, 0.0)) == (3.0, 3.0)
    worse = shape_bounds(INSTANCE, objectives, certificate.devices, (2.0, 2.0), (3.0, 0.0))
    assert worse == (3.0, 2.0)
    assert shape_bounds(INSTANCE, objectives, certificate.devices, None, (3.0, None)) == (3.0, None)


def test_exact_finds_such_prices() -> None:
    """And the stored result proves them again."""
    result = clusterplan.solve(INSTANCE, solver="exact")
    assert [(o.value, o.certified_bound) for o in result.objectives] == [(3.0, 3.0), (3.0, 3.0)]
    verification = clusterplan.verify(INSTANCE, type(result).model_validate_json(result.to_json()))
    assert verification.ok
    assert result.status == "optimal"


@pytest.mark.parametrize("price", [-1.0, 1e13, float("nan")])
def test_prices_out_of_range_are_refused(price: float) -> None:
    """In words that name the field."""
    assert isinstance(INSTANCE, ConsolidationInstance)
    goal = {"objective": "value", "shapes": [{"resources": {"cpu": price}}]}
    assert str(read_device_certificate(INSTANCE, {"devices": [goal]})).startswith(
        "devices.0.shapes.0.resources"
    )


def test_prices_of_another_number_of_shapes_are_refused() -> None:
    """Fewer, or more."""
    assert isinstance(INSTANCE, ConsolidationInstance)
    for shapes in ([], [{}, {}]):
        fault = read_device_certificate(INSTANCE, {"devices": [{"objective": "value", "shapes": shapes}]})
        assert fault == f"the prices of value are of {len(shapes)} shapes of servers, not 1"
