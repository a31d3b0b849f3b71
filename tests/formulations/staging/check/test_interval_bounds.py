"""The check's interval bounds: never above the truth, and tight where nothing is scarce.

The check's own stage times: by hand, and equal to the table that the methods use.
"""

from __future__ import annotations

import math
import sys
from dataclasses import replace

import numpy as np
import pytest
from random_instances import random_staging
from staging_instances import half_serial

from clusterplan.formulations.staging.check import interval_bounds
from clusterplan.formulations.staging.check.certificate import CertificateCheck
from clusterplan.formulations.staging.check.interval_bounds import (
    Interval,
    IntervalBounds,
    Limits,
    Segments,
    derive_segments,
)
from clusterplan.formulations.staging.formulation import StagingFormulation
from clusterplan.instances.common.errors import TooLargeError
from clusterplan.instances.staging.generate import generate_staging
from clusterplan.instances.staging.instance import StagingInstance


def tiny(seed: int) -> StagingInstance:
    instance = random_staging(seed)
    assert isinstance(instance, StagingInstance)
    return instance


def no_limits(segments: Segments) -> Limits:
    return Limits(np.zeros((0, len(segments.price))), np.zeros(0))


def least_cost(segments: Segments, rate: list[float], low: float, high: float, alternating: bool) -> float:
    """Return the least κ·π·k·max(a, ET(k)) of all paths whose segments keep the stage time b."""

    def extend(layer: int, before: int) -> float:
        if layer == segments.layers:
            return 0.0
        best = math.inf
        for i in np.flatnonzero(segments.first == layer).tolist():
            kind = int(segments.type[i])
            if alternating and kind == before:
                continue
            own = segments.only(np.array([i]))
            fitting = (k for k in range(1, 60) if own.time_s(np.array([float(k)]))[0] <= high)
            units = next(fitting, None)
            if units is None or units > segments.limit[kind]:
                continue
            cost = rate[kind] * units * max(low, float(own.time_s(np.array([float(units)]))[0]))
            best = min(best, cost + extend(int(segments.last[i]) + 1, kind))
        return best

    return extend(0, -1)


@pytest.mark.parametrize("seed", range(20))
def test_fewest_units_are_never_overestimated(seed: int) -> None:
    """At exactly the time of k units no more than k are asked for."""
    segments = derive_segments(tiny(seed))
    bounds = IntervalBounds(segments, 1.0, no_limits(segments), alternating=True)
    for units in (1, 2, 3, 17):
        times = segments.time_s(np.full(len(segments.first), float(units)))
        for place, time in enumerate(times.tolist()):
            if time > 0 and units <= segments.limit[segments.type[place]]:
                interval = Interval(time, time, np.zeros(0), True, math.inf)
                assert bounds._least(interval, segments.only(np.array([place])))[0][0] <= units


@pytest.mark.parametrize("alternating", [True, False])
@pytest.mark.parametrize("seed", range(15))
def test_without_limits_the_bound_is_the_least_cost_of_an_interval(seed: int, alternating: bool) -> None:
    """A cutoff just below is proven; one just above is not, and the bound left is the least cost."""
    segments = derive_segments(tiny(seed))
    bounds = IntervalBounds(segments, 0.25, no_limits(segments), alternating)
    low, high = 0.7, 1.9
    least = least_cost(segments, (0.25 * segments.price).tolist(), low, high, alternating)
    nothing = np.zeros(0)
    if math.isinf(least):
        assert bounds.unproven([Interval(low, high, nothing, True, math.inf)]) == []
        return
    assert bounds.unproven([Interval(low, high, nothing, True, least * (1 - 1e-6))]) == []
    ((_, bound),) = bounds.unproven([Interval(low, high, nothing, True, least * (1 + 1e-6))])
    assert bound == pytest.approx(least, rel=1e-7)
    assert bound <= least * (1 + 1e-12)


def test_prices_without_costs_prove_that_units_do_not_suffice() -> None:
    """Where every path needs more units than there are, any positive price shows it; else none does."""
    segments = derive_segments(generate_staging(4, 2, "loose", seed=1))
    every, tau = np.ones((1, 2)), 0.8
    needed = least_cost(segments, [1 / tau] * 2, tau, tau, True)  # k·τ at a rate of 1/τ counts units
    assert needed == pytest.approx(round(needed))
    for capacity, proven in ((needed - 0.5, True), (needed + 0.5, False)):
        bounds = IntervalBounds(segments, 1.0, Limits(every, np.array([capacity])), alternating=True)
        interval = Interval(tau, tau, np.array([1.0]), False, math.inf)
        assert (bounds.unproven([interval]) == []) == proven


