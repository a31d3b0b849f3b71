"""Methods that delegate to others.

A method may ask for the solution of a document of another kind.
"""

from __future__ import annotations

import pytest

import clusterplan.solvers.run
from clusterplan.instances.common.errors import OptionError
from clusterplan.solvers.common import base
from clusterplan.solvers.common.base import Clock, Delegating, Outcome
from clusterplan.solvers.common.result import SolveOptions
from clusterplan.solvers.registry import find_solver


class _Nothing(Delegating[object]):  # type: ignore[type-var]
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


DOCUMENT = {
    "schema_version": 1,
    "kind": "consolidation",
    "name": "one job",
    "servers": [{"name": "s", "capacity": {"gpu": 4}}],
    "jobs": [{"name": "j", "tasks": 2, "task_demand": {"gpu": 1}}],
}


def test_a_document_of_any_kind_is_solved() -> None:
    """As soon as the module that runs solvers is there."""
    assert clusterplan.solvers.run.offer is base.offer
    result = base.solve_document(DOCUMENT, "exact", SolveOptions())
    assert result.status == "optimal"


def test_without_anybody_to_solve_it_the_error_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is imported behind the back of who asks."""
    monkeypatch.setattr(base, "_ways", [])
    with pytest.raises(LookupError, match=r"import clusterplan\.solvers\.run"):
        base.solve_document(DOCUMENT, "exact", SolveOptions())
    base.offer(lambda document, solver, options: (document, solver, options))  # type: ignore[arg-type, return-value]
    assert base.solve_document({}, "x", SolveOptions())[1] == "x"  # type: ignore[index]
