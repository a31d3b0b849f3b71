"""The compact model with named servers, from the first objective that classes do not settle."""

from __future__ import annotations

from collections.abc import Sequence

from ...formulations.consolidation.formulation import ConsolidationFormulation
from ...formulations.consolidation.plan import JobPlacement
from ...instances.common.errors import TooLargeError
from ..backends import cp_sat
from ..common.base import Clock, Outcome
from ..common.options import SolveOptions
from .cp_sat import ConsolidationCpSat
from .progress import SETTINGS


def solve(
    formulation: ConsolidationFormulation,
    plan: Sequence[JobPlacement] | None,
    settled: Sequence[float],
    options: SolveOptions,
    clock: Clock,
) -> Outcome:
    """Settle the objectives after the first ones, whose values are kept, from a plan that has these values.

    Raises
    ------
    TooLargeError
        If there are too many jobs and servers.
    """
    groups, servers = _groups(formulation), len(formulation.servers)
    if too_many(formulation):
        raise TooLargeError(f"{groups:,} groups of tasks on {servers:,} servers are too many to be named")
    start = None if plan is None else tuple(entry.model_dump() for entry in plan)
    options = options.model_copy(update={"warm_start": start})
    return cp_sat.solve_in_order(
        formulation, ConsolidationCpSat().model(formulation), options, clock, settled
    )


def too_many(formulation: ConsolidationFormulation) -> bool:
    """Return whether the compact model, with a variable for each group on each server, is too large."""
    return _groups(formulation) * len(formulation.servers) > SETTINGS.most_named_cells


def _groups(formulation: ConsolidationFormulation) -> int:
    return sum(len(job.task_groups) for job in formulation.instance.jobs)
