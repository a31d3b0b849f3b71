"""The page that compares scenarios.

The page of plans at the ends of intervals.
"""

from __future__ import annotations

from typing import Any

import pytest
from sample_documents import CONSOLIDATION, STAGING
from sample_pages import HOSTILE, Page

import clusterplan
from clusterplan.planner.reports.sensitivity_page import robust_page, what_if_page
from clusterplan.planner.sensitivity import robust, what_if


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


GUESS = {"figure": "/layers/*/compute_s/*", "low": 0.5, "high": 2.0, "basis": "a guess"}


def robust_page_page(**changes: Any) -> Page:
    document = {**STAGING, "uncertainty": [GUESS], **changes}
    return Page(robust_page(robust(clusterplan.parse_instance(document))))


def test_it_begins_with_the_answer_and_holds_every_plan_at_every_end() -> None:
    made = robust_page_page()
    assert "all proven One plan is best" in made.text or "all proven The plan of the" in made.text
    bars = made.data["figures"]["ends"]["data"]
    assert [bar["name"] for bar in bars] == [f"plan of the {end} end" for end in ("low", "middle", "high")]
    assert all(bar["x"] == ["low end", "middle end", "high end"] for bar in bars)
    assert "outside" in made.text
    assert "a guess" in made.text


def test_a_plan_that_is_not_allowed_has_no_bar() -> None:
    made = robust_page_page(throughput_floor_samples_per_s=20)
    first = made.data["figures"]["ends"]["data"][0]
    assert first["y"][2] is None
    assert "The plan of the low end is not allowed at the high end: throughput floor" in made.text


def test_without_a_plan_nothing_is_drawn() -> None:
    made = robust_page_page(throughput_floor_samples_per_s=1e9)
    assert made.data["figures"] == {}
    assert "There is no plan at any end." in made.text


@pytest.mark.parametrize("field", ["name", "source"])
def test_hostile_names_stay_text(field: str) -> None:
    made = robust_page_page(**{field: HOSTILE})
    assert HOSTILE in made.text
    assert not made.all("img")
