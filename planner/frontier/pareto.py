"""The frontier of an instance: of cost against throughput, or of completion time against hourly cost."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, overload

from ...formulations.allocation.cluster_grid import Mix
from ...formulations.allocation.cluster_grids import ladder_of
from ...instances.allocation.instance import AllocationInstance
from ...instances.common.base import Instance
from ...instances.common.errors import OptionError
from ...instances.common.fields import LARGEST, unknown_names
from ...instances.staging.instance import StagingInstance
from ...solvers.allocation.frontier import find_allocation_frontier
from ...solvers.allocation.frontier_result import AllocationFrontier
from ...solvers.common.base import Clock
from ...solvers.common.conclude import patience_of
from ...solvers.common.options import SolveOptions
from ...solvers.staging.frontier import Frontier, find_frontier
from ..allocation.frontier import DEFAULT_ERROR as ALLOCATION_ERROR
from ..allocation.frontier import shown_allocation, verify_allocation
from ..staging.frontier import DEFAULT_ERROR, shown_staging, verify_staging
from ..verification.findings import Verification, refused

if TYPE_CHECKING:
    from rich.table import Table

SUPPORTED = frozenset({"time_limit_s", "gap", "threads", "seed"})

AnyFrontier = Frontier | AllocationFrontier


@overload
def pareto(
    instance: StagingInstance,
    options: SolveOptions | None = ...,
    *,
    error: float | None = ...,
    most_usd: float | None = ...,
) -> Frontier: ...


@overload
def pareto(
    instance: AllocationInstance,
    options: SolveOptions | None = ...,
    *,
    error: float | None = ...,
    most_usd: float | None = ...,
    mix: Mix | None = ...,
    prices: Mapping[str, float] | None = ...,
) -> AllocationFrontier: ...


@overload
def pareto(
    instance: Instance,
    options: SolveOptions | None = ...,
    *,
    error: float | None = ...,
    most_usd: float | None = ...,
    mix: Mix | None = ...,
    prices: Mapping[str, float] | None = ...,
) -> AnyFrontier: ...


def pareto(
    instance: Instance,
    options: SolveOptions | None = None,
    *,
    error: float | None = None,
    most_usd: float | None = None,
    mix: Mix | None = None,
    prices: Mapping[str, float] | None = None,
) -> AnyFrontier:
    """Return every plan that no other beats in two aims at once, and prove that none is missing.

    Staging: cost against throughput. The instance's floor, limits, memory and budgets hold for every point;
    its objective plays no part. Allocation: mean completion time of the jobs against the hourly cost of the
    cluster; the instance's objective and budget play no part.

    Parameters
    ----------
    options
        Time limit, threads and seed.
    error
        ε. Staging (1e-4 unless given): for every feasible plan there is a point at least as fast that costs
        at most 1/(1 − ε) times as much. Allocation (0.01): for every cluster there is a point that costs no
        more, and no plan for the cluster has a mean completion time below 1 − ε times the point's. 0 asks
        for every breakpoint.
    most_usd
        Look for nothing dearer, in USD, or for allocation in USD per hour. By default staging stops at the
        instance's cost limit; where units are unlimited and there is no budget, at ten times the cost of the
        cheapest plan. Allocation stops where every job is as fast as it can be.
    mix
        Allocation: `fixed` (the default) scales the instance's cluster, `any` takes any amounts of the
        resources that have a price.
    prices
        Allocation: USD per hour of one unit, by resource; they go before those of the instance.

    Raises
    ------
    OptionError
        If the instance has no such trade-off, or an option has no meaning here.
    TooLargeError
        If an allocation has too many configurations where nothing limits the cluster.
    """
    if error is not None and not 0 <= error < 1:
        raise OptionError(f"error is {error:g}; it must be at least 0 and below 1")
    if most_usd is not None and not 0 < most_usd < math.inf:
        raise OptionError(f"most_usd is {most_usd:g}; it must be above 0")
    options = options or SolveOptions()
    unused = sorted(options.model_fields_set - SUPPORTED)
    for name in unused:
        if getattr(options, name):
            raise OptionError(f"a frontier does not support {name}; leave it out")
    if isinstance(instance, AllocationInstance):
        wanted = ALLOCATION_ERROR if error is None else error
        with patience_of(options).enforced():
            return _of_allocation(instance, options, wanted, most_usd, mix or "fixed", prices or {})
    if not isinstance(instance, StagingInstance):
        raise OptionError(f"a frontier is for staging and allocation instances, not for {instance.kind}")
    if mix is not None or prices:
        raise OptionError(f"{'a mix' if mix else 'a price'} is for allocation instances; leave it out")
    with patience_of(options).enforced():
        return find_frontier(instance, options, DEFAULT_ERROR if error is None else error, most_usd)


def _of_allocation(
    instance: AllocationInstance,
    options: SolveOptions,
    error: float,
    most_usd: float | None,
    mix: Mix,
    given: Mapping[str, float],
) -> AllocationFrontier:
    clock = Clock(options.time_limit_s)
    if mix not in ("fixed", "any"):
        raise OptionError(f"mix is {mix!r}; allowed: fixed, any")
    for _, what in unknown_names(given, instance.resources, "prices", "resource", "resources"):
        raise OptionError(f"price: {what}")
    for name, price in given.items():
        if not 0 <= price <= LARGEST:
            raise OptionError(f"the price of {name} is {price:g}; it must be at least 0 and at most 1e15")
    prices = {**instance.prices_usd_per_hour, **given}
    if not any(prices.values()):
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
    ladder = ladder_of(instance, mix, prices, most_usd)
    return find_allocation_frontier(instance, ladder, options, error, clock, tuple(assumed))


def verify_frontier(instance: Instance, frontier: AnyFrontier) -> Verification:
    """Check a frontier against its instance: every plan, every figure, and the error that it proves."""
    if isinstance(instance, StagingInstance) and isinstance(frontier, Frontier):
        return verify_staging(instance, frontier)
    if isinstance(instance, AllocationInstance) and isinstance(frontier, AllocationFrontier):
        return verify_allocation(instance, frontier)
    kind = "a staging" if frontier.kind == "staging" else "an allocation"
    return refused(
        instance.name, f"the frontier is of {kind} instance; {instance.name} is of kind {instance.kind}"
    )


def shown(frontier: AnyFrontier) -> tuple[Table, list[str]]:
    """Return the points as a table for people, thinned where they are many, and lines about the whole."""
    return shown_staging(frontier) if isinstance(frontier, Frontier) else shown_allocation(frontier)