def test_no_interval_is_nothing_to_prove() -> None:
    """An empty list has no unproven part, whatever the instance."""
    check = CertificateCheck(tiny(0))
    assert check.unproven([], -1.0, lambda _: math.inf) == []


@pytest.mark.parametrize(("seed", "short", "long"), [(2, 1.5, 1.9), (13, 0.9, 1.5), (11, 1.5, 1.9)])
def test_intervals_tried_together_are_bounded_over_all_of_them(
    monkeypatch: pytest.MonkeyPatch, seed: int, short: float, long: float
) -> None:
    """A short stage time is dear, a long one is not: only the first of two intervals is above the cutoff."""
    monkeypatch.setattr(interval_bounds, "GROUPING_SIZE", 0)
    segments = derive_segments(tiny(seed))
    rates, nothing = (0.25 * segments.price).tolist(), np.zeros(0)
    ends = [(short, short * 1.05), (long, long * 1.05)]
    dear, cheap = (least_cost(segments, rates, low, high, False) for low, high in ends)
    assert cheap < dear
    cutoff = (cheap + min(dear, 2 * cheap)) / 2
    both = [Interval(low, high, nothing, True, cutoff) for low, high in ends]
    bounds = IntervalBounds(segments, 0.25, no_limits(segments), alternating=False)
    ((left, bound),) = bounds.unproven(both)
    assert (left.low, left.high) == ends[1]
    assert bound == pytest.approx(cheap, rel=1e-7)


