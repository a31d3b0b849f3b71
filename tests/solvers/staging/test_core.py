"""Bounds that count some units, against all paths of small cores.

The compiled loops over the columns of a core on inputs whose answer is known.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from clusterplan.formulations.staging.formulation import StagingFormulation
from clusterplan.instances.staging.generate import generate_staging
from clusterplan.solvers.common.base import Clock
from clusterplan.solvers.staging import core as kernels
from clusterplan.solvers.staging.core import Columns, Core, core_of, narrow_core, state_tables
from clusterplan.solvers.staging.intervals import Interval, Segments
from clusterplan.solvers.staging.search import solve_dual


def case(seed: int) -> tuple[Segments, Interval, np.ndarray]:
    """Return an interval of an instance with three types and tight limits, and good prices."""
    formulation = StagingFormulation(generate_staging(5, 3, "tight", seed=seed))
    slowest = formulation.latest_s
    segments = Segments.of(formulation, slowest)
    interval = segments.interval(slowest * 0.9, slowest, np.zeros(len(segments.limits)))
    return segments, interval, solve_dual(segments, interval, math.inf, Clock()).prices


def paths(columns: Columns, layer: int = 0, before: int = -1) -> list[list[int]]:
    """Return all paths of a core, within the limits or not."""
    if layer == columns.layers:
        return [[]]
    own = [i for i in np.flatnonzero(columns.first == layer).tolist() if columns.unit_type[i] != before]
    return [
        [i, *rest] for i in own for rest in paths(columns, int(columns.after[i]), int(columns.unit_type[i]))
    ]


@pytest.mark.parametrize("seed", [2, 4, 5, 8, 10, 12])
def test_a_table_has_the_least_rest_by_units_left(seed: int) -> None:
    """From the first layer on, with each number of units of the one type that has a price."""
    segments, interval, prices = case(seed)
    columns = Columns(segments, interval, Core(np.flatnonzero(np.isfinite(interval.cost))))
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
    columns = Columns(segments, interval, whole)
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
    columns = Columns(segments, free, core)
    least = min(free.units[columns.segment[way]].sum() for way in paths(columns))
    segments.limits.capacity[:] = np.ceil(least / len(prices)) - 1
    assert not len(narrow_core(segments, free, core, prices, 1e-6, Clock(), 0.0)[0])


# Two layers: whole on type 0 with 2 units, or layer by layer with 1 unit of type 0 and then 1 of type 1.
FIRST, AFTER, TYPE = np.array([0, 0, 1]), np.array([1, 2, 2]), np.array([0, 0, 1])
WEIGHT = np.array([1.0, 5.0, 2.0])
DIGITS = np.array([[1, 3, 1], [1, 3, 2], [3, 1, 0]])
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
