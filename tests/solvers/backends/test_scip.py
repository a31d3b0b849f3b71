"""SCIP behind PuLP: optimum, bound, infeasibility, and its bare exceptions."""

from __future__ import annotations

import pytest
from small_milp import OPTIMUM, knapsack, worth

from clusterplan.instances.common.errors import OptionError
from clusterplan.solvers.backends.base import BackendError, Request
from clusterplan.solvers.backends.scip import Scip, scip_failures

needs_scip = pytest.mark.skipif(Scip().unavailable() is not None, reason="PySCIPOpt is not installed")


@needs_scip
def test_the_optimum_and_its_bound_are_found() -> None:
    answer = Scip().minimise(knapsack(), Request(seed=1))
    assert answer.values is not None
    assert worth(dict(answer.values)) == OPTIMUM
    assert answer.bound == pytest.approx(OPTIMUM)
    assert Scip().minimise(knapsack(fewest=4), Request()).infeasible


@needs_scip
def test_an_option_that_scip_does_not_know_is_refused() -> None:
    with pytest.raises(OptionError, match="no/such"):
        Scip().minimise(knapsack(), Request(settings={"no/such": 1}))


def test_only_bare_exceptions_are_those_of_scip() -> None:
    with pytest.raises(BackendError, match="SCIP failed: figure"), scip_failures():
        raise Exception("figure of 1e20")
    with pytest.raises(ZeroDivisionError), scip_failures():
        raise ZeroDivisionError
