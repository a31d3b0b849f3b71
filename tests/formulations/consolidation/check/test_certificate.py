"""The check of certificates on figures that are known by hand."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from placements import job, placement, server, three_jobs

import clusterplan
from clusterplan.formulations.consolidation.certificate import CertifiedGoal
from clusterplan.formulations.consolidation.check.bounds import (
    goal_bound,
    level,
    price_bounds,
    quantum,
    read_certificate,
    worth_of_servers,
)
from clusterplan.formulations.consolidation.check.classes import CheckedCluster
from clusterplan.formulations.consolidation.classes import exact
from clusterplan.formulations.consolidation.formulation import ConsolidationFormulation
from clusterplan.solvers.common.result import SolveOptions


def goal(objective: str, prices: list[list[float]], **multipliers: float) -> dict[str, Any]:
    """Return the prices of one goal."""
    return {"objective": objective, "prices": prices, "multipliers": multipliers}


def uniform(formulation: ConsolidationFormulation, each: float) -> list[list[float]]:
    """Return a price for each task, whatever its piece."""
    return [[each * float(row.sum()) for row in pieces] for pieces in formulation.classes.pieces]


def test_a_price_of_one_for_each_gpu_is_a_knapsack_bound() -> None:
    """Seven GPUs are free; the jobs ask for eight, worth 3 + 3 + 1; the least worthy pays the difference."""
    checked = CheckedCluster(three_jobs())
    prices = uniform(three_jobs(), 1.0)
    bound = goal_bound(checked.classes, CertifiedGoal.model_validate(goal("value", prices)), {})
    assert bound == -7  # servers are paid 7, jobs a and b pay what they are worth, c pays more and stays out
    prices = uniform(three_jobs(), 0.5)
    bound = goal_bound(checked.classes, CertifiedGoal.model_validate(goal("value", prices)), {})
    assert bound == -6  # 3.5 for the servers, 1.5 left of a and b each, is 6.5, of which integers reach 6


def test_levels_and_steps() -> None:
    """Values are multiples of a common step; a level is one of them."""
    classes = CheckedCluster(three_jobs()).classes
    assert quantum(classes, "value") == 1
    assert level(classes, "value", 6.0000000001) == -6
    instance = placement(["value"], [server(gpu=2)], [job("a", value=0.3), job("b", value=0.2)])
    assert quantum(CheckedCluster.of(instance).classes, "value") == Fraction(1, 10)


def test_bounds_need_earlier_objectives_to_be_proven() -> None:
    """With the value proven, prices of servers count; with a worse plan they do not."""
    formulation = three_jobs()
    checked = CheckedCluster(formulation)
    data = {
        "goals": [
            goal("value", uniform(formulation, 0.5)),
            goal("servers", uniform(formulation, 0.25), value=1),
        ]
    }
    best = price_bounds(checked, data, (6.0, 2.0), (None, 0.0))
    assert best["value"] == 6
    assert best["servers"] <= 2
    assert price_bounds(checked, {"goals": "none"}, (6.0, 2.0), (None, 0.0)) == {}


@pytest.mark.parametrize("data", [{}, {"goals": [goal("value", [[1.0]])]}, {"goals": [goal("fame", [])]}])
def test_what_is_wrong_with_a_form(data: Any) -> None:
    """A missing field, prices of another instance, an unknown objective."""
    assert isinstance(read_certificate(CheckedCluster(three_jobs()).classes, data), str)


def test_an_empty_server_more_is_worth_what_it_is_paid() -> None:
    """Three jobs of a GPU each on one server of two: another is worth at most one job of value 1."""
    instance = placement(["value"], [server(gpu=2)], [job(f"j{k}", value=1) for k in range(3)])
    formulation = ConsolidationFormulation(instance)
    worth = worth_of_servers(
        CheckedCluster(formulation), {"goals": [goal("value", uniform(formulation, 1))]}, 2
    )
    assert worth == {"empty server of 2 gpu": 2.0}


def test_what_a_server_is_worth_is_rounded_down_to_a_multiple_of_the_values() -> None:
    """Prices prove 1.5 jobs of 0.1, of which no server adds a half."""
    instance = placement(["value"], [server(gpu=1)], [job(f"j{k}", value=0.1) for k in range(3)])
    formulation = ConsolidationFormulation(instance)
    data = {"goals": [goal("value", uniform(formulation, 0.05))]}
    worth = worth_of_servers(CheckedCluster(formulation), data, 0.1)
    assert worth == {"empty server of 1 gpu": 0.1}


def test_levels_without_a_step_are_loosened_for_the_rounding_of_doubles() -> None:
    jobs = [job("a", value=0.12345678901234567), job("b", value=0.3, current={"n": 1})]
    instance = placement(["value"], [server(gpu=2)], jobs).model_copy(update={"restart_cost_h": 1e6})
    classes = CheckedCluster(ConsolidationFormulation(instance)).classes
    assert quantum(classes, "value") is None
    # What is lost if all move is far larger than what the plan is worth: so is what rounding leaves.
    for value in (0.42345678901234567, -299999.5765432109):
        exactly = -exact(value) - classes.offset("value")
        assert level(classes, "value", value) - exactly >= Fraction(29, 10**8)


def test_after_an_objective_that_is_not_proven_no_level_counts() -> None:
    instance = placement(["spread", "value", "servers"], [server(gpu=2)], [job("a", value=1)])
    formulation = ConsolidationFormulation(instance)
    data = {"goals": [goal("servers", uniform(formulation, 1), value=1)]}
    for spread, proven in ((0.0, True), (None, False)):
        found = price_bounds(CheckedCluster(formulation), data, (0.0, 1.0, 1.0), (spread, 1.0, None))
        assert ("servers" in found) == proven


def test_a_job_of_several_groups_may_spread_over_one_more_server() -> None:
    """So that another server changes more than prices of the servers there are know."""
    groups = [{"name": name, "tasks": 1, "demand": {"gpu": 1}} for name in ("ps", "worker")]
    instance = placement(["value"], [server(gpu=2)], [{"name": "j", "groups": groups, "value": 1}])
    formulation = ConsolidationFormulation(instance)
    data = {"goals": [goal("value", uniform(formulation, 1))]}
    assert worth_of_servers(CheckedCluster(formulation), data, 1) == {}


@pytest.mark.parametrize("must_place", [False, True])
def test_a_limit_on_traffic_that_a_plan_keeps_is_not_refuted(must_place: bool) -> None:
    """The next multiple of the step above a limit that does not do, and no more."""
    jobs = [job(f"j{k}", traffic_gbit_per_s=0.2, must_place=must_place) for k in range(3)]
    objectives = ["traffic"] if must_place else ["value", "traffic"]
    instance = placement(objectives, [{**server(gpu=3), "count": 2}], jobs)
    formulation = ConsolidationFormulation(instance)
    found = clusterplan.solve(instance, "exact", SolveOptions(threads=1))
    values = tuple(record.value for record in found.objectives)
    assert values == ((0.4,) if must_place else (3.0, 0.4))
    claim = (found.certificate or {})["traffic"]
    free = {**claim["goal"], "prices": [[0.0] * len(own) for own in claim["goal"]["prices"]]}
    # Prices of 0 prove that no job is missing at least, which refutes nothing.
    for goal, below, bound in (
        (claim["goal"], 0.2, 0.4),
        (claim["goal"], 0.3, 0.4),
        (claim["goal"], 0.4, 0.0),
        (claim["goal"], 0.5, 0.0),
        (free, 0.2, 0.0),
    ):
        certificate = {**(found.certificate or {}), "traffic": {**claim, "goal": goal, "below": below}}
        assert formulation.certified_bounds(certificate, values)[-1] == bound
