"""The verb `solve`, and its option `--device-moves`: what counts as a migration."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from command_line import invoke
from device_instances import gpus, job, sharing
from sample_documents import ALLOCATION, CONSOLIDATION, STAGING, put
from sample_pages import sample_comparison

import clusterplan
from clusterplan.instances.allocation.generate import generate_allocation
from clusterplan.instances.allocation.job_table import JobTable
from clusterplan.instances.common.errors import InstanceError, OptionError
from clusterplan.instances.documents import load, parse_instance, save
from clusterplan.instances.files.tables import MANY_ROWS
from clusterplan.instances.scheduling.generate import generate_scheduling
from clusterplan.planner.batch.comparison import Comparison
from clusterplan.planner.batch.solve_many import BatchOptions
from clusterplan.planner.batch.task import Record
from clusterplan.planner.cli import solving, study
from clusterplan.planner.cli.instances.generate import validate
from clusterplan.planner.cli.progress import Progress, working
from clusterplan.planner.cli.solve import CompareOptions, compare, solve
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
from clusterplan.planner.cli.stored_results import export_plan, report, verify
from clusterplan.planner.cli.study import failures, rows_table
from clusterplan.planner.reports.comparison_page import summary_table
from clusterplan.solvers.common.result import SolveOptions


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    """Return the files of two instances."""
    paths = [tmp_path / "a.yaml", tmp_path / "s.yaml"]
    for path, document in zip(paths, (ALLOCATION, STAGING), strict=True):
        put(path, document)
    return paths


def test_a_table_names_the_plan_of_one_file_alone(files: list[Path]) -> None:
    assert "layers" in invoke(solve, files[1]).stdout
    both = invoke(solve, *files).stdout
    assert "layers" not in both
    assert both.count("optimal") == 2


def test_a_file_that_cannot_be_read_does_not_stop_the_others(files: list[Path], tmp_path: Path) -> None:
    answer = invoke(solve, tmp_path / "none.yaml", files[1], "--format", "csv")
    assert answer.exit_code == 3
    assert "none.yaml" in answer.stderr
    assert [line.split(",")[0] for line in answer.stdout.splitlines()] == ["instance", "s"]


def test_no_empty_file_is_left_where_nothing_was_solved(tmp_path: Path) -> None:
    """A file that was there before keeps what it holds."""
    there = tmp_path / "there.json"
    there.write_text("before")
    for output in (tmp_path / "r.json", there):
        assert invoke(solve, tmp_path / "none.yaml", "--output", output).exit_code == 3
    assert [path.name for path in tmp_path.iterdir()] == ["there.json"]
    assert there.read_text() == "before"


def test_a_dry_run_says_what_validate_says(files: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the instance as the options make it; nothing is solved, not even as a batch."""
    monkeypatch.setattr(solving, "solve_files", None)
    for given in (files, [*files, files[0].parent / "none.yaml"]):
        wanted = invoke(validate, *given)
        for more in ((), ("--jobs", 2)):
            answer = invoke(solve, *given, "--dry-run", *more)
            assert (answer.output, answer.exit_code) == (wanted.output, wanted.exit_code)


def test_a_dry_run_knows_the_options(tmp_path: Path) -> None:
    file = put(tmp_path / "c.yaml", CONSOLIDATION)
    assert "matches no server" in invoke(solve, file, "--drain", "x", "--dry-run").stderr
    assert invoke(solve, file, "--drain", "x", "--dry-run").exit_code == 2
    assert invoke(solve, file, "--drain", "n-0", "--dry-run").exit_code == 0


@pytest.mark.parametrize(
    ("words", "as_batch"),
    [
        ((), False),
        (("--jobs", 1), True),
        (("--kill-after", 9), True),
        (("--resume",), True),
        (("--engine", "dask", "--scheduler", "tcp://here:1"), True),
        (("--provisioning", "exact", "--memory-limit", 2), False),
    ],
)
def test_what_asks_for_processes_is_a_batch(
    monkeypatch: pytest.MonkeyPatch, words: tuple[object, ...], as_batch: bool
) -> None:
    seen: list[tuple[RunOptions, bool]] = []

    def solve_files(run: RunOptions, batch: bool) -> int:
        seen.append((run, batch))
        return 5

    monkeypatch.setattr("clusterplan.planner.cli.solve.start_early", lambda: None)
    monkeypatch.setattr(solving, "solve_files", solve_files)
    assert invoke(solve, "x.yaml", *words).exit_code == 5
    assert [(run.files, batch) for run, batch in seen] == [(["x.yaml"], as_batch)]


