"""Reports as text: well-formed, self-contained, escaped, accessible, small enough, and true to their data."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
import subprocess
import sys
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from sample_pages import HOSTILE, Page, all_pages, hostile_consolidation, infeasible, sample_comparison

import clusterplan
from clusterplan.instances.allocation.generate import generate_allocation
from clusterplan.instances.common.errors import OptionError
from clusterplan.instances.consolidation.generate import generate_consolidation
from clusterplan.instances.staging.generate import generate_staging
from clusterplan.planner.allocation.frontier import lower_bound_steps
from clusterplan.planner.reports.comparison_page import comparison_markdown, comparison_page
from clusterplan.planner.reports.page import to_json
from clusterplan.planner.reports.result_page import frontier_page, plan_page
from clusterplan.planner.reports.result_page import write as write_frontier


@pytest.fixture(scope="module")
def pages() -> dict[str, Page]:
    return {name: Page(html) for name, html in all_pages().items()}


@cache
def opt() -> tuple[clusterplan.StagingInstance, clusterplan.Frontier]:
    instance = clusterplan.load("example:opt-350-three-gpus")
    return instance, clusterplan.pareto(instance, error=0.01)


def test_pages_are_well_formed(pages: dict[str, Page]) -> None:
    for name, page in pages.items():
        ids = [attrs["id"] for _, attrs in page.tags if "id" in attrs]
        assert len(ids) == len(set(ids)), name
        for _, attrs in page.tags:
            for key in ("aria-labelledby", "for", "data-filter"):
                assert attrs.get(key) is None or attrs[key] in ids, (name, key, attrs)
        for anchor in page.all("a"):
            assert anchor["href"].startswith("#"), name
            assert anchor["href"][1:] in ids, (name, anchor)


def test_pages_need_nothing_else(pages: dict[str, Page]) -> None:
    for name, page in pages.items():
        for _, attrs in page.tags:
            assert not {"src", "srcset", "action", "data", "background"} & attrs.keys(), (name, attrs)
            assert not [key for key in attrs if key.startswith("on")], (name, attrs)
        assert not page.all("link", "iframe", "object", "embed", "img", "base", "form"), name
        assert "@import" not in page.html.split("</style>")[0]
        assert "url(" not in page.html.split("</style>")[0]


def test_policy_allows_the_scripts_of_the_page_alone(pages: dict[str, Page]) -> None:
    for name, page in pages.items():
        policy = next(
            a["content"] for a in page.all("meta") if a.get("http-equiv") == "Content-Security-Policy"
        )
        assert "default-src 'none'" in policy
        assert "unsafe-eval" not in policy
        scripts = [text for attrs, text in page.raw if attrs.get("type") != "application/json"]
        digests = {base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in scripts}
        assert {f"'sha256-{digest}'" for digest in digests} == set(re.findall(r"'sha256-[^']*'", policy)), (
            name
        )
        assert sum("plotly.js (basic - minified)" in text[:200] for text in scripts) == bool(
            page.data["figures"]
        ), name


def test_names_are_text(pages: dict[str, Page]) -> None:
    for name, page in pages.items():
        shown = HOSTILE[:150] if name == "comparison" else HOSTILE
        if name not in ("none-staging", "none-allocation"):
            assert shown in page.text, name
        assert "<img" not in page.html.split("<script", 1)[0]
        blob = next(text for attrs, text in page.raw if attrs.get("id") == "data")
        assert "<" not in blob, name


def test_plotly_sees_no_markup_of_names(pages: dict[str, Page]) -> None:
    def strings(value: Any) -> list[str]:
        if isinstance(value, dict):
            return [found for item in value.values() for found in strings(item)]
        if isinstance(value, list):
            return [found for item in value for found in strings(item)]
        return [value] if isinstance(value, str) else []

    for name, page in pages.items():
        for text in strings(page.data["figures"]):
            assert set(re.findall(r"</?(\w+)", text)) <= {"b", "br", "extra", "sup"}, (name, text)
            assert "fett</b>" not in text


def test_tables_are_accessible(pages: dict[str, Page]) -> None:
    for name, page in pages.items():
        assert len(page.all("table")) == len(page.all("caption")), name
        assert all(attrs.get("scope") in ("col", "row") for attrs in page.all("th")), name
        levels = [int(tag[1]) for tag, _ in page.tags if re.fullmatch(r"h[1-6]", tag)]
        assert levels.count(1) == 1, name
        assert all(after <= before + 1 for before, after in pairwise(levels)), (name, levels)
        assert len(page.all("main")) == len(page.all("header")) == len(page.all("footer")) == 1
        for plot in (attrs for attrs in page.all("div") if attrs.get("class") == "plot"):
            assert plot["role"] == "img"
            assert plot["aria-labelledby"] in [a.get("id") for a in page.all("figcaption")]


def test_frontier_holds_every_point_and_its_plan() -> None:
    instance, frontier = opt()
    greedy = clusterplan.solve(instance, "greedy")
    page = Page(frontier_page(instance, frontier, [greedy]))
    choice = page.data["choice"]
    assert [(p["x"], p["y"]) for p in choice["points"]] == [
        (p.throughput_samples_per_s, p.cost_usd) for p in frontier.points
    ]
    for point, drawn in zip(frontier.points, choice["points"], strict=True):
        names = page.data["chain"]["types"]
        assert [(s[0], s[1], names[s[2]], s[3]) for s in drawn["stages"]] == [
            (s.first_layer, s.last_layer, s.type, s.units) for s in point.plan
        ]
        assert max(s[4] for s in drawn["stages"]) == pytest.approx(point.stage_time_s, rel=1e-5)
    assert choice["today"] == len(frontier.points) - 1
    figure = page.data["figures"]["frontier"]
    assert figure["layout"]["shapes"][0]["x0"] == 60
    assert [text.strip() for text in figure["data"][1]["text"]] == ["greedy"]
    assert "Our own check derives this" in page.text
    assert "throughput floor 60 samples/s" in page.text


def test_limits_of_the_document_are_drawn() -> None:
    instance, frontier = opt()
    dear, cheap = frontier.points[0], frontier.points[-1]
    limits = {"cost_limit_usd": dear.cost_usd * 1.2, "hourly_budget_usd": dear.rate_usd_per_hour}
    limited = instance.model_copy(update={**limits, "objective": "throughput"})
    page = Page(frontier_page(limited, clusterplan.pareto(limited, error=0.01)))
    figure = page.data["figures"]["frontier"]
    assert [shape.get("y0") for shape in figure["layout"]["shapes"]] == [0, dear.cost_usd * 1.2]
    assert page.data["choice"]["today"] == 0
    budget = figure["data"][-1]
    assert budget["y"][0] == pytest.approx(dear.rate_usd_per_hour * cheap.time_s / 3600)
    assert "cost limit and hourly budget" in page.text


def test_other_instances_are_refused() -> None:
    (one, frontier), other = opt(), infeasible("staging")
    result = clusterplan.solve(one)
    with pytest.raises(OptionError, match="another instance"):
        frontier_page(other, frontier)
    with pytest.raises(OptionError, match="another instance"):
        plan_page(other, result)
    with pytest.raises(OptionError, match="the result of auto is of another instance"):
        frontier_page(one, frontier, [clusterplan.solve(other)])


@pytest.mark.parametrize("mix", ["fixed", "any"])
def test_bounds_of_clusters_lie_below_the_frontier(mix: str) -> None:
    instance = clusterplan.load("example:gavel-three-gpu-types")
    frontier = clusterplan.pareto(instance, mix=mix, error=0.05)
    lower = lower_bound_steps(instance, frontier)
    assert [rate for rate, _ in lower] == sorted(rate for rate, _ in lower)
    least = 1 - frontier.certified_error - 1e-9
    rates = sorted(point.rate_usd_per_hour for point in frontier.points)
    for rate in [*rates, *(rate * (1 - 1e-6) for rate in rates[1:]), *(rate for rate, _ in lower)]:
        near = rate * (1 + 1e-12)
        mean = min(
            (p.mean_completion_s for p in frontier.points if p.rate_usd_per_hour <= near), default=None
        )
        bound = max(((start, bound) for start, bound in lower if start <= near), default=None)
        assert mean is None or bound is None or mean * least <= bound[1] <= mean * (1 + 1e-9)


def test_comparison_shows_zero_gaps_failures_and_faults() -> None:
    comparison = sample_comparison()
    page = Page(comparison_page(comparison))
    gaps = page.data["figures"]["gaps"]
    ticks = dict(zip(gaps["layout"]["yaxis"]["ticktext"], gaps["layout"]["yaxis"]["tickvals"], strict=True))
    assert set(gaps["data"][0]["y"]) == {ticks["0"]}
    assert set(gaps["data"][2]["y"]) == {ticks["unknown"]}
    assert all(y > ticks["0"] for y in gaps["data"][1]["y"])
    assert "case: cannot be read" in page.text
    assert "case <i>failed</i> | `why`" in page.text
    assert "15 plans; 5 of them have no gap" in page.text
    assert len(page.all("input")) == 6 + 1
    for curve, drawn in zip(
        comparison.profile().curves, page.data["figures"]["profile"]["data"], strict=True
    ):
        assert drawn["x"][:-1] == list(curve.ratio)
        assert drawn["y"][:-1] == [100 * share for share in curve.share]


def test_markdown_keeps_its_columns() -> None:
    text = comparison_markdown(sample_comparison(3, "a|b<script>`*_[x](y)", "s|t"))
    tables = [line for line in text.splitlines() if line.startswith("|")]
    columns = {len(re.findall(r"(?<!\\)\|", line)) for line in tables}
    assert columns == {10, 11}
    assert "<script" not in text
    assert r"s\|t 0" in text
    assert r"\`\*\_\[x\](y)" in text


def test_large_comparison_is_small_enough() -> None:
    html = comparison_page(sample_comparison(834))
    assert len(html.encode()) < 15e6
    assert html.count("<tr>") > 5000


@pytest.mark.slow
def test_large_cluster_says_what_it_leaves_out() -> None:
    instance = generate_consolidation(10_000, 9_000, seed=3)
    html = plan_page(instance, clusterplan.solve(instance))
    assert len(html.encode()) < 15e6
    page = Page(html)
    assert "320 of 10,000 servers are drawn one by one" in page.text
    assert "3,000 of 9,000 jobs are listed" in page.text
    assert "The other 9,680 servers, by what they hold of gpu" in page.text
    assert sum(attrs.get("class") == "slots" for attrs in page.all("span")) == 320


def test_states_of_servers_add_up() -> None:
    instance = generate_consolidation(700, 600, seed=4)
    page = Page(plan_page(instance, clusterplan.solve(instance)))
    rows = re.findall(r'<table id="states".*?</table>', page.html, re.S)[0]
    counts = [float(value) for value in re.findall(r'<th scope="row" class="num" data-v="([\d.]+)"', rows)]
    assert sum(counts) == 700 - 320


def test_many_jobs_are_thinned_honestly() -> None:
    instance = generate_allocation(8000, seed=1)
    result = clusterplan.solve(instance)
    page = Page(plan_page(instance, result))
    match = re.search(r"([\d,]+) of 8,000 jobs are on this page", page.text)
    assert match
    rows = re.findall(r'<table id="configurations".*?</table>', page.html, re.S)[0].count("<tr>") - 1
    assert rows == int(match[1].replace(",", ""))
    assert "8,000 of 8,000" in page.text


def test_slots_of_a_server_add_up_to_it() -> None:
    instance = hostile_consolidation()
    page = Page(plan_page(instance, clusterplan.solve(instance)))
    bars = re.findall(r'<span class="slots".*?</span></li>', page.html, re.S)
    assert len(bars) == 4
    for bar in bars:
        assert sum(float(w) for w in re.findall(r"--w:([\d.]+)", bar)) == pytest.approx(1, abs=1e-4)
    assert "taken by others: 1 gpu" in bars[-1]
    assert "jobs to move" in page.text


def test_scripts_cannot_be_ended_by_data() -> None:
    text = to_json({"a": "</script><!--\u2028&"})
    assert not set("<>&\u2028") & set(text)
    assert json.loads(text) == {"a": "</script><!--\u2028&"}
    with pytest.raises(ValueError, match="JSON"):
        to_json(float("nan"))


def test_long_chain_is_small() -> None:
    instance = generate_staging(300, 8, "loose", seed=1)
    html = plan_page(instance, clusterplan.solve(instance))
    assert len(html) < 200_000
    assert len(Page(html).data["chain"]["layers"]) == 300


def test_modules_of_reports_import_no_jinja() -> None:
    code = """
import importlib, pkgutil, sys
import clusterplan.planner.reports as reports
for module in pkgutil.iter_modules(reports.__path__):
    importlib.import_module(f"{reports.__name__}.{module.name}")
print(sorted({"jinja2", "markupsafe"} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_policy_of_a_written_page_allows_its_scripts(tmp_path: Path) -> None:
    """Plotly holds control characters, which are escaped in every other file; a browser counts them all."""
    instance = clusterplan.load("example:heterps-ctr")
    write_frontier(instance, clusterplan.pareto(instance, error=0.3), tmp_path)
    text = (tmp_path / "frontier.html").read_text(encoding="utf-8")
    scripts = re.findall(r"<script>(.*?)</script>", text, flags=re.DOTALL)
    assert len(scripts) >= 3
    for script in scripts:
        assert base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() in html.unescape(text)
