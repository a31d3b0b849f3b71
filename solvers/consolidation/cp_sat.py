"""Consolidation on CP-SAT, by the compact model with named servers.

It is both a method and the model in which other methods continue from the first objective that classes of
servers do not settle.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...formulations.consolidation.formulation import ConsolidationFormulation
from ...formulations.consolidation.plan import Plan
from ...instances.common.errors import TooLargeError
from ..backends.cp_sat import CpSat
from ..common.base import Clock, Outcome
from ..common.result import SolveOptions
from .progress import SETTINGS

CP_SAT = CpSat[ConsolidationFormulation](
    "consolidation", "tasks on servers, objective after objective, on OR-Tools CP-SAT"
)


def solve(
    formulation: ConsolidationFormulation,
    plan: Plan | None,
    settled: Sequence[float],
    options: SolveOptions,
    clock: Clock,
) -> Outcome:
    """Optimise the objectives that are not settled, with the settled ones fixed, from a warm-start plan.

    Raises
    ------
    TooLargeError
        If there are too many jobs and servers.
    """
    groups, servers = _group_count(formulation), len(formulation.servers)
    if is_too_large(formulation):
        raise TooLargeError(f"{groups:,} groups of tasks on {servers:,} servers are too many to be named")
    return CP_SAT.solve(formulation, options.starting_from(plan), clock, settled)


def is_too_large(formulation: ConsolidationFormulation) -> bool:
    """Return whether the compact model, with a variable per task group and server, would be too large."""
    return named_cells(formulation) > SETTINGS.most_named_cells


def named_cells(formulation: ConsolidationFormulation) -> int:
    """Return the number of variables of the compact model: task groups times servers."""
    return _group_count(formulation) * len(formulation.servers)


def _group_count(formulation: ConsolidationFormulation) -> int:
    return sum(len(job.task_groups) for job in formulation.instance.jobs)
