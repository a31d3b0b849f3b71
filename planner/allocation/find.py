"""Finding the frontier of an allocation: mean completion time against the hourly cost of the cluster."""

from __future__ import annotations

from collections.abc import Mapping

from ...formulations.allocation.cluster_grid import Mix
from ...formulations.allocation.cluster_grids import cluster_grid_of
from ...instances.allocation.instance import AllocationInstance
from ...instances.common.errors import OptionError
from ...instances.common.fields import LARGEST, unknown_names
from ...solvers.allocation.frontier import find_allocation_frontier
from ...solvers.allocation.frontier_result import AllocationFrontier
from ...solvers.common.base import Clock
from ...solvers.common.options import SolveOptions


def find(
    instance: AllocationInstance,
    options: SolveOptions,
    error: float,
    most_usd: float | None,
    mix: Mix = "fixed",
    prices: Mapping[str, float] | None = None,
) -> AllocationFrontier:
    """Return the frontier; see `pareto`.

    Raises
    ------
    OptionError
        If a setting has no meaning here.
    """
    given = prices or {}
    clock = Clock(options.time_limit_s)
    if mix not in ("fixed", "any"):
        raise OptionError(f"mix is {mix!r}; allowed: fixed, any")
    for _, what in unknown_names(given, instance.resources, "prices", "resource", "resources"):
        raise OptionError(f"price: {what}")
    for name, price in given.items():
        if not 0 <= price <= LARGEST:
            raise OptionError(f"the price of {name} is {price:g}; it must be at least 0 and at most 1e15")
    priced = {**instance.prices_usd_per_hour, **given}
    if not any(priced.values()):
        raise OptionError(
            f"{instance.name}: no resource has a price, so clusters do not differ in cost; give "
            "prices_usd_per_hour in the instance, or prices here, on the command line --price NAME=USD "
            f"(resources: {', '.join(instance.resources)})"
        )
    if not any(instance.table().weight):
        raise OptionError(f"{instance.name}: every job has weight 0, so there is no mean completion time")
    assumed = [
        f"{name} costs {price:g} USD/h, as given; not from the instance" for name, price in given.items()
    ]
    grid = cluster_grid_of(instance, mix, priced, most_usd)
    return find_allocation_frontier(instance, grid, options, error, clock, tuple(assumed))
