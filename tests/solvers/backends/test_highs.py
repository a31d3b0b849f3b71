"""HiGHS behind PuLP: optimum, bound, infeasibility, and rows brought to a size that it takes seriously.

Branch and bound of HiGHS on arrays of our own.

The highest point of an envelope, against figures worked out by hand.
"""

from __future__ import annotations

import math
from typing import Any

import highspy
import numpy as np
import pytest
from small_milp import OPTIMUM, knapsack, worth

from clusterplan.formulations.common.clock import Clock
from clusterplan.instances.common.errors import OptionError
from clusterplan.solvers.backends.base import BackendError, Request
from clusterplan.solvers.backends.highs import (
    LARGEST_ENTRY,
    Envelope,
    Highs,
    _fair_factors,
    branch_and_bound,
    highest_point,
    linear_program,
    threads_and_seed,
)
from clusterplan.solvers.common.result import SolveOptions


def test_the_optimum_and_its_bound_are_found() -> None:
    answer = Highs().minimise(knapsack(), Request(threads=1, seed=1))
    assert answer.values is not None
    assert worth(dict(answer.values)) == OPTIMUM
    assert answer.bound == pytest.approx(OPTIMUM)
    assert (answer.limit, answer.infeasible) == ("none", False)


def test_no_solution_is_told_from_no_time() -> None:
    assert Highs().minimise(knapsack(fewest=4), Request()).infeasible
    stopped = Highs().minimise(knapsack(), Request(clock=Clock(0.0)))
    assert (stopped.limit, stopped.infeasible) == ("time", False)


def test_an_option_that_highs_does_not_know_is_refused() -> None:
    with pytest.raises(OptionError, match="no_such"):
        Highs().minimise(knapsack(), Request(settings={"no_such": 1}))


def test_large_rows_are_scaled_down_and_fractions_over_integers_up() -> None:
    owner = np.array([0, 0, 1, 1, 2, 2, 3])
    entries = np.array([1e7, 3.0, 0.25, 0.5, 7.0, 9.0, 0.5])
    over_integers = np.array([True, True, True, False])
    factors = _fair_factors(owner, entries, over_integers)
    assert np.array_equal(factors, np.exp2(np.round(np.log2(factors))))  # whole numbers lose no digit
    assert LARGEST_ENTRY / 2 < 1e7 * factors[0] <= LARGEST_ENTRY
    assert LARGEST_ENTRY / 2 < 0.5 * factors[1] <= LARGEST_ENTRY
    assert factors[2:].tolist() == [1.0, 1.0]  # whole numbers, and fractions of continuous variables


def program(least: float) -> Any:
    """Return −2x − 3y to be minimised over integers 0 ≤ x, y ≤ 3, where least ≤ 2x + 2y ≤ 5."""
    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = 2, 1
    lp.col_cost_ = np.array([-2.0, -3.0])
    lp.col_lower_, lp.col_upper_ = np.zeros(2), np.full(2, 3.0)
    lp.row_lower_, lp.row_upper_ = np.array([least]), np.array([5.0])
    lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    lp.a_matrix_.start_, lp.a_matrix_.index_ = np.array([0, 2]), np.array([0, 1])
    lp.a_matrix_.value_ = np.array([2.0, 2.0])
    lp.integrality_ = [highspy.HighsVarType.kInteger] * 2
    return lp


def test_the_optimum_is_proven() -> None:
    values, bound, limit = branch_and_bound(program(0.0), {}, Clock(), SolveOptions(threads=1, seed=1))
    assert values is not None
    assert values.round().tolist() == [0.0, 2.0]
    assert (bound, limit) == (pytest.approx(-6.0), "none")


def test_an_infinite_bound_proves_that_there_are_no_values() -> None:
    # 2x + 2y is even, so that nothing lies between 4.5 and 5.
    assert branch_and_bound(program(4.5), {}, Clock(), SolveOptions()) == (None, math.inf, "none")


def test_a_setting_that_highs_does_not_know_is_an_error() -> None:
    with pytest.raises(BackendError, match="no_such"):
        branch_and_bound(program(0.0), {"no_such": 1}, Clock(), SolveOptions())


@pytest.mark.parametrize("by_rows", [False, True])
def test_a_program_in_arrays_is_the_one_written_by_hand(by_rows: bool) -> None:
    """One row of two columns, compressed by columns or by rows; its optimum is that of `program`."""
    starts = np.array([0, 2] if by_rows else [0, 1, 2])
    index = np.array([0, 1] if by_rows else [0, 0])
    lp = linear_program(
        np.array([-2.0, -3.0]),
        (np.zeros(2), np.full(2, 3.0)),
        (np.zeros(1), np.array([5.0])),
        (starts, index, np.full(2, 2.0)),
        [True, True],
        by_rows,
    )
    values, bound, _ = branch_and_bound(lp, {}, Clock(), SolveOptions(threads=1, seed=1))
    assert values is not None
    assert values.round().tolist() == [0.0, 2.0]
    assert bound == pytest.approx(-6.0)


def test_only_what_is_given_is_set() -> None:
    """HiGHS takes seeds below 2³¹."""
    assert threads_and_seed(None, None) == {}
    assert threads_and_seed(2, 2**31 + 5) == {"threads": 2, "random_seed": 5}


ONE = np.ones(1)


def test_two_lines_meet_at_the_highest_point() -> None:
    # min(1 − x, 1 + x) on [−2, 2]
    found = highest_point(np.array([1.0, 1.0]), np.array([[-1.0], [1.0]]), -2 * ONE, 2 * ONE)
    assert found is not None
    assert found[0] == pytest.approx([0.0])
    assert found[1] == pytest.approx(1.0)


def test_the_box_and_the_total_are_kept() -> None:
    slopes = np.array([[1.0, 2.0]])
    low, high = np.zeros(2), np.array([5.0, 3.0])
    boxed = highest_point(np.zeros(1), slopes, low, high)
    assert boxed is not None
    assert boxed[1] == pytest.approx(11.0)
    shared = highest_point(np.zeros(1), slopes, low, high, total=4.0)
    assert shared is not None
    assert shared[0] == pytest.approx([1.0, 3.0])
    assert highest_point(np.zeros(1), slopes, low, high, total=9.0) is None


@pytest.mark.parametrize("unit", [1e-9, 1.0, 1e9])
def test_tangents_of_a_parabola_meet_between_their_points(unit: float) -> None:
    """Of −(x − 1)² at 0 and 3 these are −1 + 2x and 8 − 4x, which meet at (1.5, 2), in any unit of height."""
    envelope = Envelope()
    envelope.constants, envelope.slopes = [-unit, 8 * unit], [2 * unit * ONE, -4 * unit * ONE]
    place, above = envelope.highest(0 * ONE, -unit, 0 * ONE, 3 * ONE)
    assert place == pytest.approx([1.5])
    assert above == pytest.approx(3 * unit)
