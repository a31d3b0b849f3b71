"""Measures of plans are taken while there are plans, and only of those that obey their constraints."""

from __future__ import annotations

from pathlib import Path

import pytest

from clusterplan import save, solve
from clusterplan.instances.allocation.generate import generate_allocation
from clusterplan.instances.scheduling.generate import generate_scheduling
from clusterplan.planner.batch.record import Record
from clusterplan.planner.comparison.compare import compare
from clusterplan.planner.comparison.comparison import Comparison
from clusterplan.planner.comparison.measuring import Measurer

TRACE = generate_scheduling(30, 8, load=1.5, seed=1)


def record(source: str) -> Record:
    return Record.of(source, "fifo", solve(TRACE, "fifo"), 0.1)


def test_a_comparison_of_policies_has_measures_and_advice() -> None:
    """Of each plan, though plans themselves are not kept; JSON and back without loss."""
    found = compare([TRACE, generate_allocation(5, seed=1)], ["fifo", "srsf", "marginal-gain"])
    policies = [row for row in found.rows if row.kind == "scheduling"]
    assert [row.solver for row in policies] == ["fifo", "srsf"]
    for row in policies:
        assert row.measures is not None
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
    measurer.take(record(file))
    measurer.take(record(file))
    assert not measurer.taken
    assert measurer.faults == [f"{file}: has changed since it was solved; its plans have no measures"]
    gone = str(tmp_path / "gone.yaml")
    measurer = Measurer({gone: gone}, allow_outside=False)
    measurer.take(record(gone))
    assert "could not be read again" in measurer.faults[0]


def test_a_plan_that_breaks_its_constraints_has_no_measures() -> None:
    """As a journal may hold one that somebody altered."""
    whole = record("t")
    assert whole.result is not None
    assert whole.result.plan is not None
    short = whole.result.model_copy(update={"plan": whole.result.plan[1:]})
    measurer = Measurer({"t": TRACE}, allow_outside=False)
    measurer.take(Record.of("t", "fifo", short, 0.1))
    assert not measurer.taken
    assert "the plan of fifo breaks its constraints" in measurer.faults[0]
