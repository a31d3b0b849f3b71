"""The methods of allocation."""

from __future__ import annotations

from clusterplan.solvers.allocation.exact import AllocationExact
from clusterplan.solvers.allocation.kind import ALLOCATION


def test_every_method_is_listed_once() -> None:
    """Names are those of the documentation."""
    names = [ALLOCATION.exact.name, *(solver.name for solver in ALLOCATION.solvers)]
    assert sorted(names) == [
        "brute-force",
        "cp-sat",
        "exact",
        "geometric",
        "lagrangian",
        "marginal-gain",
        "marginal-gain-joint",
        "minlp",
    ]
    assert isinstance(ALLOCATION.exact, AllocationExact)
    assert ALLOCATION.exact.proves
    assert all(solver.kinds == ("allocation",) for solver in ALLOCATION.solvers)
