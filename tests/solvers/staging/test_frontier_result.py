"""The frontier of one layer by hand: as points, as a table, and for notebooks."""

from __future__ import annotations

import pytest
from staging_instances import half_serial

from clusterplan.formulations.staging.formulation import StagingFormulation
from clusterplan.formulations.staging.stages import Stage
from clusterplan.solvers.common.result import SolveOptions
from clusterplan.solvers.staging.frontier import describe, find_frontier
from clusterplan.solvers.staging.frontier_result import Frontier


def units(count: int) -> Stage:
    return Stage(first_layer=0, last_layer=0, type="t", units=count)


def test_the_frontier_of_one_layer() -> None:
    """A point for each number of units, from the fastest to the cheapest."""
    frontier = find_frontier(half_serial(3), SolveOptions(), 0.0, None)
    assert [point.cost_usd for point in frontier.points] == pytest.approx([2.0, 1.5, 1.0])
    assert [point.stage_time_s for point in frontier.points] == pytest.approx([2 / 3, 0.75, 1.0])
    assert (frontier.status, frontier.certified_error) == ("complete", 0.0)
    cheap = find_frontier(half_serial(3), SolveOptions(), 0.0, 1.6)
    assert [point.cost_usd for point in cheap.points] == pytest.approx([1.5, 1.0])


def test_unlimited_units_end_at_ten_times_the_least_cost() -> None:
    """Nineteen units cost ten dollars."""
    frontier = find_frontier(half_serial(None), SolveOptions(), 0.0, None)
    assert frontier.most_usd == pytest.approx(10.0)
    assert frontier.points[0].plan == (units(19),)


def test_figures_of_a_point_are_computed_from_the_plan() -> None:
    """Two units: 0.75 s a sample, 3600 samples, 2 USD/h."""
    point = describe(StagingFormulation(half_serial()), (units(2),))
    assert point.stage_time_s == 0.75
    assert point.throughput_samples_per_s == pytest.approx(4 / 3)
    assert (point.time_s, point.rate_usd_per_hour, point.cost_usd) == pytest.approx((2700, 2, 1.5))


def test_a_frontier_becomes_a_table_with_short_plans() -> None:
    """As a frame and as a notebook shows it."""
    frontier = find_frontier(half_serial(2), SolveOptions(), 0.0, None)
    frame = frontier.to_frame()
    assert frame["plan"].tolist() == ["0-0:t*2", "0-0:t*1"]
    assert Frontier.model_validate_json(frontier.model_dump_json()) == frontier
    assert "frontier of 2 points, complete" in frontier._repr_html_()
