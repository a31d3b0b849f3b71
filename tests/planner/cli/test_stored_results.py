"""Stored results: what is written, read again, and refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from command_line import invoke
from sample_documents import STAGING, put

import clusterplan
from clusterplan.formulations.registry import formulate
from clusterplan.instances.common.errors import InstanceError, OptionError
from clusterplan.instances.documents import load
from clusterplan.planner.cli.options import MoveOptions
from clusterplan.planner.cli.solve import solve
from clusterplan.planner.cli.stored_results import diff, export_plan, page_of, report, solved_instance, verify
from clusterplan.planner.stored_results import read_results, sealed

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
    return put(tmp_path / "k.yaml", document)


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


def test_freed_servers_are_an_option_that_the_result_repeats(instance: Path, tmp_path: Path) -> None:
    """The servers have no racks."""
    result = tmp_path / "result.json"
    assert invoke(solve, instance, "--quiet", "--output", result, "--free", "1").exit_code == 0
    data = json.loads(result.read_text())
    assert [record["certified_bound"] for record in data["objectives"]] == [1, 1]
    assert invoke(verify, instance, result).exit_code == 0
    assert "1 job moves" in invoke(diff, instance, result).stdout
    racks = invoke(solve, instance, "--free", "1", "--per", "rack")
    assert racks.exit_code == 2
    assert "--per rack: no server has a rack; free servers, or give each its rack" in racks.stderr


def test_a_result_only_chooses_among_the_options(instance: Path, tmp_path: Path) -> None:
    result = tmp_path / "result.json"
    assert invoke(solve, instance, "--quiet", "--output", result, "--max-moves", "1").exit_code == 0
    data = json.loads(result.read_text())
    data["instance_options"] |= {"max_moves": 2, "name": "other", "jobs": []}
    put(result, data)
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


INSTANCE = clusterplan.parse_instance(STAGING)
RESULT = clusterplan.solve(INSTANCE, "exact")
FALSE = RESULT.model_copy(update={"objective": 1.0})


@pytest.fixture
def stored_instance(tmp_path: Path) -> Path:
    """Return the file of the instance."""
    return put(tmp_path / "s.yaml", STAGING)


@pytest.fixture
def right(tmp_path: Path) -> Path:
    """Return the file of its result."""
    path = tmp_path / "right.json"
    path.write_text(RESULT.to_json())
    return path


@pytest.fixture
def wrong(tmp_path: Path) -> Path:
    """Return the file of a result with a false figure."""
    path = tmp_path / "wrong.json"
    path.write_text(FALSE.to_json())
    return path


def test_a_right_result_is_verified_and_a_false_one_is_not(
    stored_instance: Path, right: Path, wrong: Path
) -> None:
    answer = invoke(verify, stored_instance, right)
    assert answer.exit_code == 0
    assert answer.stdout.startswith("s: verified\n")
    refuted = invoke(verify, stored_instance, wrong, "--format", "json")
    assert refuted.exit_code == 7
    assert json.loads(refuted.stdout)["ok"] is False
    assert "not for it" in invoke(verify, stored_instance, right, "--format", "csv", fails=OptionError)


def test_a_bound_that_counting_does_not_give_is_only_claimed_without_a_certificate(
    stored_instance: Path, tmp_path: Path
) -> None:
    formulation = formulate(INSTANCE)
    (least,), record = formulation.elementary_bounds(), RESULT.objectives[0]
    weak = {"certified_bound": least, "certified_gap": formulation.objectives[0].gap(record.value, least)}
    bare = {"certificate": None, "prices": None, "objectives": (record.model_copy(update=weak),), **weak}
    path = tmp_path / "bare.json"
    path.write_text(RESULT.model_copy(update=bare).to_json())
    answer = invoke(verify, stored_instance, path)
    assert answer.exit_code == 8
    assert "ONLY CLAIMED: that the plan is optimal" in answer.stdout
    assert invoke(verify, stored_instance, path, "--accept-claimed").exit_code == 0


def test_a_report_is_a_page_of_the_last_result(stored_instance: Path, right: Path, tmp_path: Path) -> None:
    page = tmp_path / "new" / "page.html"
    assert "written: " in invoke(report, stored_instance, right, "--output", page).stderr
    assert page.read_text() == page_of(INSTANCE, read_results(right), str(right))[0]
    assert page.read_text().startswith("<!DOCTYPE html>")


def test_a_plan_is_exported_once_it_is_verified(stored_instance: Path, right: Path, tmp_path: Path) -> None:
    printed = invoke(export_plan, stored_instance, right)
    assert printed.exit_code == 0
    assert json.loads(printed.stdout)["instance"] == "s"
    invoke(export_plan, stored_instance, right, "--output", tmp_path / "plan.json")
    assert (tmp_path / "plan.json").read_text() == printed.stdout
    nowhere = tmp_path / "none" / "plan.json"
    assert "cannot be written" in invoke(
        export_plan, stored_instance, right, "--output", nowhere, fails=OptionError
    )


def test_a_result_with_a_key_twice_is_refused(stored_instance: Path, tmp_path: Path) -> None:
    """Python would take the last of the two, and another reader the first."""
    twice = tmp_path / "twice.json"
    twice.write_text('{"objective": 1, ' + RESULT.to_json().removeprefix("{"))
    twice.write_text(RESULT.to_json() + "\n" + twice.read_text())
    assert "line 2: is not JSON: the key" in invoke(verify, stored_instance, twice, fails=InstanceError)
    packed = json.dumps({"source": "s", "solver": "exact"})
    twice.write_bytes(sealed(packed.removesuffix("}") + ', "result": {"kind": 1, "kind": 2}}'))
    assert "holds no result" in invoke(verify, stored_instance, twice, fails=InstanceError)


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        (("objective",), "text", "objective: is {}, which is not a number; write a plain number"),
        (("runtime_s",), "text", "runtime_s: is {}, which is not a number; write a plain number"),
        (("objectives", 0, "gap"), "text", "objectives[0].gap: is {}, which is not a number"),
        (("objectives", 0, "proven"), 1, "objectives[0].proven: is {}, which is not a truth value"),
        (
            ("objectives", 0, "certified_gap"),
            False,
            "objectives[0].certified_gap: is {}, which is not a number",
        ),
        (("trace", 0, 0), "text", "trace[0][0]: is {}, which is not a number"),
        (("options", "gap"), "text", "options.gap: is {}, which is not a number"),
        (("plan", 0, "units"), "text", "plan[0].units: is {}, which is not a whole number"),
    ],
)
def test_text_in_place_of_a_number_is_refused(
    stored_instance: Path, tmp_path: Path, path: tuple[Any, ...], value: Any, said: str
) -> None:
    """And so are truth values for numbers, and numbers for them."""
    data = json.loads(RESULT.model_copy(update={"trace": ((0.5, None, None),)}).to_json())
    *above, last = path
    part = data
    for step in above:
        part = part[step]
    part[last] = str(part[last]) if value == "text" else value
    changed = put(tmp_path / "changed.json", data)
    answer = invoke(verify, stored_instance, changed)
    assert answer.exit_code == 7
    assert f"  wrong: {said.format(repr(part[last]))}" in answer.stdout


def test_a_file_without_a_result_is_refused(stored_instance: Path, tmp_path: Path) -> None:
    (tmp_path / "none.json").write_text('{"journal": 1}\n')
    said = invoke(verify, stored_instance, tmp_path / "none.json", fails=InstanceError)
    assert "holds no result; give what 'clusterplan solve --format json' printed" in said
