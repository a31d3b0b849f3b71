"""The pages of results, frontiers, predictions and sensitivity."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
from sample_documents import CONSOLIDATION, STAGING
from sample_pages import HOSTILE, Page

import clusterplan
from clusterplan.instances.common.errors import InstanceError
from clusterplan.instances.scheduling.generate import generate_scheduling
from clusterplan.planner.batch.comparison_rows import ComparisonRow
from clusterplan.planner.findings import Findings
from clusterplan.planner.pareto import pareto
from clusterplan.planner.reports import result_page
from clusterplan.planner.reports.frontier_page import evenly_spaced, knee, trade_off_text
from clusterplan.planner.reports.page import (
    headline,
    options_text,
    result_cell,
    usd,
    versions_text,
)
from clusterplan.planner.reports.prediction_page import prediction_page
from clusterplan.planner.reports.study_page import robust_page, what_if_page
from clusterplan.planner.staging.frontier import StagingFrontierPage
from clusterplan.planner.stored_results import read_results, verify_stored
from clusterplan.planner.study import robust, what_if
from clusterplan.solvers.common.result import SolveOptions

INSTANCE = clusterplan.parse_instance(STAGING)
RESULT = clusterplan.solve(INSTANCE, "brute-force")


def test_options_that_are_set_are_told_without_a_whole_plan() -> None:
    options = SolveOptions(time_limit_s=20, seed=0, warm_start=({"a": 1},), method_options={"b": "ä"})
    assert options_text(options) == ('time_limit_s 20, gap 1e-06, seed 0, method_options {"b": "ä"}')
    assert versions_text({"a": "1", "b": "2"}) == "a 1, b 2"


def test_the_head_says_no_more_than_the_check() -> None:
    assert headline("optimal", "none") == ("proven optimal", "good")
    assert headline("feasible", "time") == ("a plan, not proven optimal (time limit)", "fair")
    wide = Findings(within="optimal means a gap of at most 0.1 here").verification("s")
    assert headline("optimal", "none", wide) == (wide.within, "fair")
    claimed = Findings(claimed=["the prices"]).verification("s")
    assert headline("optimal", "none", claimed) == ("optimal: not all of it is proven here", "fair")


def test_cells_of_status_and_money() -> None:
    row = ComparisonRow(instance="i", kind="staging", solver="s", status="error")
    late = row.model_copy(update={"status": "unknown", "limit": "time"})
    claimed = row.model_copy(update={"status": "optimal", "only_claimed": True})
    assert (result_cell(row).mark, result_cell(late).text) == ("bad", "unknown (time limit)")
    assert (result_cell(claimed).mark, result_cell(claimed).text) == ("fair", "optimal, as claimed")
    assert (usd(None), usd(2.5)) == ("–", "2.5 USD")


def test_a_large_document_is_packed_and_verified_like_a_plain_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever an earlier run has left is gone."""
    instance = generate_scheduling(6, 4, seed=1)
    frontier = pareto(instance, least=32, most=33)
    for most, name, gone in (
        (10**9, "frontier.json", "frontier.json.gz"),
        (10, "frontier.json.gz", "frontier.json"),
        (10**9, "frontier.json", "frontier.json.gz"),
    ):
        monkeypatch.setattr(result_page, "MAX_PLAIN", most)
        written = result_page.write(instance, frontier, tmp_path)
        assert tmp_path / name in written
        assert not (tmp_path / gone).exists()
        (stored,) = read_results(tmp_path / name)
        assert verify_stored(instance, stored, name).ok


def test_a_damaged_packed_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "frontier.json.gz"
    path.write_bytes(b"\x1f\x8b nothing")
    with pytest.raises(InstanceError, match="gzip"):
        read_results(path)


@pytest.mark.parametrize("count", [1, 7, 10])
def test_few_points_all_stay(count: int) -> None:
    assert evenly_spaced(range(count), 10) == [*range(count)]


def test_many_points_are_thinned_evenly_and_the_ends_stay() -> None:
    kept = evenly_spaced(range(4000), 1500)
    assert (len(kept), kept[0], kept[-1]) == (1500, 0, 3999)
    assert max(b - a for a, b in itertools.pairwise(kept)) == 3


def test_points_are_drawn_with_a_line_of_hover_text_for_each_figure() -> None:
    page = StagingFrontierPage(INSTANCE, pareto(INSTANCE))
    line, (fast, *_, cheap) = page.line(), page.points
    assert line["x"][0] == fast.throughput_samples_per_s
    assert line["y"][-1] == cheap.cost_usd
    assert line["customdata"][0] == ["point 1", *page.hover(fast)]
    assert line["hovertemplate"].count("customdata") == 5
    assert line["line"]["shape"] == "hv"
    assert page.ring()["y"] == [cheap.cost_usd]
    assert page.star(fast, "today")["customdata"] == [["today", *page.hover(fast)]]


def test_the_knee_lies_farthest_below_the_line_between_the_ends() -> None:
    assert knee([(100, 320), (95, 280), (84, 244), (72, 242), (63, 229)]) == 2
    assert knee([(10, 100), (9, 20), (1, 10)]) == 1
    assert knee([(8, 17), (5.2, 5), (3, 2), (2.17, 1.5), (1, 1)]) == 2


