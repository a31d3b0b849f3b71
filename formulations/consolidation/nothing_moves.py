"""Where nothing has to move: bounds from two smaller problems, neither of which says who runs where.

If a plan moves nobody and is the best in all objectives before `migrations`, then no plan that is as good
moves anybody. So these objectives are bounded as if moves cost nothing, and those after `migrations` as if
all running jobs stay.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from ...instances.consolidation.instance import ConsolidationInstance
from ..common.tolerance import agree
from .evaluate import moved
from .fixed_jobs import WithFixedJobs
from .fixed_jobs import formulation_of as with_or_without_fixed_jobs
from .formulation import ConsolidationFormulation
from .plan import JobPlacement

FEWEST_CELLS = 200
"""Groups of tasks times servers from which on it is worth while."""
STAYING, LEADING = "staying", "leading"
"""Certificates of the problem in which all running jobs stay, and of the objectives before `migrations`."""


def formulation_of(instance: ConsolidationInstance) -> ConsolidationFormulation:
    """Return the formulation of an instance, with or without running jobs and jobs that stay."""
    formulation = with_or_without_fixed_jobs(instance)
    if type(formulation) is not ConsolidationFormulation or "migrations" not in instance.objectives:
        return formulation
    staying = instance.model_copy(update={"running": "stay"})
    cells = sum(len(job.task_groups) for job in instance.jobs) * len(formulation.servers)
    if cells < FEWEST_CELLS or not any(map(staying.stays, instance.jobs)):
        return formulation
    return WithRunningJobs(instance)


class WithRunningJobs(ConsolidationFormulation):
    """The mathematics of an instance in which some jobs run, and moves come after other objectives."""

    @cached_property
    def staying(self) -> WithFixedJobs:
        """The formulation in which all running jobs stay."""
        return WithFixedJobs(self.instance.model_copy(update={"running": "stay"}))

    @cached_property
    def before(self) -> int:
        """How many objectives come before `migrations`."""
        return self.instance.objectives.index("migrations")

    @cached_property
    def leading(self) -> ConsolidationFormulation:
        """The formulation of the objectives before `migrations`, as if moves cost nothing."""
        jobs = tuple(
            job if job.restart_s is None else job.model_copy(update={"restart_s": None})
            for job in self.instance.jobs
        )
        objectives = self.instance.objectives[: self.before] or ("value",)
        free = {"restart_cost_h": None, "max_moves": None}
        return ConsolidationFormulation(
            self.instance.model_copy(update={"jobs": jobs, "objectives": objectives, **free})
        )

    def nothing_moves(self, values: Sequence[float], leading: Sequence[float | None]) -> bool:
        """Return whether no plan as good moves anybody.

        Parameters
        ----------
        values
            Of a plan.
        leading
            Bounds on the objectives before `migrations`.
        """
        known = zip(leading, values[: self.before], strict=False)
        proven = [bound is not None and agree(bound, value) for bound, value in known]
        return len(proven) == self.before and all(proven) and values[self.before] == 0

    def certified_bounds(
        self, certificate: Any, values: Sequence[float] | None = None
    ) -> tuple[float | None, ...]:
        """Return the bounds that the certificates of the two smaller problems prove, or that of the whole."""
        if not _is_double(certificate):
            return super().certified_bounds(certificate, values)
        bounds = super().certified_bounds(None, values)
        if values is None:
            return bounds
        leading = self.leading.certified_bounds(certificate[LEADING], values[: self.before] or None)
        pairs = zip(self.objectives, bounds, leading, strict=False)
        found = [objective.tighter(one, other) for objective, one, other in pairs][: self.before]
        if not self.nothing_moves(values, found):
            return (*found, *bounds[self.before :])
        staying = self.staying.certified_bounds(certificate[STAYING], values)
        return (*found, 0.0, *staying[self.before + 1 :])

    def certificate_fault(self, certificate: Any) -> str | None:
        """Return what is wrong with the form of a certificate."""
        if not _is_double(certificate):
            return super().certificate_fault(certificate)
        parts = ((self.leading, certificate[LEADING]), (self.staying, certificate[STAYING]))
        faults = (part.certificate_fault(given) for part, given in parts if given is not None)
        return next((fault for fault in faults if fault is not None), None)

    def prices(self, certificate: Any, plan: Sequence[JobPlacement]) -> dict[str, float] | None:
        """Return what one more empty server of each shape adds to the value at most."""
        if not _is_double(certificate):
            return super().prices(certificate, plan)
        if any(True for _ in moved(self, plan)):
            return None  # the leading objectives do not count what a move costs
        return self.leading.prices(certificate[LEADING], plan)

    def shared_tables(self) -> str | None:
        """Return which table the check took from the methods, in any of the problems."""
        parts = (super().shared_tables(), self.leading.shared_tables(), self.staying.shared_tables())
        return next((said for said in parts if said is not None), None)


def _is_double(certificate: Any) -> bool:
    """Return whether a certificate is one of the two smaller problems."""
    return isinstance(certificate, Mapping) and certificate.keys() == {LEADING, STAYING}
