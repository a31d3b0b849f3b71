"""Means and performance profiles, against figures worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest

from clusterplan.planner.batch.comparison_rows import LEAST_S, ComparisonRow, performance_profile, summarise


def row(solver: str, instance: str, seconds: float, gap: float | None, **more: Any) -> ComparisonRow:
    """Return a row; a plan that is so much worse than the best, or no answer."""
    given: dict[str, Any] = {"status": "unknown" if gap is None else "feasible"}
    if gap is not None:
        given |= {"objective": 1.0, "gap_to_best_plan": gap, "gap_to_best_bound": 2 * gap, "best": gap == 0}
    return ComparisonRow(
        instance=instance, kind="staging", solver=solver, runtime_s=seconds, **{**given, **more}
    )


ROWS = [
    row("a", "i", 1.0, 0.0, status="optimal"),
    row("a", "j", 9.0, None),
    row("b", "i", 2.0, 0.0),
    row("b", "j", 8.0, 0.21),
]


def test_means_are_geometric_and_a_failure_counts_as_the_time_limit() -> None:
    first, second = summarise(ROWS, time_limit_s=100.0)
    assert (first.instances, first.optimal, first.plans, first.failed, first.wins) == (2, 1, 1, 1, 1)
    assert first.mean_runtime_s == pytest.approx(10.0)
    assert second.mean_runtime_s == pytest.approx(4.0)
    assert second.mean_gap_to_best_plan == pytest.approx(0.1)
    assert second.mean_gap_to_best_bound == pytest.approx(1.42**0.5 - 1)


def test_one_unknown_gap_leaves_no_mean() -> None:
    (found,) = summarise([ROWS[0], row("a", "j", 1.0, 0.0, gap_to_best_bound=None)], None)
    assert found.mean_gap_to_best_bound is None


def test_what_is_only_claimed_is_counted_apart() -> None:
    """It stays among the optimal ones, with a word on it."""
    rows = [row("a", name, 1.0, 0.0, status="optimal") for name in "ij"]
    (found,) = summarise([rows[0], rows[1].model_copy(update={"only_claimed": True})], None)
    assert (found.optimal, found.only_claimed, found.optimal_text) == (2, 1, "2 (1 as claimed)")
    (found,) = summarise(rows, None)
    assert found.optimal_text == "2"
    assert found.mean_gap_to_best_plan == 0.0


def test_a_profile_counts_what_is_done_against_the_fastest() -> None:
    profile = performance_profile(ROWS, within=0.5)
    curves = {curve.solver: list(zip(curve.ratio, curve.share, strict=True)) for curve in profile.curves}
    assert profile.instances == 2
    assert curves == {"a": [(1.0, 0.5)], "b": [(1.0, 0.5), (2.0, 1.0)]}


def test_plans_too_bad_and_errors_are_not_done() -> None:
    profile = performance_profile([*ROWS, row("b", "k", 1.0, 0.0, status="error")], within=0.1)
    curves = {curve.solver: list(zip(curve.ratio, curve.share, strict=True)) for curve in profile.curves}
    assert profile.instances == 1
    assert curves == {"a": [(1.0, 1.0)], "b": [(1.0, 0.0), (2.0, 1.0)]}


def test_runtimes_below_a_millisecond_are_alike() -> None:
    rows = [row("a", "i", LEAST_S / 100, 0.0), row("b", "i", LEAST_S, 0.0)]
    assert [curve.ratio for curve in performance_profile(rows, 0.0).curves] == [(1.0,), (1.0,)]
