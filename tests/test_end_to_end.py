"""The package as a user meets it: examples, the module as a command, repeated solves, former faults."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from command_line import run_here
from fuzz.lanes import kept, retried
from sample_documents import put

import clusterplan
import clusterplan.__main__ as start
from clusterplan.instances.importers import import_sailor
from clusterplan.planner import exit_codes
from clusterplan.solvers.common.result import SolveOptions

SOURCES = {
    "gavel": "--throughputs {0}/gavel/simulation_throughputs.json --trace {0}/gavel/max_min_fairness.trace "
    "--capacity v100=64,p100=64,k80=64",
    "tiresias": "--jobs {0}/tiresias/60_job.csv --cluster {0}/tiresias/n32g4.csv",
    "pollux": "--app {0}/pollux/bert --app {0}/pollux/cifar10 --gpus 16",
    "sailor": "--model-dir {0}/sailor/profiles/OPT-350 --types A100-40,V100-16,GH-96 --microbatch 4 "
    "--limit A100-40=8,V100-16=16,GH-96=4 --throughput 60",
}
"""The arguments of each import; the folder of data stands for `{0}`."""


def with_other_count(source: str, plan: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the plan with one count of tasks, servers or units altered."""
    first = next(entry for entry in plan if entry.get("placed", True))
    if source in ("gavel", "pollux"):
        changed = {**first, "workers": first["workers"] + 1}
    elif source == "tiresias":
        changed = {**first, "servers": {name: count + 1 for name, count in first["servers"].items()}}
    else:
        changed = {**first, "units": first["units"] + 1}
    return [changed if entry is first else entry for entry in plan]


@pytest.mark.parametrize("source", SOURCES)
def test_import_solve_verify(source: str, shared_data: Path, tmp_path: Path) -> None:
    """One JSON object with a finite bound and gap, which verifies; with a count altered it does not."""
    words = [word.format(shared_data) for word in SOURCES[source].split()]
    made = run_here("import", source, *words, "--output", "a.yaml", cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    solved = run_here("solve", "a.yaml", "--format", "json", cwd=tmp_path)
    assert solved.returncode in (0, 5), solved.stderr
    (line,) = solved.stdout.splitlines()
    result = json.loads(line)
    assert result["status"] in ("optimal", "feasible")
    assert isinstance(result["bound"], float)
    assert isinstance(result["gap"], float)
    (tmp_path / "result.json").write_text(line)
    assert run_here("verify", "a.yaml", "result.json", cwd=tmp_path).returncode == 0
    result["plan"] = with_other_count(source, result["plan"])
    put(tmp_path / "result.json", result)
    checked = run_here("verify", "a.yaml", "result.json", cwd=tmp_path)
    assert checked.returncode == 7
    assert "wrong: broken constraint" in checked.stdout or "is stored as" in checked.stdout


def test_the_bundled_opt_350_is_the_imported_one(shared_data: Path) -> None:
    """The figures typed into the example mean what the importer reads from the source."""
    types, limit = ["A100-40", "V100-16", "GH-96"], {"A100-40": 8, "V100-16": 16, "GH-96": 4}
    imported = import_sailor(shared_data / "sailor/profiles/OPT-350", types, 4, limit, 60)
    bundled = clusterplan.load("example:opt-350-three-gpus")
    for typed, read in zip(bundled.layers, imported.layers, strict=True):
        assert typed.compute_s == pytest.approx(read.compute_s, abs=1e-6)
        assert typed.communication_s == pytest.approx(read.communication_s, abs=1e-6)
        assert typed.memory_gib == pytest.approx(read.memory_gib, abs=1e-4)
        assert typed.output_bytes == read.output_bytes
        assert typed.compute_parallel == read.compute_parallel
    assert [t.price_usd_per_hour for t in bundled.types] == [t.price_usd_per_hour for t in imported.types]


WHILE_LOADING = """
import os, signal, sys
import clusterplan.__main__ as start

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "clusterplan.planner.cli.main":
            os.kill(os.getpid(), signal.SIGINT)

handler = signal.SIG_IGN if sys.argv[1] == "ignored" else signal.default_int_handler
signal.signal(signal.SIGINT, handler)
sys.meta_path.insert(0, Finder())
sys.argv = ["clusterplan", "--version"]
start.program()
"""


def run(*argv: str) -> subprocess.CompletedProcess[str]:
    """Return what a process printed, and how it ended."""
    return subprocess.run([sys.executable, *argv], capture_output=True, text=True, check=False)


def test_ctrl_c_while_loading_ends_it_with_a_line() -> None:
    """No traceback, and the exit code of what was interrupted."""
    ended = run("-c", WHILE_LOADING, "heard")
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", start.SAID.decode())
    assert start.INTERRUPTED == exit_codes.INTERRUPTED


def test_where_ctrl_c_is_ignored_it_stays_so() -> None:
    """As for processes in the background of a script."""
    ended = run("-c", WHILE_LOADING, "ignored")
    assert (ended.returncode, ended.stderr) == (0, "")


def test_the_handler_of_others_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Afterwards Ctrl-C does again what it did."""
    from clusterplan.planner.cli import main

    def other(*_: object) -> None: ...

    before = signal.signal(signal.SIGINT, other)
    monkeypatch.setattr(main, "program", lambda: None)
    try:
        start.program()
        assert signal.getsignal(signal.SIGINT) is other
    finally:
        signal.signal(signal.SIGINT, before)


EXAMPLES = sorted(
    path.stem for path in (Path(clusterplan.__file__).parent / "instances/examples").glob("*.yaml")
)
RUNS = 10
TIME_LIMIT_S = 600.0
"""So much that it cuts in nowhere."""


def _main(threads: int) -> None:
    """Print the name, the status and the hash of the plan of each example."""
    options = SolveOptions(threads=threads, time_limit_s=TIME_LIMIT_S)
    for name in EXAMPLES:
        result = clusterplan.solve(f"example:{name}", options=options)
        print(name, result.status, result.limit, result.plan_sha256)


def _answers(threads: int, seed: int) -> str:
    """Return what another process prints, whose hashes of texts are its own."""
    environment = os.environ | {"PYTHONHASHSEED": str(seed)}
    run = subprocess.run(
        [sys.executable, __file__, str(threads)],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=1800,
    )
    return run.stdout


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 2])
def test_ten_processes_find_the_same_plan_of_every_example(threads: int) -> None:
    first = _answers(threads, 0)
    assert len(first.splitlines()) == len(EXAMPLES)
    assert " time " not in first
    for seed in range(1, RUNS):
        assert _answers(threads, seed) == first


if __name__ == "__main__":
    _main(int(sys.argv[1]))


CASES = dict(kept())


@pytest.mark.parametrize("name", CASES)
def test_what_was_wrong_stays_right(name: str) -> None:
    """Nothing is found any more where something was."""
    case: dict[str, Any] = CASES[name]
    assert retried(case) == [], case["what"]
