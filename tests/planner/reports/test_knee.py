"""The knee of a frontier and its words."""

from __future__ import annotations

import pytest

from clusterplan.planner.reports.knee import knee, knee_words


def test_the_knee_lies_farthest_below_the_line_between_the_ends() -> None:
    assert knee([(100, 320), (95, 280), (84, 244), (72, 242), (63, 229)]) == 2
    assert knee([(10, 100), (9, 20), (1, 10)]) == 1
    assert knee([(8, 17), (5.2, 5), (3, 2), (2.17, 1.5), (1, 1)]) == 2


@pytest.mark.parametrize(
    "trades",
    [
        [],
        [(1, 1)],
        [(2, 2), (1, 1)],
        [(3, 3), (2, 2), (1, 1)],
        [(3, 9), (2, 8), (1, 1)],
        [(9, 9), (8, 1), (1, 0)],
    ],
)
def test_a_line_has_no_knee(trades: list[tuple[float, float]]) -> None:
    """Nor has one that bends the other way, or of fewer than three points."""
    assert knee(trades) is None


def test_a_trade_is_told_in_per_cent_or_as_a_multiple() -> None:
    assert knee_words(83.7 / 62.57, 244.2 / 228.66) == "34 % faster for 7 % more"
    assert knee_words(3.25, 4) == "3.2 times as fast for 4.0 times the cost"
    assert knee_words(1.5, 3.1) == "50 % faster for 3.1 times the cost"
