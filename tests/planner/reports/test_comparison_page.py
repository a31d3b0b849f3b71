"""The axis of gaps, and what is drawn on it.

The table and the plots of what kinds say of plans.

The page of a comparison in which solvers found no plan.
"""

from __future__ import annotations

from typing import Any

import pytest
from sample_pages import sample_comparison

from clusterplan.planner.batch.comparison import Comparison
from clusterplan.planner.batch.comparison_rows import ComparisonRow, Distribution, Measure, Measures
from clusterplan.planner.reports.comparison_page import (
    LEAST_GAP,
    MAX_PLOTS,
    GapScale,
    comparison_markdown,
    comparison_page,
    distribution_plots,
    gap_figure,
    measure_cell,
    measures_table,
    profile_figure,
    sentence,
    to_csv,
)


def test_whole_powers_of_ten_hold_all_gaps() -> None:
    assert GapScale.of([2e-3, 0.5, None, 0.0]) == GapScale(-3, 0, unknown=True)
    assert GapScale.of([]) == GapScale.of([0.0, LEAST_GAP]) == GapScale(-4, 0, unknown=False)
    assert GapScale.of([0.05]) == GapScale(-2, -1, unknown=False)
    assert GapScale.of([0.1]) == GapScale(-1, 0, unknown=False)  # never of no length


def test_gaps_of_zero_lie_below_and_unknown_ones_above_all_others() -> None:
    scale = GapScale(-3, 0, unknown=True)
    heights = [scale.height(gap) for gap in (0.0, LEAST_GAP, 2e-3, 1.0, None)]
    assert heights == pytest.approx([1e-4, 1e-4, 2e-3, 1.0, 10.0])


def test_ticks_are_per_cent_and_the_rails_have_names() -> None:
    axis = GapScale(-3, 0, unknown=True).axis()
    ticks = dict(zip(axis["ticktext"], axis["tickvals"], strict=True))
    assert ticks == pytest.approx(
        {"0.1 %": 1e-3, "1 %": 1e-2, "10 %": 0.1, "100 %": 1.0, "0": 1e-4, "unknown": 10.0}
    )
    known = GapScale(-3, 0, unknown=False)
    assert "unknown" not in known.axis()["ticktext"]
    assert (len(known.borders()), len(GapScale(-3, 0, unknown=True).borders())) == (1, 2)
    assert len(GapScale(-300, 8, unknown=True).axis()["tickvals"]) <= 12


def test_every_plan_is_drawn_once_in_the_trace_of_its_solver() -> None:
    comparison = sample_comparison(5)
    traces = gap_figure(comparison)["data"]
    assert len(traces) == len(comparison.solvers)
    for solver, trace in zip(comparison.solvers, traces, strict=True):
        own = [row for row in comparison.rows if row.solver == solver and row.objective is not None]
        assert len(trace["x"]) == len(trace["y"]) == len(trace["customdata"]) == len(own)
    profile = profile_figure(comparison, 1e-3)["data"]
    assert all(max(trace["y"], default=0) <= 100 for trace in profile)


def test_the_sentence_counts_what_the_plot_leaves_out() -> None:
    rows = sample_comparison(5).rows
    plans = sum(row.objective is not None for row in rows)
    assert sentence(rows).startswith(f"{plans} plans; ")
    assert f"{len(rows) - plans} solves without a plan" in sentence(rows)


SPREAD = Distribution(name="completion time", of="jobs", seconds=(0.0, 60.0, 7200.0), shares=(0.2, 0.5, 1.0))


def row(solver: str, instance: str = "i", **more: Any) -> ComparisonRow:
    figures = (Measure(name="mean", value=90.0, unit="s"), Measure(name="idle", value=0.25, unit="share"))
    measures = Measures(figures=figures, distribution=SPREAD)
    fields = {"kind": "scheduling", "status": "feasible", "objective": 1.0, "measures": measures}
    return ComparisonRow(**{"instance": instance, "solver": solver, **fields, **more})


