"""Options, results and frontiers of solves."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import ValidationError

import clusterplan
from clusterplan.formulations.common.clock import Clock, check_time
from clusterplan.formulations.common.objective import Diagnosis, Objective
from clusterplan.formulations.registry import formulate
from clusterplan.instances.common.errors import TooLargeError
from clusterplan.solvers.common.base import Outcome
from clusterplan.solvers.common.conclude import (
    DEFAULT_DIAGNOSIS,
    UNCHECKED_NOTE,
    check_deadline,
    conclude,
    contradiction,
    diagnose_with,
    hard_deadline,
    objective_records,
)
from clusterplan.solvers.common.result import AnyFrontier, SolveOptions, deciding_record

LEAST, MOST = Objective("servers", "min", "servers"), Objective("value", "max", "value")
BOTH: Any = SimpleNamespace(objectives=(LEAST, MOST))
GAP = 1e-6


def test_a_plan_contradicts_the_first_bound_it_beats_and_none_behind_a_gap() -> None:
    assert contradiction(BOTH, (1.0, 2.0), None) is None
    assert contradiction(BOTH, (3.0, 5.0), (3.0, 5.0)) is None
    assert "bound of 4, which its own plan contradicts: servers is 3" in str(
        contradiction(BOTH, (4.0,), (3.0, 5.0))
    )
    assert "value is 5" in str(contradiction(BOTH, (3.0, 4.0), (3.0, 5.0)))
    assert contradiction(BOTH, (None, 4.0), (3.0, 5.0)) is None


def test_a_bound_on_a_later_objective_counts_only_behind_proven_ones() -> None:
    proven = objective_records(BOTH, (3.0, 5.0), (3.0, 6.0), (3.0, None), GAP)
    assert [(record.bound, record.proven) for record in proven] == [(3.0, True), (6.0, False)]
    unproven = objective_records(BOTH, (3.0, 5.0), (2.0, 6.0), (1.0, 8.0), GAP)
    assert [(record.bound, record.proven) for record in unproven] == [(2.0, False), (8.0, False)]
    assert [record.certified_bound for record in unproven] == [1.0, 8.0]


def test_of_two_bounds_the_tighter_is_shown_and_a_rounding_is_none() -> None:
    (first, _) = objective_records(BOTH, (3.0, 5.0), (2.0,), (2.5, None), GAP)
    assert (first.bound, first.certified_bound) == (2.5, 2.5)
    (near, _) = objective_records(BOTH, (3.0, 5.0), (3.0 - 1e-12,), (3.0 + 1e-12, None), GAP)
    assert (near.bound, near.certified_bound, near.gap, near.proven) == (3.0, 3.0, 0.0, True)


def test_without_a_plan_there_are_bounds_alone() -> None:
    records = objective_records(BOTH, None, (2.0,), (1.0, None), GAP)
    assert [(record.value, record.bound, record.gap) for record in records] == [
        (None, 2.0, None),
        (None, None, None),
    ]


def test_the_deciding_record_is_the_first_that_is_not_proven_else_the_last() -> None:
    records = objective_records(BOTH, (3.0, 5.0), (3.0, 6.0), (3.0, None), GAP)
    assert deciding_record(records) is records[1]
    done = objective_records(BOTH, (3.0, 5.0), (3.0, 5.0), (3.0, None), GAP)
    assert deciding_record(done) is done[1]
    assert deciding_record(()) is None


def test_a_search_ends_a_little_after_its_limit_and_a_check_has_what_is_left() -> None:
    long, short = SolveOptions(time_limit_s=100), SolveOptions(time_limit_s=1)
    assert (hard_deadline(long).limit_s, hard_deadline(short).limit_s) == pytest.approx((105.2, 1.25))
    assert hard_deadline(SolveOptions()).limit_s is None
    assert check_deadline(long, 30.0).limit_s == pytest.approx(80.4)
    assert check_deadline(short, 1.25).limit_s == pytest.approx(0.25)
    assert check_deadline(short, 5.0).limit_s == 0.0
    assert check_deadline(SolveOptions(), 1.0).limit_s is None


@pytest.mark.parametrize("limit", ["none", "time"])
def test_an_optimum_whose_check_was_cut_off_is_only_claimed(limit: Any) -> None:
    """What is proven is said in words, and no limit stands beside `optimal`."""
    solved = clusterplan.solve("example:heterps-ctr", "exact")
    formulation = formulate(clusterplan.load("example:heterps-ctr"))
    outcome = Outcome(solved.plan, bounds=(solved.bound,), certificate=solved.certificate, limit=limit)
    # The search has used up all the time, and left none to the check.
    cut = conclude(formulation, "exact", SolveOptions(time_limit_s=1), outcome, runtime_s=100)
    assert (cut.status, cut.only_claimed, cut.status_text) == ("optimal", True, "optimal, as claimed")
    assert cut.certified_gap > 0.01
    said = f"only what the method claims; proven is a gap of {100 * cut.certified_gap:.3g} % in cost"
    assert f"{said}; {UNCHECKED_NOTE}" in (cut.message or "")
    assert str(cut).splitlines()[0] == "heterps-ctr: optimal, as claimed; exact in 100.00 s"
    checked = conclude(formulation, "exact", SolveOptions(), outcome, runtime_s=100)
    assert (checked.status, checked.only_claimed, checked.status_text) == ("optimal", False, "optimal")
    assert "claims" not in (checked.message or "")


def test_a_bound_without_a_certificate_is_only_claimed() -> None:
    solved = clusterplan.solve("example:heterps-ctr", "exact")
    formulation = formulate(clusterplan.load("example:heterps-ctr"))
    outcome = Outcome(solved.plan, bounds=(solved.bound,))
    result = conclude(formulation, "mine", SolveOptions(), outcome, runtime_s=1)
    assert result.status_text == "optimal, as claimed"
    assert UNCHECKED_NOTE not in str(result.message)
    alone = conclude(formulation, "mine", SolveOptions(time_limit_s=1), Outcome(solved.plan, limit="time"), 1)
    assert (alone.only_claimed, alone.status_text) == (False, "feasible (time limit)")


COUNTED, FOUND = Diagnosis(reasons=("counted",)), Diagnosis(reasons=("found",))
FORMULATION: Any = None


def test_what_is_found_goes_before_what_is_known() -> None:
    assert diagnose_with(lambda *_: FOUND, FORMULATION, COUNTED) == FOUND
    assert diagnose_with(lambda *_: None, FORMULATION, COUNTED) == COUNTED
    assert diagnose_with(lambda *_: None, FORMULATION) == DEFAULT_DIAGNOSIS


def test_without_time_nothing_is_looked_for() -> None:
    def never(*_: Any) -> Diagnosis:
        raise AssertionError

    assert diagnose_with(never, FORMULATION, COUNTED, patience_s=0.0) == COUNTED


def test_a_search_that_is_too_large_or_too_slow_is_given_up() -> None:
    def too_large(*_: Any) -> Diagnosis:
        raise TooLargeError("no bound on units")

    def too_slow(_: Any, known: Diagnosis | None, clock: Clock) -> Diagnosis:
        while not clock.expired:
            pass
        check_time()
        raise AssertionError(known)

    assert diagnose_with(too_large, FORMULATION) == DEFAULT_DIAGNOSIS
    assert diagnose_with(too_slow, FORMULATION, COUNTED, patience_s=0.001) == COUNTED


def test_a_fault_of_the_search_is_no_diagnosis() -> None:
    def broken(*_: Any) -> Diagnosis:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        diagnose_with(broken, FORMULATION)


@pytest.mark.parametrize("example", ["heterps-ctr", "optimus-testbed", "tiresias-testbed"])
def test_the_plan_of_a_result_is_a_warm_start(example: str) -> None:
    """As it is, and as plain data."""
    instance = clusterplan.load(f"example:{example}")
    plan = clusterplan.solve(instance).plan
    options = SolveOptions(warm_start=plan)
    assert options == SolveOptions(warm_start=[entry.model_dump(mode="json") for entry in plan])
    assert clusterplan.solve(instance, "exact", options).status == "optimal"


GIVEN: dict[str, Any] = {
    "instance": "i",
    "kind": "k",
    "instance_sha256": "0" * 64,
    "status": "complete",
    "error": 0.01,
    "points": (1 + 2j, 2 + 1j),
}


class Trade(AnyFrontier):
    """A frontier of complex numbers."""

    titles = {"a": "real", "b": "imag"}
    figures = ("real", "imag")


def test_json_and_back_is_the_same() -> None:
    frontier = Trade(**GIVEN)
    empty = Trade(**{**GIVEN, "points": ()})
    assert Trade.model_validate_json(empty.to_json()) == empty
    assert "\n" not in empty.to_json()
    assert empty.to_frame().columns.tolist() == ["real", "imag"]
    assert frontier.to_frame()["real"].tolist() == [1.0, 2.0]


def test_a_notebook_shows_every_point_and_the_error() -> None:
    card = Trade(**GIVEN, certified_error=0.005)._repr_html_()
    assert "frontier of 2 points, complete; certified error 0.5 %" in card
    assert card.count("<tr") == 3


@pytest.mark.parametrize("change", [{"error": 1}, {"error": -0.1}, {"status": "optimal"}, {"runtime_s": -1}])
def test_values_that_are_not_allowed_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Trade(**{**GIVEN, **change})
