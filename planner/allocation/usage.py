"""How much of each resource a plan of an allocation takes."""

from __future__ import annotations

from collections.abc import Sequence

from ...formulations.allocation.configurations import resource_limits, task_demands
from ...formulations.allocation.plan import JobAllocation, read_entries
from ...instances.allocation.instance import AllocationInstance


class Usage:
    """The usage of resources by plans of one instance.

    Attributes
    ----------
    amounts
        What there is of each resource, and of the budget where there is one.
    """

    def __init__(self, instance: AllocationInstance) -> None:
        self.instance = instance
        self.table = instance.table()
        self._index = {name: j for j, name in enumerate(self.table.names)}
        names, limits = resource_limits(instance)
        self.amounts = dict(zip(names, limits.tolist(), strict=True))
        self._demands = task_demands(instance, self.table)

    def of(self, plan: Sequence[JobAllocation]) -> dict[str, float]:
        """Return what the plan takes of each resource, and of the budget where there is one."""
        entries = read_entries(self.table, self._index, plan)
        placed = entries.variant >= 0
        variant, ps, workers = (c[placed] for c in (entries.variant, entries.ps, entries.workers))
        per_ps, per_worker = self._demands
        used = (ps[:, None] * per_ps[variant] + workers[:, None] * per_worker[variant]).sum(axis=0)
        return dict(zip(self.amounts, used.tolist(), strict=True))
