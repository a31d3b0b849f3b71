"""A frontier over clusters: found, verified, tampered with, shown and put on a page."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from clusterplan.formulations.allocation.check import configurations as check
from clusterplan.instances.allocation.generate import generate_allocation
from clusterplan.instances.allocation.instance import AllocationInstance
from clusterplan.instances.common.errors import OptionError
from clusterplan.planner.allocation.frontier import AllocationFrontierCheck, find
from clusterplan.planner.allocation.frontier_page import AllocationFrontierPage
from clusterplan.planner.findings import Verification
from clusterplan.planner.pareto import frontier_table
from clusterplan.solvers.allocation.frontier_result import AllocationFrontier
from clusterplan.solvers.common.result import SolveOptions


@cache
def sample() -> tuple[AllocationInstance, AllocationFrontier]:
    """Return five jobs, and their frontier to 10 %."""
    instance = generate_allocation(5, 2, 0.5, seed=6)
    return instance, find(instance, SolveOptions(threads=1), 0.1, None, "fixed", {"cpu": 1.0, "gpu": 3.0})


def verify(instance: AllocationInstance, frontier: AllocationFrontier) -> Verification:
    """Check a frontier."""
    return AllocationFrontierCheck(instance, frontier).verification()


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"mix": "half", "prices": {"cpu": 1.0}}, "allowed: fixed, any"),
        ({"prices": {"tpu": 1.0}}, "tpu"),
        ({"prices": {"cpu": -1.0}}, "at least 0"),
        ({}, "no resource has a price"),
    ],
)
def test_settings_without_a_meaning_are_refused(settings: dict[str, Any], words: str) -> None:
    """Before anything is solved."""
    with pytest.raises(OptionError, match=words):
        find(sample()[0], SolveOptions(), 0.01, None, **settings)


def test_a_frontier_is_confirmed() -> None:
    """Its plans and its error."""
    instance, frontier = sample()
    verification = verify(instance, frontier)
    assert not verification.faults
    assert any("no plan beats the points by more than" in line for line in verification.confirmed)


@pytest.mark.parametrize(
    "what", ["mean_completion_s", "rate_usd_per_hour", "certified_bound_s", "capacities"]
)
def test_a_changed_figure_of_a_point_is_found(what: str) -> None:
    """Whatever the figure."""
    instance, frontier = sample()
    point = frontier.points[0]
    old = getattr(point, what)
    new = {**old, "cpu": old["cpu"] + 1} if isinstance(old, dict) else 0.99 * old
    wrong = frontier.model_copy(
        update={"points": (point.model_copy(update={what: new}), *frontier.points[1:])}
    )
    assert verify(instance, wrong).faults


def test_a_smaller_error_than_the_certificates_prove_is_found() -> None:
    """And named."""
    instance, frontier = sample()
    assert frontier.certified_error
    wrong = frontier.model_copy(update={"certified_error": frontier.certified_error / 2})
    assert any(fault.startswith("certified_error") for fault in verify(instance, wrong).faults)


def test_what_the_check_shares_with_the_methods_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it derives only a sample of the configurations."""
    instance, frontier = sample()
    monkeypatch.setattr(check, "MAX_DERIVED", 0)
    verification = verify(instance, frontier)
    assert not verification.faults
    assert sum("shared with the methods" in line for line in verification.confirmed) == 1


def test_the_table_has_a_row_for_each_point_and_says_the_error() -> None:
    """And where the instance's own cluster lies."""
    _, frontier = sample()
    table, lines = frontier_table(frontier)
    assert table.row_count == len(frontier.points)
    assert any(line.startswith("certified: for every cluster") for line in lines)
    assert any(line.startswith("the instance's own cluster") for line in lines)


def test_the_page_holds_every_point() -> None:
    """And says what is certified."""
    instance, frontier = sample()
    page = AllocationFrontierPage(instance, frontier).html(verify(instance, frontier))
    assert f"Point {len(frontier.points)} of {len(frontier.points)}" in page
    assert "What is certified" in page
