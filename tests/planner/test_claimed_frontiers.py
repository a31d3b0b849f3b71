"""Forged frontiers: false, or only claimed, in the same three answers as a single result."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pytest
from random_instances import RANDOM

import clusterplan
from clusterplan.instances.common.base import Instance
from clusterplan.instances.staging.generate import generate_staging
from clusterplan.planner.findings import Verification
from clusterplan.planner.stored_results import verify_stored

ERROR = {"staging": 0.01, "allocation": 0.1}
NAMES = ("staging", "allocation")


@cache
def loaded(kind: str) -> Instance:
    """Return an instance of a kind."""
    if kind == "staging":
        return generate_staging(6, 3, "loose", seed=5)
    return clusterplan.load("example:gavel-three-gpu-types")


@cache
def text_of(kind: str) -> str:
    """Return its frontier as JSON."""
    return clusterplan.pareto(loaded(kind), error=ERROR[kind]).to_json()


def stored(of: str, **changes: Any) -> dict[str, Any]:
    """Return the frontier of a kind as plain data, with other fields."""
    return {**json.loads(text_of(of)), **changes}


def checked(kind: str, data: Any) -> Verification:
    """Return what the check finds."""
    return verify_stored(loaded(kind), data, "f.json")


KINDS = pytest.mark.parametrize("kind", NAMES)


@KINDS
def test_a_frontier_is_complete_and_says_its_error(kind: str) -> None:
    """Everything is derived again; an error above the default stands beside the verdict."""
    found = checked(kind, stored(kind))
    assert found.complete
    assert found.verdict == f"verified; complete means an error of at most {ERROR[kind]} here"


@KINDS
def test_an_error_that_is_not_certified_is_claimed(kind: str) -> None:
    """Without a certified error, or with a larger one, that the frontier is complete is a claim."""
    for wrong in (None, 0.9):
        found = checked(kind, stored(kind, certified_error=wrong))
        assert found.ok
        assert not found.complete
        assert found.claimed[0].startswith("that no plan beats the points by more than 0.")
        assert found.verdict.startswith("plan verified, ONLY CLAIMED: ")


@KINDS
@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"instance": "other"}, "instance is stored as 'other'"),
        ({"points": [], "certified_error": None}, "status is stored as complete, without points"),
        ({"status": "infeasible"}, "status is stored as infeasible, with points"),
        ({"diagnosis": {"reasons": ["none"]}}, "diagnosis says why there is no plan"),
        ({"points": [], "status": "partial"}, "certified_error is given, without points"),
        ({"error": 1e9}, "error: is 1000000000.0"),
        ({"kind": None}, "kind: is None"),
        ({"points": None}, "points: "),
    ],
)
def test_what_does_not_go_together_is_false(kind: str, changes: dict[str, Any], words: str) -> None:
    """Status, points, error and diagnosis agree with each other."""
    found = checked(kind, stored(kind, **changes))
    assert any(words in fault for fault in found.faults), found


@KINDS
def test_that_no_plan_exists_is_refuted_by_a_plan(kind: str) -> None:
    """A quick method finds one, and is named."""
    nothing = {"points": [], "certified_error": None, "status": "infeasible"}
    nothing |= {"certificate": []} if kind == "staging" else {"others": [], "current": None}
    found = checked(kind, stored(kind, **nothing))
    assert "finds a plan" in found.faults[0]


def test_that_no_plan_is_so_cheap_is_derived_or_claimed() -> None:
    """A plan that costs more than was asked for refutes nothing; the certificate proves it or does not."""
    instance = loaded("staging")
    assert isinstance(instance, clusterplan.StagingInstance)
    cheapest = stored("staging")["points"][-1]["cost_usd"]
    frontier = clusterplan.pareto(instance, most_usd=cheapest * 0.9)
    assert frontier.status == "infeasible"
    data = json.loads(frontier.to_json())
    found = checked("staging", data)
    assert found.complete, found
    assert any("the certificate prove" in line for line in found.confirmed)
    assert found.verdict == f"verified; infeasible means no plan of at most {cheapest * 0.9:g} USD here"
    found = checked("staging", {**data, "most_usd": cheapest * 10})
    assert "finds a plan" in found.faults[0]
    found = checked("staging", {**data, "certificate": [{"until_s": -1}]})
    assert any(fault.startswith("certificate: ") for fault in found.faults)


def test_that_no_plan_exists_is_only_claimed_where_no_quick_method_finds_one() -> None:
    """A feasible instance whose plans need a cut that the quick methods never make."""
    instance = RANDOM["staging"](3)
    nothing = {"points": [], "certified_error": None, "status": "infeasible", "certificate": []}
    data = {**stored("staging"), **nothing, "instance": instance.name, "instance_sha256": instance.sha256()}
    found = verify_stored(instance, data, "f.json")
    assert (found.ok, found.complete) == (True, False)
    assert found.verdict == "ONLY CLAIMED: that no plan exists"


def test_clusters_without_a_plan_need_a_proof() -> None:
    """That a cluster has no plan is a claim, whatever else is left out of its record."""
    data = stored("allocation")
    *kept, cheapest = data["points"]
    none = {name: cheapest[name] for name in ("rate_usd_per_hour", "capacities")} | {"no_plan": True}
    found = checked("allocation", {**data, "others": [*data["others"], none]})
    assert any("has no plan, although there is a point that costs no more" in f for f in found.faults)
    data |= {"points": kept, "others": [*data["others"], none], "certified_error": None, "status": "partial"}
    found = checked("allocation", data)
    assert found.claimed == ("that 1 clusters have no plan",)


def test_a_bound_of_the_own_cluster_is_a_claim_too() -> None:
    """Its bound counts like those of the points."""
    data = stored("allocation")
    assert data["current"]["certified_bound_s"] is not None
    data["current"] |= {"certificate": None, "certified_bound_s": None, "prices": None}
    found = checked("allocation", data)
    assert found.claimed == ("the bounds bound_s of 1 clusters, which are higher than the certified ones",)


@pytest.mark.parametrize("mix", ["fixed", "any"])
def test_the_cost_of_a_cluster_and_the_form_of_its_plan_are_derived(mix: Any) -> None:
    """A cost that is off by less than a step, and a plan that is not as it is stored, are false."""
    data = json.loads(clusterplan.pareto(loaded("allocation"), error=0.4, mix=mix).to_json())
    assert checked("allocation", data).complete
    point = data["points"][-1]
    turned = {**point, "plan": point["plan"][::-1]}
    timeless = {**point, "plan": [{**entry, "completion_s": None} for entry in point["plan"]]}
    dearer = {**point, "rate_usd_per_hour": point["rate_usd_per_hour"] * (1 + 1e-7)}
    for wrong in (turned, timeless, dearer):
        found = checked("allocation", {**data, "points": [*data["points"][:-1], wrong]})
        assert not found.ok
    data["others"][-1]["rate_usd_per_hour"] *= 1 + 1e-7
    assert not checked("allocation", data).ok


def test_an_end_that_was_asked_for_is_said_beside_the_verdict() -> None:
    """A frontier that stops at a cost is complete up to there alone, and has no point beyond."""
    data = stored("staging")
    cheapest = data["points"][-1]["cost_usd"]
    data |= {"points": data["points"][-1:], "most_usd": cheapest * 1.000001}
    found = checked("staging", data)
    assert found.complete, found
    words = f"an error of at most 0.01 for all plans of at most {data['most_usd']:g} USD"
    assert found.verdict == f"verified; complete means {words} here"
    found = checked("staging", {**data, "most_usd": 0.5 * cheapest})
    assert "points: there are plans dearer than most_usd" in found.faults[0]


def test_infeasible_frontiers_are_derived_again() -> None:
    """On tiny instances that have no plan at all, counting or the certificate shows it every time."""
    found = 0
    for seed in range(40):
        instance = RANDOM["staging"](seed)
        assert isinstance(instance, clusterplan.StagingInstance)
        frontier = clusterplan.pareto(instance)
        if frontier.status == "infeasible":
            found += 1
            verification = verify_stored(instance, json.loads(frontier.to_json()), "f.json")
            assert verification.complete, (seed, verification)
    assert found > 3
