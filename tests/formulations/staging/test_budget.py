"""What an hourly budget lets all layers together take at least, beside the best of all plans."""

from __future__ import annotations

import pytest
from random_instances import random_staging
from staging_graphs import diamond, random_graph
from staging_instances import two_layers

import clusterplan
from clusterplan.formulations.staging.formulation import StagingFormulation
from clusterplan.formulations.staging.graph_formulation import GraphFormulation, formulation_of
from clusterplan.instances.documents import parse_instance
from clusterplan.instances.staging.instance import StagingInstance


def _budgeted(seed: int, graph: bool) -> StagingInstance:
    """Return a random instance in which a budget of some units an hour is all that money limits."""
    document = random_graph(seed) if graph else random_staging(seed).model_dump(mode="json")
    prices = [one["price_usd_per_hour"] for one in document["types"]]
    budget = sum(prices) * (0.4 + seed % 5 / 2)
    changes = {"objective": ("throughput", "time")[seed % 2], "hourly_budget_usd": budget or None}
    dropped = ("cost_limit_usd", "throughput_floor_samples_per_s")
    made = parse_instance({k: v for k, v in (document | changes).items() if k not in dropped})
    assert isinstance(made, StagingInstance)
    return made


@pytest.mark.parametrize("graph", [False, True])
def test_no_plan_is_faster_than_its_budget_allows(graph: bool) -> None:
    """Of random instances, with all rules of cost; in some the budget says the most."""
    solved = said_most = 0
    for seed in range(60):
        instance = _budgeted(seed, graph)
        if instance.hourly_budget_usd is None or any(one.limit is None for one in instance.types):
            continue
        best = clusterplan.solve(instance, "brute-force")
        if best.plan is None:
            continue
        formulation = formulation_of(instance)
        least = formulation.budgeted_s
        assert 0 < least <= formulation.stage_time_s(best.plan)
        (bound,) = formulation.elementary_bounds()
        assert bound is not None
        assert least <= formulation.to_stage_time(bound) * (1 + 1e-12)
        solved += 1
        said_most += bool(least > 1.001 * formulation.fastest_s)
    assert solved >= 20
    assert said_most >= 3


def test_the_bound_of_a_budget_by_hand() -> None:
    """Layer a takes at least 4 s at 1 USD/h or 1 s at 5 USD/h, layer b 8 s or 1 s: 4 + 5 of 3 USD/h."""
    formulation = StagingFormulation(two_layers(objective="throughput", hourly_budget_usd=3))
    assert formulation.budgeted_s == pytest.approx(3.0)
    assert StagingFormulation(two_layers()).budgeted_s == 0.0
    # Layers of 7 s on units of 1 USD/h; two of these take 3.5 s.
    alone = GraphFormulation(diamond(hourly_budget_usd=2))
    assert alone.budgeted_s == pytest.approx(3.5)
    assert alone.elementary_bounds() == (pytest.approx(3.5),)


def test_a_budget_that_a_plan_just_exceeds_within_tolerance_is_kept() -> None:
    """A plan may cost a little more than its budget; the bound allows for it."""
    instance = diamond(1, hourly_budget_usd=1 - 1e-9)
    plan = clusterplan.solve(instance, "exact").plan
    assert plan is not None
    formulation = GraphFormulation(instance)
    assert formulation.budgeted_s <= formulation.stage_time_s(plan) == 7.0
