"""What consolidation brings to this floor."""

from __future__ import annotations

from placements import three_jobs

from clusterplan.formulations.consolidation.formulation import ConsolidationFormulation
from clusterplan.formulations.consolidation.kind import CONSOLIDATION
from clusterplan.formulations.registry import KINDS


def test_the_registry_knows_it() -> None:
    """With its formulation and a compact model."""
    assert KINDS["consolidation"] is CONSOLIDATION
    assert CONSOLIDATION.formulation is ConsolidationFormulation
    assert CONSOLIDATION.milp_model is not None
    assert CONSOLIDATION.milp_model(three_jobs()).objectives[0].objective.name == "value"
