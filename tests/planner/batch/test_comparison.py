"""Comparisons: gaps against the best that all solvers know, aggregates, profiles, and the command.

Measures of plans are taken while there are plans, and only of those that obey their constraints.
"""

from __future__ import annotations

import csv
import json
import math
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from command_line import interrupted
from command_line import run_here as run

import clusterplan
from clusterplan import save, solve
from clusterplan.formulations.registry import formulate
from clusterplan.instances.allocation.generate import generate_allocation
from clusterplan.instances.common.errors import OptionError
from clusterplan.instances.consolidation.generate import generate_consolidation
from clusterplan.instances.scheduling.generate import generate_scheduling
from clusterplan.instances.staging.generate import generate_staging
from clusterplan.planner.batch.comparison import Comparison, Measurer, compare, comparison_of
from clusterplan.planner.batch.comparison_rows import LEAST_S, ComparisonRow, performance_profile, summarise
from clusterplan.planner.batch.task import Record
from clusterplan.planner.reports.comparison_page import results_tables, to_csv
from clusterplan.solvers.common.result import ObjectiveRecord, Result

COMMAND = [sys.executable, "-m", "clusterplan"]


def objective(
    value: float | None, bound: float | None, sense: Any = "min", name: str = "cost", proven: bool = False
) -> ObjectiveRecord:
    """Return what a solver knows of an objective."""
    return ObjectiveRecord(name=name, sense=sense, unit="USD", value=value, bound=bound, proven=proven)


def record(solver: str, *objectives: ObjectiveRecord, sha256: str = "a", **more: Any) -> Record:
    """Return a record of a made-up result; one with values has a plan."""
    plan = () if objectives and objectives[0].value is not None else None
    source = more.pop("source", f"{sha256}.yaml")
    proven = bool(objectives) and all(one.proven for one in objectives)
    deciding = next((one for one in objectives if not one.proven), objectives[-1] if objectives else None)
    result = Result(
        instance=more.pop("instance", "x"),
        kind="staging",
        instance_sha256=sha256,
        solver=solver,
        status=more.pop("status", "optimal" if proven else "feasible" if plan is not None else "unknown"),
        objective=deciding.value if deciding else None,
        bound=deciding.bound if deciding else None,
        objectives=objectives,
        plan=plan,
        **more,
    )
    return Record.of(source, solver, result, result.runtime_s)


def rows(*records: Record) -> dict[str, ComparisonRow]:
    """Return the rows by solver."""
    made = comparison_of(records, clusterplan.SolveOptions())
    return {row.solver: row for row in made.rows}


def test_gaps_are_measured_against_the_best_of_all() -> None:
    """The best plan may be one solver's, the best bound another's."""
    found = rows(
        record("a", objective(10.0, 5.0)),
        record("b", objective(12.5, 8.0)),
        record("c", objective(None, 9.0)),
    )
    assert found["a"].gap_to_best_plan == 0
    assert found["a"].gap_to_best_bound == pytest.approx(0.1)
    assert found["b"].gap_to_best_plan == pytest.approx(0.2)
    assert found["b"].gap_to_best_bound == pytest.approx(3.5 / 12.5)
    assert found["c"].gap_to_best_plan is None
    assert [row.best for row in found.values()] == [True, False, False]


def test_an_optimum_that_our_own_check_does_not_prove_is_only_claimed() -> None:
    """A row says it with the words of the result; a bound that another plan refutes is an error instead."""
    claim = objective(10.0, 10.0, proven=True)
    certified = claim.model_copy(update={"certified_bound": 10.0, "certified_gap": 0.0})
    found = rows(record("a", claim), record("b", certified), record("c", objective(10.0, 9.0)))
    assert [row.only_claimed for row in found.values()] == [True, False, False]
    assert [row.status_text for row in found.values()] == ["optimal, as claimed", "optimal", "feasible"]
    assert found["a"].status == "optimal"
    wrong = rows(record("a", objective(12.0, 12.0, proven=True)), record("b", certified))["a"]
    assert (wrong.status_text, wrong.only_claimed) == ("error", False)


