"""The verb `diff`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from verbs import invoke

import clusterplan
from clusterplan.instances.common.errors import OptionError
from clusterplan.planner.cli.plans.diff import diff
from clusterplan.planner.exit_codes import NOT_VERIFIED

FILE = "example:tiresias-testbed"


@pytest.fixture
def results(tmp_path: Path) -> tuple[Path, Path]:
    """Return the files of two results of one instance."""
    files = tmp_path / "one.json", tmp_path / "two.json"
    for file, solver in zip(files, ("first-fit-decreasing", "exact"), strict=True):
        file.write_text(clusterplan.solve(FILE, solver).to_json())
    return files


def test_a_plan_is_compared_with_what_runs_now_or_with_another_plan(results: tuple[Path, Path]) -> None:
    against_now = invoke(diff, FILE, results[1])
    assert against_now.exit_code == 0
    assert " start, " in against_now.stdout.splitlines()[0]
    assert "servers in use: 0 → 14 of " in against_now.stdout
    data = json.loads(invoke(diff, FILE, *results, "--format", "json").stdout)
    assert data["headline"].endswith("wait")
    lines = invoke(diff, FILE, *results, "--format", "csv").stdout.splitlines()
    assert lines[0] == "job,action,from,to"
    assert len(lines) == 1 + len(data["changes"])


def test_a_plan_that_was_altered_is_not_compared(results: tuple[Path, Path]) -> None:
    data = json.loads(results[1].read_text())
    data["objectives"][0]["value"] += 1
    results[1].write_text(json.dumps(data))
    answer = invoke(diff, FILE, *results)
    assert answer.exit_code == NOT_VERIFIED
    assert "verification failed" in answer.stderr


def test_three_results_are_refused(results: tuple[Path, Path]) -> None:
    assert "one result or two, not 3" in invoke(diff, FILE, *results, results[0], fails=OptionError)
