"""The table and the plots of what kinds say of plans."""

from __future__ import annotations

from typing import Any

from clusterplan.planner.comparison.comparison import Comparison
from clusterplan.planner.comparison.measures import Distribution, Measure, Measures
from clusterplan.planner.comparison.row import ComparisonRow
from clusterplan.planner.reports.comparison.files import to_csv
from clusterplan.planner.reports.comparison.markdown import comparison_markdown
from clusterplan.planner.reports.comparison.measures import (
    MOST_PLOTS,
    distribution_plots,
    measure_cell,
    measures_table,
)
from clusterplan.planner.reports.comparison.page import comparison_page

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
    assert table is not None
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
    many = tuple(row("a", instance=f"i{k}") for k in range(MOST_PLOTS + 2))
    assert len(distribution_plots(Comparison(rows=many))) == MOST_PLOTS
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
