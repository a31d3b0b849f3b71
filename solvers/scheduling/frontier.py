"""Search for the frontier of cluster size against mean completion time: a plan and a bound for each size."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from ...formulations.common.frontier import Sizes
from ...formulations.common.objective import TOLERANCE, loosened, within
from ...formulations.scheduling.plan import Segment
from ...instances.common.errors import OptionError, shown, some
from ...instances.common.fields import Amounts, Fields, Many, Model, Positive
from ...instances.scheduling.instance import SchedulingInstance
from ..common.base import Clock
from ..common.result import AnyFrontier, SolveOptions
from ..frontier import SizeSearch


class SizeBound(Model):
    """The bound of a size that is no point, because a smaller one has as good a plan.

    Attributes
    ----------
    size
        Units of the resource.
    bound_s
        Below which no plan has its mean completion time, as our own check derives.
    certificate
        From what the check derives it; None where it needs nothing.
    """

    size: Positive
    bound_s: float
    certificate: Fields | None = None


class SizePoint(SizeBound):
    """One size, and the best plan for it that was found.

    Attributes
    ----------
    mean_completion_s
        Σ ω_j (C_j − r_j) / Σ ω_j of the plan.
    rate_usd_per_hour
        What the cluster costs; None without prices.
    solver
        What found the plan.
    """

    mean_completion_s: float
    rate_usd_per_hour: float | None = None
    solver: str
    plan: Many[Segment]


class SchedulingFrontier(AnyFrontier):
    """The result of a search over sizes; JSON and back without loss.

    Attributes
    ----------
    resource, least, most
        Of which there are how many, from the smallest to the largest size.
    status
        `complete`: the error is proven; `partial`: a limit stopped the search.
    error, certified_error
        ε: for every size from `least` to `most` there is a point that is no larger, and no plan for that size
        has a mean below 1 − ε times the point's; as asked for, and as the bounds prove.
    prices_usd_per_hour
        Of one unit of each resource.
    points
        From the largest and fastest to the smallest.
    others
        Sizes that are no points, on which the error rests too.
    """

    slow: ClassVar[str] = "mean_completion_s"
    dear: ClassVar[str] = "size"
    called: ClassVar[str] = "sizes"
    titles: ClassVar[Mapping[str, str]] = {
        "size": "size",
        "mean completion, s": "mean_completion_s",
        "no plan is below, s": "bound_s",
    }
    figures: ClassVar[tuple[str, ...]] = (
        "size",
        "rate_usd_per_hour",
        "mean_completion_s",
        "bound_s",
        "solver",
    )

    kind: Literal["scheduling"] = "scheduling"
    resource: str
    least: Positive
    most: Positive
    prices_usd_per_hour: Amounts = {}
    points: Many[SizePoint] = ()
    others: Many[SizeBound] = ()


def with_resource_amount(instance: SchedulingInstance, resource: str, size: float) -> SchedulingInstance:
    """Return the instance with another amount of one resource, its servers merged into one pool.

    Raises
    ------
    InstanceError
        If jobs do not fit.
    """
    return instance.replace(
        resources={**instance.pool, resource: size}, servers=(), objective="mean_completion_time"
    )


def find_frontier(
    instance: SchedulingInstance,
    options: SolveOptions,
    error: float,
    most_usd: float | None,
    *,
    prices: Mapping[str, float] | None = None,
    resource: str | None = None,
    least: float | None = None,
    most: float | None = None,
) -> SchedulingFrontier:
    """Return the Pareto frontier of cluster size against mean completion time, with its proven error ε.

    Sizes are whole numbers. The smallest and the largest are solved first; then the interval is divided that
    can improve the error most.

    Parameters
    ----------
    error
        ε, as in `SchedulingFrontier`.
    most_usd
        Largest cost of a cluster, in USD per hour.
    prices
        USD per hour of one unit, by resource.
    resource, least, most
        The resource that is varied, and its least and largest amount; by default from half of what there is
        to twice as much.

    Raises
    ------
    OptionError
        If there is no such resource, a size is wrong, or jobs do not fit into the smallest.
    """
    prices = prices or {}
    resource = _resource(instance, resource, prices)
    sizes = _sizes(instance, resource, prices, least, most, most_usd)
    search = _Search(instance, sizes, options, error, Clock(options.time_limit_s), resource)
    search.run()
    points, others = search.ranked()
    return SchedulingFrontier(
        **search.facts(),
        resource=resource,
        least=sizes.first,
        most=sizes.last,
        prices_usd_per_hour=dict(prices),
        points=tuple(search.point_of(size, _rate(instance, resource, prices, size)) for size in points),
        others=tuple(SizeBound(**search.bound_of(size)) for size in others),
    )


def _resource(instance: SchedulingInstance, asked: str | None, prices: Mapping[str, float]) -> str:
    """Return the resource that is varied; raise an error if it, or a priced one, is unknown."""
    names = list(instance.pool)
    listed = some(names, 20)
    if asked is None and len(names) > 1:
        raise OptionError(f"--resource is missing; of which there shall be more or less: {listed}")
    if asked is not None and asked not in names:
        raise OptionError(f"--resource {shown(asked)} is unknown; there are: {listed}")
    unknown = sorted(set(prices) - set(names))
    if unknown:
        raise OptionError(f"--price {unknown[0]}: there is no such resource; there are: {listed}")
    return names[0] if asked is None else asked


def _sizes(
    instance: SchedulingInstance,
    resource: str,
    prices: Mapping[str, float],
    least: float | None,
    most: float | None,
    most_usd: float | None,
) -> Sizes:
    """Return the sizes from the smallest to the largest, in units of the varied resource.

    Raises
    ------
    OptionError
        If they are not valid, or jobs do not fit into the smallest.
    """
    now, jobs = instance.pool[resource], instance.table()
    demand = jobs.total_demand[:, jobs.resources.index(resource)]
    needed = float(demand.max())
    # Demands are products of floats, and 1.2 / 0.1 is 11.999…: neither may cost a whole size.
    fits = math.ceil(needed * (1 - TOLERANCE))
    low = max(fits, math.ceil(now / 2)) if least is None else least
    high = max(math.ceil(2 * now), low) if most is None else most
    if not 0 < low <= high < math.inf or low != int(low) or high != int(high):
        raise OptionError(f"--from {low:g} --to {high:g}: sizes are whole numbers above 0, the smaller first")
    if not within(needed, low):
        wide = np.count_nonzero(demand > low)
        raise OptionError(
            f"--from {low:g}: {wide:,} {'job asks' if wide == 1 else 'jobs ask'} for more "
            f"{resource} at once, the largest for {needed:g}; "
            f"give --from {fits} at least"
        )
    if most_usd is not None:
        price = prices.get(resource, 0.0)
        if not price:
            raise OptionError(f"--most-usd needs the price of {resource}: --price {resource}=USD")
        rate = _rate(instance, resource, prices, low) or 0.0
        high = min(high, math.floor(loosened((most_usd - (rate - price * low)) / price)))
        if high < low:
            raise OptionError(f"--most-usd {most_usd:g}: {low:g} {resource} cost {rate:g} USD/h")
    return Sizes(float(low), float(high))


def _rate(
    instance: SchedulingInstance, resource: str, prices: Mapping[str, float], size: float
) -> float | None:
    """Return the hourly cost (USD) of a cluster with this amount of the resource, None without prices."""
    amounts = {**instance.pool, resource: size}
    return math.fsum(price * amounts[name] for name, price in prices.items()) if prices else None


@dataclass
class _Search(SizeSearch):
    """Search for the frontier over amounts of a resource."""

    resource: str

    def of_size(self, size: float) -> SchedulingInstance:
        """Return the instance with another amount of the resource."""
        return with_resource_amount(self.instance, self.resource, size)

    def bound_of(self, size: float) -> Fields:
        """Return the fields of a `SizeBound`."""
        return {"size": size, "bound_s": self.bounds()[size], "certificate": self.solved[size].certificate}

    def point_of(self, size: float, rate: float | None) -> SizePoint:
        """Return the frontier point of a size; the message of a result begins with what found its plan."""
        result = self.solved[size]
        return SizePoint(
            **self.bound_of(size),
            mean_completion_s=self.values()[size],
            rate_usd_per_hour=rate,
            solver=(result.message or result.solver).removeprefix("found by ").partition(";")[0],
            plan=result.plan or (),
        )
