"""What choice consists of on this floor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...formulations.choice.formulation import Chosen
from ..kind import PlannerKind
from ..reports.text import TextColumn


def _columns(instance: Any, entries: Sequence[Chosen]) -> list[TextColumn[Chosen]]:
    del instance, entries
    return [("item", False, lambda entry: entry.item)]


def _as_data(instance: Any, plan: Sequence[Chosen]) -> dict[str, Any]:
    del instance
    return {"items": [entry.item for entry in plan]}


def _page(instance: Any, result: Any) -> dict[str, Any]:
    del instance, result
    return {"scripts": (), "data": {"figures": {}}, "about": []}


CHOICE = PlannerKind(
    title="Choice: which item is the cheapest",
    columns=_columns,
    as_data=_as_data,
    page=_page,
    template="plan.html.j2",
    rows_of_plan="items",
)
