"""The plot of a staging frontier: names of other methods are readable."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from clusterplan.planner.staging.frontier_figure import _names


def baseline(solver: str, throughput: float, cost_usd: float) -> Any:
    """Return what the names of a plot need of a plan of another method."""
    return SimpleNamespace(
        solver=solver, point=SimpleNamespace(throughput_samples_per_s=throughput, cost_usd=cost_usd)
    )


def test_methods_whose_plans_nearly_coincide_share_a_label() -> None:
    """Two labels at one place cannot be read; a plan as fast that costs more keeps its own."""
    plans = [baseline("greedy", 100, 10), baseline("genetic", 101, 10.1), baseline("single-type", 100, 30)]
    assert _names(plans, {"range": [0, 1000]}) == ["greedy, genetic", "", "single-type"]
