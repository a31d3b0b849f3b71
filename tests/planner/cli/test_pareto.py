"""`pareto` by itself: prices, baselines, and what it prints and writes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from sample_documents import ALLOCATION, CONSOLIDATION, STAGING
from verbs import invoke

import clusterplan
from clusterplan.instances.common.errors import OptionError
from clusterplan.planner.cli.pareto import _baseline_names, pareto, read_prices


def test_prices_are_pairs_of_a_name_and_a_number() -> None:
    assert read_prices(["gpu=2.5", "a=b=0"]) == {"gpu": 2.5, "a=b": 0.0}


@pytest.mark.parametrize("given", [["gpu"], ["=1"], ["gpu=-1"], ["gpu=nan"], ["gpu=x"], ["gpu=1", "gpu=2"]])
def test_other_prices_are_refused(given: list[str]) -> None:
    with pytest.raises(OptionError, match="--price"):
        read_prices(given)


def test_baselines_are_for_the_page_of_a_kind_that_shows_some() -> None:
    staging, allocation = map(clusterplan.parse_instance, (STAGING, ALLOCATION))
    here = Path("here")
    assert _baseline_names(staging, None, here) == ["single-type", "greedy", "genetic"]
    assert _baseline_names(staging, "greedy, exact", here) == ["greedy", "exact"]
    assert _baseline_names(staging, "none", here) == []
    assert _baseline_names(staging, None, None) == _baseline_names(allocation, None, here) == []
    for instance, output in ((staging, None), (allocation, here)):
        with pytest.raises(OptionError, match="--baselines"):
            _baseline_names(instance, "greedy", output)


def test_the_frontier_is_written_and_otherwise_printed(tmp_path: Path) -> None:
    file = tmp_path / "s.yaml"
    file.write_text(yaml.safe_dump(STAGING))
    words = (file, "--threads", 1, "--seed", 1, "--baselines", "none", "--output", tmp_path / "out")
    answer = invoke(pareto, *words, "--format", "json")
    assert answer.exit_code == 0
    assert answer.stdout == ""
    assert json.loads((tmp_path / "out" / "frontier.json").read_text())["status"] == "complete"
    assert answer.stderr.count("written: ") == 4
    assert "samples/s" in invoke(pareto, file, "--quiet").stdout


def test_a_kind_without_a_trade_off_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text(yaml.safe_dump(CONSOLIDATION))
    assert "not for consolidation" in invoke(pareto, file, fails=OptionError)
