"""What the pages of all frontiers share: points thinned evenly, and drawn."""

from __future__ import annotations

import itertools

import pytest

from clusterplan.planner.reports.frontier_figure import Drawing
from clusterplan.planner.reports.frontier_page import evenly


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
