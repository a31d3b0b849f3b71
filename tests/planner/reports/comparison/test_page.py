"""The page of a comparison in which solvers found no plan."""

from __future__ import annotations

from typing import Any

import pytest

from clusterplan.planner.comparison.comparison import Comparison
from clusterplan.planner.comparison.row import ComparisonRow
from clusterplan.planner.reports.comparison.files import to_csv
from clusterplan.planner.reports.comparison.markdown import comparison_markdown
from clusterplan.planner.reports.comparison.page import comparison_page


def row(solver: str, **more: Any) -> ComparisonRow:
    return ComparisonRow(**{"instance": "i", "kind": "consolidation", "solver": solver, **more})


PLAN = {"objective": 1.0, "gap_to_best_plan": 0.0, "best": True, "status": "feasible"}


@pytest.mark.parametrize(
    ("rows", "plots"),
    [
        ([row("a", status="infeasible"), row("b", status="infeasible")], ["Performance profile"]),
        ([row("a", status="unknown", limit="time"), row("b", status="error", message="died")], []),
        ([row("a", status="infeasible"), row("b", status="unknown")], ["Performance profile"]),
        ([row("a", **PLAN), row("b", status="unknown")], ["How good, how fast", "Performance profile"]),
        # A plan whose solver claimed a wrong bound is no success.
        ([row("a", objective=1.0, status="error")], ["How good, how fast"]),
    ],
)
def test_only_plots_that_have_something_to_show(rows: list[ComparisonRow], plots: list[str]) -> None:
    """Without any plan there is no plot of gaps, and without any success no profile; the tables stay."""
    comparison = Comparison(rows=tuple(rows))
    page = comparison_page(comparison)
    assert [name for name in ("How good, how fast", "Performance profile") if name in page] == plots
    assert ("<h2>Plots</h2>" in page) == bool(plots)
    assert ("Solvers in both plots" in page) == (len(plots) == 2)
    assert page.count("<td") > 2 * len(rows)
    assert len(to_csv(comparison).splitlines()) == 1 + len(rows)
    assert comparison_markdown(comparison).startswith(f"# {len(rows)} solver")


def test_what_is_only_claimed_is_not_called_proven() -> None:
    """Neither in the table of results nor in the sums; the file for programs has a column for it."""
    own = {**PLAN, "status": "optimal"}
    comparison = Comparison(rows=(row("a", **own), row("b", **own, only_claimed=True)))
    page = comparison_page(comparison)
    assert "1 proven optimal, 1 optimal as claimed, 0 without an answer" in page
    assert "optimal, as claimed" in page
    assert "1 (1 as claimed)" in comparison_markdown(comparison)
    titles, *lines = [line.split(",") for line in to_csv(comparison).splitlines()]
    assert [line[titles.index("only_claimed")] for line in lines] == ["False", "True"]
    assert [f">{n} of 1<" in comparison._repr_html_() for n in (0, 1)] == [True, True]
