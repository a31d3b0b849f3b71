"""The verbs that read a stored result: `verify`, `report` and `export-plan`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from sample_documents import STAGING
from verbs import invoke

import clusterplan
from clusterplan.formulations.registry import formulate
from clusterplan.instances.common.errors import InstanceError, OptionError
from clusterplan.planner.cli.stored_results import export_plan, page_of, report, verify
from clusterplan.planner.stored_results import read_results, sealed

INSTANCE = clusterplan.parse_instance(STAGING)
RESULT = clusterplan.solve(INSTANCE, "exact")
FALSE = RESULT.model_copy(update={"objective": 1.0})


@pytest.fixture
def instance(tmp_path: Path) -> Path:
    """Return the file of the instance."""
    path = tmp_path / "s.yaml"
    path.write_text(yaml.safe_dump(STAGING))
    return path


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


def test_a_right_result_is_verified_and_a_false_one_is_not(instance: Path, right: Path, wrong: Path) -> None:
    answer = invoke(verify, instance, right)
    assert answer.exit_code == 0
    assert answer.stdout.startswith("s: verified\n")
    refuted = invoke(verify, instance, wrong, "--format", "json")
    assert refuted.exit_code == 7
    assert json.loads(refuted.stdout)["ok"] is False
    assert "not for it" in invoke(verify, instance, right, "--format", "csv", fails=OptionError)


def test_a_bound_that_counting_does_not_give_is_only_claimed_without_a_certificate(
    instance: Path, tmp_path: Path
) -> None:
    formulation = formulate(INSTANCE)
    (least,), record = formulation.elementary_bounds(), RESULT.objectives[0]
    weak = {"certified_bound": least, "certified_gap": formulation.objectives[0].gap(record.value, least)}
    bare = {"certificate": None, "prices": None, "objectives": (record.model_copy(update=weak),), **weak}
    path = tmp_path / "bare.json"
    path.write_text(RESULT.model_copy(update=bare).to_json())
    answer = invoke(verify, instance, path)
    assert answer.exit_code == 8
    assert "ONLY CLAIMED: that the plan is optimal" in answer.stdout
    assert invoke(verify, instance, path, "--accept-claimed").exit_code == 0


def test_a_report_is_a_page_of_the_last_result(instance: Path, right: Path, tmp_path: Path) -> None:
    page = tmp_path / "new" / "page.html"
    assert "written: " in invoke(report, instance, right, "--output", page).stderr
    assert page.read_text() == page_of(INSTANCE, read_results(right), str(right))[0]
    assert page.read_text().startswith("<!DOCTYPE html>")


def test_there_is_no_page_of_a_false_result_or_of_another_instance(
    instance: Path, right: Path, wrong: Path, tmp_path: Path
) -> None:
    words = ("--output", tmp_path / "page.html")
    assert "verification failed" in invoke(report, instance, wrong, *words, fails=OptionError)
    instance.write_text(yaml.safe_dump({**STAGING, "name": "other"}))
    assert "has no result of other" in invoke(report, instance, right, *words, fails=OptionError)
    assert not (tmp_path / "page.html").exists()


def test_a_plan_is_exported_once_it_is_verified(
    instance: Path, right: Path, wrong: Path, tmp_path: Path
) -> None:
    printed = invoke(export_plan, instance, right)
    assert printed.exit_code == 0
    assert json.loads(printed.stdout)["instance"] == "s"
    invoke(export_plan, instance, right, "--output", tmp_path / "plan.json")
    assert (tmp_path / "plan.json").read_text() == printed.stdout
    refused = invoke(export_plan, instance, wrong)
    assert refused.exit_code == 7
    assert refused.stdout == ""
    assert "not exported" in refused.stderr
    nowhere = tmp_path / "none" / "plan.json"
    assert "cannot be written" in invoke(export_plan, instance, right, "--output", nowhere, fails=OptionError)


def test_a_result_with_a_key_twice_is_refused(instance: Path, tmp_path: Path) -> None:
    """Python would take the last of the two, and another reader the first."""
    twice = tmp_path / "twice.json"
    twice.write_text('{"objective": 1, ' + RESULT.to_json().removeprefix("{"))
    said = invoke(verify, instance, twice, fails=InstanceError)
    assert said == f"{twice}: is not JSON: the key 'objective' stands twice; each key may stand once"
    twice.write_text(RESULT.to_json() + "\n" + twice.read_text())
    assert "line 2: is not JSON: the key" in invoke(verify, instance, twice, fails=InstanceError)
    packed = json.dumps({"source": "s", "solver": "exact"})
    twice.write_bytes(sealed(packed.removesuffix("}") + ', "result": {"kind": 1, "kind": 2}}'))
    assert "holds no result" in invoke(verify, instance, twice, fails=InstanceError)


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
    instance: Path, tmp_path: Path, path: tuple[Any, ...], value: Any, said: str
) -> None:
    """And so are truth values for numbers, and numbers for them."""
    data = json.loads(RESULT.model_copy(update={"trace": ((0.5, None, None),)}).to_json())
    *above, last = path
    part = data
    for step in above:
        part = part[step]
    part[last] = str(part[last]) if value == "text" else value
    changed = tmp_path / "changed.json"
    changed.write_text(json.dumps(data))
    answer = invoke(verify, instance, changed)
    assert answer.exit_code == 7
    assert f"  wrong: {said.format(repr(part[last]))}" in answer.stdout


def test_a_file_without_a_result_is_refused(instance: Path, tmp_path: Path) -> None:
    (tmp_path / "none.json").write_text('{"journal": 1}\n')
    said = invoke(verify, instance, tmp_path / "none.json", fails=InstanceError)
    assert "holds no result; give what 'clusterplan solve --format json' printed" in said