def test_the_memory_limit_is_the_backends_here_and_the_workers_in_a_batch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(solving, "_solve_in_turn", lambda _, solver, options: asked.append((solver, options)))
    monkeypatch.setattr(solving, "solve_batch", lambda _, __, options, batch: asked.append((options, batch)))
    run = RunOptions(files=["x"], memory_limit=2.0)
    solving.solve_files(run, as_batch=False)
    solving.solve_files(run, as_batch=True)
    assert asked[0][0] == "auto"
    assert asked[0][1].memory_limit_gib == 2.0
    assert asked[1][0].memory_limit_gib is None
    assert asked[1][1].memory_limit_gib == 2.0


@pytest.mark.parametrize("form", ["table", "csv", "json"])
def test_jobs_of_a_large_table_stay_in_columns(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A million objects would keep the solve waiting, and nothing needs them."""
    path = tmp_path / "large.yaml"
    save(generate_allocation(MANY_ROWS, 2, tightness=0.2), path, table="csv")
    made: list[int] = []
    monkeypatch.setattr(JobTable, "_job", lambda _, j: made.append(j))
    answer = invoke(solve, path, "--solver", "marginal-gain", "--format", form)
    assert answer.exit_code == 0
    assert f"synthetic-allocation-{MANY_ROWS}" in answer.stdout
    assert made == []


def test_solvers_are_separated_by_commas(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[CompareOptions] = []
    monkeypatch.setattr("clusterplan.planner.cli.solve.start_early", lambda: None)
    monkeypatch.setattr(study, "compare_and_show", lambda run: seen.append(run) or 0)
    assert invoke(compare, "x.yaml", "--solvers", "exact, greedy", "--jobs", 2).exit_code == 0
    assert (seen[0].solver, seen[0].jobs) == ("exact, greedy", 2)
    assert invoke(compare, "x.yaml", "--provisioning", "exact").exit_code == 2
    assert invoke(compare, "x.yaml", "--solver", "exact").exit_code == 0  # as `solve` calls it
    assert seen[1].solver == "exact"


def test_policies_are_shown_with_their_figures_and_what_to_use(tmp_path: Path) -> None:
    """The last line says which to use; a row for each policy has its fairness."""
    file = tmp_path / "t.yaml"
    save(generate_scheduling(30, 8, load=1.5, seed=1), file)
    said = invoke(compare, file, "--solvers", "fifo,srsf", "--jobs", 1, "--quiet").stdout
    assert said.strip().splitlines()[-1].startswith("Use srsf: the mean completion time falls from ")
    assert "Jain's index by tenant" in said


def test_the_name_of_an_instance_stands_in_its_first_row_alone() -> None:
    comparison = sample_comparison(2)
    cells = [str(cell) for cell in rows_table("cost", comparison.rows).columns[0].cells]
    assert len(cells) == len(comparison.rows)
    assert [cell for cell in cells if cell] == list(dict.fromkeys(row.instance for row in comparison.rows))


def test_the_summary_has_a_row_for_each_solver_and_failures_a_line_for_each() -> None:
    comparison = sample_comparison(5)
    assert [row[0] for row in summary_table(comparison).texts] == list(comparison.solvers)
    failed = [row for row in comparison.rows if row.status in ("error", "unknown")]
    assert [line.split(": ")[1] for line in failures(comparison)] == [row.solver for row in failed]
    assert failed


def test_an_optimum_that_is_only_claimed_is_told_from_one_that_is_proven() -> None:
    """In its row, in the summary, and in a line that says what is proven."""
    first, *others = sample_comparison(1).rows
    claimed = first.model_copy(update={"only_claimed": True, "message": "proven is a gap of 2 %"})
    comparison = Comparison(rows=(claimed, *others))
    assert str(next(iter(rows_table("cost", comparison.rows).columns[2].cells))) == "optimal, as claimed"
    assert summary_table(comparison).texts[0][2] == "1 (1 as claimed)"
    assert next(failures(comparison)) == f"{first.instance}: {first.solver}: proven is a gap of 2 %"


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


@pytest.mark.parametrize(
    ("text", "value"),
    [("3", 3), ("0.5", 0.5), ("true", True), ("word", "word"), ("[1]", "[1]")],
)
def test_settings_are_numbers_where_they_look_like_it(text: str, value: object) -> None:
    found = merged_options(None, {}, [f"key={text}"])[1].method_options["key"]
    assert found == value
    assert type(found) is type(value)


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


def solve_file(format: Format, folder: Path | None = None) -> int:
    """Solve two files as a batch."""
    run = RunOptions(files=["=s.yaml", "bad.yaml"], format=format, quiet=True)
    return solve_batch(run, "exact", OPTIONS, BatchOptions(output=folder))


@pytest.mark.usefixtures("records")
def test_results_are_printed_as_they_come_and_the_worst_code_is_the_exit_code(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert solve_file("json") == 3
    assert json.loads(capsys.readouterr().out)["instance"] == "s"
    assert solve_file("csv") == 3
    rows = list(csv.reader(capsys.readouterr().out.splitlines()))
    assert [row[0] for row in rows] == ["source", "'=s.yaml"]  # no spreadsheet takes it for a formula
    assert solve_file("table") == 3
    assert "2 instances: 1 optimal, 1 not solved; 0.5 s of work" in capsys.readouterr().out


def test_an_interrupt_keeps_what_is_finished(
    records: list[Any], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    records[1] = KeyboardInterrupt
    ignored: list[object] = []
    monkeypatch.setattr(solving.signal, "signal", lambda *given: ignored.append(given))
    monkeypatch.setattr(solving, "read_journal", lambda _: iter([SOLVED, UNREAD]))
    assert solve_file("json", tmp_path) == 130
    assert "interrupted: 2 of 2 are finished; --resume continues it" in capsys.readouterr().err
    assert len(ignored) == 1
    assert (tmp_path / SUMMARY).exists()


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


RUNNING = [
    sharing(name, 400, current={"n": 1}, current_devices={"n": [{"gpu": [device]}]})
    for device, name in enumerate("ab")
]
DOCUMENT: dict[str, Any] = {
    "schema_version": 1,
    "kind": "consolidation",
    "name": "moves",
    "objectives": ["value", "migrations"],
    "servers": [gpus("n", 2)],
    "jobs": [*RUNNING, job("c", 1, {"cpu": 0}, devices={"gpu": 1})],
}


@pytest.fixture
def instance(tmp_path: Path) -> Path:
    """Return the file of an instance where one of two shares has to go to the other device."""
    return put(tmp_path / "moves.yaml", DOCUMENT)


def test_moves_count_with_the_option_alone(instance: Path, tmp_path: Path) -> None:
    """The result says so, and every verb that reads it takes it from there."""
    moved = {}
    for words in ((), ("--device-moves",)):
        answer = invoke(solve, instance, "--format", "json", "--quiet", *words)
        assert answer.exit_code == 0
        moved[words] = json.loads(answer.stdout)["objectives"][1]["value"]
    assert list(moved.values()) == [0, 1]
    result = tmp_path / "result.json"
    result.write_text(answer.stdout)
    assert invoke(verify, instance, result, "--device-moves", "--accept-claimed").exit_code == 0
    assert invoke(verify, instance, result, "--accept-claimed").exit_code == 0
    plan = invoke(export_plan, instance, result, "--format", "slurm-options")
    assert plan.exit_code == 0
    assert "to other devices of n" in plan.stderr
    page = tmp_path / "page.html"
    assert invoke(report, instance, result, "--output", page).exit_code in (0, 8)
    assert page.exists()


def test_the_document_may_say_it() -> None:
    """False is as if nothing were said, so that results of before are still of the instance."""
    plain = parse_instance(DOCUMENT).sha256()
    no, yes = (parse_instance({**DOCUMENT, "device_moves": flag}).sha256() for flag in (False, True))
    assert plain == no
    assert plain != yes


def test_processes_of_a_batch_are_told(instance: Path) -> None:
    """As the workers of a comparison."""
    run = RunOptions(files=[str(instance)], device_moves=True)
    batch = batch_options(run)
    assert batch.changes == {"device_moves": True}
    assert BatchOptions().changes == {}
    found = clusterplan.compare([str(instance)], ["best-fit"], SolveOptions(time_limit_s=20), batch)
    assert found.rows[0].status in ("optimal", "feasible")
    answer = invoke(solve, instance, "--jobs", 1, "--device-moves", "--quiet", "--format", "json")
    assert answer.exit_code == 0, answer.output
    assert json.loads(answer.stdout.splitlines()[0])["objectives"][1]["value"] == 1


def test_other_kinds_have_no_such_field(tmp_path: Path) -> None:
    """A fault names the field."""
    path = tmp_path / "a.yaml"
    path.write_text("schema_version: 1\nkind: allocation\nname: a\n")
    with pytest.raises(InstanceError, match="device_moves"):
        load(path, changes={"device_moves": True})
