"""Frontiers of a mix: their check, table and page."""

from __future__ import annotations

from typing import Any

import pytest
from mix_instances import serving, sharing
from sample_pages import Page

import clusterplan
from clusterplan.planner.mix.frontier import FRONTIER, MixFrontierCheck, MixFrontierPage
from clusterplan.planner.pareto import frontier_table
from clusterplan.solvers.mix.frontier import MixFrontier, _Search

REQUESTS = clusterplan.pareto(serving(), least=50, most=300)
JOBS = clusterplan.pareto(sharing())


@pytest.mark.parametrize(("instance", "frontier"), [(serving(), REQUESTS), (sharing(), JOBS)])
def test_a_frontier_is_verified_and_kept(instance: Any, frontier: MixFrontier) -> None:
    found = MixFrontierCheck(instance, MixFrontier.model_validate_json(frontier.to_json())).verification()
    assert (found.ok, found.complete, frontier.status) == (True, True, "complete")
    assert f"for each of {len(frontier.points)} plans" in found.confirmed[0]


def altered(frontier: MixFrontier, **record: Any) -> MixFrontier:
    """Return the frontier with another figure of the result of its first point."""
    first = frontier.points[0]
    objectives = (first.record.model_copy(update=record), *first.result.objectives[1:])
    result = first.result.model_copy(update={"objectives": objectives})
    points = (first.model_copy(update={"result": result}), *frontier.points[1:])
    return frontier.model_copy(update={"points": points})


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (altered(REQUESTS, value=1.0), "points[0].result: "),
        (altered(REQUESTS, certified_bound=1e6), "points[0].result: "),
        (
            REQUESTS.model_copy(update={"points": REQUESTS.points[1:], "others": ()}),
            "certified_error is stored",
        ),
        (REQUESTS.model_copy(update={"least": 40}), "certified_error is stored"),
        (REQUESTS.model_copy(update={"varied": "devices"}), "varied is stored as devices"),
        (REQUESTS.model_copy(update={"points": (*REQUESTS.others[:1], *REQUESTS.points)}), "has no plan"),
        (REQUESTS.model_copy(update={"certified_error": 0.0}), "certified_error is stored as 0.0"),
        (
            REQUESTS.model_copy(update={"status": "infeasible", "points": (), "certified_error": None}),
            "status is infeasible, and no result says",
        ),
    ],
)
def test_what_does_not_hold_is_found(wrong: MixFrontier, said: str) -> None:
    found = MixFrontierCheck(serving(), wrong).verification()
    assert any(said in fault for fault in found.faults), found.faults


def test_the_table_says_which_loads_have_no_plan() -> None:
    table, lines = frontier_table(REQUESTS)
    heads = [column.title for column in table.columns]
    assert heads == ["% of the requests", "USD/h", "no plan costs less than", "gap"]
    assert lines[0] == "there is no plan for 242 % of the requests and more"
    assert lines[1].startswith("certified: for every size from 50 to 300 % of the requests that has a plan")
    assert [column.title for column in frontier_table(JOBS)[0].columns][1] == "progress, in jobs"


@pytest.mark.parametrize(("instance", "frontier"), [(serving(), REQUESTS), (sharing(), JOBS)])
def test_the_page_shows_the_plan_of_each_point(instance: Any, frontier: MixFrontier) -> None:
    page = Page(MixFrontierPage(instance, frontier).html(None))
    choice = page.data["choice"]
    assert len(choice["points"]) == len(frontier.points)
    assert choice["points"][choice["start"]]["figures"]["is-plan"].endswith(".")
    assert "Our own check derives this and trusts no solver." in page.text
    assert FRONTIER.page is MixFrontierPage


@pytest.mark.parametrize(
    ("instance", "least", "most", "size", "name"),
    [
        (serving(), 50, 300, 100, "as it is"),
        (serving(), 50, 90, 90, "the nearest"),
        (sharing(), 2, 20, 14, "as it is"),
    ],
)
def test_the_page_begins_with_what_there_is(
    instance: Any, least: int, most: int, size: int, name: str
) -> None:
    """It is a point even if another one is as good."""
    found = clusterplan.pareto(instance, least=least, most=most, error=0.0)
    page = MixFrontierPage(instance, found)
    assert (page.points[page.start].size, page.context()["as_it_is"]) == (size, name)
    assert MixFrontierCheck(instance, found).verification().complete
    turned = found.model_copy(update={"points": found.points[::-1]})
    assert any("is not slower" in fault for fault in MixFrontierCheck(instance, turned).verification().faults)


def test_a_search_that_its_number_of_sizes_ends_says_what_helps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_Search, "most_sizes", 4)
    found = clusterplan.pareto(serving(), least=50, most=300, error=0.0)
    assert (found.status, found.limit) == ("partial", "node")
    assert any("a narrower range or a larger error" in line for line in frontier_table(found)[1])


def test_where_nothing_has_a_plan() -> None:
    found = clusterplan.pareto(serving(), least=300, most=310)
    assert (found.status, found.points, found.certified_error) == ("infeasible", (), None)
    assert MixFrontierCheck(serving(), found).verification().ok
    assert "there is no plan from 300 to 310 % of the requests" in frontier_table(found)[1]
    assert "It is proven that there is no plan" in Page(MixFrontierPage(serving(), found).html(None)).text
