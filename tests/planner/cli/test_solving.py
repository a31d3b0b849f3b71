"""Which of several places an option is taken from.

What `solve` prints and writes of a batch, and the progress that it shows.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sample_documents import STAGING

import clusterplan
from clusterplan.instances.common.errors import OptionError
from clusterplan.planner.batch.solve_many import BatchOptions
from clusterplan.planner.batch.task import Record
from clusterplan.planner.cli import solving
from clusterplan.planner.cli.progress import Progress, working
from clusterplan.planner.cli.solving import (
    DEFAULT_TIME_LIMIT_S,
    SUMMARY,
    TITLES,
    Format,
    RunOptions,
    batch_options,
    merged_options,
    print_result,
    search_options,
    solve_batch,
    write_summary,
)
from clusterplan.solvers.common.result import SolveOptions


def test_the_command_line_wins_over_the_file_and_that_over_defaults(tmp_path: Path) -> None:
    config = tmp_path / "c.yaml"
    config.write_text("solver: greedy\ngap: 0.1\nthreads: 3\nmethod_options: {a: 1, b: 2}\n")
    run = RunOptions(files=["x"], config=config, threads=1, settings=["b=3"])
    solver, options = search_options(run)
    assert (solver, options.gap, options.threads) == ("greedy", 0.1, 1)
    assert options.time_limit_s == DEFAULT_TIME_LIMIT_S
    assert options.method_options == {"a": 1, "b": 3}
    named, _ = search_options(RunOptions(files=["x"], config=config, solver="exact"))
    assert named == "exact"


def test_a_time_limit_of_0_is_none() -> None:
    assert merged_options(None, {"time_limit_s": 0}, [])[1].time_limit_s is None


@pytest.mark.parametrize(
    ("text", "value"),
    [("3", 3), ("0.5", 0.5), ("true", True), ("word", "word"), ("[1]", "[1]")],
)
def test_settings_are_numbers_where_they_look_like_it(text: str, value: object) -> None:
    found = merged_options(None, {}, [f"key={text}"])[1].method_options["key"]
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize("setting", ["key", "=3", ""])
def test_settings_are_pairs(setting: str) -> None:
    with pytest.raises(OptionError, match="KEY=VALUE"):
        merged_options(None, {}, [setting])


@pytest.mark.parametrize("text", ["- a\n", "solver: 3\n", "bogus: 1\n", "gap: [\n"])
def test_a_file_that_holds_no_options_is_refused(tmp_path: Path, text: str) -> None:
    config = tmp_path / "c.yaml"
    config.write_text(text)
    with pytest.raises(OptionError):
        merged_options(config, {}, [])


def test_dask_and_its_scheduler_belong_together() -> None:
    run = RunOptions(files=["x"], engine="dask", scheduler="tcp://here:1", jobs=2, kill_after=9.0)
    batch = batch_options(run)
    assert (batch.scheduler, batch.jobs, batch.kill_after_s) == ("tcp://here:1", 2, 9.0)
    for alone in (
        RunOptions(files=["x"], engine="dask"),
        RunOptions(files=["x"], scheduler="tcp://here:1"),
    ):
        with pytest.raises(OptionError, match="belong together"):
            batch_options(alone)


INSTANCE = clusterplan.parse_instance(STAGING)
SOLVED = Record.of("=s.yaml", "exact", clusterplan.solve(INSTANCE), 0.5)
UNREAD = Record("bad.yaml", "exact", fault="is not\nYAML", code=3)
OPTIONS = SolveOptions()


@pytest.fixture
def records(monkeypatch: pytest.MonkeyPatch) -> list[Record | type[BaseException]]:
    """Return what the processes will answer; an exception is raised instead."""
    answers: list[Any] = [SOLVED, UNREAD]

    def run(*_: object) -> Iterator[Record]:
        for answer in answers:
            if not isinstance(answer, Record):
                raise answer
            yield answer

    monkeypatch.setattr(solving, "solve_each", run)
    return answers


def solve(format: Format, folder: Path | None = None) -> int:
    """Solve two files as a batch."""
    run = RunOptions(files=["=s.yaml", "bad.yaml"], format=format, quiet=True)
    return solve_batch(run, "exact", OPTIONS, BatchOptions(output=folder))


@pytest.mark.usefixtures("records")
def test_results_are_printed_as_they_come_and_the_worst_code_is_the_exit_code(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert solve("json") == 3
    assert json.loads(capsys.readouterr().out)["instance"] == "s"
    assert solve("csv") == 3
    rows = list(csv.reader(capsys.readouterr().out.splitlines()))
    assert [row[0] for row in rows] == ["source", "'=s.yaml"]  # no spreadsheet takes it for a formula
    assert solve("table") == 3
    assert "2 instances: 1 optimal, 1 not solved; 0.5 s of work" in capsys.readouterr().out


def test_an_interrupt_keeps_what_is_finished(
    records: list[Any], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    records[1] = KeyboardInterrupt
    ignored: list[object] = []
    monkeypatch.setattr(solving.signal, "signal", lambda *given: ignored.append(given))
    monkeypatch.setattr(solving, "read_journal", lambda _: iter([SOLVED, UNREAD]))
    assert solve("json", tmp_path) == 130
    assert "interrupted: 2 of 2 are finished; --resume continues it" in capsys.readouterr().err
    assert len(ignored) == 1
    assert (tmp_path / SUMMARY).exists()


def test_an_unknown_solver_is_refused() -> None:
    with pytest.raises(OptionError, match="did you mean 'exact'"):
        solve_batch(RunOptions(files=["s.yaml"]), "exakt", OPTIONS, BatchOptions())


def test_the_summary_has_a_line_for_each_record(tmp_path: Path) -> None:
    path = write_summary([SOLVED, UNREAD], tmp_path)
    solved, unread = csv.DictReader(io.StringIO(path.read_text()))
    assert tuple(solved) == TITLES
    assert (solved["source"], solved["status"], solved["exit_code"]) == ("'=s.yaml", "optimal", "0")
    assert float(solved["objective"]) == pytest.approx(SOLVED.result and SOLVED.result.objective)
    assert (unread["status"], unread["message"], unread["exit_code"]) == ("", UNREAD.fault, "3")


def test_a_result_is_printed_at_once_for_programs_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert SOLVED.result is not None
    print_result(SOLVED.result, "table")
    assert capsys.readouterr().out == ""
    print_result(SOLVED.result, "csv")
    assert capsys.readouterr().out.startswith("s,staging,auto,optimal")


def test_progress_counts_and_a_resumed_batch_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress(quiet=False) as progress:
        progress.begin(3, 12)
        progress.advance(SOLVED)
        progress.advance(UNREAD)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "resuming: 3 of 12 are finished"
    assert lines[1].startswith("[ 1/12] =s.yaml: exact: optimal, cost ")
    assert lines[2] == "[ 2/12] bad.yaml: exact: is not YAML"


def test_quiet_progress_names_only_what_went_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress(quiet=True) as progress, working("s: exact", OPTIONS, quiet=True):
        progress.begin(0, 2)
        progress.advance(SOLVED)
        progress.advance(UNREAD)
    assert capsys.readouterr().err == "[2/2] bad.yaml: exact: is not YAML\n"
