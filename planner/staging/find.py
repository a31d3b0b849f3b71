"""Finding the frontier of a staging instance: cost against throughput."""

from __future__ import annotations

from ...instances.staging.instance import StagingInstance
from ...solvers.common.options import SolveOptions
from ...solvers.staging.frontier import find_frontier
from ...solvers.staging.frontier_result import Frontier
from .frontier import DEFAULT_ERROR


def find(
    instance: StagingInstance, options: SolveOptions, error: float | None, most_usd: float | None
) -> Frontier:
    """Return the frontier; see `pareto`."""
    return find_frontier(instance, options, DEFAULT_ERROR if error is None else error, most_usd)