def test_a_row_that_does_not_say_what_is_claimed_still_reads() -> None:
    """Comparisons that were stored before there was such a field."""
    made = comparison_of([record("a", objective(10.0, 10.0, proven=True))], clusterplan.SolveOptions())
    (row,) = (data := json.loads(made.to_json()))["rows"]
    assert row.pop("only_claimed")
    assert Comparison.model_validate(data).rows[0].status_text == "optimal"


def test_maximised_objectives_are_measured_the_other_way_round() -> None:
    """More is better, and the smallest bound is the tightest."""
    found = rows(record("a", objective(8.0, 10.0, "max")), record("b", objective(5.0, 9.0, "max")))
    assert found["a"].gap_to_best_bound == pytest.approx(1 / 8)
    assert found["b"].gap_to_best_plan == pytest.approx(3 / 5)


def test_later_objectives_decide_among_equals_only() -> None:
    """A plan is judged at the first objective at which it misses, whatever it reaches on later ones."""
    value = {"sense": "max", "name": "value"}
    found = rows(
        record(
            "exact",
            objective(10.0, 10.0, **value, proven=True),
            objective(4.0, 4.0, name="servers", proven=True),
        ),
        record("same", objective(10.0, 12.0, **value), objective(5.0, None, name="servers")),
        record("less", objective(8.0, 12.0, **value), objective(1.0, None, name="servers")),
    )
    assert {row.objective_name for row in found.values()} == {"value"}
    assert [row.objective for row in found.values()] == [10, 10, 8]
    assert found["exact"].best
    assert found["same"].gap_to_best_plan == pytest.approx(1 / 5)
    assert found["same"].gap_to_best_bound == pytest.approx(1 / 5)
    assert found["less"].gap_to_best_plan == pytest.approx(2 / 8)
    assert found["less"].gap_to_best_bound == pytest.approx(2 / 8)


def test_rows_of_an_instance_show_one_objective_and_unlike_ones_have_tables_of_their_own() -> None:
    """Plans that are equal in value are told apart by servers, also where one solver proves all of it."""
    value = {"sense": "max", "name": "value"}
    proven = record(
        "exact",
        objective(10.0, 10.0, **value, proven=True),
        objective(4.0, 4.0, name="servers", proven=True),
    )
    fast = record("fast", objective(10.0, None, **value), objective(5.0, None, name="servers"))
    found = rows(proven, fast)
    assert [(row.objective_name, row.objective) for row in found.values()] == [("servers", 4), ("servers", 5)]
    other = [
        record("exact", objective(10.0, 10.0, **value, proven=True), objective(4.0, 4.0), sha256="b"),
        record("fast", objective(8.0, None, **value), objective(1.0, None), sha256="b"),
    ]
    both = comparison_of([proven, fast, *other], clusterplan.SolveOptions())
    found_by = both.by_objective()
    assert list(found_by) == ["servers [USD]", "value [USD]"]
    for table, (title, own) in zip(results_tables(both), found_by.items(), strict=True):
        place = [column.title for column in table.columns].index(title)
        assert [cells[place].value for cells in table.rows] == [row.objective for row in own]
    assert len({table.id for table in results_tables(both)}) == 2


def test_a_bound_that_another_plan_refutes_is_an_error_and_does_not_count() -> None:
    """The solver that claimed it is told, and nobody else is measured by it."""
    found = rows(
        record("liar", objective(10.0, 10.0, proven=True)),
        record("honest", objective(9.0, 8.0)),
        record("never", status="infeasible"),
    )
    assert found["liar"].status == "error"
    assert "is wrong: another solver found 9" in (found["liar"].message or "")
    assert found["honest"].gap_to_best_bound == pytest.approx(1 / 9)
    assert found["never"].status == "error"
    assert "says that no plan exists" in (found["never"].message or "")


def test_instances_of_one_name_are_told_apart() -> None:
    """By their files; what could not be solved at all is a fault."""
    records = [record("a", objective(1.0, 1.0), sha256=sha, source=f"{sha}.yaml") for sha in ("one", "two")]
    made = comparison_of(
        [*records, Record("bad.yaml", "a", None, "there is no such file", 3)], clusterplan.SolveOptions()
    )
    assert made.instances == ("x (one.yaml)", "x (two.yaml)")
    assert made.faults == ("bad.yaml: a: there is no such file",)


