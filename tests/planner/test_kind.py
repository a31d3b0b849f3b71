"""What each kind brings to the planner's floor."""

from __future__ import annotations

import pytest
from sample_documents import DOCUMENT

import clusterplan
from clusterplan.planner.kind import PlannerKind
from clusterplan.planner.registry import KINDS
from clusterplan.planner.reports.text import cells_of


@pytest.mark.parametrize("name", KINDS)
def test_every_column_has_a_cell_for_every_entry(name: str) -> None:
    kind, plan = KINDS[name], clusterplan.solve(clusterplan.parse_instance(DOCUMENT[name])).plan
    assert plan
    rows = cells_of(kind.columns(plan), plan)
    assert len(rows) == len(plan)
    assert all(row[0] for row in rows)


@pytest.mark.parametrize("name", KINDS)
def test_a_plan_has_at_most_as_many_entries_as_the_list_it_names(name: str) -> None:
    instance = clusterplan.parse_instance(DOCUMENT[name])
    plan = clusterplan.solve(instance).plan
    assert plan is not None
    kind = KINDS[name]
    assert len(plan) <= instance.sizes()[kind.rows_of_plan] * kind.entries_of_row


def test_a_kind_that_says_nothing_else_leaves_nothing_out_and_has_no_trade_off() -> None:
    kind = PlannerKind(
        title="t",
        columns=lambda _: (),
        as_data=lambda *_: {},
        page=lambda *_: {},
        template="t.html",
        rows_of_plan="items",
    )
    assert list(kind.notes(None, 9)) == list(kind.left_out([])) == list(kind.actions(None, [])) == []
    assert kind.to_carry_out((1, 2), False) == [1, 2]
    assert (kind.frontier, kind.formats) == (None, {})
