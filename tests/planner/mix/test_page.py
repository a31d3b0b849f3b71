"""The page of a mix: pictures, tables and prices."""

from __future__ import annotations

from typing import Any

import pytest
from mix_instances import serving, sharing
from sample_pages import Page

import clusterplan
from clusterplan.formulations.mix.formulation import MixFormulation
from clusterplan.formulations.mix.plan import Copies
from clusterplan.planner.mix.page import Pair, pairs
from clusterplan.planner.reports.result_page import plan_page


def page_of(instance: Any) -> Page:
    return Page(plan_page(instance, clusterplan.solve(instance)))


def test_each_type_has_a_place_beside_each_that_it_shares_with() -> None:
    """Its colour is the progress of the row; a group of three types has three pairs."""
    instance = sharing().replace(
        configurations=[
            {"hardware": "v100", "jobs": {"a": 1}, "progress": {"a": 1}},
            {"hardware": "v100", "jobs": {"a": 2, "b": 1}, "progress": {"a": 0.5, "b": 0.4}},
        ]
    )
    one, three = (each.name for each in instance.configurations)
    plan = [Copies(configuration=one, count=1), Copies(configuration=three, count=1)]
    names, found = pairs(MixFormulation(instance), plan)
    assert names == ["a", "b"]
    assert sorted(found) == [Pair(0, 0, 1, 1.0), Pair(0, 1, 1, 0.5), Pair(0, 2, 1, 0.5), Pair(1, 1, 1, 0.4)]


def test_the_page_of_jobs() -> None:
    page = page_of(sharing())
    titles = [text for text in page.texts if ", progress" in text]
    assert sorted(titles) == [
        "a, b: 2 groups, progress 80 %",
        "b, a: 2 groups, progress 70 %",
        "wide, alone: 1 group, progress 100 %",
    ]
    assert "What to buy next: one more v100" in page.text
    assert "the least progress of a job that runs is 70 %" in page.text


def test_the_page_of_requests() -> None:
    """Bars are as long as their cost, and a type takes its share of the time."""
    page = page_of(serving())
    bars = [span["style"] for span in page.all("span") if span.get("class") == "slots"]
    assert bars == ["--n:1;width:100.00%", "--n:1;width:32.22%"]
    shares = {span["title"] for span in page.all("span") if "%" in span.get("title", "")}
    assert shares == {"chat: 39 %", "long: 61 %", "chat: 100 %"}
    assert "one more costs, USD/h" in page.text


@pytest.mark.parametrize("made", [sharing(must_run=True), serving(devices=1)])
def test_an_instance_without_a_plan_has_a_page(made: Any) -> None:
    page = page_of(made)
    assert "Why there is no plan" in page.text
    assert "Models of device" in page.text
