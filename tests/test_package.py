"""The package as it is shipped: its parts, its floors, its start-up, its import orders."""

from __future__ import annotations

import itertools
import os
import re
import shutil
import subprocess
import sys
import tomllib
from datetime import date
from importlib import util
from pathlib import Path

import pytest
import yaml
from imports import FLOORS

import clusterplan
from clusterplan.instances.registry import KINDS
from clusterplan.planner.cli import solvers

ROOT = Path(__file__).parent.parent


def run_python(code: str) -> str:
    """Run code in a fresh interpreter and return what it prints."""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return run.stdout


def test_every_package_on_disk_is_listed() -> None:
    """The packages of pyproject.toml are the folders that hold modules."""
    listed = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"])
    found = {"clusterplan"}
    for floor in FLOORS:
        for file in (ROOT / floor).rglob("*.py"):
            found.add(".".join(["clusterplan", *file.parent.relative_to(ROOT).parts]))
    assert listed == found


def test_every_dependency_says_which_version_is_the_lowest() -> None:
    """Or `make test-lowest` would take the first that was ever published."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    asked = [*project["dependencies"], *itertools.chain(*project["optional-dependencies"].values())]
    assert [line for line in asked if ">=" not in line and not line.startswith("clusterplan[")] == []


def test_doctor_finds_a_library_outside_the_versions_that_the_package_asks_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Too old or too new; the limits are those of the installed package."""
    limits = ["numpy>=2.0.2", "highspy<1.14,>=1.11", 'pyscipopt>=5.5; extra == "scip"']
    installed = {"numpy": "1.26.4", "highspy": "1.14.0", "pyscipopt": "5.5.0"}
    monkeypatch.setattr(solvers.metadata, "requires", lambda name: limits)
    monkeypatch.setattr(solvers.metadata, "version", lambda name: installed.get(name, "99"))
    monkeypatch.setattr(solvers, "import_module", lambda name: None)
    monkeypatch.setattr(solvers, "all_solvers", list)
    wrong = {finding.what: finding.detail for finding in solvers.examine() if not finding.ok}
    assert wrong.keys() == {"numpy", "highspy"}
    assert "1.26.4 is installed; pip install 'numpy>=2.0.2'" in wrong["numpy"]
    assert "HiGHS 1.14.0 returns wrong optima" in wrong["highspy"]


def test_every_public_name_exists_and_is_documented() -> None:
    """What `__all__` lists can be imported and has a docstring."""
    for name in clusterplan.__all__:
        assert getattr(clusterplan, name).__doc__, name
    assert set(clusterplan.__all__) <= set(dir(clusterplan))
    with pytest.raises(AttributeError, match="nonsense"):
        _ = clusterplan.nonsense


def test_every_kind_has_its_instance_and_its_builder_at_the_top() -> None:
    """Named after the kind."""
    for kind, declared in KINDS.items():
        assert getattr(clusterplan, f"{kind.capitalize()}Instance") is declared.model
        assert getattr(clusterplan, kind.capitalize()).KIND is declared
        assert f"*{kind}*" in " ".join((clusterplan.__doc__ or "").split())


def sections(changelog: str) -> dict[str, list[str]]:
    """Return the heading of each version of a changelog, the newest first, with the lines of its section."""
    found: dict[str, list[str]] = {}
    for line in changelog.splitlines():
        if line.startswith("## "):
            found[line] = lines = [line]
        elif found:
            lines.append(line)
    return found


