"""`compare` by itself: its options, its tables, and what it writes."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from sample_documents import STAGING
from sample_pages import sample_comparison
from verbs import invoke

from clusterplan import save
from clusterplan.instances.common.errors import OptionError
from clusterplan.instances.scheduling.generate import generate_scheduling
from clusterplan.planner.cli import comparing
from clusterplan.planner.cli.compare import CompareOptions, compare
from clusterplan.planner.cli.comparing import failures, rows_table, summary_table
from clusterplan.planner.comparison.comparison import Comparison


def test_solvers_are_separated_by_commas(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[CompareOptions] = []
    monkeypatch.setattr("clusterplan.planner.cli.compare.start_early", lambda: None)
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
