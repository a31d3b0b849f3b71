"""Pages, plots and exports as calls: of answers that pass the check, and of no others."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from sample_documents import ALLOCATION, CONSOLIDATION, STAGING

import clusterplan
from clusterplan.planner.publish import export_plan, plot, report


@pytest.fixture(scope="module")
def solved() -> tuple[clusterplan.Instance, clusterplan.Result]:
    instance = clusterplan.parse_instance(ALLOCATION)
    return instance, clusterplan.solve(instance)


def test_a_report_is_the_page(solved: Any, tmp_path: Path) -> None:
    """As text and, if that is asked for, as a file."""
    page = report(*solved, tmp_path / "new" / "r.html")
    assert page.startswith("<!doctype html>") or page.startswith("<!DOCTYPE html>")
    assert (tmp_path / "new" / "r.html").read_text(encoding="utf-8") == page


def test_an_answer_that_is_wrong_is_not_published(solved: Any) -> None:
    instance, result = solved
    forged = result.model_copy(update={"objective": 1.0})
    for call in (report, export_plan):
        with pytest.raises(clusterplan.OptionError, match="verification failed"):
            call(instance, forged)
    other = clusterplan.parse_instance(STAGING)
    for call in (report, plot):
        with pytest.raises(clusterplan.OptionError, match=r"another instance|changed"):
            call(other, result)


def test_plots_have_colours_and_not_their_names(solved: Any) -> None:
    """Names in an instance that look like colours stay names."""
    figures = plot(*solved)
    assert list(figures) == ["times"]
    assert figures["times"]["data"]
    colours = re.findall(r'"[a-z]*color": "([^"]*)"', json.dumps(figures))
    assert colours
    assert all(re.fullmatch(r"#[0-9a-f]{6}|rgba\([0-9.,]+\)", colour) for colour in colours)
    jobs = [{**job, "name": f"@s{k}"} for k, job in enumerate(ALLOCATION["jobs"])]
    instance = clusterplan.parse_instance({**ALLOCATION, "jobs": jobs})
    assert "@s0" in json.dumps(plot(instance, clusterplan.solve(instance)))


def test_a_frontier_has_a_page_and_a_plot() -> None:
    instance = clusterplan.parse_instance(STAGING)
    frontier = clusterplan.pareto(instance)
    assert list(plot(instance, frontier)) == ["frontier"]
    assert instance.name in report(instance, frontier)


def test_a_plan_is_exported_after_its_check() -> None:
    instance = clusterplan.parse_instance(CONSOLIDATION)
    result = clusterplan.solve(instance)
    data = json.loads(export_plan(instance, result))
    assert (data["kind"], data["complete"]) == ("consolidation", True)
    with pytest.raises(clusterplan.OptionError, match="'html'; there are: json"):
        export_plan(instance, result, "html")
