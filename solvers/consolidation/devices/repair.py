"""From a plan of the pooled relaxation to one on devices: what single devices do not hold goes elsewhere."""

from __future__ import annotations

from collections.abc import Sequence

from ....formulations.consolidation.device_formulation import DeviceFormulation
from ....formulations.consolidation.device_placement import with_devices
from ....formulations.consolidation.plan import JobPlacement
from ....instances.common.errors import TooLargeError
from ...common.base import Clock
from .board import Board
from .cluster import Cluster
from .improve import Placing


def repaired(formulation: DeviceFormulation, plan: Sequence[JobPlacement]) -> list[JobPlacement]:
    """Return the plan on devices, all of it where devices hold it; jobs that must be placed come first."""
    try:
        named = with_devices(formulation.jobs, formulation.servers, plan)
    except TooLargeError:
        named = None
    if named is not None and not formulation.violations(named):
        return named
    placing = Placing(Board(Cluster(formulation)), None, None)
    placing.load(plan)
    placing.greedy(Clock())
    return placing.board.plan()