def test_aggregates_are_geometric_means_and_counts() -> None:
    """Failures count with the time limit, or a crash would look fast."""
    records = [
        record("a", objective(10.0, 10.0, proven=True), sha256="1", runtime_s=1.0),
        record("a", objective(20.0, 20.0, proven=True), sha256="2", runtime_s=4.0),
        record("b", objective(20.0, 10.0), sha256="1", runtime_s=0.5),
        record("b", status="error", sha256="2", runtime_s=0.01),
    ]
    made = comparison_of(records, clusterplan.SolveOptions(time_limit_s=8))
    a, b = made.summary()
    assert (a.instances, a.optimal, a.plans, a.wins, a.failed) == (2, 2, 2, 2, 0)
    assert a.mean_runtime_s == pytest.approx(2.0)
    assert a.mean_gap_to_best_plan == pytest.approx(0.0, abs=1e-12)
    assert (b.instances, b.optimal, b.plans, b.wins, b.failed) == (2, 0, 1, 0, 1)
    assert b.mean_runtime_s == pytest.approx(2.0)
    assert b.mean_gap_to_best_bound == pytest.approx(0.5)


def test_performance_profiles_are_those_of_dolan_and_more() -> None:
    """The share of instances within so many times the fastest; a plan that is not good enough is none."""
    records = [
        record("a", objective(10.0, None), sha256="1", runtime_s=1.0),
        record("b", objective(10.0, None), sha256="1", runtime_s=3.0),
        record("a", objective(10.0, None), sha256="2", runtime_s=8.0),
        record("b", objective(10.0, None), sha256="2", runtime_s=2.0),
        record("a", objective(10.0, None), sha256="3", runtime_s=5.0),
        record("b", objective(10.5, None), sha256="3", runtime_s=1.0),
        record("a", status="error", sha256="4"),
        record("b", status="error", sha256="4"),
    ]
    made = comparison_of(records, clusterplan.SolveOptions())
    profile = made.profile()
    a, b = profile.curves
    assert profile.instances == 3
    assert a.ratio == pytest.approx((1, 4))
    assert a.share == pytest.approx((2 / 3, 1))
    assert b.ratio == pytest.approx((1, 3))
    assert b.share == pytest.approx((1 / 3, 2 / 3))
    loose_a, _ = made.profile(within=0.1).curves
    assert loose_a.share == pytest.approx((1 / 3, 2 / 3, 1))


def test_exports_survive_hostile_names() -> None:
    """Formulas are disarmed in CSV; JSON and back is without loss."""
    made = comparison_of(
        [record("=1+1", objective(1.0, 1.0), instance="@sum", source="+x")], clusterplan.SolveOptions()
    )
    for cells in csv.reader(to_csv(made).splitlines()):
        assert not any(cell.startswith(("=", "+", "@")) for cell in cells)
    assert Comparison.model_validate_json(made.to_json()) == made
    frame = made.to_frame()
    assert list(frame.columns) == [name for name in ComparisonRow.model_fields if name != "measures"]
    assert len(frame) == 1


def test_solvers_agree_on_real_instances_of_all_kinds() -> None:
    """Gaps of real solves are what the formulations say; solvers of other kinds are left out, with a word."""
    instances = [
        generate_allocation(5, seed=3),
        generate_staging(4, 2, seed=3),
        generate_consolidation(3, 4, seed=3),
    ]
    made = compare(instances, ["exact", "milp", "marginal-gain", "greedy"], clusterplan.SolveOptions(seed=1))
    assert [row.solver for row in made.rows] == [
        *("exact", "milp:highs", "marginal-gain"),
        *("exact", "milp:highs", "greedy"),
        *("exact", "milp:highs"),
    ]
    for row in made.rows:
        if row.solver in ("exact", "milp:highs"):
            assert row.best
            assert row.gap_to_best_bound == pytest.approx(0, abs=1e-6)
    assert sum("is not for" in fault for fault in made.faults) == 4
    heuristic = clusterplan.solve(instances[0], "marginal-gain")
    best = clusterplan.solve(instances[0])
    (row,) = [row for row in made.rows if row.solver == "marginal-gain"]
    expected = formulate(instances[0]).objectives[0].gap(heuristic.objective, best.objective)
    assert row.gap_to_best_plan == pytest.approx(expected)