def test_each_plan_has_a_line_with_its_distance_from_the_bound() -> None:
    """Figures are in their units; a plan without one has a dash."""
    rows = (row("a", gap_to_best_bound=0.1), row("b", measures=Measures(figures=())), row("c"))
    table = measures_table(Comparison(rows=rows))
    assert [column.title for column in table.columns] == ["solver", "gap to best bound", "mean", "idle"]
    assert [cell.text for cell in table.rows[0]] == ["a", "10.00 %", "90 s", "25.0 %"]
    assert [line[0].text for line in table.rows] == ["a", "c"]
    assert measure_cell(None).text == measure_cell(Measure(name="x", value=None)).text == "–"
    assert measures_table(Comparison(rows=(row("a", measures=None),))) is None


def test_distributions_are_overlaid_on_a_logarithmic_axis() -> None:
    """A curve for each plan in its solver's colour; times of 0 cannot be drawn."""
    (plot,) = distribution_plots(Comparison(rows=(row("a"), row("b"))))
    assert [trace["meta"]["key"] for trace in plot.figure["data"]] == [0, 1]
    assert plot.figure["data"][0]["x"] == [0.0166667, 2.0]
    assert plot.figure["data"][0]["y"] == [50.0, 100.0]
    assert plot.figure["layout"]["xaxis"]["type"] == "log"
    many = tuple(row("a", instance=f"i{k}") for k in range(MAX_PLOTS + 2))
    assert len(distribution_plots(Comparison(rows=many))) == MAX_PLOTS
    nothing = Distribution(name="time", of="jobs", seconds=(0.0,), shares=(1.0,))
    (plot,) = distribution_plots(Comparison(rows=(row("a", measures=Measures(distribution=nothing)),)))
    assert plot.figure["data"][0]["x"] == []


def test_advice_stands_first() -> None:
    """On the page and in Markdown; that of many instances is a list, whose end is folded away."""
    comparison = Comparison(rows=(row("a"), row("b")), advice=("Use <a>.",))
    page, text = comparison_page(comparison), comparison_markdown(comparison)
    assert page.index("Use &lt;a&gt;.") < page.index("2 solves")
    many = comparison_page(comparison.model_copy(update={"advice": tuple(f"Use {k}." for k in range(6))}))
    assert many.index("2 solves") < many.index("Use 0.") < many.index("2 more") < many.index("Use 4.")
    assert "Figures of the plans" in page
    assert "Completion time of the jobs" in page
    assert text.index("Use") < text.index("| solver |")
    assert to_csv(comparison).splitlines()[0].endswith("message,only_claimed,mean [s],idle")


def page_row(solver: str, **more: Any) -> ComparisonRow:
    return ComparisonRow(**{"instance": "i", "kind": "consolidation", "solver": solver, **more})


PLAN = {"objective": 1.0, "gap_to_best_plan": 0.0, "best": True, "status": "feasible"}


@pytest.mark.parametrize(
    ("rows", "plots"),
    [
        ([page_row("a", status="infeasible"), page_row("b", status="infeasible")], ["Performance profile"]),
        ([page_row("a", status="unknown", limit="time"), page_row("b", status="error", message="died")], []),
        ([page_row("a", status="infeasible"), page_row("b", status="unknown")], ["Performance profile"]),
        (
            [page_row("a", **PLAN), page_row("b", status="unknown")],
            ["How good, how fast", "Performance profile"],
        ),
        # A plan whose solver claimed a wrong bound is no success.
        ([page_row("a", objective=1.0, status="error")], ["How good, how fast"]),
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
    comparison = Comparison(rows=(page_row("a", **own), page_row("b", **own, only_claimed=True)))
    page = comparison_page(comparison)
    assert "1 proven optimal, 1 optimal as claimed, 0 without an answer" in page
    assert "optimal, as claimed" in page
    assert "1 (1 as claimed)" in comparison_markdown(comparison)
    titles, *lines = [line.split(",") for line in to_csv(comparison).splitlines()]
    assert [line[titles.index("only_claimed")] for line in lines] == ["False", "True"]
    assert [f">{n} of 1<" in comparison._repr_html_() for n in (0, 1)] == [True, True]
