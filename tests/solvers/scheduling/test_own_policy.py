"""A policy of one's own becomes a solver without ever seeing the instance."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import clusterplan
from clusterplan.instances.common.arrays import Floats, Ints
from clusterplan.instances.scheduling.generate import generate_scheduling
from clusterplan.solvers.base import MethodOption
from clusterplan.solvers.run import solve_with
from clusterplan.solvers.scheduling.own_policy import policy_solver
from clusterplan.solvers.scheduling.policy import ByKey
from clusterplan.solvers.scheduling.seen import Knowledge


class WidestFirst(ByKey):
    """Serves wide jobs first, or narrow ones."""

    knows = Knowledge.NOTHING

    def __init__(self, sign: float) -> None:
        self._sign = sign

    def keys_of(self, jobs: Ints) -> Floats:
        """Return minus the width."""
        return -self._sign * self.seen.width[jobs]


def test_it_is_made_from_its_settings_and_solves() -> None:
    """Its line says what it knows; placement is an option that all have."""
    made: list[Any] = []

    def make(settings: Mapping[str, Any]) -> WidestFirst:
        made.append(dict(settings))
        return WidestFirst(-1.0 if settings["narrow"] else 1.0)

    options = {"narrow": MethodOption(False, "narrow jobs first")}
    solver = policy_solver("widest", "wide jobs first", make, options)
    assert solver.what == "wide jobs first; knows nothing"
    assert list(solver.method_options) == ["narrow", "placement"]
    trace = generate_scheduling(40, 8, load=2.0)
    wide = solve_with(trace, solver, clusterplan.SolveOptions())
    narrow = solve_with(trace, solver, clusterplan.SolveOptions(method_options={"narrow": True}))
    assert wide.status == narrow.status == "feasible"
    assert wide.objective != narrow.objective
    assert [settings["narrow"] for settings in made] == [False, False, True]
