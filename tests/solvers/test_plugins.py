"""Solvers of other packages: found, listed, used, and contained however bad they are."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from command_line import all_end, descendants, happens
from imports import ROOT

import clusterplan
from clusterplan.instances.scheduling.generate import generate_scheduling

PACKAGE = ROOT / "tests" / "plugin_package"


@pytest.fixture(scope="session")
def plugins(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return the environment of a process that has the plug-in package installed."""
    target, source = tmp_path_factory.mktemp("plugins"), tmp_path_factory.mktemp("source")
    for file in PACKAGE.iterdir():
        if file.is_file():
            (source / file.name).write_bytes(file.read_bytes())
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index"]
    subprocess.run([*pip, "--no-deps", "--no-build-isolation", "--target", target, source], check=True)
    path = os.pathsep.join(filter(None, (str(target), os.environ.get("PYTHONPATH"))))
    return {**os.environ, "PYTHONPATH": path}


def run(plugins: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    """Run the command line with the plug-ins."""
    command = [sys.executable, "-m", "clusterplan", *words]
    return subprocess.run(command, env=plugins, capture_output=True, text=True, check=False)


def listed(plugins: dict[str, str]) -> list[dict[str, Any]]:
    """Return the rows of all solvers."""
    lines = run(plugins, "solvers", "--format", "json").stdout.splitlines()
    return [json.loads(line) for line in lines]


def test_solvers_of_a_plugin_are_listed_and_solve(plugins: dict[str, str]) -> None:
    """A plug-in's solver is one like all others, with its options."""
    (own,) = [row for row in listed(plugins) if row["solver"] == "few-workers"]
    assert own["available"]
    assert list(own["options"]) == ["joint"]
    words = ("--solver", "few-workers", "--set", "joint=true", "--format", "json")
    solved = run(plugins, "solve", "example:optimus-testbed", *words)
    assert solved.returncode == 0, solved.stderr
    assert json.loads(solved.stdout)["status"] == "feasible"


def test_a_scheduling_policy_of_a_plugin_is_a_solver(plugins: dict[str, str], tmp_path: Path) -> None:
    """It says what it knows, simulates a trace, and fails where it reads more than it said."""
    (own,) = [row for row in listed(plugins) if row["solver"] == "wide-first"]
    assert "knows nothing" in own["what"]
    assert list(own["options"]) == ["placement"]
    file = tmp_path / "t.json"
    clusterplan.save(generate_scheduling(20, 8, load=2.0), file)
    solved = run(plugins, "solve", str(file), "--solver", "wide-first", "--format", "json")
    assert solved.returncode == 0, solved.stderr
    assert json.loads(solved.stdout)["status"] == "feasible"
    peeked = run(plugins, "solve", str(file), "--solver", "peeks")
    assert peeked.returncode != 0
    assert "knows nothing asked for the true remaining time" in peeked.stderr
    assert "Traceback" not in peeked.stderr


def test_an_error_of_a_plugin_names_it_with_file_and_line(plugins: dict[str, str]) -> None:
    """Whoever meets it can tell the author, and takes it for no fault of this package."""
    done = run(plugins, "solve", "example:optimus-testbed", "--solver", "raises")
    assert done.returncode == 1
    code = (PACKAGE / "clusterplan_odd_solvers.py").read_text().splitlines()
    (line,) = [number for number, text in enumerate(code, 1) if 'ValueError("this plug-in' in text]
    said = done.stderr.splitlines()[-1]
    assert said.startswith("a plug-in failed: the package clusterplan-odd-solvers, ")
    assert f"clusterplan_odd_solvers.py, line {line}: ValueError: this plug-in is not finished" in said
    assert "internal error" not in done.stderr
    assert "Traceback" not in done.stderr


def test_a_plugin_that_cannot_be_loaded_says_why(plugins: dict[str, str]) -> None:
    """It stands in the list with its package and the reason, and to use it is an error with that reason."""
    by_name = {row["solver"]: row for row in listed(plugins)}
    assert "clusterplan-odd-solvers" in by_name["absent"]["what"]
    assert "there_is_no_such_thing" in by_name["absent"]["what"]
    assert "str, which is no clusterplan Solver" in by_name["nothing"]["what"]
    taken = by_name["exact (the package clusterplan-odd-solvers)"]
    assert not taken["available"]
    assert by_name["exact"]["available"]
    assert "SystemExit" in by_name["quits"]["what"]
    used = run(plugins, "solve", "example:optimus-testbed", "--solver", "absent")
    assert used.returncode == 2
    assert "there_is_no_such_thing" in used.stderr


@pytest.fixture(scope="session")
def compared(plugins: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return a comparison of all the bad solvers, two good ones after them."""
    names = (
        "bends-the-world,crashes,eats-memory,maps-memory,never-stops,holds-on,wrong-plan,odd-entries,raises,"
        "exits,leaves,false-bound,empty-bound,has-children,exact,few-workers"
    )
    folder = tmp_path_factory.mktemp("compared")
    clusterplan.save(clusterplan.load("example:optimus-testbed"), folder / "here.yaml")
    words = ("--solvers", names, "--jobs", "1", "--time-limit", "20", "--kill-after", "3", "--threads", "1")
    command = [sys.executable, "-m", "clusterplan", "compare", "here.yaml", *words, "--memory-limit", "0.8"]
    done = subprocess.run(
        [*command, "--format", "json"],
        cwd=folder,
        env={**plugins, "ODD_SOLVERS_NOTES": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return {**json.loads(done.stdout), "child": int((folder / "has-children").read_text())}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("solver", "status", "limit", "says"),
    [
        ("crashes", "error", "none", "SIGSEGV"),
        ("eats-memory", "unknown", "memory", "needs more than 0.8 GiB"),
        ("maps-memory", "unknown", "memory", "needs more than 0.8 GiB"),
        ("never-stops", "unknown", "time", "killed after 3 s"),
        ("holds-on", "unknown", "time", "killed after 3 s"),
        ("wrong-plan", "error", "none", "fails verification"),
        ("odd-entries", "error", "none", "entries: are Entry, not JobAllocation"),
        ("raises", "error", "none", "ValueError: this plug-in is not finished"),
        ("exits", "error", "none", "its process died with exit code 0"),
        ("leaves", "error", "none", "SystemExit"),
        ("false-bound", "error", "none", "is wrong: another solver found"),
    ],
)
def test_a_bad_solver_is_one_honest_row(
    compared: dict[str, Any], solver: str, status: str, limit: str, says: str
) -> None:
    """The row says how it ended; no plan and no bound of it count."""
    (row,) = [row for row in compared["rows"] if row["solver"] == solver]
    assert (row["status"], row["limit"]) == (status, limit)
    assert says in row["message"]
    assert not row["best"]
    assert row["bound"] is None or row["status"] != "error"


@pytest.mark.slow
def test_an_empty_bound_proves_nothing(compared: dict[str, Any]) -> None:
    """Minus infinity is below everything, and as close to any value as one likes."""
    (row,) = [row for row in compared["rows"] if row["solver"] == "empty-bound"]
    assert row["status"] == "feasible"
    assert row["gap_to_best_plan"] > 0


@pytest.mark.slow
def test_what_a_solver_started_ends_with_its_solve(compared: dict[str, Any]) -> None:
    """No process is left that takes time from those after it."""
    (row,) = [row for row in compared["rows"] if row["solver"] == "has-children"]
    assert row["status"] == "feasible"
    assert all_end({compared["child"]})


@pytest.mark.slow
def test_good_solvers_complete_beside_bad_ones(compared: dict[str, Any]) -> None:
    """The rest is as it would be alone, whatever was bent in the processes of those before."""
    rows = {row["solver"]: row for row in compared["rows"]}
    assert len(rows) == 16
    assert rows["exact"]["status"] == "optimal"
    assert rows["exact"]["best"]
    assert rows["few-workers"]["gap_to_best_plan"] > 0


@pytest.mark.slow
def test_bad_solvers_are_contained_in_a_batch(plugins: dict[str, str], tmp_path: Path) -> None:
    """Of a batch too: every file has a line that says what happened, and the journal is complete."""
    for solver, code in (("crashes", 1), ("exits", 1), ("bends-the-world", 1), ("eats-memory", 6)):
        folder = tmp_path / solver
        words = f"--solver {solver} --jobs 2 --kill-after 2 --memory-limit 1.5 --threads 1".split()
        files = ("example:optimus-testbed", "example:gavel-three-gpu-types")
        done = run(plugins, "solve", *files, *words, "--output", str(folder), "--quiet")
        assert done.returncode == code, done.stderr
        assert len((folder / "journal.jsonl").read_text().splitlines()) == 3
        assert len((folder / "summary.csv").read_text().splitlines()) == 3


@pytest.mark.slow
def test_nothing_is_left_of_a_batch_that_was_killed(plugins: dict[str, str], tmp_path: Path) -> None:
    """Keeper and solver end with the process that wanted them, even one that never lets Python run."""
    command = [sys.executable, "-m", "clusterplan", "solve", "example:optimus-testbed"]
    more = ["--solver", "holds-on", "--jobs", "1", "--time-limit", "0", "--output", str(tmp_path)]
    environment = {**plugins, "ODD_SOLVERS_NOTES": str(tmp_path)}
    with subprocess.Popen([*command, *more], env=environment, stderr=subprocess.DEVNULL) as process:
        assert happens((tmp_path / "holds-on").exists)
        started = descendants(process.pid)
        process.kill()
    assert len(started) >= 2
    assert all_end(started)
