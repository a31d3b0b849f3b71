"""The frontier of an allocation, put together from a search over clusters."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Literal

from ...formulations.allocation.cluster_grids import ROUNDING, ClusterGrid, proven_error
from ...formulations.common.objective import Diagnosis
from ...instances.allocation.instance import AllocationInstance
from ..common.base import Clock
from ..common.conclude import library_versions
from ..common.diagnosis import PLAIN, diagnose_with
from ..common.options import SolveOptions
from .diagnose import diagnose
from .frontier_result import AllocationFrontier, ClusterBound
from .frontier_search import ClusterSearch, Found, mean, point_of

MOST_DIAGNOSED = 20_000
"""Configurations of a cluster up to which an elastic model finds the capacity that is missing."""


def find_allocation_frontier(
    instance: AllocationInstance,
    grid: ClusterGrid,
    options: SolveOptions,
    error: float,
    clock: Clock,
    assumptions: tuple[str, ...] = (),
) -> AllocationFrontier:
    """Return the trade-off of mean completion time against hourly cost, and how good it is.

    Parameters
    ----------
    grid
        Of the instance; which clusters there are, at which prices.
    error
        ε: for every cluster there is to be a point that costs no more, and whose mean completion time, less
        the part ε, is no longer.
    assumptions
        Assumptions beside those of the grid.
    """
    search = ClusterSearch(grid, options, error, clock)
    search.run()
    status, limit = _status(search), search.limit
    if status == "partial" and limit == "none":  # that of a single solve left the error unproven, if any
        limit = next((bound.limit for bound in search.bounds.values() if bound.limit != "none"), "none")
    steps = _undominated(search.found)
    values = search.values()
    certified = {
        step: min(bound.certified, values.get(step, math.inf)) for step, bound in search.bounds.items()
    }
    return AllocationFrontier(
        instance=instance.name,
        instance_sha256=instance.sha256(),
        mix=grid.mix,
        status=status,
        limit=limit,
        error=error,
        certified_error=proven_error(grid, values, certified) if search.found else None,
        most_usd_per_hour=grid.most_usd,
        prices_usd_per_hour=grid.prices,
        weight=grid.weight,
        points=tuple(point_of(grid, search.found[step], search.bounds.get(step)) for step in reversed(steps)),
        others=tuple(_others(search, steps)),
        current=search.current,
        assumptions=(*assumptions, *grid.assumptions()),
        runtime_s=clock.elapsed_s,
        options=options,
        versions=library_versions(),
        diagnosis=_diagnosis(search) if status == "infeasible" else None,
    )


def _undominated(found: Mapping[Fraction, Found]) -> list[Fraction]:
    """Return the steps whose plans are better than those of all cheaper steps, from the cheapest."""
    steps: list[Fraction] = []
    for step in sorted(found):
        if not steps or found[step].value < found[steps[-1]].value * (1 - ROUNDING):
            steps.append(step)
    return steps


def _status(search: ClusterSearch) -> Literal["complete", "partial", "infeasible"]:
    if not search.found:
        # With a limit there may not even have been time to see which clusters there are.
        return "infeasible" if search.limit == "none" else "partial"
    claimed = {step: bound.claimed for step, bound in search.bounds.items()}
    error = proven_error(search.grid, search.values(), claimed)
    return "complete" if error is not None and error <= search.error else "partial"


def _others(search: ClusterSearch, points: list[Fraction]) -> list[ClusterBound]:
    """Return the bounds beside those of the points on which the error rests, from the dearest step."""
    grid, kept = search.grid, []
    claimed = certified = -math.inf
    for step in sorted(search.bounds, reverse=True):
        bound = search.bounds[step]
        better = bound.claimed > claimed or bound.certified > certified
        claimed, certified = max(claimed, bound.claimed), max(certified, bound.certified)
        if better and step not in points:
            none = math.isinf(bound.claimed)
            capacities = grid.cluster(step).resources
            kept.append(
                ClusterBound(
                    rate_usd_per_hour=grid.rate(step),
                    capacities=capacities if grid.mix == "fixed" else grid.unpriced(),
                    no_plan=none,
                    bound_s=mean(bound.claimed, grid),
                    certified_bound_s=mean(bound.certified, grid),
                    certificate=bound.certificate,
                )
            )
    return kept


def _diagnosis(search: ClusterSearch) -> Diagnosis:
    """Return why not even the dearest cluster has a plan."""
    formulation = search.grid.formulation(search.grid.last)
    known = formulation.elementary_infeasibility()
    if known is None and len(formulation.configurations.cost) <= MOST_DIAGNOSED:
        return diagnose_with(diagnose, formulation, patience_s=search.clock.remaining_s)
    return known or PLAIN
