"""A plan as a table, as data, and in numbers."""

from __future__ import annotations

from placements import job, placement, server

import clusterplan
from clusterplan.formulations.consolidation.plan import JobPlacement
from clusterplan.planner.consolidation.plan import as_data, columns, left_out, notes
from clusterplan.planner.output.text import cells_of

INSTANCE = placement(
    ["value"], [server("n", gpu=2)], [job("a", 2, value=1, current={"n": 2}), job("b", 1), job("c", 1)]
)

PLAN = (
    JobPlacement(job="a", servers={"n": 2}, action="keep"),
    JobPlacement(job="b", placed=False, reason="waits: full", action="wait"),
    JobPlacement(job="c", placed=False, reason="waits: full", action="wait"),
)


def test_the_table_says_where_or_why_not() -> None:
    """With a column of actions where jobs run now."""
    assert [title for title, *_ in columns(PLAN)] == ["job", "action", "where, or why not"]
    assert cells_of(columns(PLAN), PLAN)[0] == ["a", "keep", "2×n"]
    assert cells_of(columns(PLAN), PLAN)[1] == ["b", "wait", "waits: full"]
    assert columns([JobPlacement(job="a", servers={"n": 2})])[1][:2] == ("placed", False)
    groups = JobPlacement(job="a", groups={"ps": {"n": 1}, "worker": {"n": 1}})
    assert cells_of(columns([groups]), [groups]) == [["a", "yes", "ps: 1×n; worker: 1×n"]]


def test_the_plan_as_data() -> None:
    """Tasks by server, what becomes of running jobs, and who is left out."""
    assert as_data(INSTANCE, PLAN) == {
        "jobs": {"a": {"n": 2}},
        "actions": {"a": "keep", "b": "wait", "c": "wait"},
        "runs_now_on": {},
        "unplaced": {"b": "waits: full", "c": "waits: full"},
    }
    assert list(left_out([JobPlacement(job="x", placed=False)])) == [("x", "no reason is given")]


def test_notes_count_actions_and_reasons() -> None:
    """The reasons only where the table does not show every job."""
    result = clusterplan.solve(INSTANCE)
    assert list(notes(result, 3)) == ["jobs: 2 to start, 1 to stop"]
    few = list(notes(result, 1))
    assert few[1] == "1 of 3 jobs are not placed"
    assert few[2].startswith("  1 × would be stopped where it runs now (n)")
