"""Looking for what is in the way: what is said where nothing is found, or there is no time."""

from __future__ import annotations

from typing import Any

import pytest

from clusterplan.formulations.common.clock import Clock, check_time
from clusterplan.formulations.common.objective import Diagnosis
from clusterplan.instances.common.errors import TooLargeError
from clusterplan.solvers.common.diagnosis import PLAIN, diagnose_with

COUNTED, FOUND = Diagnosis(reasons=("counted",)), Diagnosis(reasons=("found",))
FORMULATION: Any = None


def test_what_is_found_goes_before_what_is_known() -> None:
    assert diagnose_with(lambda *_: FOUND, FORMULATION, COUNTED) == FOUND
    assert diagnose_with(lambda *_: None, FORMULATION, COUNTED) == COUNTED
    assert diagnose_with(lambda *_: None, FORMULATION) == PLAIN


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

    assert diagnose_with(too_large, FORMULATION) == PLAIN
    assert diagnose_with(too_slow, FORMULATION, COUNTED, patience_s=0.001) == COUNTED


def test_a_fault_of_the_search_is_no_diagnosis() -> None:
    def broken(*_: Any) -> Diagnosis:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        diagnose_with(broken, FORMULATION)
