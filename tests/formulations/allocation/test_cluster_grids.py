"""The proven error of points on a grid of clusters, by hand."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

from clusterplan.formulations.allocation.cluster_grids import (
    ClusterGrid,
    Interval,
    cluster_grid_of,
    intervals,
    proven_error,
)
from clusterplan.instances.allocation.generate import generate_allocation


def grid() -> ClusterGrid:
    """Return a grid of scaled clusters."""
    return cluster_grid_of(generate_allocation(3, 1, 0.5, seed=1), "fixed", {"cpu": 1.0}, None)


def test_the_error_is_the_largest_distance_of_a_value_from_the_bound_above_it() -> None:
    """Below the middle there is no plan; above it the value 10 has the bound 8 of the last step."""
    clusters = grid()
    last = clusters.last
    middle = clusters.at_most(last / 2)
    below = clusters.previous(middle)
    bounds = {below: math.inf, middle: 9.5, last: 8.0}
    assert proven_error(clusters, {middle: 10.0}, bounds) == pytest.approx(0.2)
    assert proven_error(clusters, {middle: 10.0, last: 8.0}, bounds) == pytest.approx(0.2)
    above = clusters.next(middle)
    assert proven_error(clusters, {middle: 10.0, above: 8.0}, bounds) == pytest.approx(0.05)


def test_without_a_proof_that_cheaper_clusters_have_no_plan_there_is_no_error() -> None:
    """The error is unknown, not large."""
    clusters = grid()
    assert proven_error(clusters, {clusters.last: 8.0}, {clusters.last: 8.0}) is None
    below = clusters.previous(clusters.last)
    assert proven_error(clusters, {clusters.last: 8.0}, {clusters.last: 8.0, below: math.inf}) == 0


def test_intervals_cover_the_grid_without_overlap() -> None:
    """Each ends at a step with a bound, and the next begins one step above."""
    clusters = grid()
    middle = clusters.at_most(clusters.last / 2)
    found = intervals(clusters, {middle: 10.0}, {middle: 9.0, clusters.last: 8.0})
    assert [part.high for part in found] == [middle, clusters.last]
    assert found[0].low == 0
    assert found[1].low == clusters.next(middle)
    assert found[1].point == middle
    assert found[0].point is None


def test_a_bound_above_a_value_contradicts_it() -> None:
    """Rounding does not."""
    one = Fraction(1)
    assert Interval(one, one, one, 10.0, 10.1).contradicts
    rounded = Interval(one, one, one, 10.0, 10.0 * (1 + 1e-12))
    assert not rounded.contradicts
    assert rounded.error == 0