def test_what_cannot_be_compared_is_refused() -> None:
    """There is nothing to do."""
    with pytest.raises(OptionError, match="nothing to compare"):
        compare(["example:heterps-ctr"], ["marginal-gain"])


@pytest.mark.slow
def test_the_command_writes_page_tables_and_journal(tmp_path: Path) -> None:
    """All files of a comparison, and a second run that only continues."""
    words = (
        "compare",
        "example:heterps-ctr",
        "example:optimus-testbed",
        "--solvers",
        "exact,greedy,marginal-gain",
    )
    out = tmp_path / "out"
    done = run(*words, "--output", out, "--format", "csv")
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    assert len((out / "comparison.csv").read_text().splitlines()) == 5
    found = {path.name for path in out.iterdir()}
    assert found == {"journal.jsonl", *(f"comparison.{ending}" for ending in ("html", "md", "csv", "json"))}
    before = Comparison.model_validate_json((out / "comparison.json").read_text()).rows
    again = run(*words, "--output", out, "--resume")
    assert again.returncode == 0, again.stderr
    assert "resuming: 4 of 4 are finished" in again.stderr
    assert Comparison.model_validate_json((out / "comparison.json").read_text()).rows == before
    table = run(*words)
    assert "to best bound" in table.stdout
    assert "mean seconds" in table.stdout
    assert table.stdout.count("best") >= 4


def test_an_unreadable_file_is_a_fault_and_the_rest_is_compared() -> None:
    """With the exit code of a bad instance."""
    done = run("compare", "none.yaml", "example:heterps-ctr", "--solvers", "exact,greedy", "--format", "json")
    assert done.returncode == 3
    found = json.loads(done.stdout)
    assert found["unread"] == ["none.yaml: there is no such file"]
    assert len(found["rows"]) == 2


@pytest.mark.slow
def test_an_interrupt_keeps_the_rows_that_are_finished(tmp_path: Path) -> None:
    """Exit code 130, the files are written, and what is there is right."""
    words = [
        "compare",
        "example:opt-350-three-gpus",
        "example:heterps-ctr",
        "--output",
        str(tmp_path / "out"),
    ]
    words += ["--solvers", "exact,brute-force,greedy,genetic", "--time-limit", "30"]
    ended = interrupted([*COMMAND, *words], "[1/8]")
    assert (ended.returncode, ended.stdout) == (130, "")
    assert "interrupted" in ended.stderr
    found = json.loads((tmp_path / "out" / "comparison.json").read_text())
    assert found["interrupted"]
    assert 1 <= len(found["rows"]) < 8
    assert not any(math.isnan(row["runtime_s"]) for row in found["rows"])


def test_a_bound_near_zero_is_not_blamed_for_rounding() -> None:
    """Where the optimum is 0 there is no relative error; the tolerance is absolute, as in a solve."""
    found = rows(record("honest", objective(3.0, 1e-9)), record("lucky", objective(0.0, 0.0, proven=True)))
    assert found["honest"].status == "feasible"
    assert found["honest"].bound == 1e-9


def test_bounds_on_later_objectives_hold_only_for_plans_as_good_on_the_earlier_ones() -> None:
    """Neither is their solver blamed by a plan that is worse there, nor do they count for a better one."""
    value = {"sense": "max", "name": "value"}
    a = record(
        "a",
        objective(9.8, 10.0, **value, proven=True),
        objective(1.0, 1.0, name="servers", proven=True),
        objective(7.0, 7.0, name="traffic", proven=True),
    )
    b = record(
        "b",
        objective(10.0, 10.0, **value, proven=True),
        objective(4.0, None, name="servers"),
        objective(2.0, None, name="traffic"),
    )
    found = rows(a, b)
    assert found["a"].status == "optimal"
    c = record(
        "c",
        objective(8.0, 12.0, **value),
        objective(1.0, None, name="servers"),
        objective(9.0, 6.0, name="x"),
    )
    d = record(
        "d",
        objective(10.0, 10.0, **value),
        objective(4.0, 4.0, name="servers"),
        objective(5.0, 1.0, name="x"),
    )
    assert rows(c, d)["d"].gap_to_best_bound == pytest.approx(4 / 5)


