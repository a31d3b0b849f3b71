"""What the pages of all frontiers share: points thinned evenly, and drawn.

The knee of a frontier and its words.
"""

from __future__ import annotations

import itertools

import pytest

from clusterplan.planner.reports.frontier_page import Drawing, evenly, knee, knee_words


@pytest.mark.parametrize("count", [1, 7, 10])
def test_few_points_all_stay(count: int) -> None:
    assert evenly(range(count), 10) == [*range(count)]


def test_many_points_are_thinned_evenly_and_the_ends_stay() -> None:
    kept = evenly(range(4000), 1500)
    assert (len(kept), kept[0], kept[-1]) == (1500, 0, 3999)
    assert max(b - a for a, b in itertools.pairwise(kept)) == 3


def test_points_are_drawn_with_a_line_of_hover_text_for_each_figure() -> None:
    drawing = Drawing[tuple[int, int]](lambda point: (point[0], 10 * point[1]), lambda _: ["a", "b"], "hv")
    line = drawing.line([(1, 2), (3, 4)])
    assert (line["x"], line["y"]) == ([1, 3], [20, 40])
    assert line["customdata"] == [["point 1", "a", "b"], ["point 2", "a", "b"]]
    assert line["hovertemplate"].count("customdata") == 3
    assert line["line"]["shape"] == "hv"
    assert drawing.ring((3, 4))["y"] == [40]
    assert drawing.star((1, 2), "today")["customdata"] == [["today", "a", "b"]]


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