@pytest.mark.parametrize(
    "trades",
    [
        [],
        [(1, 1)],
        [(2, 2), (1, 1)],
        [(3, 3), (2, 2), (1, 1)],
        [(3, 9), (2, 8), (1, 1)],
        [(9, 9), (8, 1), (1, 0)],
    ],
)
def test_a_line_has_no_knee(trades: list[tuple[float, float]]) -> None:
    """Nor has one that bends the other way, or of fewer than three points."""
    assert knee(trades) is None


def test_a_trade_is_told_in_per_cent_or_as_a_multiple() -> None:
    assert trade_off_text(83.7 / 62.57, 244.2 / 228.66) == "34 % faster for 7 % more"
    assert trade_off_text(3.25, 4) == "3.2 times as fast for 4.0 times the cost"
    assert trade_off_text(1.5, 3.1) == "50 % faster for 3.1 times the cost"


def page(model: str = "gpt2", hardware: str = "l4,h100", **more: Any) -> Page:
    return Page(prediction_page(clusterplan.predict(model, hardware, **{"batch": 2, **more})))


def test_it_begins_with_what_to_rent_and_shows_intervals() -> None:
    made = page(within_h=24.0)
    assert "in time Rent " in made.text
    assert "outside what was measured" in made.text
    figures = made.data["figures"]
    assert set(figures) == {"hours", "cost", "parts", "bytes-figure"}
    (bars,) = figures["cost"]["data"]
    assert bars["y"] == ["l4", "h100"]
    assert all(length > 0 for length in bars["error_x"]["array"])
    assert figures["hours"]["layout"]["shapes"][0]["x0"] == 24


def test_a_deadline_that_cannot_be_met() -> None:
    assert "too late The soonest is" in page(within_h=0.01, gpus=8).text


def test_hardware_without_a_price_has_no_plot_of_costs() -> None:
    made = page(hardware="k80,l4")
    assert "cost" not in made.data["figures"]
    assert "–" in made.text


def test_machines_are_not_counted_as_their_gpus() -> None:
    made = page(hardware="p4d.24xlarge", gpus=16)
    assert "Rent 2 × p4d.24xlarge (16 × a100-40)" in made.text
    assert "16 × p4d.24xlarge" not in made.text


def test_what_is_not_possible_is_not_said_to_lack_memory() -> None:
    made = page(hardware="l4,h100,t4", gpus=8, limits={"l4": 4, "h100": 4, "t4": 2})
    assert "not possible gpt2 cannot be trained in the way that was asked for" in made.text
    assert "l4, h100: limit of 4 GPUs, 8 needed (raise --limit to 8" in made.text
    assert "t4: limit of 2 GPUs, 8 needed" in made.text


def test_a_model_that_fits_nowhere() -> None:
    made = page("llama-2-70b", "l4", gpus=1)
    assert "fits nowhere llama-2-70b fits on none of this hardware" in made.text
    assert made.data["figures"] == {}
    assert "does not fit" in made.text


def study_page(document: dict[str, Any], *scenarios: str) -> Page:
    return Page(what_if_page(what_if(clusterplan.parse_instance(document), scenarios)))


def test_it_begins_with_the_answer_and_has_a_bar_for_each_scenario() -> None:
    made = study_page(CONSOLIDATION, "drain=n-0", "remove=p")
    assert (
        "all proven No scenario with the same jobs is better" in made.text or "drain=n-0: value" in made.text
    )
    (trace,) = made.data["figures"]["bars"]["data"]
    assert trace["y"] == ["as it is", "drain=n-0", "remove=p"]
    assert trace["x"] == [4, 4, 2]
    assert "2 jobs start" in made.text


def test_a_scenario_without_a_plan_has_a_row_but_no_bar() -> None:
    made = study_page(STAGING, "floor=9999", "floor=6")
    assert made.data["figures"]["bars"]["data"][0]["y"] == ["as it is", "floor=6"]
    assert "infeasible" in made.text


@pytest.mark.parametrize("scenarios", [(), ("floor=9999",)])
def test_without_two_values_nothing_is_drawn(scenarios: tuple[str, ...]) -> None:
    made = study_page({**STAGING, "throughput_floor_samples_per_s": 9999}, *scenarios)
    assert made.data["figures"] == {}
    assert "there is no plan" in made.text.lower()


GUESS = {"figure": "/layers/*/compute_s/*", "low": 0.5, "high": 2.0, "basis": "a guess"}


def robust_page_page(**changes: Any) -> Page:
    document = {**STAGING, "uncertainty": [GUESS], **changes}
    return Page(robust_page(robust(clusterplan.parse_instance(document))))


def test_it_begins_with_the_answer_and_holds_every_plan_at_every_end() -> None:
    made = robust_page_page()
    assert "all proven One plan is best" in made.text or "all proven The plan of the" in made.text
    bars = made.data["figures"]["bars"]["data"]
    assert [bar["name"] for bar in bars] == [f"plan of the {end} end" for end in ("low", "middle", "high")]
    assert all(bar["x"] == ["low end", "middle end", "high end"] for bar in bars)
    assert "outside" in made.text
    assert "a guess" in made.text


def test_a_plan_that_is_not_allowed_has_no_bar() -> None:
    made = robust_page_page(throughput_floor_samples_per_s=20)
    first = made.data["figures"]["bars"]["data"][0]
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