def test_plans_worth_nothing_do_not_drop_out_of_the_mean() -> None:
    """Where a gap has no number, a mean without it would flatter."""
    records = [
        record("nothing", objective(0.0, 10.0, "max"), sha256="1"),
        record("nothing", objective(10.0, 10.0, "max"), sha256="2"),
        record("most", objective(9.0, 10.0, "max"), sha256="1"),
        record("most", objective(10.0, 10.0, "max"), sha256="2"),
    ]
    nothing, most = comparison_of(records, clusterplan.SolveOptions()).summary()
    assert nothing.mean_gap_to_best_plan is None
    assert most.mean_gap_to_best_plan == pytest.approx(0.0)


def test_profiles_judge_a_solver_by_what_it_was_given() -> None:
    """One that is only for some of the instances is not blamed for the others."""
    records = [record("all", objective(10.0, None), sha256=sha, runtime_s=2.0) for sha in ("1", "2", "3")]
    records.append(record("one", objective(10.0, None), sha256="3", runtime_s=1.0))
    _, one = comparison_of(records, clusterplan.SolveOptions()).profile().curves
    assert one.share == (1.0,)


def test_a_plan_within_the_requested_gap_is_as_good_as_the_best() -> None:
    """Who is called optimal is not called beaten."""
    found = rows(
        record("a", objective(10.0, 9.99999, proven=True)),
        record("b", objective(9.999995, 9.99999, proven=True)),
    )
    assert found["a"].best
    assert found["b"].best


def test_an_instance_counts_once_under_however_many_names(tmp_path: Path) -> None:
    """A second path to the same document is left out, with a word."""
    clusterplan.save(generate_allocation(3, seed=1), tmp_path / "a.yaml")
    clusterplan.save(generate_allocation(3, seed=1), tmp_path / "b.yaml")
    made = compare([tmp_path / "a.yaml", tmp_path / "b.yaml"], ["exact"])
    assert len(made.rows) == 1
    assert "b.yaml: is the instance of" in made.left_out[0]


def test_an_interrupt_before_anything_is_done_leaves_the_files_alone(tmp_path: Path) -> None:
    """What an earlier comparison wrote is not replaced by nothing; one that goes on has what was finished."""
    words = ["compare", "example:heterps-ctr", "example:optimus-testbed", "--solvers", "exact,greedy"]
    words += ["--output", str(tmp_path)]
    assert run(*words).returncode == 0
    before = (tmp_path / "comparison.csv").read_text()
    command = [sys.executable, "-X", "importtime", "-m", "clusterplan", *words, "--resume"]
    for loaded in (
        "typer",
        "clusterplan.planner.output",
        "numpy",
        "clusterplan.planner.batch.comparison",
    ):
        with subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        ) as process:
            assert any(line.split("|")[-1].strip() == loaded for line in process.stderr), loaded
            process.send_signal(signal.SIGTERM)
            said = process.stderr.read()
        assert "Traceback" not in said
        assert (tmp_path / "comparison.csv").read_text() == before


TRACE = generate_scheduling(30, 8, load=1.5, seed=1)


def measuring_record(source: str) -> Record:
    return Record.of(source, "fifo", solve(TRACE, "fifo"), 0.1)


def test_a_comparison_of_policies_has_measures_and_advice() -> None:
    """Of each plan, though plans themselves are not kept; JSON and back without loss."""
    found = compare([TRACE, generate_allocation(5, seed=1)], ["fifo", "srsf", "marginal-gain"])
    policies = [row for row in found.rows if row.kind == "scheduling"]
    assert [row.solver for row in policies] == ["fifo", "srsf"]
    for row in policies:
        (mean,) = [one.value for one in row.measures.figures if one.name == "mean"]
        assert mean == pytest.approx(row.objective)
    assert [row.measures for row in found.rows if row.kind == "allocation"] == [None]
    (said,) = found.advice
    assert said.startswith(f"{TRACE.name}: Use srsf: ")
    assert Comparison.model_validate_json(found.to_json()) == found
    frame = found.to_frame()
    assert frame.loc[frame["solver"] == "srsf", "mean [s]"].notna().all()
    assert frame.loc[frame["kind"] == "allocation", "mean [s]"].isna().all()


