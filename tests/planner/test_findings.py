"""What the checks of all frontiers share."""

from __future__ import annotations

from typing import Any

import pytest
from sample_documents import STAGING

import clusterplan
from clusterplan.formulations.common.objective import Diagnosis
from clusterplan.planner.findings import (
    Findings,
    figure_faults,
    frontier_faults,
    note_extent,
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


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"instance_sha256": "0" * 64}, "instance_sha256"),
        ({"instance": "other"}, "it is called 's'"),
        ({"points": (), "certified_error": None}, "complete, without points"),
        ({"status": "infeasible"}, "infeasible, with points"),
        ({"points": (), "status": "partial"}, "certified_error is given"),
        ({"diagnosis": Diagnosis(reasons=("x",))}, "diagnosis says why"),
    ],
)
def test_each_fault_is_named(change: dict[str, Any], fault: str) -> None:
    found = list(frontier_faults(INSTANCE, changed(**change)))
    assert len(found) == 1
    assert fault in found[0]


def test_an_error_that_is_not_certified_is_claimed() -> None:
    found = Findings()
    note_extent(found, changed(certified_error=None), "", default=1e-4)
    assert len(found.claimed) == 1
    assert found.within is None


def test_a_large_error_and_a_limit_of_cost_say_what_complete_means() -> None:
    found = Findings()
    note_extent(found, changed(error=0.1, certified_error=0.05), " of at most 9 USD", default=1e-4)
    assert found.within == "complete means an error of at most 0.1 for all plans of at most 9 USD here"
    assert found.claimed == []
    none = Findings()
    note_extent(none, changed(status="infeasible"), " of at most 9 USD", default=1e-4)
    assert none.within == "infeasible means no plan of at most 9 USD here"


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
