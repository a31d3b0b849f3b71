"""What counting proves, by hand."""

from __future__ import annotations

from placements import job, placement, server

from clusterplan.formulations.consolidation.check.classes import CheckedCluster
from clusterplan.formulations.consolidation.check.elementary import (
    elementary_bounds,
    elementary_infeasibility,
)
from clusterplan.formulations.consolidation.cluster_data import ClusterData


def test_the_value_is_bounded_by_a_fractional_knapsack() -> None:
    """Of five GPUs the denser job takes two, and the other three of its four."""
    jobs = [job("dense", 2, value=6), job("thin", 4, value=4), job("never", 9, value=100)]
    checked = CheckedCluster.of(placement(["value", "traffic"], [server(gpu=5)], jobs))
    assert elementary_bounds(checked) == (9.0, 0.0)


def test_a_speed_above_one_may_be_won() -> None:
    """Slowdown is at least what all jobs win together at their best."""
    jobs = [job("a", value=2, speed_by_servers={1: 1.5}), job("b", value=2, speed_by_servers={1: 0.5})]
    assert elementary_bounds(CheckedCluster.of(placement(["slowdown"], [server(gpu=2)], jobs))) == (-1.0,)


def test_jobs_that_overfill_a_resource_together() -> None:
    """Each fits, both do not; without must_place nothing is wrong."""
    jobs = [job("a", 2, must_place=True), job("b", 2, must_place=True)]
    found = elementary_infeasibility(ClusterData(placement(["value"], [server(gpu=3)], jobs)))
    assert found is not None
    assert found.reasons == ("gpu: jobs that must be placed need 4; 3 are free",)
    free = [{**asked, "must_place": False} for asked in jobs]
    assert elementary_infeasibility(ClusterData(placement(["value"], [server(gpu=3)], free))) is None
