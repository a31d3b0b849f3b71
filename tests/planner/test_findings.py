"""What the checks of all frontiers share."""

from __future__ import annotations

from typing import Any

from sample_documents import STAGING

import clusterplan
from clusterplan.planner.findings import (
    figure_faults,
    frontier_faults,
    order_faults,
    stated,
)

INSTANCE = clusterplan.parse_instance(STAGING)
FRONTIER = clusterplan.pareto(INSTANCE)


def changed(**change: Any) -> Any:
    """Return the frontier with other fields."""
    return FRONTIER.model_copy(update=change)


def test_a_right_frontier_has_no_faults() -> None:
    assert FRONTIER.status == "complete"
    assert list(frontier_faults(INSTANCE, FRONTIER)) == []


def test_what_is_no_claim_is_stated() -> None:
    words = list(stated(changed(status="partial", limit="time")))
    assert "versions" in words[0]
    assert words[1:] == ["that a time limit ended the search", "that better points may be missing"]


def test_figures_that_do_not_agree_are_named() -> None:
    assert list(figure_faults("weight", 2.0, 2.0)) == []
    assert list(figure_faults("rate", 2.0, 2.5, "it costs")) == ["rate is stored as 2; it costs 2.5"]


def test_points_that_are_not_in_order_are_named() -> None:
    points = FRONTIER.points
    assert len(points) > 1
    assert list(order_faults(FRONTIER)) == []
    twice = changed(points=(*points, points[-1]))
    place = f"points[{len(points)}]"
    assert list(order_faults(twice)) == [f"{place} is not slower and cheaper than the one before"]
