"""The linear programme by shape: known optima, and prices that the check accepts."""

from __future__ import annotations

import itertools
import math
import random
from typing import Any

import pytest
from device_instances import device_instance, gpus, job, placement

import clusterplan
from clusterplan.formulations.consolidation.formulation import DeviceFormulation
from clusterplan.instances.common.hardware import GEOMETRIES
from clusterplan.instances.consolidation.devices import WHOLE, Device, DeviceDemand
from clusterplan.solvers.common.base import Clock
from clusterplan.solvers.consolidation.devices.shape_relaxation import (
    Cluster,
    ShapeProgram,
    best_pattern,
    priced_demand,
)

A100 = GEOMETRIES["a100-40"]


def _formulation(asked: list[dict[str, Any]], servers: int = 4, **devices: Any) -> DeviceFormulation:
    jobs = [job(f"j{n}", 1, {"cpu": 1}, **fields) for n, fields in enumerate(asked)]
    return DeviceFormulation(placement(["value", "servers"], [gpus("n", 1, count=servers, **devices)], jobs))


def test_patterns_beat_the_sum_of_the_devices() -> None:
    """Of 600 thousandths each of four devices holds one; their sum would hold six."""
    formulation = _formulation([{"share": {"gpu": 600}}] * 9)
    program = ShapeProgram(Cluster(formulation))
    relaxed = program.solve("value", {}, Clock())
    assert relaxed.value == pytest.approx(-2.4)
    assert formulation.elementary_bounds()[0] == pytest.approx(4.0)
    assert formulation.certified_bounds({"devices": [relaxed.goal]})[0] == 2.4
    servers = program.solve("servers", {"value": -1.8}, Clock())
    assert servers.value == pytest.approx(3.0)
    certificate = {"devices": [relaxed.goal, servers.goal]}
    assert formulation.certified_bounds(certificate, (2.4, 4.0))[:2] == (2.4, 4.0)


def test_patterns_mix_shares_by_column_generation() -> None:
    """Two devices hold 500 + 300 + 200 each: only patterns of one sort would waste some."""
    jobs = [{"share": {"gpu": share}} for share in (500, 300, 200) * 2]
    relaxed = ShapeProgram(Cluster(_formulation(jobs, servers=2))).solve("value", {}, Clock())
    assert relaxed.value == pytest.approx(-2.0)


def test_partitions_have_patterns_too() -> None:
    """Five of 3g.20gb on two devices: two each."""
    jobs = [{"profile": {"gpu": "3g.20gb"}, "value": 1}] * 5
    program = ShapeProgram(Cluster(_formulation(jobs, servers=2, geometry="a100-40")))
    relaxed = program.solve("value", {}, Clock())
    assert relaxed.value == pytest.approx(-4.0)


@pytest.mark.parametrize("seed", range(40))
def test_the_check_derives_the_value_of_the_programme(seed: int) -> None:
    """The prices of any instance prove what the programme claims, and no less than the best plan has."""
    instance = device_instance(seed)
    formulation = DeviceFormulation(instance)
    relaxed = ShapeProgram(Cluster(formulation)).solve("value", {}, Clock())
    if relaxed is None:  # jobs that must be placed cannot all be
        assert any(each.must_place for each in instance.jobs)
        return
    proven = formulation.certified_bounds({"devices": [relaxed.goal]})[0]
    assert proven <= -relaxed.value + 1e-6
    best = clusterplan.solve(instance, solver="best-fit").objectives
    assert not best or best[0].value is None or proven >= best[0].value


@pytest.mark.parametrize("seed", range(30))
def test_the_best_pattern(seed: int) -> None:
    """Against every multiset of shares that fits."""
    choose = random.Random(seed)
    prices = {DeviceDemand(share=s): choose.random() for s in choose.sample((110, 250, 340, 410, 500), 3)}
    state = choose.choice((Device(), Device("shared", 230)))
    room = WHOLE - state.used
    counts = itertools.product(*(range(room // ask.share + 1) for ask in prices))
    held = [dict(zip(prices, count, strict=True)) for count in counts]
    best = max(
        math.fsum(n * prices[ask] for ask, n in each.items())
        for each in held
        if sum(ask.share * n for ask, n in each.items()) <= room
    )
    found = best_pattern(state, {**prices, DeviceDemand(whole=1): 0.1}, None)
    assert math.fsum(n * prices[ask] for ask, n in found) == pytest.approx(best)
    assert sum(ask.share * n for ask, n in found) <= room


def test_the_best_partitions() -> None:
    """4g.20gb in front and 3g.20gb behind; with slot 0 taken only the latter, and small ones."""
    pairs = (("1g.5gb", 1.0), ("3g.20gb", 3.5), ("4g.20gb", 4.5))
    prices = {DeviceDemand(profile=profile): worth for profile, worth in pairs}
    assert dict(best_pattern(Device(), prices, A100)) == {
        DeviceDemand(profile="3g.20gb"): 1,
        DeviceDemand(profile="4g.20gb"): 1,
    }
    found = dict(best_pattern(Device("parted", 1), prices, A100))
    assert found == {DeviceDemand(profile="1g.5gb"): 3, DeviceDemand(profile="3g.20gb"): 1}
    assert best_pattern(Device(), prices, None) == ()
    assert priced_demand(DeviceDemand(whole=3)) == DeviceDemand(whole=1)


def test_no_time_gives_no_prices() -> None:
    """Rather than wrong ones."""
    program = ShapeProgram(Cluster(_formulation([{"share": {"gpu": 600}}])))
    assert program.solve("value", {}, Clock(0.0)) is None
