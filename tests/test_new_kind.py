"""A fifth kind of problem takes a folder on each floor, and its name in one registry."""

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
        # With the compiled loops, which take a minute to be made again.
        shutil.copytree(ROOT / floor, package / floor, ignore=shutil.ignore_patterns("*.pyc"))
        shutil.copytree(TOY / floor, package / floor, dirs_exist_ok=True)
    registry = package / "instances" / "registry.py"
    text = registry.read_text(encoding="utf-8")
    assert text.count('"allocation", ') == 1
    registry.write_text(text.replace('"allocation", ', '"allocation", "choice", '), encoding="utf-8")
    (there / "items.yaml").write_text(DOCUMENT, encoding="utf-8")
    return there


DRIVER = """
import json, sys
from command_line import run_here
done = [run_here(*words) for words in json.load(sys.stdin)]
json.dump([[one.returncode, one.stdout, one.stderr] for one in done], sys.stdout)
"""


def run(folder: Path, *commands: str) -> list[str]:
    """Run commands with the copy of the package, all in one process; return what each prints."""
    done = subprocess.run(
        [sys.executable, "-c", DRIVER],
        input=json.dumps([command.split() for command in commands]),
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (folder, ROOT / "tests")))},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answers = json.loads(done.stdout)
    assert [code for code, *_ in answers] == [0] * len(commands), answers
    return [printed for _, printed, _ in answers]


def test_a_new_kind_is_solved_and_verified(folder: Path) -> None:
    """By its exact method, by the textbook model and by what is quick; its bounds are certified."""
    table, nothing, checked, *results = run(
        folder,
        "solve items.yaml",
        "solve items.yaml --output result.json --quiet",
        "verify items.yaml result.json",
        "solve items.yaml --solver milp:highs --format json",
        "solve items.yaml --solver first --format json",
    )
    assert "cheap" in table
    assert "verified" in table
    assert "verified" in checked
    assert nothing == ""
    model, first = map(json.loads, results)
    assert (model["status"], model["objective"], model["certified_bound"]) == ("optimal", 10, 10)
    assert (first["status"], first["objective"]) == ("feasible", 30)


def test_a_new_kind_is_compared_and_reported(folder: Path) -> None:
    """In processes of their own, on a page, and as plain data."""
    compared, _, _, exported = run(
        folder,
        "compare items.yaml --jobs 1 --format json",
        "solve items.yaml --output result.json",
        "report items.yaml result.json --output page.html",
        "export-plan items.yaml result.json",
    )
    status = {row["solver"]: row["status"] for row in json.loads(compared)["rows"]}
    assert status["exact"] == status["milp:highs"] == "optimal"
    assert status["first"] == "feasible"
    assert "which item is the cheapest" in (folder / "page.html").read_text(encoding="utf-8")
    assert json.loads(exported)["items"] == ["cheap"]


def test_a_new_kind_has_a_schema_and_is_examined(folder: Path) -> None:
    """The doctor solves its tiny instance; models and documents are told of."""
    own, result, examined, model, validated, solvers = run(
        folder,
        "schema choice",
        "schema result",
        "doctor",
        "export-model items.yaml --format lp",
        "validate items.yaml",
        "solvers",
    )
    assert "items" in json.loads(own)["properties"]
    assert json.loads(result)["properties"]["kind"]["enum"].count("choice") == 1
    assert "exact on choice" in examined
    assert "x_2" in model
    assert "fine" in validated
    assert "choice" in solvers
