"""What consolidation brings to the planner."""

from __future__ import annotations

from clusterplan.planner.consolidation.kind import CONSOLIDATION
from clusterplan.planner.registry import KINDS


def test_its_formats() -> None:
    """Plans go to Slurm and Kubernetes; rows of a plan are jobs."""
    assert KINDS["consolidation"] is CONSOLIDATION
    forms = {"slurm", "slurm-options", "kubernetes", "kubernetes-affinity"}
    assert set(CONSOLIDATION.formats) == forms
    assert CONSOLIDATION.rows_of_plan == "jobs"
