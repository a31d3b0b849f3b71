"""The axis of gaps, and what is drawn on it."""

from __future__ import annotations

import pytest
from sample_pages import sample_comparison

from clusterplan.planner.reports.comparison.figures import (
    LEAST_GAP,
    GapScale,
    gap_figure,
    profile_figure,
    sentence,
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
