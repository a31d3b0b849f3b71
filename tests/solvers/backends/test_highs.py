"""HiGHS behind PuLP: optimum, bound, infeasibility, and rows brought to a size that it takes seriously."""

from __future__ import annotations

import numpy as np
import pytest
from small_milp import OPTIMUM, knapsack, worth

from clusterplan.formulations.common.clock import Clock
from clusterplan.instances.common.errors import OptionError
from clusterplan.solvers.backends.base import Request
from clusterplan.solvers.backends.highs import LARGEST_ENTRY, Highs, _fair_factors


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
