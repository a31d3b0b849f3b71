"""A kind that lists its methods wrongly fails when it is registered, not when it is used."""

from __future__ import annotations

from typing import Any

import pytest

from clusterplan.solvers.common.base import Outcome, Solver
from clusterplan.solvers.common.kind import SolverKind


class Named(Solver[Any]):
    """A solver with a name and nothing else."""

    def __init__(self, name: str) -> None:
        self.name = name

    def solve(self, formulation: Any, options: Any, clock: Any) -> Outcome:
        """Find nothing."""
        del formulation, options, clock
        return Outcome()


def kind(*others: str, quick: tuple[str, ...] = ()) -> SolverKind:
    """Return a kind with an exact method and others."""
    return SolverKind(
        exact=Named("exact"),
        solvers=tuple(map(Named, others)),
        certify=lambda *_: None,
        diagnose=lambda *_: None,
        quick=tuple((name, {}) for name in quick),
    )


def test_quick_methods_are_methods_of_the_kind() -> None:
    assert kind("greedy", quick=("greedy", "exact")).quick[0] == ("greedy", {})
    with pytest.raises(AssertionError, match="quick methods"):
        kind("greedy", quick=("genetic",))


def test_names_are_unique() -> None:
    with pytest.raises(AssertionError, match="same name"):
        kind("exact")


def test_other_quick_searches_are_none_unless_a_kind_has_some() -> None:
    assert not kind().more_quick
