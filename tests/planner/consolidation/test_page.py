"""What the page of a placement shows."""

from __future__ import annotations

from placements import job, placement, server

import clusterplan
from clusterplan.planner.consolidation.page import consolidation_parts

INSTANCE = placement(["value"], [{**server(gpu=2), "count": 2}], [job("a", 2), job("b", 2), job("c", 3)])


def test_the_parts_of_a_page() -> None:
    """Servers in use, who waits and why, every job."""
    parts = consolidation_parts(INSTANCE, clusterplan.solve(INSTANCE))
    assert dict(parts["summary"]) == {"jobs placed": "2 of 3", "servers used by the plan": "2 of 2"}
    assert parts["bars"] == [("gpu", 1.0, "4 of the 4 that were free")]
    assert parts["detailed"] == 2
    assert parts["states"] is None
    assert len(parts["jobs"].rows) == 3
    assert parts["waiting"] is not None
    assert ("waiting", "Who waits, and why") in parts["sections"]


def test_without_a_plan_there_is_little_to_show() -> None:
    """Only what was asked."""
    jobs = [{**job("a", 9), "must_place": True}]
    instance = placement(["value"], [server(gpu=2)], jobs)
    parts = consolidation_parts(instance, clusterplan.solve(instance))
    assert parts["sections"] == []
    assert ("servers", "1") in parts["about"]
