"""CBC behind PuLP: what its log says, and that its words are one word each."""

from __future__ import annotations

import pytest
from small_milp import OPTIMUM, knapsack, worth

from clusterplan.instances.common.errors import OptionError
from clusterplan.solvers.backends.base import BackendError, Request
from clusterplan.solvers.backends.cbc import LOG_ROUNDING, Cbc

needs_cbc = pytest.mark.skipif(Cbc().unavailable() is not None, reason="CBC cannot be run here")


@needs_cbc
def test_the_optimum_and_its_bound_are_found() -> None:
    answer = Cbc().minimise(knapsack(), Request(seed=1))
    assert answer.values is not None
    assert worth(dict(answer.values)) == OPTIMUM
    assert answer.bound == pytest.approx(OPTIMUM, abs=2 * LOG_ROUNDING)
    assert Cbc().minimise(knapsack(fewest=4), Request()).infeasible


@pytest.mark.parametrize("setting", [{"-solve": 1}, {"ratio": "0.1 -import"}, {"a b": 1}])
def test_an_option_cannot_smuggle_in_another(setting: dict[str, object]) -> None:
    with pytest.raises(OptionError, match="one word"):
        Cbc().minimise(knapsack(), Request(settings=setting))


def test_a_time_limit_in_the_log_is_no_optimum() -> None:
    log = "Result - Stopped on time limit\nObjective value:   -12.0\nLower bound:   -20.5\n"
    answer = Cbc._answer(knapsack(), log, gap=0.0)
    assert (answer.limit, answer.bound) == ("time", -20.5 - LOG_ROUNDING)
    lost = Cbc._answer(knapsack(), "Result - Stopped on time limit\nNo feasible solution found\n", gap=0.0)
    assert (lost.limit, lost.values, lost.bound) == ("time", None, None)


def test_a_closed_tree_proves_as_much_as_its_gap() -> None:
    problem = knapsack()
    for variable, value in zip(problem.variables(), (1, 0, 0, 1), strict=True):
        variable.varValue = value
    log = "Result - Optimal solution found\nObjective value: -19.0\nLower bound: -90.000\n"
    assert Cbc._answer(problem, log, gap=0.0).bound == OPTIMUM
    assert Cbc._answer(problem, log, gap=0.5).bound == 2 * OPTIMUM


def test_a_log_without_an_answer_is_a_failure() -> None:
    with pytest.raises(BackendError, match="without an answer"):
        Cbc._answer(knapsack(), "Segmentation fault", gap=0.0)
    assert Cbc._answer(knapsack(), "Problem is infeasible - 0.00 seconds", gap=0.0).infeasible
    unclear = "Pre-processing says infeasible or unbounded\n"
    with pytest.raises(BackendError):
        Cbc._answer(knapsack(), unclear, gap=0.0)
    bounded = "Continuous objective value is 3584 - 0.00 seconds\n"
    assert Cbc._answer(knapsack(), bounded + unclear, gap=0.0).infeasible
