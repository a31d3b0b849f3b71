"""What pages of staging say of the instance."""

from __future__ import annotations

from staging_graphs import diamond
from staging_instances import two_layers

from clusterplan.planner.staging.stages import axis_of, limits_facts


def test_a_graph_with_given_transfers_is_not_said_to_have_none() -> None:
    """Nor is it said to keep layers together where all of them can be apart."""
    said = dict(limits_facts(diamond()))
    assert said["link"] == "seconds of transfers are given"
    assert said["layers that can be apart"] == "4"
    assert said["edges"] == "4"


def test_one_sample_is_no_plural() -> None:
    """Neither of the training nor of the probe batch."""
    said = dict(limits_facts(diamond()))
    assert said["training"] == "1 sample × 1"
    assert said["layer times are of"] == "1 sample"
    assert dict(limits_facts(diamond(probe_batch=2)))["layer times are of"] == "2 samples"


def test_the_bars_of_a_graph_have_no_axis_of_layers() -> None:
    """The layers of its stages are not consecutive."""
    assert axis_of(diamond()) == "each stage is as wide as it has layers"
    assert axis_of(two_layers()) == "layer"
