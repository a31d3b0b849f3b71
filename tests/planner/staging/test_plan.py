"""Plans of staging as tables, data and drawings.

What pages of staging say of the instance.

What a plan changes against another one, and what a scenario changes in an instance.
"""

from __future__ import annotations

from typing import Any

import pytest
from sample_documents import STAGING
from staging_instances import diamond, half_serial, two_layers

import clusterplan
from clusterplan.formulations.staging.stages import Stage, stage_of
from clusterplan.instances.common.errors import OptionError
from clusterplan.instances.staging.generate import generate_staging
from clusterplan.planner.changes import Amount, Change
from clusterplan.planner.reports.text import cells_of
from clusterplan.planner.staging.kind import STAGING as KIND
from clusterplan.planner.staging.plan import (
    PlanDrawing,
    as_data,
    axis_of,
    changes,
    columns,
    layers_of,
    limits_facts,
    stages_text,
)

PLAN = (
    Stage(first_layer=0, last_layer=0, type="slow", units=2),
    Stage(first_layer=1, last_layer=1, type="fast", units=1),
)


def test_a_plan_is_a_row_for_each_stage() -> None:
    """With its number, layers, type and units."""
    assert cells_of(columns(None, PLAN), PLAN) == [["0", "0–0", "slow", "2"], ["1", "1–1", "fast", "1"]]


def test_plain_data_names_the_layers() -> None:
    """As `export-plan` writes it."""
    stages = as_data(two_layers(), PLAN)["stages"]
    assert [stage["layers"] for stage in stages] == [["a"], ["b"]]
    assert stages[0]["units"] == 2


def test_a_drawing_has_stage_times_and_units_by_type() -> None:
    """Types are numbers, in the order of the instance."""
    drawing = PlanDrawing(two_layers())
    assert drawing.data() == {"types": ["slow", "fast"], "layers": ["a", "b"]}
    assert drawing.plan(PLAN) == {
        "stages": [[0, 0, 0, 2, 3.0], [1, 1, 1, 1, 2.5]],
        "units": {0: 2, 1: 1},
    }


def test_long_plans_are_cut_short() -> None:
    """With the number of all stages."""
    assert stages_text(PLAN) == "2 slow → 1 fast"
    assert stages_text(PLAN, 1) == "2 slow → … (2 stages)"


@pytest.mark.parametrize("method", ["single-type", "greedy", "genetic"])
def test_the_frontier_page_has_quick_baselines(method: str) -> None:
    """Each solves a small instance."""
    assert method in KIND.frontier.baselines
    options = clusterplan.SolveOptions(seed=1, time_limit_s=2)
    assert clusterplan.solve(half_serial(), method, options).objective == pytest.approx(1.0)


def test_a_plan_of_a_graph() -> None:
    """Its layers stand as ranges in the table, and in the order of the stages in the drawing."""
    plan = (stage_of([0, 2], "gpu", 1), stage_of([1, 3], "gpu", 1))
    assert cells_of(columns(None, plan), plan) == [["0", "0, 2", "gpu", "1"], ["1", "1, 3", "gpu", "1"]]
    assert (
        layers_of(stage_of([*range(4), 6, 8, 10, 12, 14, 16], "gpu", 1))
        == "0–3, 6, 8, 10, 12, 14 … (10 layers)"
    )
    assert [stage["layers"] for stage in as_data(diamond(), plan)["stages"]] == [["a", "c"], ["b", "d"]]
    drawn = PlanDrawing(diamond()).plan(plan)
    assert drawn["stages"] == [[0, 1, 0, 1, 5.0], [2, 3, 0, 1, 4.0]]
    assert (drawn["order"], drawn["words"]) == ([0, 2, 1, 3], ["0, 2", "1, 3"])
    facts = dict(limits_facts(diamond()))
    assert (facts["edges"], facts["units of a stage"]) == ("4", "1 at most")


def test_a_plan_whose_stages_relay() -> None:
    """Each takes the time that it has in this plan: c hands the tensors of a and b on, half a second each."""
    relayed = diamond(4, stage_cost="relay")
    layers = tuple(layer.model_copy(update={"compute_s": {"gpu": 0.25}}) for layer in relayed.layers)
    relayed = relayed.model_copy(update={"layers": layers})
    plan = tuple(stage_of([layer], "gpu", 1) for layer in range(4))
    assert [stage[-1] for stage in PlanDrawing(relayed).plan(plan)["stages"]] == [0.5, 1.0, 1.0, 1.0]
    said = dict(limits_facts(relayed))["computing and communicating"]
    assert said == "overlap; each stage hands on what crosses it"


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


def test_stages_and_units_of_two_plans_are_compared() -> None:
    instance = generate_staging(4, 2, seed=1)
    one, other = (kind.name for kind in instance.types)
    before = [Stage(first_layer=0, last_layer=3, type=one, units=2)]
    after = [Stage(first_layer=0, last_layer=0, type=one, units=2), stage_of([1, 3], other, 1)]
    found = changes(instance, before, after)
    assert found.changes == [
        Change("stage 0", "change", f"layers 0–3 on 2 × {one}", f"layer 0 on 2 × {one}"),
        Change("stage 1", "start", "", f"2 layers from 1 to 3 on 1 × {other}"),
    ]
    limits = [kind.limit for kind in instance.types]
    assert found.amounts == [
        Amount(f"units of {one}", 2, 2, limits[0]),
        Amount(f"units of {other}", 0, 1, limits[1]),
    ]


def changed(key: str, text: str) -> Any:
    """Return the document after one change."""
    instance = clusterplan.parse_instance(STAGING)
    return instance.replace(**KIND.what_if(instance)[key].fields(instance, text)).document()


def test_limits_and_prices_are_of_types() -> None:
    assert [kind.get("limit") for kind in changed("limit", "A:+8")["types"]] == [12, 4]
    assert [kind.get("limit") for kind in changed("limit", "B:none")["types"]] == [4, None]
    assert [kind["price_usd_per_hour"] for kind in changed("price", "*:-50%")["types"]] == [0.5, 1.5]
    with pytest.raises(OptionError, match="there is no type 'C'; there are: A, B"):
        changed("limit", "C:1")


def test_floor_and_budgets_are_of_the_plan() -> None:
    assert changed("floor", "+10%")["throughput_floor_samples_per_s"] == pytest.approx(5.5)
    assert "throughput_floor_samples_per_s" not in changed("floor", "none")
    assert changed("cost", "7")["cost_limit_usd"] == 7
    assert changed("budget", "7")["hourly_budget_usd"] == 7
    with pytest.raises(OptionError, match="there is no limit now"):
        changed("budget", "+7")
