"""What pages of staging say of the instance."""

from __future__ import annotations

from staging_graphs import diamond

from clusterplan.planner.staging.stages import limits_facts


def test_a_graph_with_given_transfers_is_not_said_to_have_none() -> None:
    """Nor is it said to keep layers together where all of them can be apart."""
    said = dict(limits_facts(diamond()))
    assert said["link"] == "seconds of transfers are given"
    assert said["layers that can be apart"] == "4"
    assert said["edges"] == "4"
