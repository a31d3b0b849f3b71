"""`solve --what-if`: what it prints and writes, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from sample_documents import CONSOLIDATION, DOCUMENT
from verbs import invoke

import clusterplan
from clusterplan.instances.common.errors import OptionError
from clusterplan.planner.cli.common import RunOptions
from clusterplan.planner.cli.solve import solve
from clusterplan.planner.registry import KINDS

SCENARIOS = ("--what-if", "drain=n-0,drain=n-1", "--what-if", "add=2xn")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "c.yaml"
    path.write_text(yaml.safe_dump(CONSOLIDATION))
    return path


def test_the_table_begins_with_the_answer(file: Path) -> None:
    answer = invoke(solve, file, *SCENARIOS)
    assert answer.exit_code == 0
    assert answer.stdout.startswith("No scenario is better than what there is; the best is add=2xn")
    assert "drain=n-0,drain=n-1: 2 jobs wait" in answer.stdout


def test_programs_get_json_and_csv(file: Path) -> None:
    data = json.loads(invoke(solve, file, *SCENARIOS, "--format", "json").stdout)
    assert [each["scenario"] for each in data["scenarios"]] == ["as it is", SCENARIOS[1], "add=2xn"]
    lines = invoke(solve, file, *SCENARIOS, "--format", "csv").stdout.splitlines()
    assert lines[0].startswith("scenario,status,objective,value,difference")
    assert len(lines) == 10


def test_what_is_written_is_not_printed(file: Path, tmp_path: Path) -> None:
    for name, begins in (("w.html", "<!DOCTYPE html>"), ("w.json", '{"instance": "c"')):
        answer = invoke(solve, file, *SCENARIOS, "--output", tmp_path / name)
        assert (answer.stdout, f"Written: {tmp_path / name}" in answer.stderr) == ("", True)
        assert (tmp_path / name).read_text().lstrip().startswith(begins)


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (("--jobs", 2), "without the options of a batch"),
        (("c.yaml",), "of one file"),
        (("--output", "w.md"), "w.md: with --what-if a page"),
        (("--what-if", "burn=n-0"), "'burn=n-0' is no change; there are: drain=SERVER"),
    ],
)
def test_what_does_not_belong_together_is_refused(file: Path, words: tuple[object, ...], wanted: str) -> None:
    assert wanted in invoke(solve, file, "--what-if", "add=n", *words, fails=OptionError)


def test_the_help_shows_the_changes_of_every_kind() -> None:
    told = RunOptions.__annotations__["what_if"]
    for name, kind in KINDS.items():
        instance = clusterplan.parse_instance(DOCUMENT[name])
        resources = getattr(instance, "resources", ())
        for change in kind.what_if(instance):
            assert change in resources or f"{change}=" in told, (name, change)
