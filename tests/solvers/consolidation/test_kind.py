"""What consolidation brings to the solvers."""

from __future__ import annotations

from placements import job, placement, server

from clusterplan.formulations.consolidation.formulation import ConsolidationFormulation
from clusterplan.solvers.common.base import Clock
from clusterplan.solvers.consolidation.kind import CONSOLIDATION
from clusterplan.solvers.registry import KINDS


def test_its_methods() -> None:
    """The exact one, ten others, and a plan that moves nothing among the quick ones."""
    assert KINDS["consolidation"] is CONSOLIDATION
    names = [CONSOLIDATION.exact.name, *(solver.name for solver in CONSOLIDATION.solvers)]
    assert names == [
        "exact",
        "cp-sat",
        "best-fit",
        "first-fit-decreasing",
        "consolidate-or-wait",
        "ffd-sum",
        "best-fit-l2",
        "best-fit-dot",
        "best-fit-cosine",
        "bin-centric",
        "brute-force",
    ]
    formulation = ConsolidationFormulation(
        placement(["migrations"], [server(gpu=1)], [job("a", current={"n": 1})])
    )
    ((what, search),) = CONSOLIDATION.more_quick.items()
    assert what == "leaving jobs where they run"
    plan = search(formulation, Clock())
    assert plan is not None
    assert plan[0].servers == {"n": 1}
