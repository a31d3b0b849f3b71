"""The frontier of staging: found, checked, told and drawn.

The plot of a staging frontier: names of other methods are readable.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from staging_instances import half_serial

import clusterplan
from clusterplan.planner.findings import Verification
from clusterplan.planner.pareto import frontier_table
from clusterplan.planner.staging.frontier import (
    Baseline,
    StagingFrontierCheck,
    StagingFrontierPage,
    _names,
    frontier_figure,
    near_limit,
)
from clusterplan.solvers.common.result import SolveOptions
from clusterplan.solvers.staging.frontier import find_frontier
from clusterplan.solvers.staging.frontier_result import Frontier

INSTANCE = half_serial(3)


@pytest.fixture(scope="module")
def frontier() -> Frontier:
    """Return three points: 1, 1.5 and 2 USD."""
    return find_frontier(INSTANCE, SolveOptions(), 0.0, None)


def verify(frontier: Frontier) -> Verification:
    """Check a frontier of the instance."""
    return StagingFrontierCheck(INSTANCE, frontier).verification()


def test_the_error_has_a_default() -> None:
    """Where none is given."""
    assert clusterplan.pareto(INSTANCE).error == StagingFrontierCheck.default_error


def test_a_true_frontier_is_confirmed(frontier: Frontier) -> None:
    """Every plan and the error of the whole."""
    verification = verify(frontier)
    assert verification.faults == ()
    assert any("each of 3 plans" in line for line in verification.confirmed)
    assert any("no plan beats the points by more than 0" in line for line in verification.confirmed)


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"cost_usd": 1.9}, "points[0].cost_usd is stored as 1.9; recomputed it is 2"),
        ({"stage_time_s": 0.5}, "points[0].stage_time_s"),
        ({"plan": ()}, "points[0]: broken constraint: layers"),
    ],
)
def test_altered_points_are_named(frontier: Frontier, change: dict[str, Any], fault: str) -> None:
    """By their number and the figure that is wrong."""
    wrong = frontier.points[0].model_copy(update=change)
    altered = frontier.model_copy(update={"points": (wrong, *frontier.points[1:])})
    assert any(line.startswith(fault) for line in verify(altered).faults)


def test_order_and_cost_of_points_are_checked(frontier: Frontier) -> None:
    """From the fastest to the cheapest, none beyond the dearest that was looked for."""
    backwards = frontier.model_copy(update={"points": frontier.points[::-1]})
    faults = verify(backwards).faults
    assert "points[1] is not slower and cheaper than the one before" in faults
    dear = frontier.model_copy(update={"most_usd": 1.6})
    assert "points: there are plans dearer than most_usd, 1.6" in verify(dear).faults


def test_an_error_that_is_not_proven_is_a_fault(frontier: Frontier) -> None:
    """Without intervals nothing is."""
    empty = frontier.model_copy(update={"certificate": []})
    (fault,) = verify(empty).faults
    assert fault.startswith("certified_error is stored as 0.0; what the certificate proves is")


def test_the_table_has_a_row_for_each_point(frontier: Frontier) -> None:
    """And a line on what is certified."""
    table, lines = frontier_table(frontier)
    assert table.row_count == 3
    assert lines == ["certified: every plan is matched by a point as fast that costs at most 0 % more"]
    partial = frontier.model_copy(update={"status": "partial", "limit": "time", "certified_error": None})
    assert [line.split(" ")[0] for line in frontier_table(partial)[1]] == ["stopped", "not"]


def test_baselines_are_compared_with_a_point_as_fast(frontier: Frontier) -> None:
    """Two dollars against one and a half are a third dearer."""
    point = frontier.points[1]
    assert Baseline("m", frontier.points[0], point.cost_usd, 0.1).dearer == pytest.approx(1 / 3)
    assert Baseline("m", point, point.cost_usd, 0.1).words == "on the frontier"
    assert Baseline("m", point, None, 0.1).words == "–"


def test_the_figure_has_the_points_and_the_choice_of_today(frontier: Frontier) -> None:
    """The indices of its traces are those that the script changes."""
    figure, at = frontier_figure(INSTANCE, frontier.points, 2, [])
    assert figure["data"][at["line"]]["y"] == pytest.approx([2.0, 1.5, 1.0])
    assert figure["data"][at["star"]]["y"] == pytest.approx([1.0])
    assert at["ring"] == len(figure["data"]) - 1


@pytest.mark.parametrize(("limit", "near"), [(None, False), (2.9, True), (3.1, False)])
def test_a_cost_limit_far_beyond_the_points_is_not_drawn(
    frontier: Frontier, limit: float | None, near: bool
) -> None:
    """Far is more than half as much again as the dearest point."""
    instance = INSTANCE.model_copy(update={"cost_limit_usd": limit})
    assert near_limit(instance, frontier.points) == near


def test_the_page_tells_points_and_other_methods(frontier: Frontier) -> None:
    """With how much dearer each method's plan is."""
    result = clusterplan.solve(INSTANCE, "single-type")
    page = StagingFrontierPage(INSTANCE, frontier, [result]).html(None)
    assert "3 plans, from 1.5 samples/s for 2 USD to 1 samples/s for 1 USD." in page
    assert "single-type" in page
    assert "on the frontier" in page


def baseline(solver: str, throughput: float, cost_usd: float) -> Any:
    """Return what the names of a plot need of a plan of another method."""
    return SimpleNamespace(
        solver=solver, point=SimpleNamespace(throughput_samples_per_s=throughput, cost_usd=cost_usd)
    )


def test_methods_whose_plans_nearly_coincide_share_a_label() -> None:
    """Two labels at one place cannot be read; a plan as fast that costs more keeps its own."""
    plans = [baseline("greedy", 100, 10), baseline("genetic", 101, 10.1), baseline("single-type", 100, 30)]
    assert _names(plans, {"range": [0, 1000]}) == ["greedy, genetic", "", "single-type"]
