"""A plan of allocation as a table and as plain data.

What a plan takes of each resource, by hand.

The parts of an allocation's page.
"""

from __future__ import annotations

import pytest

import clusterplan
from clusterplan.formulations.allocation.plan import JobAllocation
from clusterplan.instances.allocation.generate import generate_allocation
from clusterplan.planner.allocation.kind import ALLOCATION
from clusterplan.planner.allocation.plan import (
    MAX_JOBS,
    MAX_NAMED,
    Usage,
    allocation_parts,
    as_data,
    columns,
    left_out,
    shown_rows,
    times_figure,
    usage_bars,
)
from clusterplan.planner.reports.text import cells_of

PLAN = (
    JobAllocation(job="a", variant="v", ps=1, workers=2, completion_s=999.5),
    JobAllocation(job="b", placed=False, completion_s=12.0),
)


def test_rows_have_a_cell_for_each_column() -> None:
    """Seconds have three decimals, one from 1,000 s on."""
    assert cells_of(columns(PLAN), PLAN)[0] == ["a", "yes", "v", "1", "2", "999.500"]
    assert cells_of(columns(PLAN), PLAN)[1] == ["b", "no", "–", "0", "0", "12.000"]
    late = PLAN[0].model_copy(update={"completion_s": 1234.56})
    assert cells_of(columns((late, PLAN[1])), PLAN)[1][-1] == "12.0"
    assert cells_of(columns((late,)), [late])[0][-1] == "1,234.6"


def test_plain_data_separates_the_unplaced() -> None:
    """Only placed jobs have a configuration."""
    data = as_data(generate_allocation(2, seed=1), PLAN)
    assert data["jobs"] == {"a": {"variant": "v", "ps": 1, "workers": 2, "completion_s": 999.5}}
    assert data["unplaced"] == dict(left_out(PLAN)) == {"b": "no reason is given"}


def test_the_kind_shows_plans_with_these_functions() -> None:
    """And its frontier trades cost for mean completion time."""
    assert ALLOCATION.columns is columns
    assert set(ALLOCATION.frontier.settings) == {"mix", "prices"}


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


def test_the_parts_of_a_plan() -> None:
    """Every resource has a bar, every job a row, and dual prices a column."""
    instance = generate_allocation(5, 2, 0.6, seed=5)
    result = clusterplan.solve(instance, "exact")
    parts = allocation_parts(instance, result)
    assert [name for name, _, _ in parts["bars"]] == ["gpu", "cpu"]
    assert all(0 < share <= 1 for _, share, _ in parts["bars"])
    assert len(parts["jobs"].rows) == 5
    assert "price" in [column.title for column in parts["resources"].columns]
    assert parts["cut"] is None
    assert not parts["waits"]


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
    assert usage_bars({"gpu": 4.0, "cpu": 0.0}, {"gpu": 3.0}) == [
        ("gpu", 0.75, "3 of 4, 75.0 %"),
        ("cpu", 0.0, "0 of 0"),
    ]
    assert usage_bars({"gpu": 4.0}, None) == []


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
