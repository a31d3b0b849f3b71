"""What a plan of allocation changes for jobs, resources and money.

What a scenario changes in an instance of allocation.
"""

from __future__ import annotations

from typing import Any

import pytest
from allocation_instances import allocation, ring
from sample_documents import ALLOCATION

import clusterplan
from clusterplan.formulations.allocation.plan import JobAllocation
from clusterplan.instances.allocation.generate import generate_allocation
from clusterplan.instances.common.errors import InstanceError
from clusterplan.planner.allocation.changes import changes, current_plan, what_if
from clusterplan.planner.changes import Amount, Change


def test_current_configurations_are_compared_with_the_plan() -> None:
    made = generate_allocation(2, 1, seed=1)
    (resource,) = made.resources
    variant = made.jobs[0].variants[0]
    now = {"variant": variant.name, "ps": 1, "workers": 2}
    first, second = (job.model_dump(mode="json", exclude_none=True) for job in made.jobs)
    instance = made.replace(
        jobs=[first | {"current": now}, second],
        prices_usd_per_hour={resource: 2.0},
        resources={resource: 100},
    )
    assert [(entry.ps, entry.workers) for entry in current_plan(instance)] == [(1, 2)]
    plan = [JobAllocation(job=job.name, variant=variant.name, ps=1, workers=1) for job in instance.jobs]
    found = changes(instance, None, plan)
    names = [job.name for job in instance.jobs]
    assert found.changes == [
        Change(names[0], "change", "1 ps, 2 workers", "1 ps, 1 workers"),
        Change(names[1], "start", "", "1 ps, 1 workers"),
    ]
    used, cost = found.amounts
    assert (used.name, used.total, cost.name) == (f"{resource} in use", 100, "USD per hour")
    per_ps, per_worker = variant.ps_demand.get(resource, 0.0), variant.worker_demand[resource]
    assert used.before == per_ps + 2 * per_worker
    assert Amount("USD per hour", 2 * used.before, 2 * used.after) == cost


def test_the_resource_that_is_named_is_one_that_is_used() -> None:
    variants = [ring({name: 1}, [1, 0, 0, 0], 2, name=name) for name in ("l4", "h100")]
    job = {"name": "one", "remaining_steps": 1, "variants": variants}
    instance = allocation({"l4": 8, "h100": 2}, [job])
    plan = (JobAllocation(job="one", placed=True, variant="h100", workers=2),)
    assert changes(instance, None, plan).answer() == "1 job starts; h100 in use: 0 → 2 of 2."
    plan = (JobAllocation(job="one", placed=True, variant="l4", workers=2),)
    assert changes(instance, None, plan).answer() == "1 job starts; l4 in use: 0 → 2 of 8."


def changed(key: str, text: str, **document: Any) -> Any:
    """Return the document after one change."""
    instance = clusterplan.parse_instance({**ALLOCATION, **document})
    return instance.replace(**what_if(instance)[key].fields(instance, text)).document()


def test_each_resource_is_a_change() -> None:
    assert changed("gpu", "+4")["resources"] == {"cpu": 10, "gpu": 8}
    assert changed("cpu", "50%")["resources"] == {"cpu": 5, "gpu": 4}
    with pytest.raises(InstanceError, match="gpu"):
        changed("gpu", "none")


def test_the_budget_is_set_changed_or_lifted() -> None:
    prices = {"prices_usd_per_hour": {"gpu": 2}}
    assert changed("budget", "6", **prices)["budget_usd_per_hour"] == 6
    assert changed("budget", "-1", **prices, budget_usd_per_hour=6)["budget_usd_per_hour"] == 5
    assert "budget_usd_per_hour" not in changed("budget", "none", **prices, budget_usd_per_hour=6)


def test_jobs_are_removed_added_and_weighed() -> None:
    assert [job["name"] for job in changed("remove", "j")["jobs"]] == ["k"]
    assert [job["weight"] for job in changed("weight", "k:3")["jobs"]] == [1, 3]
    now = {**ALLOCATION["jobs"][1], "current": {"variant": "t", "workers": 1}}
    jobs = changed("add", "2xk", jobs=[now])["jobs"]
    assert [job["name"] for job in jobs] == ["k", "k-added-1", "k-added-2"]
    assert ["current" in job for job in jobs] == [True, False, False]
