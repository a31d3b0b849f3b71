"""What scheduling registers on this floor."""

from __future__ import annotations

from clusterplan.solvers.registry import KINDS
from clusterplan.solvers.scheduling.exact import CLAIRVOYANT
from clusterplan.solvers.scheduling.kind import scheduling

SCHEDULING = scheduling(KINDS["allocation"].exact, "allocation")


def test_policies_prove_nothing_and_have_unlike_names() -> None:
    """But brute force may prove; the methods that `exact` tries are among them."""
    names = [solver.name for solver in SCHEDULING.solvers]
    assert {solver.name for solver in SCHEDULING.solvers if solver.proves} == {"brute-force"}
    assert set(CLAIRVOYANT) <= set(names)
    assert SCHEDULING.exact.name == "exact"
