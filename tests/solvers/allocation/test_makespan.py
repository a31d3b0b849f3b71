"""Least makespan: the matrix game by hand, and the search against brute force."""

from __future__ import annotations

import numpy as np
import pytest
from random_instances import random_allocation

from clusterplan.formulations.allocation.formulation import AllocationFormulation
from clusterplan.instances.allocation.instance import AllocationInstance
from clusterplan.solvers.allocation.exact import AllocationBruteForce
from clusterplan.solvers.allocation.lagrangian import MultipleChoice
from clusterplan.solvers.allocation.makespan import MakespanSearch, even_share, least_share, per_unit
from clusterplan.solvers.common.base import Clock
from clusterplan.solvers.common.result import SolveOptions


def test_shares_and_prices_leave_out_what_is_not_there() -> None:
    """A resource without capacity has no share and no price."""
    limit = np.array([4.0, 0.0, 2.0])
    assert even_share(limit).tolist() == [0.5, 0, 0.5]
    assert per_unit(even_share(limit), limit).tolist() == [0.125, 0, 0.25]


def one_job(limit: float) -> MultipleChoice:
    """Return a job that takes two units of either of two resources."""
    return MultipleChoice(
        np.array([0, 2]), np.zeros(2), np.array([[2.0, 0.0], [0.0, 2.0]]), np.full(2, limit), np.arange(2)
    )


def test_the_value_of_the_game_by_hand() -> None:
    """At equal prices the job takes 2/1.5 of half of both capacities, so that at least 2/3 is taken."""
    share, value, chosen = least_share(one_job(1.5), np.array([1.0, 0.0]), Clock(None))
    assert chosen is None
    assert value == pytest.approx(2 / 3)
    assert share.tolist() == pytest.approx([0.5, 0.5])


def test_a_choice_that_fits_ends_the_game() -> None:
    """With two units either item fits."""
    _, _, chosen = least_share(one_job(2), even_share(np.full(2, 2.0)), Clock(None))
    assert chosen is not None


def test_plan_and_bound_reach_the_optimum() -> None:
    """On random instances, against brute force."""
    compared = 0
    for seed in range(60):
        instance = random_allocation(seed)
        assert isinstance(instance, AllocationInstance)
        formulation = AllocationFormulation(instance.model_copy(update={"objective": "makespan"}))
        if formulation.elementary_infeasibility() is not None:
            continue
        options = SolveOptions(threads=1)
        best = AllocationBruteForce().solve(formulation, options, Clock(None))
        found = MakespanSearch(formulation, options, Clock(None)).run()
        if best.plan is None:
            assert found.infeasible
            continue
        compared += 1
        assert found.plan is not None
        assert not formulation.violations(found.plan)
        optimum = formulation.evaluate(best.plan)[0]
        assert formulation.evaluate(found.plan)[0] == pytest.approx(optimum)
        assert found.bounds[0] == pytest.approx(optimum)
    assert compared > 20