def test_a_file_that_changed_meanwhile_has_no_measures(tmp_path: Path) -> None:
    """It is said once, whoever solved it."""
    file = str(tmp_path / "trace.yaml")
    save(generate_scheduling(30, 8, seed=2), file)
    measurer = Measurer({file: file}, allow_outside=False)
    measurer.take(measuring_record(file))
    measurer.take(measuring_record(file))
    assert not measurer.taken
    assert measurer.faults == [f"{file}: has changed since it was solved; its plans have no measures"]
    gone = str(tmp_path / "gone.yaml")
    measurer = Measurer({gone: gone}, allow_outside=False)
    measurer.take(measuring_record(gone))
    assert "could not be read again" in measurer.faults[0]


def test_a_plan_that_breaks_its_constraints_has_no_measures() -> None:
    """As a journal may hold one that somebody altered."""
    whole = measuring_record("t")
    short = whole.result.model_copy(update={"plan": whole.result.plan[1:]})
    measurer = Measurer({"t": TRACE}, allow_outside=False)
    measurer.take(Record.of("t", "fifo", short, 0.1))
    assert not measurer.taken
    assert "the plan of fifo breaks its constraints" in measurer.faults[0]


def row(solver: str, instance: str, seconds: float, gap: float | None, **more: Any) -> ComparisonRow:
    """Return a row; a plan that is so much worse than the best, or no answer."""
    given: dict[str, Any] = {"status": "unknown" if gap is None else "feasible"}
    if gap is not None:
        given |= {"objective": 1.0, "gap_to_best_plan": gap, "gap_to_best_bound": 2 * gap, "best": gap == 0}
    return ComparisonRow(
        instance=instance, kind="staging", solver=solver, runtime_s=seconds, **{**given, **more}
    )


ROWS = [
    row("a", "i", 1.0, 0.0, status="optimal"),
    row("a", "j", 9.0, None),
    row("b", "i", 2.0, 0.0),
    row("b", "j", 8.0, 0.21),
]


def test_means_are_geometric_and_a_failure_counts_as_the_time_limit() -> None:
    first, second = summarise(ROWS, time_limit_s=100.0)
    assert (first.instances, first.optimal, first.plans, first.failed, first.wins) == (2, 1, 1, 1, 1)
    assert first.mean_runtime_s == pytest.approx(10.0)
    assert second.mean_runtime_s == pytest.approx(4.0)
    assert second.mean_gap_to_best_plan == pytest.approx(0.1)
    assert second.mean_gap_to_best_bound == pytest.approx(1.42**0.5 - 1)


def test_one_unknown_gap_leaves_no_mean() -> None:
    (found,) = summarise([ROWS[0], row("a", "j", 1.0, 0.0, gap_to_best_bound=None)], None)
    assert found.mean_gap_to_best_bound is None


def test_what_is_only_claimed_is_counted_apart() -> None:
    """It stays among the optimal ones, with a word on it."""
    rows = [row("a", name, 1.0, 0.0, status="optimal") for name in "ij"]
    (found,) = summarise([rows[0], rows[1].model_copy(update={"only_claimed": True})], None)
    assert (found.optimal, found.only_claimed, found.optimal_text) == (2, 1, "2 (1 as claimed)")
    (found,) = summarise(rows, None)
    assert found.optimal_text == "2"
    assert found.mean_gap_to_best_plan == 0.0


def test_a_profile_counts_what_is_done_against_the_fastest() -> None:
    profile = performance_profile(ROWS, within=0.5)
    curves = {curve.solver: list(zip(curve.ratio, curve.share, strict=True)) for curve in profile.curves}
    assert profile.instances == 2
    assert curves == {"a": [(1.0, 0.5)], "b": [(1.0, 0.5), (2.0, 1.0)]}


def test_plans_too_bad_and_errors_are_not_done() -> None:
    profile = performance_profile([*ROWS, row("b", "k", 1.0, 0.0, status="error")], within=0.1)
    curves = {curve.solver: list(zip(curve.ratio, curve.share, strict=True)) for curve in profile.curves}
    assert profile.instances == 1
    assert curves == {"a": [(1.0, 1.0)], "b": [(1.0, 0.0), (2.0, 1.0)]}


def test_runtimes_below_a_millisecond_are_alike() -> None:
    rows = [row("a", "i", LEAST_S / 100, 0.0), row("b", "i", LEAST_S, 0.0)]
    assert [curve.ratio for curve in performance_profile(rows, 0.0).curves] == [(1.0,), (1.0,)]
