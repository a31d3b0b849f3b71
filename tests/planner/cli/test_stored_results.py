"""Options of `solve` for running jobs, and how other verbs take them from the result.

The verb `diff`.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from verbs import invoke

import clusterplan
from clusterplan.instances.common.errors import OptionError
from clusterplan.instances.documents import load
from clusterplan.planner.cli.options import MoveOptions
from clusterplan.planner.cli.solve import solve
from clusterplan.planner.cli.stored_results import diff, solved_instance, verify
from clusterplan.planner.exit_codes import NOT_VERIFIED
from clusterplan.planner.stored_results import read_results

JOBS = [
    {"name": "left", "tasks": 1, "task_demand": {"gpu": 1}, "current": {"a": 1}},
    {"name": "right", "tasks": 1, "task_demand": {"gpu": 1}, "current": {"b": 1}},
    {"name": "waits", "tasks": 1, "task_demand": {"gpu": 4}},
]


@pytest.fixture
def instance(tmp_path: Path) -> Path:
    """Return the file of an instance in which a move lets a job start."""
    servers = [{"name": name, "capacity": {"gpu": 4}} for name in "ab"]
    document = {"schema_version": 1, "kind": "consolidation", "name": "k", "servers": servers, "jobs": JOBS}
    path = tmp_path / "k.yaml"
    path.write_text(yaml.safe_dump(document))
    return path


@pytest.mark.parametrize(
    ("words", "value"),
    [
        ((), 6),
        (("--running", "stay"), 2),
        (("--pin", "left", "--pin", "r*"), 2),
        (("--pin", "left"), 6),
        (("--max-moves", "0"), 2),
        (("--restart-cost", "0.25"), 5.75),
        (("--restart-cost", "5"), 2),
    ],
)
def test_an_option_says_what_running_jobs_may_do_and_the_result_repeats_it(
    instance: Path, tmp_path: Path, words: tuple[str, ...], value: float
) -> None:
    result = tmp_path / "result.json"
    assert invoke(solve, instance, "--quiet", "--output", result, *words).exit_code == 0
    data = json.loads(result.read_text())
    assert data["objectives"][0]["value"] == value
    assert invoke(verify, instance, result).exit_code == 0
    said = invoke(diff, instance, result)
    assert said.exit_code == 0
    assert ("1 moves" in said.stdout) == (value > 2)


def test_a_result_only_chooses_among_the_options(instance: Path, tmp_path: Path) -> None:
    result = tmp_path / "result.json"
    assert invoke(solve, instance, "--quiet", "--output", result, "--max-moves", "1").exit_code == 0
    data = json.loads(result.read_text())
    data["instance_options"] |= {"max_moves": 2, "name": "other", "jobs": []}
    result.write_text(json.dumps(data))
    found = solved_instance(str(instance), False, False, read_results(result))
    assert found.name == "k"
    assert found.chosen()["max_moves"] == 2
    assert len(found.sizes()) == len(load(instance).sizes())
    assert invoke(verify, instance, result).exit_code == 7


def test_options_that_say_nothing_change_nothing() -> None:
    assert MoveOptions().changes() == {}
    said = MoveOptions(running="stay", pin=["x"], max_moves=0, restart_cost=0.0, device_moves=True)
    assert said.changes() == {
        "running": "stay",
        "pinned": ["x"],
        "max_moves": 0,
        "restart_cost_h": 0.0,
        "device_moves": True,
    }


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
