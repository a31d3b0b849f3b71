"""A plan of allocation as a table and as plain data.

What a plan takes of each resource, by hand.

The parts of an allocation's page.

What a plan changes for jobs, resources and money, and what a scenario changes in an instance.
"""

from __future__ import annotations

from typing import Any

import pytest
from allocation_instances import allocation, ring
from sample_documents import ALLOCATION

import clusterplan
from clusterplan.formulations.allocation.formulation import AllocationFormulation
from clusterplan.formulations.allocation.plan import JobAllocation
from clusterplan.instances.allocation.generate import generate_allocation
from clusterplan.instances.common.errors import OptionError
from clusterplan.planner.allocation.changes import changes, current_plan
from clusterplan.planner.allocation.kind import ALLOCATION as KIND
from clusterplan.planner.allocation.plan import (
    MAX_JOBS,
    MAX_NAMED,
    as_data,
    columns,
    left_out,
    shown_rows,
    times_figure,
    usage_bars,
)
from clusterplan.planner.changes import Amount, Change
from clusterplan.planner.reports.text import cells_of

PLAN = (
    JobAllocation(job="a", variant="v", ps=1, workers=2, completion_s=999.5),
    JobAllocation(job="b", placed=False, completion_s=12.0),
)


def test_rows_have_a_cell_for_each_column() -> None:
    """Seconds have three decimals, one from 1,000 s on."""
    assert cells_of(columns(None, PLAN), PLAN)[0] == ["a", "yes", "v", "1", "2", "999.500"]
    assert cells_of(columns(None, PLAN), PLAN)[1] == ["b", "no", "–", "0", "0", "12.000"]
    late = PLAN[0].model_copy(update={"completion_s": 1234.56})
    assert cells_of(columns(None, (late, PLAN[1])), PLAN)[1][-1] == "12.0"
    assert cells_of(columns(None, (late,)), [late])[0][-1] == "1,234.6"


def test_plain_data_separates_the_unplaced() -> None:
    """Only placed jobs have a configuration."""
    data = as_data(generate_allocation(2, seed=1), PLAN)
    assert data["jobs"] == {"a": {"variant": "v", "ps": 1, "workers": 2, "completion_s": 999.5}}
    assert data["unplaced"] == dict(left_out(None, PLAN)) == {"b": "no reason is given"}


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
    used = AllocationFormulation(instance).usage(plan)
    assert used["cpu"] == taken[0]
    assert used["gpu"] == taken[1]
    assert used["budget_usd_per_hour"] == pytest.approx(0.5 * taken[0] + 2 * taken[1])


def test_a_long_plan_is_cut_to_the_slowest_and_some_others() -> None:
    """The order stays, and the slowest job is there."""
    plan = [
        JobAllocation(job=str(j), variant="v", workers=1, completion_s=float(j % 977)) for j in range(9000)
    ]
    plan[4321] = plan[4321].model_copy(update={"completion_s": 1e6})
    shown = shown_rows(plan)
    assert len(shown) <= MAX_JOBS
    assert plan[4321] in shown
    places = [int(entry.job) for entry in shown]
    assert places == sorted(places)
    assert shown_rows(plan[:10]) == plan[:10]


def test_bars_say_share_and_amounts() -> None:
    """An empty resource has an empty bar."""
    assert usage_bars({"gpu": 4.0, "cpu": 0.0}, {"gpu": 3.0, "cpu": 0.0}) == [
        ("gpu", 0.75, "3 of 4, 75.0 %"),
        ("cpu", 0.0, "0 of 0"),
    ]
    assert usage_bars({"gpu": 4.0}, {}) == []


def test_few_jobs_are_bars_with_their_names_and_many_are_points() -> None:
    """A waiting job has a bar of its own look; long names are cut on the axis alone."""
    plan = [
        JobAllocation(job="b" * 40, variant="v", workers=2, completion_s=7200.0),
        JobAllocation(job="a", placed=False, variant=None, workers=0, completion_s=3600.0),
    ]
    few = times_figure(plan)
    assert few["layout"]["yaxis"]["ticktext"] == ["a", "b" * 31 + "…"]
    assert [(trace["y"], trace["text"]) for trace in few["data"]] == [
        ([2], ["v: 2 workers"]),
        ([1], ["waits"]),
    ]
    assert few["data"][0]["customdata"][0][0] == "b" * 40
    many = times_figure([plan[0].model_copy(update={"job": str(k)}) for k in range(MAX_NAMED + 1)])
    assert {trace["type"] for trace in many["data"]} == {"scatter"}


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
    return instance.replace(**KIND.what_if(instance)[key].fields(instance, text)).document()


def test_each_resource_is_a_change() -> None:
    assert changed("gpu", "+4")["resources"] == {"cpu": 10, "gpu": 8}
    assert changed("cpu", "50%")["resources"] == {"cpu": 5, "gpu": 4}
    with pytest.raises(OptionError, match="gpu=none: a cluster has so many of them"):
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
