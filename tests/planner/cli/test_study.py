"""The verbs `what-if`, `sensitivity` and `pareto`."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import get_type_hints

import pytest
from command_line import invoke
from sample_documents import ALLOCATION, CONSOLIDATION, DOCUMENT, STAGING, put

import clusterplan
from clusterplan.instances.common.errors import OptionError
from clusterplan.planner.cli.options import SCENARIO_CHANGES
from clusterplan.planner.cli.pareto import _baseline_names, pareto, read_prices
from clusterplan.planner.cli.solve import solve, what_if
from clusterplan.planner.cli.solving import RunOptions
from clusterplan.planner.cli.stored_results import diff, verify
from clusterplan.planner.registry import KINDS

SCENARIOS = ("--what-if", "drain=n-0,drain=n-1", "--what-if", "add=2xn")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return put(tmp_path / "c.yaml", CONSOLIDATION)


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
        (("--what-if", "burn=n-0"), "'burn=n-0' is no change; there are: drain=SERVER"),
        (("--pin", "nobody"), "--pin 'nobody' matches no job"),
        (("--apply", "add=n"), "--apply 'add=n' writes a plan; give --output PLAN.json"),
        (("--apply", "add=n", "--output", "w.html"), "give --output PLAN.json"),
        (("--apply", 2, "--output", "w.json"), "'2' is no scenario; there are 0: as it is, 1: add=n"),
    ],
)
def test_what_does_not_belong_together_is_refused(file: Path, words: tuple[object, ...], wanted: str) -> None:
    assert wanted in invoke(solve, file, "--what-if", "add=n", *words, fails=OptionError)


def test_the_help_shows_the_changes_of_every_kind() -> None:
    told = SCENARIO_CHANGES
    assert told in str(get_type_hints(RunOptions, include_extras=True)["what_if"].__metadata__[0].help)
    for name, kind in KINDS.items():
        instance = clusterplan.parse_instance(DOCUMENT[name])
        resources = getattr(instance, "resources", ())
        for change in kind.what_if(instance):
            assert change in resources or f"{change}=" in told, (name, change)


def test_the_command_says_what_the_option_says(file: Path) -> None:
    """With scenarios as arguments, and the options of one solve."""
    words = (file, SCENARIOS[1], SCENARIOS[3], "--threads", 1)
    assert invoke(what_if, *words).stdout == invoke(solve, file, *SCENARIOS, "--threads", 1).stdout
    assert invoke(what_if, file).exit_code == invoke(what_if, *words, "--jobs", 2).exit_code == 2


def test_what_belongs_to_scenarios_needs_one(file: Path) -> None:
    said = invoke(solve, file, "--apply", "add=n", "--output", "w.json", fails=OptionError)
    assert said == "--apply 'add=n' names a scenario; give it with --what-if"


RUNNING = [{"name": "j", "tasks": 2, "task_demand": {"gpu": 1}, "current": {"n-0": 2}}]


def test_the_plan_of_a_drained_server_is_of_the_instance_itself(tmp_path: Path) -> None:
    """Its result says which servers are drained, and that the objectives are those of the instance."""
    path, plan = tmp_path / "c.yaml", tmp_path / "p.json"
    put(path, {**CONSOLIDATION, "jobs": RUNNING})
    answer = invoke(what_if, path, "drain=n-0", "--apply", "drain=n-0", "--output", plan)
    assert answer.stdout.startswith("drain=n-0: value ")
    assert answer.stderr.endswith(f"{plan}; verify, diff, report and export-plan take it after {path}\n")
    stored = json.loads(plan.read_text())
    assert (stored["instance_options"]["drain"], stored["objectives"][0]["name"]) == (["n-0"], "value")
    assert sorted(tmp_path.iterdir()) == [path, plan]
    assert invoke(verify, path, plan).exit_code == 0
    assert "1 job moves" in invoke(diff, path, plan).stdout
    assert "2×n-1" in invoke(diff, path, plan).stdout


@pytest.mark.parametrize(
    ("kind", "scenario"),
    [
        ("consolidation", "drain=n-0,add=2xn"),
        ("allocation", "gpu=+1"),
        ("staging", "price=A:-20%"),
        ("scheduling", "remove=second"),
    ],
)
def test_the_plan_of_other_scenarios_has_its_instance_beside_it(
    kind: str, scenario: str, tmp_path: Path
) -> None:
    path, plan, changed = (tmp_path / name for name in ("i.yaml", "p.json", "p.instance.json"))
    put(path, DOCUMENT[kind])
    answer = invoke(what_if, path, scenario, "--apply", 1, "--output", plan)
    assert answer.stderr.endswith(f"take it after {changed}\n")
    assert invoke(verify, changed, plan, "--accept-claimed").exit_code == 0
    assert invoke(verify, path, plan).exit_code == 7


def test_the_plan_of_the_instance_as_it_is(file: Path, tmp_path: Path) -> None:
    """Number 0, and nothing is said where nothing is to be said."""
    words = ("--apply", 0, "--output", tmp_path / "p.json", "--quiet", "--format", "json")
    answer = invoke(what_if, file, "remove=p", *words)
    assert answer.stderr == ""
    assert (
        json.loads((tmp_path / "p.json").read_text()) == json.loads(answer.stdout)["scenarios"][0]["result"]
    )
    assert invoke(verify, file, tmp_path / "p.json").exit_code == 0


def test_the_instance_is_not_overwritten(file: Path) -> None:
    """Neither by a plan nor by a scenario's."""
    text = file.read_text()
    wanted = f"{file}: is the instance; write the result to another file"
    assert invoke(solve, file, "--output", file, fails=OptionError) == wanted
    answer = invoke(what_if, file, "add=n", "--apply", 1, "--output", file, fails=OptionError)
    assert answer == f"{file}: {answer.partition(': ')[2]}"
    assert file.read_text() == text


