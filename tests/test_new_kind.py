"""A fourth kind of problem takes a folder on each floor and a line in each registry."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from imports import FLOORS, ROOT

TOY = Path(__file__).parent / "toy_kind"
DOCUMENT = """\
schema_version: 1
kind: choice
name: three items
items:
  - {name: dear, price_usd: 30}
  - {name: cheap, price_usd: 10}
  - {name: other, price_usd: 20}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a copy of the package that has the kind `choice`, and with a document of it."""
    there = tmp_path_factory.mktemp("house")
    package = there / "clusterplan"
    package.mkdir()
    for name in ("__init__.py", "__main__.py"):
        shutil.copy(ROOT / name, package)
    for floor in FLOORS:
        shutil.copytree(ROOT / floor, package / floor, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copytree(TOY / floor, package / floor, dirs_exist_ok=True)
        registry = package / floor / "registry.py"
        text = registry.read_text(encoding="utf-8")
        line = '    "allocation": ALLOCATION,\n'
        assert text.count(line) == 1
        text = text.replace(line, f'{line}    "choice": CHOICE,\n')
        first = text.index("from .allocation")
        text = f"{text[:first]}from .choice.kind import CHOICE\n{text[first:]}"
        registry.write_text(text, encoding="utf-8")
    (there / "items.yaml").write_text(DOCUMENT, encoding="utf-8")
    return there


def run(folder: Path, *words: str) -> str:
    """Run the command line of the copy and return what it prints."""
    done = subprocess.run(
        [sys.executable, "-m", "clusterplan", *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_new_kind_is_solved_and_verified(folder: Path) -> None:
    """By its exact method, by the textbook model and by what is quick; its bounds are certified."""
    table = run(folder, "solve", "items.yaml", "--output", "result.json")
    assert "cheap" in table
    assert "verified" in table
    assert "verified" in run(folder, "verify", "items.yaml", "result.json")
    model = json.loads(run(folder, "solve", "items.yaml", "--solver", "milp:highs", "--format", "json"))
    assert (model["status"], model["objective"], model["certified_bound"]) == ("optimal", 10, 10)
    first = json.loads(run(folder, "solve", "items.yaml", "--solver", "first", "--format", "json"))
    assert (first["status"], first["objective"]) == ("feasible", 30)


def test_a_new_kind_is_compared_and_reported(folder: Path) -> None:
    """In processes of their own, on a page, and as plain data."""
    found = json.loads(run(folder, "compare", "items.yaml", "--jobs", "1", "--format", "json"))
    status = {row["solver"]: row["status"] for row in found["rows"]}
    assert status["exact"] == status["milp:highs"] == "optimal"
    assert status["first"] == "feasible"
    run(folder, "solve", "items.yaml", "--output", "result.json")
    run(folder, "report", "items.yaml", "result.json", "--output", "page.html")
    assert "which item is the cheapest" in (folder / "page.html").read_text(encoding="utf-8")
    assert json.loads(run(folder, "export-plan", "items.yaml", "result.json"))["items"] == ["cheap"]


def test_a_new_kind_has_a_schema_and_is_examined(folder: Path) -> None:
    """The doctor solves its tiny instance; models and documents are told of."""
    assert "items" in json.loads(run(folder, "schema", "choice"))["properties"]
    assert json.loads(run(folder, "schema", "result"))["properties"]["kind"]["enum"].count("choice") == 1
    assert "exact on choice" in run(folder, "doctor")
    assert "x_2" in run(folder, "export-model", "items.yaml", "--format", "lp")
    assert "fine" in run(folder, "validate", "items.yaml")
    assert "choice" in run(folder, "solvers")