@pytest.mark.parametrize("seed", [0, 2, 8])
def test_a_segment_is_only_left_out_beyond_the_margin(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Of a fifth here, for the sum and for the cutoff."""
    segments = derive_segments(tiny(seed))
    bounds = IntervalBounds(segments, 0.25, no_limits(segments), alternating=False)
    free = Interval(1.9, 2.0, np.zeros(0), True, math.inf)
    _, weight, arrival = bounds._bound(free, segments)
    bounds._useful(free, segments, weight, arrival)
    values = bounds._room[2, : len(segments.first)].copy()
    finite = values < sys.float_info.max
    monkeypatch.setattr(interval_bounds, "ROUNDING_MARGIN", 0.2)
    tight = replace(free, cutoff=values[finite].max() * 0.6 / 1.2 * (1 + 1e-9))
    assert bounds._useful(tight, segments, weight, arrival).tolist() == np.flatnonzero(finite).tolist()


def made(seed: int) -> StagingInstance:
    """Return a random instance: tiny with every feature, or larger with memory and transfers."""
    if seed % 2:
        return generate_staging(3 + seed % 11, 1 + seed % 5, "tight", seed % 3 == 0, seed % 4 < 2, seed)
    instance = random_staging(seed)
    assert isinstance(instance, StagingInstance)
    return instance


@pytest.mark.parametrize("first", range(0, 200, 50))
def test_segments_are_those_of_the_methods_table(first: int) -> None:
    """The same segments with the same parts, to the last bit, on 200 instances."""
    for seed in range(first, first + 50):
        instance = made(seed)
        formulation, derived = StagingFormulation(instance), derive_segments(instance)
        table, hardware = formulation.table, formulation.hardware
        able = np.isfinite(table.serial)
        assert derived.layers == table.layers
        for name in ("first", "last", "type", "serial", "parallel", "comm_serial", "comm_parallel"):
            assert (getattr(derived, name) == getattr(table, name)[able]).all(), (seed, name)
        assert (derived.price == hardware.price).all()
        assert (derived.limit == hardware.most).all()


@pytest.mark.parametrize("seed", range(10))
def test_times_are_those_of_single_stages(seed: int) -> None:
    """ET of each segment is that by which plans are evaluated."""
    formulation, segments = StagingFormulation(made(seed)), derive_segments(made(seed))
    for units in (1, 3):
        times = segments.time_s(np.full(len(segments.first), float(units)))
        for place, time in enumerate(times.tolist()):
            first, last = int(segments.first[place]), int(segments.last[place])
            stage = formulation.stage(first, last, int(segments.type[place]), units)
            assert [time] == formulation.times_of_stages_s([stage])


def test_memory_and_missing_times_leave_segments_out() -> None:
    """A segment that exceeds a unit's memory, or holds a layer without a time on the type, is none."""
    instance = generate_staging(3, 2, "loose", seed=1)
    memory = (1.0, 1.0, 2.0)
    layers = tuple(
        layer.model_copy(update={"memory_gib": held})
        for layer, held in zip(instance.layers, memory, strict=True)
    )
    only = layers[0].model_copy(update={"compute_s": {instance.types[0].name: 1.0}})
    types = tuple(one.model_copy(update={"memory_gib": 2.0}) for one in instance.types)
    segments = derive_segments(instance.model_copy(update={"layers": (only, *layers[1:]), "types": types}))
    found = set(zip(segments.first.tolist(), segments.last.tolist(), segments.type.tolist(), strict=True))
    assert found == {(0, 0, 0), (0, 1, 0), (1, 1, 0), (1, 1, 1), (2, 2, 0), (2, 2, 1)}
    assert not any(math.isinf(value) for value in segments.serial.tolist())


def test_too_many_segments_are_refused() -> None:
    """Before any array is made."""
    instance = generate_staging(3, 2, "loose", seed=1)
    many = instance.model_copy(update={"layers": instance.layers * 660, "types": instance.types * 10})
    with pytest.raises(TooLargeError, match="possible stages"):
        derive_segments(many)


@pytest.mark.parametrize("field", ["compute_s", "communication_s"])
def test_what_just_fits_is_not_left_out(field: str) -> None:
    """A segment that fills a unit's memory, and takes just the slowest time that matters."""
    layer = {"name": "a", "compute_s": {"t": 1}, "compute_parallel": 0, "memory_gib": 3, field: {"t": 5}}
    for room, last_s, found in ((3.0, 5.0, 1), (2.9, 5.0, 0), (3.0, 4.9, 0)):
        types = [{"name": "t", "price_usd_per_hour": 1, "memory_gib": room}]
        assert len(derive_segments(half_serial(types=types, layers=[layer]), last_s).first) == found


ONE = np.ones(1)
NONE = np.zeros(1)
TYPE = np.zeros(1, dtype=np.int64)


@pytest.mark.parametrize(
    ("serial", "parallel", "high", "units"),
    [(0.0, 6.0, 2.0, 3.0), (0.0, 6.0, 1.9, 4.0), (3.0, 1.0, 2.0, math.inf), (0.0, 101.0, 1.0, math.inf)],
)
def test_least_units_and_cost(serial: float, parallel: float, high: float, units: float) -> None:
    parts = serial * ONE, parallel * ONE, NONE, NONE, 100 * ONE, 2 * ONE
    need, cost = np.empty(1), np.empty(1)
    interval_bounds.least_costs(TYPE, *parts, high, high, True, need, cost)
    assert need[0] == (units if math.isfinite(units) else 1.0)
    assert cost[0] == 2 * units * high
    interval_bounds.least_costs(TYPE, *parts, high, high, False, need, cost)
    assert cost[0] == (0.0 if units < math.inf else math.inf)


def test_a_quotient_beyond_all_integers_is_no_overflow() -> None:
    """Where A/τ exceeds what a 64-bit integer holds no units suffice."""
    units, cost = np.empty(1), np.empty(1)
    columns = TYPE, NONE, 1e300 * ONE, NONE, NONE, 100 * ONE, ONE
    interval_bounds.least_costs(*columns, 1e-5, 1e-5, True, units, cost)
    assert math.isinf(cost[0])


def test_paths_of_two_layers() -> None:
    """Whole on type 0 costs 5; 1 + 2 on types 0 and 1 costs 3; 1 + 1 on type 0 alone must not alternate."""
    columns = np.array([0, 0, 1, 1]), np.array([0, 1, 1, 1]), np.array([0, 0, 0, 1])
    weight = np.array([1.0, 5.0, 1.0, 2.0])
    for alternating, least in ((True, 3.0), (False, 2.0)):
        arrival, remaining = np.full((2, 2, 3), math.inf)
        arrival[:, 0] = remaining[:, 2] = 0.0
        assert interval_bounds.shortest_path(*columns, weight, alternating, arrival) == least
        through = np.empty(4)
        interval_bounds.paths_through_segments(*columns, weight, arrival, alternating, remaining, through)
        assert through.tolist() == ([3.0, 5.0, math.inf, 3.0] if alternating else [2.0, 5.0, 2.0, 3.0])
