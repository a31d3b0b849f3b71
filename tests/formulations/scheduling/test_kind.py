"""What scheduling registers on this floor."""

from __future__ import annotations

from clusterplan.formulations.scheduling.formulation import SchedulingFormulation
from clusterplan.formulations.scheduling.kind import SCHEDULING


def test_there_is_a_formulation_and_no_compact_model() -> None:
    """Time would have to be cut into slots."""
    assert SCHEDULING.formulation is SchedulingFormulation
    assert SCHEDULING.milp_model is None
