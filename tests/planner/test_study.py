"""Scenarios beside what there is: figures, differences, words, and an interruption.

Plans at the ends of intervals, and what each loses at the others.

The commands `what-if`, `solve --robust` and `pareto`.
"""

from __future__ import annotations

import json
from dataclasses import fields, replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from allocation_instances import allocation, ring
from command_line import invoke
from sample_documents import ALLOCATION, CONSOLIDATION, DOCUMENT, STAGING, put

import clusterplan
from clusterplan.instances.common.errors import OptionError
from clusterplan.planner import study as module
from clusterplan.planner.cli.options import OPTION, SCENARIO_CHANGES
from clusterplan.planner.cli.pareto import _baseline_names, pareto, read_prices
from clusterplan.planner.cli.solve import solve
from clusterplan.planner.cli.solve import what_if as command
from clusterplan.planner.cli.solving import RunOptions
from clusterplan.planner.cli.stored_results import diff, verify
from clusterplan.planner.registry import KINDS
from clusterplan.planner.reports.study_page import SCENARIO_COLUMNS
from clusterplan.planner.study import (
    NO_OBJECTIVE,
    Robust,
    Row,
    WhatIf,
    proven_difference,
    robust,
    what_if,
)
from clusterplan.solvers.common.result import Result

THREE_JOBS = {
    **CONSOLIDATION,
    "jobs": [{"name": name, "tasks": 3, "task_demand": {"gpu": 1}} for name in ("a", "b", "c")],
}


def compared(document: dict[str, Any], *scenarios: str) -> WhatIf:
    return what_if(clusterplan.parse_instance(document), scenarios)


def test_each_scenario_is_solved_and_proven() -> None:
    found = compared(THREE_JOBS, "drain=n-0", "add=2xn", "remove=c")
    assert [each.result.objectives[0].value for each in found.all()] == [6, 3, 9, 6]
    assert {each.result.status for each in found.all()} == {"optimal"}
    assert [row.difference for row in found.rows() if row.objective.name == "value"] == [None, -3, 3, 0]
    assert {row.proven for row in found.rows()} == {"–", "−3", "+3", "0"}
    assert found.headline() == (
        "The best scenario with the same jobs is add=2xn: value 9 instead of 6 (+50 %)."
    )


def test_a_file_will_do_and_the_answer_is_a_table() -> None:
    found = clusterplan.what_if("example:tiresias-testbed", ["add=2xempty"])
    assert str(found).startswith("add=2xempty: value 51 instead of 43")
    frame = found.to_frame()
    values = frame[frame.objective == "value"]
    assert list(values.scenario) == ["as it is", "add=2xempty"]
    assert list(values.difference.fillna(0)) == [0, 8]


def test_one_scenario_still_stands_in_a_list() -> None:
    with pytest.raises(clusterplan.OptionError, match=r"\['add=n'\]"):
        clusterplan.what_if(clusterplan.parse_instance(CONSOLIDATION), "add=n")
    with pytest.raises(clusterplan.OptionError, match="what_if takes an instance or its file, not int"):
        clusterplan.what_if(3, [])  # type: ignore[arg-type]


def test_who_is_left_out_only_there_is_said() -> None:
    lines = list(compared(THREE_JOBS, "drain=n-0", "add=n,value=a:9", "remove=c").sentences())
    assert lines[0].startswith("as it is: 2 jobs start, 1 wait")
    assert sum("drain=n-0: left out only here: " in line for line in lines) == 1
    assert sum(line.startswith("add=n,value=a:9: left out no more: ") for line in lines) == 1
    assert "remove=c: not in it: c" in lines


@pytest.mark.parametrize(
    ("document", "scenarios", "wanted"),
    [
        (THREE_JOBS, ["add=n"], "add=n: value 9 instead of 6 (+50 %)."),
        (THREE_JOBS, ["drain=n-0"], "drain=n-0: value 3 instead of 6 (−50 %)."),
        (
            THREE_JOBS,
            ["drain=n-0", "drain=n"],
            "No scenario is better than what there is; the best is drain=n-0",
        ),
        (CONSOLIDATION, ["remove=p"], "remove=p: value 2 instead of 4 (−50 %); but its jobs are others."),
        (CONSOLIDATION, ["add=n"], "add=n: value 4, as it is."),
        (STAGING, ["floor=1000"], "None of the scenarios has a plan."),
        (
            {**STAGING, "throughput_floor_samples_per_s": 1000},
            ["floor=none", "limit=A:1"],
            "As it is, there is no plan. There is one with floor=none.",
        ),
    ],
)
def test_the_first_sentence_is_the_answer(document: Any, scenarios: list[str], wanted: str) -> None:
    assert compared(document, *scenarios).headline().startswith(wanted)


def test_less_is_better_where_it_is() -> None:
    found = compared(ALLOCATION, "gpu=-2", "cpu=-8,gpu=+1", "gpu=+4")
    before, worse, _, better = (each.first.value for each in found.all())
    assert better <= before < worse
    assert "better than what there is; the best is gpu=+4" in found.headline()


