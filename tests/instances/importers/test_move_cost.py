"""What a move costs in clusters in use."""

from __future__ import annotations

from clusterplan.instances.importers.move_cost import about_moves, move_cost


def test_a_move_costs_a_quarter_of_an_hour_where_anything_runs() -> None:
    assert move_cost(True) == {"restart_cost_h": 0.25}
    assert move_cost(False) == {}
    assert "0.25 hours" in about_moves()