def test_the_changelog_knows_this_version() -> None:
    """Project file, code and the newest release of the changelog name one version."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    assert clusterplan.__version__ == version
    unreleased, newest, *_ = sections((ROOT / "CHANGELOG.md").read_text(encoding="utf-8")).items()
    assert unreleased[0] == "## [Unreleased]"
    heading = re.fullmatch(r"## \[(.+)\] - (\d{4}-\d{2}-\d{2})", newest[0])
    assert heading[1] == version
    assert date.fromisoformat(heading[2])
    assert len(newest[1]) <= 60, "a section is to be read in two minutes"


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_the_notes_of_a_release_are_the_section_of_its_version(tmp_path: Path) -> None:
    """The workflow takes them from the changelog, and stops where there is no dated section."""
    workflow = yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text(encoding="utf-8"))
    steps = itertools.chain.from_iterable(job["steps"] for job in workflow["jobs"].values())
    (script,) = [step["run"] for step in steps if step.get("name") == "Notes from the changelog"]
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    (tmp_path / "CHANGELOG.md").write_text(
        changelog + "\n## [0.0.1] - 2020-01-01\n\nOlder.\n", encoding="utf-8"
    )

    def take_notes(version: str) -> int:
        where = {**os.environ, "VERSION": version}
        return subprocess.run(
            ["bash", "-e", "-c", script], cwd=tmp_path, env=where, capture_output=True, check=False
        ).returncode

    version = clusterplan.__version__
    assert take_notes(version) == 0
    heading = next(line for line in sections(changelog) if line.startswith(f"## [{version}] - "))
    notes = (tmp_path / "notes.md").read_text(encoding="utf-8")
    assert notes.strip() == "\n".join(sections(changelog)[heading][1:]).strip()
    for unknown in ("Unreleased", "99.0.0", version.replace(".", "x"), version[:-2]):
        assert take_notes(unknown) == 1


def test_help_imports_no_solver() -> None:
    """Asking for help loads neither a solver nor a numerical library."""
    libraries = ["pulp", "ortools", "highspy", "cvxpy", "pyscipopt", "numpy", "pandas", "scipy"]
    heavy = [*libraries, "pydantic", "yaml"]
    code = (
        "import sys; sys.argv = ['clusterplan', '--help']\n"
        "from clusterplan.planner.cli.main import main\n"
        "try: main()\nexcept SystemExit as end: assert not end.code\n"
        f"loaded = [name for name in {heavy} if name in sys.modules]\n"
        "assert not loaded, loaded"
    )
    assert "Usage: clusterplan" in run_python(code)


@pytest.mark.parametrize(
    ("kind", "example", "solver"),
    [("scheduling", "tiresias-three-jobs", "srsf"), ("allocation", "gavel-three-gpu-types", "marginal-gain")],
)
def test_libraries_are_loaded_by_the_methods_that_need_them(kind: str, example: str, solver: str) -> None:
    """A command that solves starts without waiting for libraries and kinds that its method does not use."""
    heavy = [
        "pulp",
        "ortools",
        "highspy",
        "cvxpy",
        "pyscipopt",
        "pandas",
        "pyarrow",
        "scipy.optimize",
        "scipy.stats",
    ]
    heavy += [f"clusterplan.solvers.{other}" for other in KINDS if other != kind]
    code = (
        "import sys, clusterplan\n"
        "from clusterplan.planner.cli import solving\n"
        f"assert clusterplan.solve('example:{example}', '{solver}').plan\n"
        f"loaded = [name for name in {heavy} if name in sys.modules]\n"
        "assert not loaded, loaded"
    )
    run_python(code)


LIBRARIES = ("highspy", "ortools.sat.python.cp_model", "cvxpy", "pyscipopt")
ORDERS = [
    # Two orders are quick enough: they begin with different libraries.
    pytest.param(order, marks=[pytest.mark.slow] if number % 12 else [])
    for number, order in enumerate(itertools.permutations(LIBRARIES))
]


@pytest.mark.parametrize("order", ORDERS, ids="-".join)
def test_backends_load_and_answer_in_every_order(order: tuple[str, ...]) -> None:
    """Whatever is imported first, each solver still solves in the same process."""
    present = [name for name in order if util.find_spec(name.split(".")[0])]
    code = (
        "".join(f"import {name}\n" for name in present)
        + "import clusterplan\n"
        + "from clusterplan.instances.consolidation.generate import generate_consolidation\n"
        + "from clusterplan.solvers.registry import solvers_for\n"
        + "instance = generate_consolidation(2, 3, 4, seed=1)\n"
        + "for solver in solvers_for('consolidation', available=True):\n"
        + "    result = clusterplan.solve(instance, solver.name)\n"
        + "    if solver.proves: print(solver.name, result.status, result.objectives[0].value)\n"
    )
    lines = run_python(code).splitlines()
    assert len(lines) >= 5
    assert {line.split(" ", 1)[1] for line in lines} == {"optimal 3.0"}
