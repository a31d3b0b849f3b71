"""A plan of allocation as a table and as plain data."""

from __future__ import annotations

from clusterplan.formulations.allocation.plan import JobAllocation
from clusterplan.instances.allocation.generate import generate_allocation
from clusterplan.planner.allocation.kind import ALLOCATION
from clusterplan.planner.allocation.plan import as_data, columns, left_out
from clusterplan.planner.output.text import cells_of

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
    assert ALLOCATION.frontier is not None
    assert set(ALLOCATION.frontier.settings) == {"mix", "prices"}
