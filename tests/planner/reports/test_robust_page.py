"""The page of plans at the ends of intervals."""

from __future__ import annotations

from typing import Any

import pytest
from sample_documents import STAGING
from sample_pages import HOSTILE, Page

import clusterplan
from clusterplan.planner.reports.robust_page import robust_page
from clusterplan.planner.robust import robust

GUESS = {"figure": "/layers/*/compute_s/*", "low": 0.5, "high": 2.0, "basis": "a guess"}


def page(**changes: Any) -> Page:
    document = {**STAGING, "uncertainty": [GUESS], **changes}
    return Page(robust_page(robust(clusterplan.parse_instance(document))))


def test_it_begins_with_the_answer_and_holds_every_plan_at_every_end() -> None:
    made = page()
    assert "all proven One plan is best" in made.text or "all proven The plan of the" in made.text
    bars = made.data["figures"]["ends"]["data"]
    assert [bar["name"] for bar in bars] == [f"plan of the {end} end" for end in ("low", "middle", "high")]
    assert all(bar["x"] == ["low end", "middle end", "high end"] for bar in bars)
    assert "outside" in made.text
    assert "a guess" in made.text


def test_a_plan_that_is_not_allowed_has_no_bar() -> None:
    made = page(throughput_floor_samples_per_s=20)
    first = made.data["figures"]["ends"]["data"][0]
    assert first["y"][2] is None
    assert "The plan of the low end is not allowed at the high end: throughput floor" in made.text


def test_without_a_plan_nothing_is_drawn() -> None:
    made = page(throughput_floor_samples_per_s=1e9)
    assert made.data["figures"] == {}
    assert "There is no plan at any end." in made.text


@pytest.mark.parametrize("field", ["name", "source"])
def test_hostile_names_stay_text(field: str) -> None:
    made = page(**{field: HOSTILE})
    assert HOSTILE in made.text
    assert not made.all("img")
