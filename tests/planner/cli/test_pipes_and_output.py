"""Standard input and pipes are read by every command, and --output leaves stdout empty."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from command_line import Done, run_here
from sample_documents import ALLOCATION, CONSOLIDATION, STAGING, put

Run = Callable[..., Done]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with an instance of each kind and a result of one."""
    made = tmp_path_factory.mktemp("pipes")
    for name, document in (("a", ALLOCATION), ("s", STAGING), ("c", CONSOLIDATION)):
        put(made / f"{name}.yaml", document)
    assert run_here("solve", "c.yaml", "--output", "r.json", "--quiet", cwd=made).stderr == ""
    (made / "m.csv").write_text(
        "workers,steps_per_s,batch\n1,2,32\n2,3,32\n4,4,32\n1,1.2,64\n2,2,64\n4,3,64\n"
    )
    return made


@pytest.fixture
def run(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Return a function that runs a command with a text on standard input."""

    def call(command: str, typed: str = "") -> Done:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(typed.encode())))
        return run_here(*command.split(), cwd=folder)

    return call


@pytest.mark.parametrize(
    ("command", "file"),
    [
        ("validate -", "a.yaml"),
        ("validate /dev/stdin", "s.yaml"),
        ("solve - --format json", "c.yaml"),
        ("export-model -", "a.yaml"),
        ("pareto - --format json", "s.yaml"),
        ("verify - r.json", "c.yaml"),
        ("verify c.yaml -", "r.json"),
        ("diff c.yaml -", "r.json"),
        ("export-plan c.yaml -", "r.json"),
        ("report c.yaml - --output p.html", "r.json"),
        ("fit speed - --batch 32", "m.csv"),
    ],
)
def test_standard_input_is_a_file_like_any_other(run: Run, folder: Path, command: str, file: str) -> None:
    """Of instances, stored results and measurements; the answer is that of the file."""
    piped = run(command, (folder / file).read_text())
    assert piped.returncode in (0, 8), piped.stderr
    named = run(" ".join(file if word in ("-", "/dev/stdin") else word for word in command.split()))
    assert named.returncode == piped.returncode
    if "json" not in command:  # which holds seconds
        assert piped.stdout.replace("-:", f"{file}:").replace("/dev/stdin:", f"{file}:") == named.stdout


def test_json_on_standard_input_needs_no_name(run: Run) -> None:
    """The first character tells JSON from YAML."""
    assert (
        "allocation, 2 resources, 2 jobs; fine" in run("validate -", json.dumps(ALLOCATION, indent=1)).stdout
    )
    assert "is not valid JSON" in run("validate -", '{"kind": allocation}').stderr


def test_tables_of_a_piped_document_lie_in_the_working_folder(run: Run, folder: Path) -> None:
    (folder / "t.csv").write_text("job,gpus,samples_per_s\nb,1,3\n")
    done = run("validate -", yaml.safe_dump({**ALLOCATION, "jobs": "t.csv"}))
    assert "1 jobs; fine" in done.stdout


def test_a_named_pipe_is_read(run: Run, folder: Path) -> None:
    """As `<(…)` of a shell is one, too; its name has no ending."""
    os.mkfifo(folder / "pipe")
    writer = threading.Thread(target=(folder / "pipe").write_text, args=(yaml.safe_dump(STAGING),))
    writer.start()
    done = run("validate pipe")
    writer.join(10)
    assert "staging, 2 types, 2 layers; fine" in done.stdout


def test_a_name_that_no_file_can_have_is_no_pipe(run: Run, folder: Path) -> None:
    """Of a file, of one in a document, and of one in a batch."""
    name = "n" * 300 + ".yaml"
    put(folder / "long.yaml", {**ALLOCATION, "jobs": name})
    for command in (f"validate {name}", "validate long.yaml", "validate long.yaml --allow-outside"):
        assert "cannot be read: File name too long" in run(command).stderr
    assert "File name too long" in run(f"solve {name} --jobs 1").stderr


@pytest.mark.parametrize("reference", ["pipe.csv", "-", "/dev/stdin"])
def test_a_document_refers_to_no_pipe(run: Run, folder: Path, reference: str) -> None:
    """Nobody who wrote it may keep its reader waiting, with leave to read outside neither."""
    if not (folder / "pipe.csv").exists():
        os.mkfifo(folder / "pipe.csv")
    put(folder / "d.yaml", {**ALLOCATION, "jobs": reference})
    done = run("validate d.yaml --allow-outside", "job,gpus,samples_per_s\nb,1,3\n")
    assert done.returncode == 3
    assert ("no such file" if reference == "-" else "a document cannot refer to") in done.stderr


@pytest.mark.parametrize(
    ("command", "written"),
    [
        ("solve a.yaml s.yaml", "o1"),
        ("solve a.yaml --format csv", "o2"),
        ("solve a.yaml s.yaml --jobs 1", "night/summary.csv"),
        ("compare s.yaml --solvers exact,greedy", "comparison/comparison.html"),
        ("pareto s.yaml", "frontier/frontier.html"),
        ("export-plan c.yaml r.json", "o3"),
        ("export-model a.yaml", "o4"),
        ("generate allocation --jobs 2", "o5.yaml"),
        ("report c.yaml r.json", "o6.html"),
    ],
)
def test_output_is_written_and_not_printed(run: Run, folder: Path, command: str, written: str) -> None:
    """By every command that has the option, whether it names a file or a folder."""
    done = run(f"{command} --output {written.split('/', maxsplit=1)[0]}")
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    assert (folder / written).stat().st_size > 0


def test_a_file_of_results_has_the_form_that_is_asked_for(run: Run, folder: Path) -> None:
    """JSON lines, or CSV with one header."""
    run("solve a.yaml s.yaml --output results.jsonl")
    lines = (folder / "results.jsonl").read_text().splitlines()
    assert [json.loads(line)["kind"] for line in lines] == ["allocation", "staging"]
    said = run("solve a.yaml s.yaml --format csv --output results.csv").stderr
    rows = list(csv.DictReader(io.StringIO((folder / "results.csv").read_text())))
    assert [row["kind"] for row in rows] == ["allocation", "staging"]
    assert "results.csv: a: optimal" in said


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full device here")
@pytest.mark.parametrize(
    "command",
    [
        *(f"solve c.yaml --quiet --format {form}" for form in ("csv", "json", "table")),
        "solve a.yaml c.yaml --quiet --format csv",
        "verify c.yaml r.json",
        "validate c.yaml",
        "diff c.yaml r.json",
        "schema staging",
        "solvers",
        "--help",
        "--version",
    ],
)
def test_a_full_disk_is_said_in_one_line(folder: Path, command: str) -> None:
    words = [sys.executable, "-m", "clusterplan", *command.split()]
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(words, cwd=folder, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == (
        "the output: cannot be written: No space left on device; what was printed before may be incomplete\n"
    )