def test_a_scenario_that_was_not_solved_has_no_plan(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where Ctrl-C ends the comparison before."""
    alone = replace(clusterplan.what_if(file, []), asked=1)
    monkeypatch.setattr("clusterplan.planner.cli.study.what_if", lambda *_: alone)
    answer = invoke(what_if, file, "add=n", "--apply", 1, "--output", tmp_path / "p.json")
    assert answer.stderr == "add=n: was not solved, so that no plan is written\n"
    assert "interrupted: 0 of 1" in answer.stdout
    assert not (tmp_path / "p.json").exists()


ENDS_DOCUMENT = {
    **{
        "schema_version": 1,
        "kind": "staging",
        "name": "one",
        "training": {"samples": 3600},
        "probe_batch": 1,
    },
    "types": [{"name": "a", "price_usd_per_hour": 1.0}, {"name": "b", "price_usd_per_hour": 1.0}],
    "layers": [{"name": "only", "compute_s": {"a": 1.0, "b": 0.9}, "compute_parallel": 0.0}],
    "uncertainty": [{"figure": "/layers/*/compute_s/b", "low": 0.5, "high": 2.0}],
}


@pytest.fixture
def instance(tmp_path: Path) -> str:
    path = put(tmp_path / "one.yaml", ENDS_DOCUMENT)
    return str(path)


def test_a_table_of_regrets(instance: str) -> None:
    done = invoke(solve, instance, "--robust")
    assert done.exit_code == 0, done.output
    assert "The plan of the middle end is the safest" in done.stdout
    assert "plan of" in done.stdout


def test_data_for_programs(instance: str, tmp_path: Path) -> None:
    printed = json.loads(invoke(solve, instance, "--robust", "--format", "json").stdout)
    assert printed["safest"] == "middle"
    assert len(invoke(solve, instance, "--robust", "--format", "csv").stdout.splitlines()) == 10
    output = tmp_path / "robust.json"
    assert invoke(solve, instance, "--robust", "--output", str(output)).exit_code == 0
    assert json.loads(output.read_text())["regrets"] == printed["regrets"]


def test_a_page(instance: str, tmp_path: Path) -> None:
    output = tmp_path / "robust.html"
    assert invoke(solve, instance, "--robust", "--output", output).exit_code == 0
    assert "The plan of the middle end is the safest" in output.read_text()


@pytest.mark.parametrize(
    ("more", "what"),
    [
        (["--jobs", "2"], "--robust takes one file"),
        (["--output", "x.csv"], "a page (.html) or everything (.json)"),
    ],
)
def test_what_does_not_go_together(instance: str, more: list[str], what: str) -> None:
    assert what in invoke(solve, instance, "--robust", *more, fails=OptionError)


def test_the_worst_exit_code_is_returned(instance: str, tmp_path: Path) -> None:
    dear = put(tmp_path / "dear.yaml", {**ENDS_DOCUMENT, "cost_limit_usd": 0.6})
    for file, code in ((instance, 0), (dear, 4)):
        words = ("--robust", "--quiet", "--output", tmp_path / "all.json")
        assert invoke(solve, file, *words).exit_code == code


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
    file = put(tmp_path / "s.yaml", STAGING)
    words = (file, "--threads", 1, "--seed", 1, "--baselines", "none", "--output", tmp_path / "out")
    answer = invoke(pareto, *words, "--format", "json")
    assert answer.exit_code == 0
    assert answer.stdout == ""
    assert json.loads((tmp_path / "out" / "frontier.json").read_text())["status"] == "complete"
    assert answer.stderr.count("written: ") == 4
    assert "samples/s" in invoke(pareto, file, "--quiet").stdout
