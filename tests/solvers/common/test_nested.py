"""A method may ask for the solution of a document of another kind."""

from __future__ import annotations

import pytest

import clusterplan.solvers.run
from clusterplan.solvers.common import nested
from clusterplan.solvers.common.options import SolveOptions

DOCUMENT = {
    "schema_version": 1,
    "kind": "consolidation",
    "name": "one job",
    "servers": [{"name": "s", "capacity": {"gpu": 4}}],
    "jobs": [{"name": "j", "tasks": 2, "task_demand": {"gpu": 1}}],
}


def test_a_document_of_any_kind_is_solved() -> None:
    """As soon as the module that runs solvers is there."""
    assert clusterplan.solvers.run.nested is nested
    result = nested.solve_document(DOCUMENT, "exact", SolveOptions())
    assert result.status == "optimal"


def test_without_anybody_to_solve_it_the_error_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is imported behind the back of who asks."""
    monkeypatch.setattr(nested, "_ways", [])
    with pytest.raises(LookupError, match=r"import clusterplan\.solvers\.run"):
        nested.solve_document(DOCUMENT, "exact", SolveOptions())
    nested.offer(lambda document, solver, options: (document, solver, options))  # type: ignore[arg-type, return-value]
    assert nested.solve_document({}, "x", SolveOptions())[1] == "x"  # type: ignore[index]
