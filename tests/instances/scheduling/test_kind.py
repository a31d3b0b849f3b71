"""What scheduling registers on this floor."""

from __future__ import annotations

from clusterplan.instances.scheduling.kind import SCHEDULING


def test_the_tiny_instance_is_contended() -> None:
    """Its jobs ask for more than there is, so that methods have something to decide."""
    tiny = SCHEDULING.tiny()
    assert isinstance(tiny, SCHEDULING.model)
    assert len(tiny.table()) == 4
    assert tiny.table().total_demand.sum() > sum(tiny.pool.values())