def test_open_gaps_widen_the_proven_difference() -> None:
    def record(value: float, bound: float) -> Any:
        return module.ObjectiveRecord(name="v", sense="max", unit="v", value=value, bound=bound)

    least, most = proven_difference(record(10, 12), record(13, 14))
    assert (least, most) == (1, 4)
    row = Row(compared(CONSOLIDATION).baseline, record(13, 14), 3, least, most)
    assert row.proven == "+1 … +4"
    assert proven_difference(record(10, 12), NO_OBJECTIVE) == (None, None)


def test_all_of_it_is_plain_data() -> None:
    data = json.loads(compared(STAGING, "floor=+10%", "floor=9999").to_json())
    assert [each["scenario"] for each in data["scenarios"]] == ["as it is", "floor=+10%", "floor=9999"]
    assert data["scenarios"][1]["differences"]["cost"]["difference"] >= 0
    assert "no plan" in data["scenarios"][2]["answer"]
    assert Result.model_validate(data["scenarios"][1]["result"]).status == "optimal"


def test_every_row_has_every_cell() -> None:
    rows = compared(STAGING, "floor=9999").rows()
    assert [[cell(row).text for _, cell in SCENARIO_COLUMNS][:3] for row in rows] == [
        ["as it is", "optimal", "cost [USD]"],
        ["floor=9999", "infeasible", "–"],
    ]


def test_an_interruption_keeps_the_scenarios_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    solved = module.solve
    counts: list[int] = []

    def stopped(*given: Any) -> Result:
        counts.append(1)
        limit = "interrupt" if len(counts) == 2 else "none"
        return solved(*given).model_copy(update={"limit": limit})

    monkeypatch.setattr(module, "solve", stopped)
    found = compared(CONSOLIDATION, "add=n", "add=2xn")
    assert [each.name for each in found.all()] == ["as it is", "add=n"]
    assert list(found.sentences())[-1] == "interrupted: 1 of 2 scenarios were solved"


TWO_TYPES: dict[str, Any] = {
    **{"schema_version": 1, "kind": "staging", "name": "two", "objective": "cost"},
    **{"training": {"samples": 3600}, "probe_batch": 1},
    "types": [
        {"name": "known", "price_usd_per_hour": 1.0},
        {"name": "guessed", "price_usd_per_hour": 1.0},
    ],
    "layers": [
        {"name": "only", "compute_s": {"known": 1.0, "guessed": 0.9}, "compute_parallel": 0.0},
    ],
    "uncertainty": [{"figure": "/layers/*/compute_s/guessed", "low": 0.5, "high": 2.0, "basis": "a guess"}],
}


def _robust(**changes: Any) -> Robust:
    return robust(clusterplan.parse_instance({**TWO_TYPES, **changes}))


def test_regrets_by_hand() -> None:
    # One unit of `known` costs 1 USD; `guessed` costs 0.45, 0.9 or 1.8.
    found = _robust()
    values = {(one.plan, one.end): one.value for one in found.regrets}
    guessed = {"low": 0.45, "middle": 0.9, "high": 1.8}
    for plan, end in product(guessed, guessed):
        assert values[plan, end] == pytest.approx(1.0 if plan == "high" else guessed[end])
    regrets = {(one.plan, one.end): one.most for one in found.regrets}
    assert regrets["high", "low"] == pytest.approx(0.55)
    assert regrets["middle", "high"] == pytest.approx(0.8)
    assert regrets["middle", "low"] == pytest.approx(0.0)
    assert found.best() == "middle"
    assert found.worst("middle") == pytest.approx(0.8)
    assert found.headline().startswith("The plan of the middle end is the safest: ")
    assert found.headline().endswith("80.00 %. It says: 1 stage on 1 × guessed.")
    assert "1 intervals, 1 of them outside what was measured" in found.sentences()
    assert {end.result.status for end in found.ends} == {"optimal"}


def test_a_plan_that_breaks_a_limit_at_an_end_is_not_allowed_there() -> None:
    found = _robust(throughput_floor_samples_per_s=1.0)
    broken = {(one.plan, one.end) for one in found.regrets if one.broken}
    assert ("middle", "high") in broken
    assert ("high", "low") not in broken
    assert found.best() == "high"
    assert any("is not allowed at the high end" in line for line in found.sentences())


def test_times_that_a_plan_states_are_those_of_its_own_end() -> None:
    variant = ring({"gpu": 1}, [8, 0.1, 0.01, 0], 4)
    job = {"name": "one", "remaining_steps": 100, "variants": [variant]}
    figure = {"figure": "/jobs/*/variants/*/speed/theta/*", "low": 0.5, "high": 2.0, "basis": "a guess"}
    found = robust(allocation({"gpu": 4}, [job], uncertainty=[figure]))
    assert not any(one.broken for one in found.regrets)
    assert found.headline() == "One plan is best at every end: the uncertainty does not matter here."
    values = {one.end: one.value or 0.0 for one in found.regrets if one.plan == "middle"}
    assert values["high"] == pytest.approx(4 * values["low"])


