"""Batches: every solve in a process of its own, a journal that survives any stop, and honest summaries."""

from __future__ import annotations

import csv
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from command_line import all_end, descendants, interrupted
from command_line import run_here as run

import clusterplan
from clusterplan.instances.allocation.generate import generate_allocation
from clusterplan.instances.common.errors import OptionError
from clusterplan.instances.consolidation.generate import generate_consolidation
from clusterplan.instances.staging.generate import generate_staging
from clusterplan.planner.batch.solve_many import BatchOptions, Journal, solve_many
from clusterplan.planner.stored_results import parse_result, read_results

COMMAND = [sys.executable, "-m", "clusterplan"]
OPTIONS = ("--jobs", "2", "--threads", "1", "--seed", "1", "--time-limit", "120")


def mixed(folder: Path, count: int) -> list[Path]:
    """Write small instances of all three kinds."""
    made = []
    for number in range(count):
        kind = number % 3
        if kind == 0:
            instance: clusterplan.Instance = generate_allocation(5 + number % 7, seed=number)
        elif kind == 1:
            instance = generate_staging(4 + number % 5, 3, seed=number)
        else:
            instance = generate_consolidation(4, 6, seed=number)
        path = folder / f"{number:03}-{instance.kind}.yaml"
        clusterplan.save(instance, path)
        made.append(path)
    return made


def journal_lines(folder: Path) -> list[dict[str, Any]]:
    """Return the complete lines of a journal behind its head."""
    lines = (folder / "journal.jsonl").read_bytes().split(b"\n")[:-1]
    return [json.loads(line) for line in lines[1:]]


def essence(line: dict[str, Any]) -> dict[str, Any]:
    """Return what of a line must not depend on when and how often the batch was stopped."""
    result = line["result"]
    kept = ("instance", "instance_sha256", "status", "limit", "objective", "bound", "plan", "certificate")
    return {"source": line["source"], "solver": line["solver"], **{key: result[key] for key in kept}}


