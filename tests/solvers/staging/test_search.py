"""The search over stage times: its loops, incumbents, labels, and bounds that count some units."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_instances import random_staging
from staging_instances import two_layers

import clusterplan
from clusterplan.formulations.staging.formulation import StagingFormulation
from clusterplan.formulations.staging.stages import Stage
from clusterplan.instances.staging.generate import generate_staging
from clusterplan.solvers.common.base import Clock
from clusterplan.solvers.staging import kernels, search
from clusterplan.solvers.staging.core import Core, CoreColumns, core_of, narrow_core, state_tables
from clusterplan.solvers.staging.intervals import (
    Candidate,
    Cheapest,
    Fastest,
    Interval,
    Limits,
    NonDominated,
    Segments,
    candidate_of,
    plan_of,
)
from clusterplan.solvers.staging.labelling import search_labels
from clusterplan.solvers.staging.search import solve_dual


def arcs(layers: int, types: int, segments: Sequence[tuple[int, int, int]], alternating: bool) -> Segments:
    """Return candidate stages (first layer, last layer, type) without times."""
    places = np.array(segments).T.copy()
    parts, more = np.zeros((4, len(segments))), np.zeros((2, len(segments)))
    limits = Limits(np.zeros((0, types)), np.zeros(0))
    return Segments(layers, *places, *parts, types, alternating, limits, np.arange(len(segments)), *more)


ONE = np.ones(1)
NONE = np.zeros(1)


@pytest.mark.parametrize(
    ("serial", "parallel", "comm_parallel", "tau", "units"),
    [
        (0.0, 6.0, 0.0, 2.0, 3.0),  # an exact breakpoint: 6/3 = 2
        (0.0, 6.0, 0.0, math.nextafter(2.0, 0.0), 4.0),
        (0.0, 6.0, 9.0, 2.0, 5.0),  # the transfer asks for more
        (1.0, 0.0, 0.0, 1.0, 1.0),  # nothing is parallel, and 0/0 asks for no more units
        (1.0, 1.0, 0.0, 1.0, math.inf),  # no number of units is fast enough
        (3.0, 1.0, 0.0, 2.0, math.inf),
        (0.0, 101.0, 0.0, 1.0, math.inf),  # more than the limit of 100
        (1.0, 1e-30, 0.0, 1.0, 1.0),  # A vanishes beside S
    ],
)
def test_fewest_units_and_their_cost(
    serial: float, parallel: float, comm_parallel: float, tau: float, units: float
) -> None:
    parts = serial * ONE, parallel * ONE, NONE, comm_parallel * ONE, 100 * ONE
    found = np.empty((1, 1))
    kernels.fewest_units(*parts, np.array([tau]), found)
    assert found[0, 0] == units
    need, cost = np.empty((2, 1))
    kernels.least_cost(*parts, 2 * ONE, tau, tau, np.zeros(1, bool), need, cost)
    assert need[0] == (units if math.isfinite(units) else 1.0)
    assert cost[0] == 2 * units * tau


def test_paths_of_two_layers() -> None:
    """Whole on type 0 costs 5; 1 + 2 on types 0 and 1 costs 3; 1 + 1 on type 0 alone must not alternate."""
    segments = [(0, 0, 0), (0, 1, 0), (1, 1, 0), (1, 1, 1)]
    weight = np.array([1.0, 5.0, 1.0, 2.0])
    for alternating, least, path in ((True, 3.0, [0, 3]), (False, 2.0, [0, 2])):
        graph = arcs(2, 2, segments, alternating)
        shortest, arrival = graph.forward(weight)
        assert shortest == least
        assert graph.backward(weight[None])[0, 0].min() == least
        through = [3.0, 5.0, math.inf, 3.0] if alternating else [2.0, 5.0, 2.0, 3.0]
        assert graph.through(weight, arrival).tolist() == through
        assert graph.cheapest(weight, arrival).tolist() == path


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6), data=st.data())
def test_fewest_units_of_all_runs_at_once(seed: int, data: st.DataObject) -> None:
    """Units keep the stage time to the last bit, and one fewer does not, at and around exact breakpoints."""
    times = Segments.of(StagingFormulation(random_staging(seed)), 1e9)
    if not len(times):
        return
    run = data.draw(st.integers(0, len(times) - 1))
    at = times.time_s(np.full(len(times), data.draw(st.integers(1, 50))))[run]
    if not 0 < at < math.inf:
        return
    taus = np.array([math.nextafter(at, 0), at, math.nextafter(at, math.inf)])
    units = times.fewest_units(taus)
    able = np.isfinite(units)
    few = np.where(able, units, 1.0)
    assert (times.time_s(few) <= taus[:, None])[able].all()
    less = np.maximum(few - 1, 1.0)
    assert (times.time_s(less) > taus[:, None])[able & (few > 1)].all()
    assert (times.time_s(times.most) > taus[:, None])[~able].all()


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6), layers=st.integers(1, 4), types=st.integers(1, 3), alternating=st.booleans()
)
def test_shortest_paths_are_those_of_enumeration(
    seed: int, layers: int, types: int, alternating: bool
) -> None:
    """Forward, backward and the path itself agree with the least over all paths."""
    rng = np.random.default_rng(seed)
    segments = [(a, b, t) for b in range(layers) for t in range(types) for a in range(b + 1)]
    segments = [segment for segment in segments if rng.random() < 0.8] or segments
    graph = arcs(layers, types, segments, alternating)

    def paths(layer: int, before: int) -> list[list[int]]:
        if layer == layers:
            return [[]]
        return [
            [i, *rest]
            for i, (a, b, t) in enumerate(segments)
            if a == layer and not (alternating and t == before)
            for rest in paths(b + 1, t)
        ]

    every = paths(0, -1)
    for weight in rng.uniform(0, 1, (2, len(segments))):
        shortest, arrival = graph.forward(weight)
        through = graph.through(weight, arrival)
        values = [float(weight[own].sum()) for own in every]
        assert shortest == pytest.approx(min(values, default=math.inf))
        for i in range(len(segments)):
            least = min((v for v, own in zip(values, every, strict=True) if i in own), default=math.inf)
            assert through[i] == pytest.approx(least)
        if every:
            path = graph.cheapest(weight, arrival)
            assert float(weight[path].sum()) == pytest.approx(min(values))


def case(seed: int) -> tuple[Segments, Interval, np.ndarray]:
    """Return an interval of an instance with three types and tight limits, and good prices."""
    formulation = StagingFormulation(generate_staging(5, 3, "tight", seed=seed))
    slowest = formulation.latest_s
    segments = Segments.of(formulation, slowest)
    interval = segments.interval(slowest * 0.9, slowest, np.zeros(len(segments.limits)))
    return segments, interval, solve_dual(segments, interval, math.inf, Clock()).prices


def paths(columns: CoreColumns, layer: int = 0, before: int = -1) -> list[list[int]]:
    """Return all paths of a core, within the limits or not."""
    if layer == columns.layers:
        return [[]]
    own = [i for i in np.flatnonzero(columns.first == layer).tolist() if columns.unit_type[i] != before]
    return [
        [i, *rest] for i in own for rest in paths(columns, int(columns.after[i]), int(columns.unit_type[i]))
    ]


@pytest.mark.parametrize("seed", range(12))
def test_labels_find_the_cheapest_of_all_paths(seed: int) -> None:
    """Within the limits and below the cutoff, at any prices."""
    formulation = StagingFormulation(generate_staging(8, 3, "tight", seed=seed))
    slowest = formulation.latest_s
    segments = Segments.of(formulation, slowest)
    interval = segments.interval(slowest * 0.8, slowest, np.zeros(len(segments.limits)))
    dual = solve_dual(segments, interval, math.inf, Clock())
    interval.bound = dual.bound
    for prices in (dual.prices, 0 * dual.prices, 3 * dual.prices):
        cutoff = 1.2 * abs(dual.bound)
        core = core_of(segments, interval, prices, cutoff)
        columns = CoreColumns(segments, interval, core)
        costs = [
            float(columns.cost[way].sum())
            for way in paths(columns)
            if (columns.use[way].sum(axis=0) <= columns.capacity).all()
        ]
        least = min((cost for cost in costs if cost < cutoff), default=math.inf)
        labels = search_labels(segments, interval, core, prices, cutoff, Clock())
        assert labels.bound == pytest.approx(least)
        assert (labels.path is None) == math.isinf(least)
        if labels.path is not None:
            assert segments.fits(labels.path, interval.units[labels.path])
            assert float(interval.cost[labels.path].sum()) == pytest.approx(least)
        narrow = search_labels(segments, interval, core, prices, cutoff, Clock(), (1,))
        if narrow.path is not None:
            assert segments.fits(narrow.path, interval.units[narrow.path])
        assert narrow.bound == -math.inf or narrow.bound == pytest.approx(least)


@pytest.mark.parametrize("seed", [2, 4, 5, 8, 10, 12])
def test_a_table_has_the_least_rest_by_units_left(seed: int) -> None:
    """From the first layer on, with each number of units of the one type that has a price."""
    segments, interval, prices = case(seed)
    columns = CoreColumns(segments, interval, Core(np.flatnonzero(np.isfinite(interval.cost))))
    row = int(prices.argmax())
    other = np.where(np.arange(len(prices)) == row, prices, 0.0)
    (table,) = state_tables(columns, other, 1.0, 2)
    assert table.places.tolist() == (other > 0).astype(int).tolist()
    assert not table.prices.any()
    ways = paths(columns)
    for left in range(int(columns.capacity[row]) + 1):
        values = [
            columns.cost[way].sum() + columns.use[way].sum(axis=0) @ table.prices
            for way in ways
            if columns.use[way, row].sum() <= left
        ]
        assert table.rest[0, :, left].min() == pytest.approx(min(values, default=math.inf))


@pytest.mark.parametrize("seed", [2, 4, 5, 8, 10, 12])
def test_narrowing_keeps_every_path_below_the_cutoff(seed: int) -> None:
    """And its bound is none above the best path, nor below that of the prices."""
    segments, interval, prices = case(seed)
    whole = core_of(segments, interval, prices, math.inf)
    columns = CoreColumns(segments, interval, whole)
    within = [way for way in paths(columns) if (columns.use[way].sum(axis=0) <= columns.capacity).all()]
    costs = sorted((float(columns.cost[way].sum()), way) for way in within)
    best = costs[0][0]
    cutoff = 1.02 * best
    core, bound = narrow_core(segments, interval, whole, prices, cutoff, Clock())
    by_prices = solve_dual(segments, interval, math.inf, Clock()).bound
    assert by_prices * (1 - 1e-9) <= bound <= best * (1 + 1e-9)
    needed = [columns.segment[way] for cost, way in costs if cost < cutoff]
    assert set(itertools.chain(*needed)) <= set(core.segment.tolist())
    none, infinite = narrow_core(segments, interval, whole, prices, best * (1 - 1e-6), Clock())
    assert len(none) <= len(core)
    assert math.isinf(infinite) == (not len(none))


def test_where_one_unit_is_missing_nothing_is_left() -> None:
    """Without costs, a core in which every path needs more units than there are is empty."""
    segments, interval, prices = case(2)
    free = interval.without_costs()
    core = Core(np.flatnonzero(np.isfinite(interval.cost)))
    prices = np.ones_like(prices)
    assert len(narrow_core(segments, free, core, prices, 1e-6, Clock(), 0.0)[0])
    columns = CoreColumns(segments, free, core)
    least = min(free.units[columns.segment[way]].sum() for way in paths(columns))
    segments.limits.capacity[:] = np.ceil(least / len(prices)) - 1
    assert not len(narrow_core(segments, free, core, prices, 1e-6, Clock(), 0.0)[0])


# Two layers: whole on type 0 with 2 units, or layer by layer with 1 unit of type 0 and then 1 of type 1.
FIRST, AFTER, TYPE = np.array([0, 0, 1]), np.array([1, 2, 2]), np.array([0, 0, 1])
WEIGHT = np.array([1.0, 5.0, 2.0])
DIGITS = np.array([[1, 2, 3], [2, 1, 3], [0, 3, 3]])
"""The units of type 0 are counted, of which there are two: states 0, 1 and 2."""


def test_least_weights_by_units_used_and_through_columns() -> None:
    least, rest = np.full((3, 2, 3), math.inf), np.zeros((3, 2, 3))
    least[0, :, 0] = 0.0
    kernels.least_by_state(FIRST, AFTER, TYPE, WEIGHT, DIGITS, True, least)
    assert least[1].tolist() == [[math.inf] * 3, [math.inf, 1.0, math.inf]]
    assert least[2].min(axis=0).tolist() == [math.inf, 3.0, 5.0]
    rest[1] = [[2.0], [math.inf]]
    through = kernels.through_states(FIRST, AFTER, TYPE, WEIGHT, DIGITS, least, rest)
    assert through.tolist() == [3.0, 5.0, 3.0]


def test_labels_are_extended_within_limits_and_bounds() -> None:
    labels = np.array([1, 1, 0]), np.array([[0.0], [2.0], [0.0]]), np.array([1.0, 1.0, 1.0])
    core = np.array([1]), np.array([0]), np.array([[1.0]]), np.array([3.0])
    one = np.ones(1)
    bounds = one, np.zeros((1, 1)), np.zeros((1, 1), dtype=np.int64), np.array([0]), np.full((2, 2, 1), 2.0)
    moved = np.empty((3, 2), dtype=np.int64)
    columns = np.array([0])
    # The second has no unit left, the third has the same type, and the first costs 1 + 3 + 2.
    kept, work = kernels.extend(labels, columns, core, 2 * one, True, bounds, 6 * one, moved)
    assert (kept, work, moved[0].tolist()) == (1, 1, [0, 0])
    kept, work = kernels.extend(labels, columns, core, 2 * one, True, bounds, 5.9 * one, moved)
    assert (kept, work) == (0, 1)


def plan(time: float, cost: float) -> Candidate:
    return Candidate(time, cost, np.array([0]), np.array([1.0]))


def test_the_cheapest_plan_is_kept_within_the_cost_limit() -> None:
    """The cutoff is the limit at first, then just below the best cost, at every stage time."""
    incumbent = Cheapest(10.0, gap=0.0)
    assert not incumbent.update(plan(1.0, 10.1))
    assert incumbent.cutoff(0.0) == pytest.approx(10.0)
    assert [incumbent.update(plan(1.0, cost)) for cost in (9.0, 9.0, 8.0, 8.5)] == [True, False, True, False]
    assert incumbent.best.cost_usd == 8.0
    assert 8.0 * (1 - 1e-9) < incumbent.cutoff(5.0) < 8.0


def test_the_gap_lowers_the_cutoff() -> None:
    """Half of it is left to the bound, half to the rounding of plans."""
    incumbent = Cheapest(math.inf, gap=0.1)
    assert math.isinf(incumbent.cutoff(0.0))
    incumbent.update(plan(1.0, 100.0))
    assert incumbent.cutoff(0.0) == pytest.approx(95.0)


def test_the_fastest_plan_leaves_slower_intervals_out() -> None:
    """In faster ones a plan matters up to the cost limit; ties go to the cheaper plan."""
    incumbent = Fastest(10.0, gap=0.0)
    assert not incumbent.update(plan(0.1, 11.0))
    assert [incumbent.update(plan(2.0, cost)) for cost in (9.0, 8.0, 9.0)] == [True, True, False]
    assert incumbent.best.time_s == 2.0
    assert incumbent.cutoff(2.0) == -math.inf
    assert incumbent.cutoff(1.9) == pytest.approx(10.0)


def test_plans_that_others_beat_are_no_points() -> None:
    """A better plan drops all that it beats, and the cutoff falls with the stage time."""
    incumbent = NonDominated(math.inf, error=0.0)
    assert incumbent.update(plan(1.0, 9.0))
    assert incumbent.update(plan(3.0, 5.0))
    assert not incumbent.update(plan(3.5, 5.0))
    assert not incumbent.update(plan(1.0, 9.5))
    assert incumbent.update(plan(2.0, 6.0))
    assert [point.time_s for point in incumbent.points] == [1.0, 2.0, 3.0]
    assert incumbent.update(plan(1.5, 4.0))
    assert [point.cost_usd for point in incumbent.points] == [9.0, 4.0]
    assert math.isinf(incumbent.cutoff(0.5))
    assert incumbent.cutoff(1.2) == pytest.approx(9.0)
    assert incumbent.cutoff(7.0) == pytest.approx(4.0)


def test_plans_become_candidates_and_back() -> None:
    """With their stage time and cost."""
    formulation = StagingFormulation(two_layers())
    stages = (
        Stage(first_layer=0, last_layer=0, type="slow", units=2),
        Stage(first_layer=1, last_layer=1, type="fast", units=2),
    )
    candidate = candidate_of(formulation, stages)
    assert (candidate.time_s, candidate.cost_usd) == (3.0, pytest.approx(36.0))
    assert plan_of(formulation, candidate) == stages


@pytest.mark.parametrize(
    "changed",
    [
        {"FEW_SEGMENTS": 0, "MOST_KEPT_SHARE": 1.0},
        {"MOST_AT_ONCE": 1, "SEGMENTS_AT_ONCE": 1},
        {"HALVED_ABOVE_RATIO": 1.0, "CORE_AT_ANY_WIDTH": 0},
    ],
)
def test_tuning_changes_no_optimum(monkeypatch: pytest.MonkeyPatch, changed: dict[str, Any]) -> None:
    """Segments are dropped, intervals taken one by one, cores tried late: the answers stay."""
    instances = [random_staging(seed) for seed in range(12)]
    before = [clusterplan.solve(instance, "exact").objective for instance in instances]
    for name, value in changed.items():
        monkeypatch.setattr(search, name, value)
    assert [clusterplan.solve(instance, "exact").objective for instance in instances] == [
        None if value is None else pytest.approx(value, rel=1e-9) for value in before
    ]
