"""Branch and bound of HiGHS on arrays of our own."""

from __future__ import annotations

import math
from typing import Any

import highspy
import numpy as np
import pytest

from clusterplan.formulations.common.clock import Clock
from clusterplan.solvers.backends.base import BackendError
from clusterplan.solvers.backends.highs_mip import branch_and_bound, linear_program, threads_and_seed
from clusterplan.solvers.common.options import SolveOptions


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
