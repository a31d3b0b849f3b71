"""Brute force keeps the best of what it judges, and refuses what it could never enumerate."""

from __future__ import annotations

from typing import Any

import pytest
from staging_instances import half_serial

from clusterplan.formulations.staging.formulation import StagingFormulation
from clusterplan.formulations.staging.stages import Stage
from clusterplan.instances.common.errors import TooLargeError
from clusterplan.solvers.common.base import Clock
from clusterplan.solvers.common.brute_force import MOST, BruteForce, Enumeration, refuse_many
from clusterplan.solvers.common.result import SolveOptions


def on(units: int) -> list[Stage]:
    """Return the only layer on so many units; its time falls and its cost rises with them."""
    return [Stage(first_layer=0, last_layer=0, type=half_serial(4).types[0].name, units=units)]


class Listed(BruteForce[Any]):
    """Judges the plans of a list."""

    def __init__(self, *plans: list[Stage]) -> None:
        self.plans = plans

    def enumerate(self, formulation: Any, search: Enumeration) -> None:
        """Judge one after the other."""
        del formulation
        for plan in self.plans:
            if search.over():
                return
            search.judge(plan)


def test_many_things_are_refused_with_a_way_out() -> None:
    refuse_many(MOST, "jobs")
    with pytest.raises(TooLargeError, match=r"201 jobs.*--solver exact"):
        refuse_many(MOST + 1, "jobs")


def test_the_best_feasible_plan_is_kept_and_proven() -> None:
    """One unit is the cheapest; five are more than there are."""
    formulation = StagingFormulation(half_serial(4))
    found = Listed(on(2), on(1), on(3), on(5)).solve(formulation, SolveOptions(), Clock())
    assert found.plan == tuple(on(1))
    assert tuple(found.bounds) == formulation.evaluate(on(1))
    assert Listed(on(5)).solve(formulation, SolveOptions(), Clock()).infeasible


def test_without_time_nothing_is_proven() -> None:
    formulation = StagingFormulation(half_serial(4))
    late = Listed(on(1)).solve(formulation, SolveOptions(), Clock(0.0))
    assert (late.plan, late.infeasible, late.limit) == (None, False, "time")
