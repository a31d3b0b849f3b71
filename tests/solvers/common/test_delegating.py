"""Methods that delegate to others."""

from __future__ import annotations

import pytest

from clusterplan.instances.common.errors import OptionError
from clusterplan.solvers.common.base import Clock, Outcome
from clusterplan.solvers.common.delegating import Delegating
from clusterplan.solvers.common.options import SolveOptions
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
