"""What a plan takes of each resource, by hand."""

from __future__ import annotations

import pytest

from clusterplan.formulations.allocation.plan import JobAllocation
from clusterplan.instances.allocation.generate import generate_allocation
from clusterplan.planner.allocation.usage import Usage


def test_usage_adds_up_tasks_and_prices() -> None:
    """An unplaced job takes nothing; the budget counts what the tasks cost."""
    instance = generate_allocation(2, 2, seed=3, optional_share=1).model_copy(
        update={"prices_usd_per_hour": {"cpu": 0.5, "gpu": 2.0}, "budget_usd_per_hour": 100.0}
    )
    table = instance.table()
    plan = (
        JobAllocation(job=table.names[0], variant=table.variant_names[0], ps=2, workers=3),
        JobAllocation(job=table.names[1], placed=False),
    )
    taken = 2 * table.ps_demand[0] + 3 * table.worker_demand[0]
    used = Usage(instance).of(plan)
    assert used["cpu"] == taken[0]
    assert used["gpu"] == taken[1]
    assert used["budget_usd_per_hour"] == pytest.approx(0.5 * taken[0] + 2 * taken[1])
