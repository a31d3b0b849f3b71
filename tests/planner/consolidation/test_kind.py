"""What consolidation brings to the planner."""

from __future__ import annotations

from clusterplan.planner.consolidation.kind import CONSOLIDATION
from clusterplan.planner.registry import KINDS


def test_its_formats() -> None:
    """Plans go to Slurm and Kubernetes; rows of a plan are jobs."""
    assert KINDS["consolidation"] is CONSOLIDATION
    assert set(CONSOLIDATION.formats) == {"slurm", "kubernetes"}
    assert CONSOLIDATION.rows_of_plan == "jobs"