def by_source(lines: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the essence of each line by its source; no source may stand twice."""
    found = {line["source"]: essence(line) for line in lines}
    assert len(found) == len(lines)
    return found


@pytest.mark.slow
def test_a_batch_killed_at_any_moment_is_resumed_without_loss(tmp_path: Path) -> None:
    """`kill -9` twenty times: what was finished stays, nothing is done twice, and the end is the same."""
    files = [str(path) for path in mixed(tmp_path, 90)]
    undisturbed = tmp_path / "undisturbed"
    assert run("solve", *files, *OPTIONS, "--output", undisturbed, "--quiet").returncode == 0
    expected = by_source(journal_lines(undisturbed))
    assert len(expected) == 90

    moments, folder = random.Random(7), tmp_path / "disturbed"
    kept: list[dict[str, Any]] = []
    kills, started = 0, set[int]()
    journal = folder / "journal.jsonl"
    while kills < 20:
        command = [*COMMAND, "solve", *files, *OPTIONS, "--output", str(folder), "--resume", "--quiet"]
        size = journal.stat().st_size if journal.exists() else 0
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            # Mostly once the journal grows, or kills would only ever hit the start; sometimes before.
            while process.poll() is None and moments.random() > 0.001:
                if journal.exists() and journal.stat().st_size > size:
                    break
                time.sleep(0.005)
            time.sleep(moments.uniform(0, 0.15))
            started |= descendants(process.pid)
            process.send_signal(signal.SIGKILL)
        kills += 1
        if journal.exists():
            lines = journal_lines(folder)
            assert lines[: len(kept)] == kept
            kept = lines
    assert 10 <= len(kept) <= 90
    assert started
    assert all_end(started)
    last = run("solve", *files, *OPTIONS, "--output", folder, "--resume")
    assert last.returncode == 0, last.stderr
    assert journal_lines(folder)[: len(kept)] == kept
    assert by_source(journal_lines(folder)) == expected
    assert last.stdout == ""
    assert len((folder / "summary.csv").read_text().splitlines()) == 91


@pytest.mark.slow
@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_writes_what_is_known_and_exits_130(tmp_path: Path, stop: int) -> None:
    """An interrupt, or a batch system's request to end, leaves journal and summary; workers end too."""
    files, folder = [str(path) for path in mixed(tmp_path, 60)], tmp_path / "out"
    ended = interrupted([*COMMAND, "solve", *files, *OPTIONS, "--output", str(folder)], "[ 3/60]", stop)
    assert ended.returncode == 130
    assert "of 60 are finished; --resume continues it" in ended.stderr
    assert "Traceback" not in ended.stderr
    done = len(journal_lines(folder))
    assert 3 <= done < 60
    assert len((folder / "summary.csv").read_text().splitlines()) == done + 1


def test_a_line_that_was_cut_off_is_dropped(tmp_path: Path) -> None:
    """What a stop left half written is solved again; a line that no stop explains is refused."""
    files = [str(path) for path in mixed(tmp_path, 3)]
    folder = tmp_path / "out"
    assert run("solve", *files, *OPTIONS, "--output", folder).returncode == 0
    journal = folder / "journal.jsonl"
    whole = journal.read_bytes()
    journal.write_bytes(whole[:-40])
    resumed = run("solve", *files, *OPTIONS, "--output", folder, "--resume")
    assert resumed.returncode == 0
    assert "resuming: 2 of 3 are finished" in resumed.stderr
    assert by_source(journal_lines(folder)).keys() == set(files)
    journal.write_bytes(whole[:60] + b"\n" + whole[60:])
    refused = run("solve", *files, *OPTIONS, "--output", folder, "--resume")
    assert refused.returncode == 3
    assert "is not of a journal" in refused.stderr


def test_a_changed_instance_is_solved_again(tmp_path: Path) -> None:
    """What is finished is kept only while the instance, tables included, is the same."""
    files = [str(path) for path in mixed(tmp_path, 3)]
    folder = tmp_path / "out"
    assert run("solve", *files, *OPTIONS, "--output", folder).returncode == 0
    clusterplan.save(generate_allocation(9, seed=99), files[0])
    resumed = run("solve", *files, *OPTIONS, "--output", folder, "--resume")
    assert resumed.returncode == 0, resumed.stderr
    assert len((folder / "summary.csv").read_text().splitlines()) == 4
    lines = journal_lines(folder)
    assert [line["source"] for line in lines].count(files[0]) == 2
    assert lines[-1]["result"]["instance_sha256"] == clusterplan.load(files[0]).sha256()


def test_a_journal_of_another_batch_is_not_continued(tmp_path: Path) -> None:
    """Other options, no --resume, a second process, or a file in the place of the folder: each is refused."""
    (file,) = mixed(tmp_path, 1)
    folder = tmp_path / "out"
    assert run("solve", file, *OPTIONS, "--output", folder).returncode == 0
    again = run("solve", file, *OPTIONS, "--output", folder)
    assert (again.returncode, "--resume" in again.stderr) == (2, True)
    other = run("solve", file, *OPTIONS, "--gap", "0.5", "--output", folder, "--resume")
    assert (other.returncode, "gap was 1e-06, now 0.5" in other.stderr) == (2, True)
    assert run("solve", file, "--jobs", "1", "--output", file).returncode == 2
    held = Journal(tmp_path / "held", {}, resume=False)
    with pytest.raises(OptionError, match="another batch is writing it"):
        Journal(tmp_path / "held", {}, resume=True)
    held.close()


def test_bad_files_are_lines_and_the_rest_is_solved(tmp_path: Path) -> None:
    """A file that is missing or wrong costs its own line; the worst exit code remains."""
    good = mixed(tmp_path, 2)
    (tmp_path / "bad.yaml").write_text("kind: nonsense\n")
    done = run("solve", *good, "bad.yaml", "none.yaml", *OPTIONS, "--output", "out", cwd=tmp_path)
    assert done.returncode == 3
    assert "none.yaml: there is no such file" in done.stderr
    with (tmp_path / "out" / "summary.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["exit_code"] for row in rows] == ["0", "0", "3", "3"]
    assert "kind: is 'nonsense'" in rows[2]["message"]


def test_names_are_no_formulas_in_the_summary(tmp_path: Path) -> None:
    """Neither a file's nor an instance's name, nor a message, begins a cell with a sign."""
    name = "=cmd|' /C calc'!A0"
    instance = generate_allocation(3, seed=1).model_copy(update={"name": name})
    path = tmp_path / "=1+1.yaml"
    clusterplan.save(instance, path)
    done = run("solve", "=1+1.yaml", "--jobs", "1", "--output", "out", "--format", "csv", cwd=tmp_path)
    assert done.returncode == 0
    text = (tmp_path / "out" / "summary.csv").read_text()
    printed = run("solve", "=1+1.yaml", "--jobs", "1", "--format", "csv", cwd=tmp_path).stdout
    assert "'=1+1.yaml,'=cmd" in printed
    for cells in [*csv.reader(text.splitlines()), *csv.reader(printed.splitlines())]:
        assert not any(cell.startswith(("=", "@", "+")) for cell in cells)
    assert "'=1+1.yaml,'=cmd" in text


def test_results_of_a_journal_can_be_verified(tmp_path: Path) -> None:
    """`verify` takes the journal as it is."""
    files = mixed(tmp_path, 3)
    assert run("solve", *files, *OPTIONS, "--output", tmp_path / "out").returncode == 0
    for file in files:
        checked = run("verify", file, tmp_path / "out" / "journal.jsonl")
        assert checked.returncode == 0, checked.stdout
        assert ": verified" in checked.stdout
    stored = read_results(tmp_path / "out" / "journal.jsonl")
    assert len(stored) == 3
    assert all(parse_result(data, "journal").plan is not None for data in stored)


def test_threads_are_shared_among_jobs_and_too_many_are_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Where nothing is said the cores are shared; more than there are is a warning, not a fault."""
    cores = len(os.sched_getaffinity(0))
    options = BatchOptions(jobs=cores).with_threads(clusterplan.SolveOptions())
    assert options.threads == 1
    assert not caplog.records
    BatchOptions(jobs=cores).with_threads(clusterplan.SolveOptions(threads=2))
    assert "wait for each other" in caplog.text
    (file,) = mixed(tmp_path, 1)
    said = run("solve", file, "--jobs", str(cores), "--threads", "3").stderr
    assert "WARNING" in said


@pytest.mark.parametrize(("option", "least"), [("memory_limit_gib", "0.001"), ("kill_after_s", "0")])
def test_limits_of_processes_are_numbers(option: str, least: str) -> None:
    with pytest.raises(OptionError, match=f"{option} is -1; it must be a number from {least} on"):
        BatchOptions(**{option: -1.0})


def test_the_library_yields_records_of_files_and_instances(tmp_path: Path) -> None:
    """Instances of one name are told apart; one that stands twice is solved once."""
    (file,) = mixed(tmp_path, 1)
    twins = [generate_allocation(4, seed=seed).model_copy(update={"name": "twin"}) for seed in (1, 2)]
    records = list(solve_many([file, *twins, twins[0], str(file)]))
    assert sorted(record.source for record in records) == sorted([str(file), "twin", "twin #2"])
    assert all(record.result and record.result.status == "optimal" for record in records)
    alone = clusterplan.solve(twins[1])
    (second,) = [record.result for record in records if record.source == "twin #2"]
    assert second.objective == alone.objective
    assert second.plan == alone.plan


@pytest.mark.slow
def test_an_interrupted_batch_reports_its_own_solver_only(tmp_path: Path) -> None:
    """What another solver left in the same journal is not this batch's."""
    clusterplan.save(generate_allocation(2, seed=1), tmp_path / "tiny.yaml")
    words = ["solve", str(tmp_path / "tiny.yaml"), "example:optimus-testbed", *OPTIONS]
    words += ["--output", str(tmp_path / "out"), "--solver"]
    assert run(*words, "marginal-gain").returncode == 0
    # The first one is done, and brute force takes hours for the second one.
    ended = interrupted([*COMMAND, *words, "brute-force", "--resume"], "[1/2]")
    assert ended.returncode == 130, ended.stderr
    assert "marginal-gain" not in (tmp_path / "out" / "summary.csv").read_text()


def test_file_names_that_are_no_text_are_shown_as_well_as_possible(tmp_path: Path) -> None:
    """They are solved, and every file is written."""
    path = os.fsdecode(os.fsencode(tmp_path) + b"/bad\xff.yaml")
    clusterplan.save(generate_allocation(3, seed=1), path)
    done = run("solve", path, "--jobs", "1", "--output", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert "bad\\udcff.yaml" in (tmp_path / "out" / "summary.csv").read_text(encoding="utf-8")
    compared = run("compare", path, "--solvers", "exact", "--format", "csv")
    assert compared.returncode == 0, compared.stderr
    assert "bad\\udcff.yaml" in compared.stdout


def test_a_file_and_an_instance_of_its_name_are_two(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever is given first."""
    monkeypatch.chdir(tmp_path)
    clusterplan.save(generate_allocation(3, seed=1), "twin.yaml")
    instance = generate_allocation(4, seed=2).model_copy(update={"name": "twin.yaml"})
    for sources in ([instance, "twin.yaml"], ["twin.yaml", instance]):
        records = list(solve_many(sources))
        assert {record.source for record in records} == {"twin.yaml", "twin.yaml #2"}
        assert len({record.result.instance_sha256 for record in records if record.result}) == 2


@pytest.mark.slow
def test_a_script_needs_no_main_guard(tmp_path: Path) -> None:
    """Nothing of it is run again by the processes that it starts."""
    script = tmp_path / "script.py"
    script.write_text(
        "import clusterplan\n"
        "print('once')\n"
        "batch = clusterplan.BatchOptions(jobs=2, output='out')\n"
        "names = ['example:heterps-ctr', 'example:optimus-testbed']\n"
        "for record in clusterplan.solve_many(names, batch=batch):\n"
        "    print(record.result.status)\n"
        "print(len(clusterplan.compare(['example:heterps-ctr'], ['exact', 'greedy']).rows))\n"
    )
    done = subprocess.run([sys.executable, script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "once\noptimal\noptimal\n2\n"), done.stderr


@pytest.mark.slow
def test_large_instances_and_answers_pass_each_other() -> None:
    """Both ends of a link may have much to say at once."""
    instances = [
        generate_allocation(2000, seed=seed).model_copy(update={"name": f"{seed}"}) for seed in range(6)
    ]
    records = list(solve_many(instances, "marginal-gain", batch=BatchOptions(jobs=3)))
    assert sorted(record.source for record in records) == [str(seed) for seed in range(6)]


def test_a_full_disk_is_one_line(tmp_path: Path) -> None:
    """What is finished stays, and the message says what is the matter."""
    files = [str(path) for path in mixed(tmp_path, 6)]
    code = "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (12000, 12000)); "
    code += "from clusterplan.planner.cli.main import main; sys.argv[0] = 'clusterplan'; main()"
    command = [sys.executable, "-c", code, "solve", *files, *OPTIONS, "--output", str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "journal.jsonl: cannot be written" in done.stderr
    resumed = run("solve", *files, *OPTIONS, "--output", tmp_path / "out", "--resume")
    assert resumed.returncode == 0, resumed.stderr
    assert len(by_source(journal_lines(tmp_path / "out"))) == 6
