"""`solve` by itself: where it writes, and when it is a batch.

`compare` by itself: its options, its tables, and what it writes.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from sample_documents import ALLOCATION, STAGING
from sample_pages import sample_comparison
from verbs import invoke

from clusterplan.instances.allocation.generate import generate_allocation
from clusterplan.instances.allocation.job_table import JobTable
from clusterplan.instances.common.errors import OptionError
from clusterplan.instances.documents import save
from clusterplan.instances.files.tables import MANY_ROWS
from clusterplan.instances.scheduling.generate import generate_scheduling
from clusterplan.planner.batch.comparison import Comparison
from clusterplan.planner.cli import comparing, solving
from clusterplan.planner.cli.comparing import failures, rows_table, summary_table
from clusterplan.planner.cli.solve import CompareOptions, compare, solve
from clusterplan.planner.cli.solving import RunOptions


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    """Return the files of two instances."""
    paths = [tmp_path / "a.yaml", tmp_path / "s.yaml"]
    for path, document in zip(paths, (ALLOCATION, STAGING), strict=True):
        path.write_text(yaml.safe_dump(document))
    return paths


def test_results_are_written_as_they_are_printed(files: list[Path], tmp_path: Path) -> None:
    answer = invoke(solve, *files, "--format", "json", "--output", tmp_path / "r.jsonl")
    assert answer.exit_code == 0
    assert answer.stdout == ""
    printed = invoke(solve, *files, "--format", "json").stdout
    for text in ((tmp_path / "r.jsonl").read_text(), printed):
        assert [json.loads(line)["instance"] for line in text.splitlines()] == ["a", "s"]


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


def test_a_folder_is_for_a_batch(files: list[Path], tmp_path: Path) -> None:
    assert "give a file, or --jobs N" in invoke(solve, files[0], "--output", tmp_path, fails=OptionError)


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
    monkeypatch.setattr(comparing, "compare_and_show", lambda run: seen.append(run) or 0)
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


def test_an_unknown_solver_is_refused_before_anything_is_solved(tmp_path: Path) -> None:
    file = tmp_path / "s.yaml"
    file.write_text(yaml.safe_dump(STAGING))
    assert "did you mean 'exact'" in invoke(compare, file, "--solvers", "exakt", fails=OptionError)


def test_the_name_of_an_instance_stands_in_its_first_row_alone() -> None:
    comparison = sample_comparison(2)
    cells = [str(cell) for cell in rows_table("cost", comparison.rows).columns[0].cells]
    assert len(cells) == len(comparison.rows)
    assert [cell for cell in cells if cell] == list(dict.fromkeys(row.instance for row in comparison.rows))


def test_the_summary_has_a_row_for_each_solver_and_failures_a_line_for_each() -> None:
    comparison = sample_comparison(5)
    assert [str(cell) for cell in summary_table(comparison).columns[0].cells] == list(comparison.solvers)
    failed = [row for row in comparison.rows if row.status in ("error", "unknown")]
    assert [line.split(": ")[1] for line in failures(comparison)] == [row.solver for row in failed]
    assert failed


def test_an_optimum_that_is_only_claimed_is_told_from_one_that_is_proven() -> None:
    """In its row, in the summary, and in a line that says what is proven."""
    first, *others = sample_comparison(1).rows
    claimed = first.model_copy(update={"only_claimed": True, "message": "proven is a gap of 2 %"})
    comparison = Comparison(rows=(claimed, *others))
    assert str(next(iter(rows_table("cost", comparison.rows).columns[2].cells))) == "optimal, as claimed"
    assert str(next(iter(summary_table(comparison).columns[2].cells))) == "1 (1 as claimed)"
    assert next(failures(comparison)) == f"{first.instance}: {first.solver}: proven is a gap of 2 %"
