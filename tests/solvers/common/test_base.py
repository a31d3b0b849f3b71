"""The contract of a solver, registration of kinds, enumeration."""

from __future__ import annotations

from typing import Any

import pytest
from staging_instances import half_serial

from clusterplan.formulations.staging.formulation import StagingFormulation
from clusterplan.formulations.staging.stages import Stage
from clusterplan.instances.common.errors import OptionError, TooLargeError
from clusterplan.solvers.common.base import Clock, Outcome, PresolvingSolver
from clusterplan.solvers.common.brute_force import MAX_DECISIONS, BruteForce, Enumeration, refuse_many
from clusterplan.solvers.common.result import SolveOptions
from clusterplan.solvers.registry import find_solver


class _Nothing(PresolvingSolver[object]):  # type: ignore[type-var]
    def solve(self, formulation: object, options: SolveOptions, clock: Clock) -> Outcome:
        return Outcome(message="nothing")


def test_everything_but_the_answer_is_the_methods() -> None:
    """Name, kinds, features, settings, and what it refuses."""
    method = find_solver("exact", "staging")
    ours = _Nothing(method)
    for name in ("name", "kinds", "features", "proves", "what", "method_options"):
        assert getattr(ours, name) == getattr(method, name)
    assert ours.unavailable() is method.unavailable()
    with pytest.raises(OptionError):
        ours.check_options(SolveOptions(method_options={"no_such_setting": 1}))
    assert ours.solve(None, SolveOptions(), Clock()).message == "nothing"


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
    refuse_many(MAX_DECISIONS, "jobs")
    with pytest.raises(TooLargeError, match=r"201 jobs.*--solver exact"):
        refuse_many(MAX_DECISIONS + 1, "jobs")


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
