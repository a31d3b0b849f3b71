"""The page of a prediction."""

from __future__ import annotations

from typing import Any

from sample_pages import Page

import clusterplan
from clusterplan.planner.reports.prediction_page import prediction_page


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