def test_one_plan_for_all_ends() -> None:
    found = _robust(uncertainty=[{"figure": "/layers/0/compute_s/*", "low": 0.9, "high": 1.1}])
    assert found.headline() == "One plan is best at every end: the uncertainty does not matter here."
    data = json.loads(found.to_json())
    assert len(data["regrets"]) == 9
    assert {regret["regret_most"] for regret in data["regrets"]} == {0.0}


def test_no_plan_anywhere() -> None:
    assert _robust(cost_limit_usd=0.01).headline() == "There is no plan at any end."


def test_plans_that_are_kept_back_by_their_own_limits() -> None:
    found = _robust(cost_limit_usd=0.95)
    assert [end.result.plan is None for end in found.ends] == [False, False, True]
    assert found.headline().startswith("No plan is allowed at every end")


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
        (("--apply", "add=n"), "--apply 'add=n' writes a plan; give --output PLAN.json"),
        (("--apply", "add=n", "--output", "w.html"), "give --output PLAN.json"),
        (("--apply", 2, "--output", "w.json"), "'2' is no scenario; there are 0: as it is, 1: add=n"),
    ],
)
def test_what_does_not_belong_together_is_refused(file: Path, words: tuple[object, ...], wanted: str) -> None:
    assert wanted in invoke(solve, file, "--what-if", "add=n", *words, fails=OptionError)


def test_the_help_shows_the_changes_of_every_kind() -> None:
    told = SCENARIO_CHANGES
    shown = {field.name: field.metadata for field in fields(RunOptions)}
    assert told in str(shown["what_if"][OPTION].help)
    for name, kind in KINDS.items():
        instance = clusterplan.parse_instance(DOCUMENT[name])
        resources = getattr(instance, "resources", ())
        for change in kind.what_if(instance):
            assert change in resources or f"{change}=" in told, (name, change)


def test_the_command_says_what_the_option_says(file: Path) -> None:
    """With scenarios as arguments, and the options of one solve."""
    words = (file, SCENARIOS[1], SCENARIOS[3], "--threads", 1)
    assert invoke(command, *words).stdout == invoke(solve, file, *SCENARIOS, "--threads", 1).stdout
    assert invoke(command, file).exit_code == invoke(command, *words, "--jobs", 2).exit_code == 2


def test_what_belongs_to_scenarios_needs_one(file: Path) -> None:
    said = invoke(solve, file, "--apply", "add=n", "--output", "w.json", fails=OptionError)
    assert said == "--apply 'add=n' names a scenario; give it with --what-if"


RUNNING = [{"name": "j", "tasks": 2, "task_demand": {"gpu": 1}, "current": {"n-0": 2}}]


def test_the_plan_of_a_drained_server_is_of_the_instance_itself(tmp_path: Path) -> None:
    """Its result says which servers are drained, and that the objectives are those of the instance."""
    path, plan = tmp_path / "c.yaml", tmp_path / "p.json"
    put(path, {**CONSOLIDATION, "jobs": RUNNING})
    answer = invoke(command, path, "drain=n-0", "--apply", "drain=n-0", "--output", plan)
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
    answer = invoke(command, path, scenario, "--apply", 1, "--output", plan)
    assert answer.stderr.endswith(f"take it after {changed}\n")
    assert invoke(verify, changed, plan, "--accept-claimed").exit_code == 0
    assert invoke(verify, path, plan).exit_code == 7


def test_the_plan_of_the_instance_as_it_is(file: Path, tmp_path: Path) -> None:
    """Number 0, and nothing is said where nothing is to be said."""
    words = ("--apply", 0, "--output", tmp_path / "p.json", "--quiet", "--format", "json")
    answer = invoke(command, file, "remove=p", *words)
    assert answer.stderr == ""
    assert (
        json.loads((tmp_path / "p.json").read_text()) == json.loads(answer.stdout)["scenarios"][0]["result"]
    )
    assert invoke(verify, file, tmp_path / "p.json").exit_code == 0


def test_the_instance_is_not_overwritten(file: Path) -> None:
    """Neither by a plan nor by a scenario's."""
    text = file.read_text()
    wanted = f"{file}: is what the result refers to; write to another file"
    assert invoke(solve, file, "--output", file, fails=OptionError) == wanted
    answer = invoke(command, file, "add=n", "--apply", 1, "--output", file, fails=OptionError)
    assert answer == f"{file}: {answer.partition(': ')[2]}"
    assert file.read_text() == text


def test_a_scenario_that_was_not_solved_has_no_plan(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where Ctrl-C ends the comparison before."""
    alone = replace(clusterplan.what_if(file, []), asked=1)
    monkeypatch.setattr("clusterplan.planner.cli.study.what_if", lambda *_: alone)
    answer = invoke(command, file, "add=n", "--apply", 1, "--output", tmp_path / "p.json")
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
