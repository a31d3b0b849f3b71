"""The parts of an allocation's page."""

from __future__ import annotations

import clusterplan
from clusterplan.formulations.allocation.plan import JobAllocation
from clusterplan.instances.allocation.generate import generate_allocation
from clusterplan.planner.allocation.page import MOST_JOBS, allocation_parts, shown_rows, usage_bars


def test_the_parts_of_a_plan() -> None:
    """Every resource has a bar, every job a row, and dual prices a column."""
    instance = generate_allocation(5, 2, 0.6, seed=5)
    result = clusterplan.solve(instance, "exact")
    parts = allocation_parts(instance, result)
    assert [name for name, _, _ in parts["bars"]] == ["cpu", "gpu"]
    assert all(0 < share <= 1 for _, share, _ in parts["bars"])
    assert len(parts["jobs"].rows) == 5
    assert "price" in [column.title for column in parts["resources"].columns]
    assert parts["cut"] is None
    assert not parts["waits"]


def test_a_long_plan_is_cut_to_the_slowest_and_some_others() -> None:
    """The order stays, and the slowest job is there."""
    plan = [
        JobAllocation(job=str(j), variant="v", workers=1, completion_s=float(j % 977)) for j in range(9000)
    ]
    plan[4321] = plan[4321].model_copy(update={"completion_s": 1e6})
    shown = shown_rows(plan)
    assert len(shown) <= MOST_JOBS
    assert plan[4321] in shown
    places = [int(entry.job) for entry in shown]
    assert places == sorted(places)
    assert shown_rows(plan[:10]) == plan[:10]


def test_bars_say_share_and_amounts() -> None:
    """An empty resource has an empty bar."""
    assert usage_bars({"gpu": 4.0, "cpu": 0.0}, {"gpu": 3.0}) == [
        ("gpu", 0.75, "3 of 4, 75.0 %"),
        ("cpu", 0.0, "0 of 0"),
    ]
    assert usage_bars({"gpu": 4.0}, None) == []
