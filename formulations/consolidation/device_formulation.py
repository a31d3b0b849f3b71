"""Consolidation on single devices: what the formulation of pooled amounts does not know.

Constraints beyond those of the formulation: each task holds named devices of its server, and a device is
whole, shared or partitioned, never two of these. Shares of a device come to 1000 thousandths at most;
partitions start where their geometry allows it, and do not overlap. Bounds are those of the pooled relaxation
and of prices by shape of server.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any

from ...instances.common.errors import OptionError
from ...instances.consolidation.instance import ConsolidationInstance, Server
from ...instances.consolidation.job import GpuModels, PlacementJob
from ..common.objective import Diagnosis, Violation
from .check.device_bound import read_device_certificate, shape_bounds
from .classes import ClassTable
from .device_placement import device_violations
from .device_relaxation import alike, fewest_on_devices, pooled
from .explain import DeviceReasons, Reasons
from .formulation import ConsolidationFormulation
from .plan import JobPlacement


def formulation_of(instance: ConsolidationInstance) -> ConsolidationFormulation:
    """Return the formulation of an instance, with or without single devices."""
    return DeviceFormulation(instance) if instance.has_devices else ConsolidationFormulation(instance)


class DeviceFormulation(ConsolidationFormulation):
    """The mathematics of a consolidation instance with single devices."""

    @cached_property
    def pooled(self) -> ConsolidationFormulation:
        """The pooled relaxation, in which devices are amounts."""
        relaxed = pooled(self.instance)
        others = ConsolidationFormulation(relaxed)
        jobs = []
        for job, plain in zip(self.instance.jobs, relaxed.jobs, strict=True):
            ruled = self.instance.spread_of(job) != "free"
            if ruled and any(g.asks for g in job.task_groups) and self.fewest(job) != others.fewest(plain):
                # Fewer servers hold the amounts, which must not forbid what the devices need.
                plain = plain.model_copy(update={"spread": "free"})  # noqa: PLW2901
            jobs.append(plain)
        return ConsolidationFormulation(relaxed.model_copy(update={"jobs": tuple(jobs)}))

    @property
    def classes(self) -> ClassTable:
        """Refuse to hand out classes of amounts, in which devices do not appear."""
        raise OptionError("this method does not place single devices; take exact, best-fit or milp")

    def fewest(self, job: PlacementJob) -> int | None:
        """Return m_j, the fewest servers whose devices could ever hold the job; None if it can never run."""
        if not any(group.asks for group in job.task_groups):
            return super().fewest(job)
        asked = (
            (g.tasks, tuple(sorted(g.demand.items())), tuple(sorted(g.asks.items()))) for g in job.task_groups
        )
        key = "devices", job.gpu_model, tuple(asked)
        if key not in self._fewest:
            if job.gpu_model not in self._alike:
                self._alike[job.gpu_model] = alike(self.eligible(job))
            self._fewest[key] = fewest_on_devices(job.task_groups, self._alike[job.gpu_model])
        return self._fewest[key]

    @cached_property
    def _alike(self) -> dict[GpuModels, list[tuple[Server, int]]]:
        return {}

    def violations(self, plan: Sequence[JobPlacement]) -> list[Violation]:
        """Return every constraint that the plan breaks; devices are looked at where all else is right."""
        found = super().violations(plan)
        return found or device_violations(self.jobs, self.servers, plan)

    def _reasons(self, plan: Sequence[JobPlacement]) -> Reasons:
        return DeviceReasons(self, self.pooled, plan)

    def shared_tables(self) -> str | None:
        """Return what the check of the pooled relaxation took from the methods."""
        return self.pooled.shared_tables()

    def elementary_bounds(self) -> tuple[float | None, ...]:
        """Bound the objectives by counting, devices as amounts."""
        return self.pooled.elementary_bounds()

    def elementary_infeasibility(self) -> Diagnosis | None:
        """Find jobs that must be placed but never fit, or a resource that they overfill together."""
        return self.pooled.elementary_infeasibility()

    def certified_bounds(
        self, certificate: Any, values: Sequence[float] | None = None
    ) -> tuple[float | None, ...]:
        """Return the bounds that prices of the pooled relaxation and prices by shape prove."""
        if certificate is None:
            return self.elementary_bounds()
        found = read_device_certificate(self.instance, certificate)
        if isinstance(found, str):
            return self.elementary_bounds()
        bounds = self.pooled.certified_bounds(found.pooled, values)
        if any(bound is not None and math.isinf(bound) for bound in bounds):
            return bounds
        by_shape = shape_bounds(self.instance, self.objectives, found.devices, values, bounds)
        return tuple(
            objective.tighter(one, other)
            for objective, one, other in zip(self.objectives, bounds, by_shape, strict=True)
        )

    def certificate_fault(self, certificate: Any) -> str | None:
        """Return what is wrong with the form of a certificate."""
        found = read_device_certificate(self.instance, certificate)
        if isinstance(found, str):
            return found
        return None if found.pooled is None else self.pooled.certificate_fault(found.pooled)

    def prices(self, certificate: Any, plan: Sequence[JobPlacement]) -> dict[str, float] | None:
        """Return no prices: those of the pooled relaxation would count devices that hold nothing."""
        del certificate, plan
        return None
