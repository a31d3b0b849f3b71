"""The verbs that only look: `validate`, `schema`, `doctor`, `solvers` and `export-model`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from sample_documents import CONSOLIDATION, STAGING
from verbs import invoke

from clusterplan.instances.common.errors import OptionError
from clusterplan.planner.cli.instances.generate import validate
from clusterplan.planner.cli.schema import schema
from clusterplan.planner.cli.solvers import Finding, doctor, export_model, solvers
from clusterplan.solvers.registry import all_solvers


def put(folder: Path, document: dict[str, object]) -> Path:
    """Write a document."""
    path = folder / "d.yaml"
    path.write_text(yaml.safe_dump(document))
    return path


def test_validate_counts_what_is_fine_and_names_what_is_not(tmp_path: Path) -> None:
    path = put(tmp_path, STAGING)
    answer = invoke(validate, path, tmp_path / "none.yaml")
    assert answer.exit_code == 3
    assert answer.stdout.startswith(f"{path}: staging, 2 types, 2 layers; fine")
    assert "none.yaml" in answer.stderr
    assert invoke(validate, path).exit_code == 0


def test_schema_prints_json_and_refuses_what_is_no_document() -> None:
    assert "layers" in json.loads(invoke(schema, "staging").stdout)["properties"]
    assert "there are" in invoke(schema, "bogus", fails=OptionError)


@pytest.mark.parametrize(
    ("finding", "code", "word"),
    [
        (Finding("a", True, "1.0"), 0, "fine"),
        (Finding("a", False, "missing"), 1, "WRONG"),
        (Finding("a", False, "missing", needed=False), 0, "WRONG"),
    ],
)
def test_doctor_fails_for_what_is_needed(
    monkeypatch: pytest.MonkeyPatch, finding: Finding, code: int, word: str
) -> None:
    monkeypatch.setattr("clusterplan.planner.cli.solvers.examine", lambda: [finding])
    answer = invoke(doctor)
    assert answer.exit_code == code
    assert word in answer.stdout


def test_solvers_are_listed_in_every_format() -> None:
    names = [solver.name for solver in all_solvers()]
    listed = [json.loads(line) for line in invoke(solvers, "--format", "json").stdout.splitlines()]
    assert [row["solver"] for row in listed] == names
    lines = invoke(solvers, "--format", "csv").stdout.splitlines()
    assert [line.split(",")[0] for line in lines[1:]] == names
    assert all(name in invoke(solvers).stdout for name in names)


def test_a_model_is_written_in_the_format_of_its_ending(tmp_path: Path) -> None:
    path = put(tmp_path, CONSOLIDATION)
    assert invoke(export_model, path).stdout.startswith("*SENSE:Minimize")
    invoke(export_model, path, "--output", tmp_path / "m.lp")
    assert "Subject To" in (tmp_path / "m.lp").read_text()
    assert "--objective 9" in invoke(export_model, path, "--objective", 9, fails=OptionError)
