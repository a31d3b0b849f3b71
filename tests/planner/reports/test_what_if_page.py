"""The page that compares scenarios."""

from __future__ import annotations

from typing import Any

import pytest
from sample_documents import CONSOLIDATION, STAGING
from sample_pages import Page

import clusterplan
from clusterplan.planner.reports.what_if_page import what_if_page
from clusterplan.planner.what_if import what_if


def page(document: dict[str, Any], *scenarios: str) -> Page:
    return Page(what_if_page(what_if(clusterplan.parse_instance(document), scenarios)))


def test_it_begins_with_the_answer_and_has_a_bar_for_each_scenario() -> None:
    made = page(CONSOLIDATION, "drain=n-0", "remove=p")
    assert (
        "all proven No scenario with the same jobs is better" in made.text or "drain=n-0: value" in made.text
    )
    (trace,) = made.data["figures"]["bars"]["data"]
    assert trace["y"] == ["as it is", "drain=n-0", "remove=p"]
    assert trace["x"] == [4, 4, 2]
    assert "2 jobs start" in made.text


def test_a_scenario_without_a_plan_has_a_row_but_no_bar() -> None:
    made = page(STAGING, "floor=9999", "floor=6")
    assert made.data["figures"]["bars"]["data"][0]["y"] == ["as it is", "floor=6"]
    assert "infeasible" in made.text


@pytest.mark.parametrize("scenarios", [(), ("floor=9999",)])
def test_without_two_values_nothing_is_drawn(scenarios: tuple[str, ...]) -> None:
    made = page({**STAGING, "throughput_floor_samples_per_s": 9999}, *scenarios)
    assert made.data["figures"] == {}
    assert "there is no plan" in made.text.lower()
