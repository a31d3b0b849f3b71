"""A few of many points keep the ends and the shape of a curve; of many lines the first are written out."""

from __future__ import annotations

import pytest

from clusterplan.planner.output.thinning import MOST_NAMED, MOST_ROWS, some, thinned

Pair = tuple[float, float]


def same(pair: Pair) -> Pair:
    """Return the pair itself, which is its own figures."""
    return pair


def test_few_points_stay() -> None:
    points = [(float(i), 1.0 / i) for i in range(1, MOST_ROWS + 1)]
    assert thinned(points, same) == points


@pytest.mark.parametrize("count", [MOST_ROWS + 1, 100, 5000])
def test_many_points_keep_their_ends_and_order(count: int) -> None:
    points = [(float(i), 1.0 / i) for i in range(1, count + 1)]
    chosen = thinned(points, same)
    assert len(chosen) <= MOST_ROWS
    assert (chosen[0], chosen[-1]) == (points[0], points[-1])
    assert chosen == sorted(chosen)


def test_points_are_even_on_logarithmic_axes() -> None:
    """Most of these points lie at the far end; of each tenfold there are about as many."""
    points = [(float(i), 1.0 / i) for i in range(1, 10_001)]
    chosen = thinned(points, same)
    tenfolds = [sum(10**k <= a < 10 ** (k + 1) for a, _ in chosen) for k in range(4)]
    assert max(tenfolds[1:]) - min(tenfolds[1:]) <= 2


def test_figures_of_zero_and_points_all_alike_do_not_count() -> None:
    assert len(thinned([(0.0, 0.0)] * 100, same)) <= MOST_ROWS
    mixed = [(float(i), 0.0) for i in range(1, 101)]
    assert thinned(mixed, same)[-1] == mixed[-1]


def test_of_many_lines_the_first_and_their_number_are_said() -> None:
    lines = [str(i) for i in range(MOST_NAMED + 3)]
    assert list(some(lines, "and {:,} more")) == [*lines[:MOST_NAMED], "and 3 more"]
    assert list(some(lines[:2], "and {:,} more")) == ["0", "1"]
