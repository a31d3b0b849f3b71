"""Search for the frontier of cluster size against mean completion time: a plan and a bound for each size."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from ...formulations.common.objective import TOLERANCE, loosened, within
from ...instances.common.errors import OptionError, shown, some
from ...instances.scheduling.instance import SchedulingInstance
from ..common.base import Clock
from ..common.conclude import library_versions
from ..common.result import Limit, Result, SolveOptions
from ..registry import find_solver
from ..run import solve_with
from .frontier_result import SchedulingFrontier, SizeBound, SizePoint, error_of

SOLVES_PER_TIME_LIMIT = 8
"""One solve gets at most the time limit over this number, so that several sizes are solved."""
MAX_SIZES = 60
LEAST_GAIN_SHARE = 0.25
"""An interval of sizes is not divided if that can improve the error by less than this share of it."""


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
    resource = _resource(instance, resource)
    unknown = sorted(set(prices or {}) - set(instance.pool))
    if unknown:
        raise OptionError(f"--price {unknown[0]}: there is no such resource; there are: {_names(instance)}")
    search = _Search(instance, resource, prices or {}, options, Clock(options.time_limit_s))
    low, high = search.range(least, most, most_usd)
    limit = search.run(low, high, error)
    points, others = search.points(), search.others()
    reached = error_of(search.means(), search.bounds()) if {low, high} <= search.solved.keys() else None
    return SchedulingFrontier(
        instance=instance.name,
        instance_sha256=instance.sha256(),
        status="complete" if reached is not None and reached <= error else "partial",
        limit=limit,
        error=error,
        certified_error=reached,
        resource=resource,
        least=low,
        most=high,
        prices_usd_per_hour=dict(prices or {}),
        points=tuple(points),
        others=tuple(others),
        runtime_s=search.clock.elapsed_s,
        options=options,
        versions=library_versions(),
    )


def _names(instance: SchedulingInstance) -> str:
    return some(list(instance.pool), 20)


def _resource(instance: SchedulingInstance, asked: str | None) -> str:
    names = list(instance.pool)
    if asked is None and len(names) > 1:
        raise OptionError(f"--resource is missing; of which there shall be more or less: {_names(instance)}")
    if asked is not None and asked not in names:
        raise OptionError(f"--resource {shown(asked)} is unknown; there are: {_names(instance)}")
    return names[0] if asked is None else asked


@dataclass
class _Search:
    """Search for the frontier: solves the instance for one cluster size after another, keeps the results."""

    instance: SchedulingInstance
    resource: str
    prices: Mapping[str, float]
    options: SolveOptions
    clock: Clock
    solved: dict[float, Result] = field(default_factory=dict)

    def range(self, least: float | None, most: float | None, most_usd: float | None) -> tuple[float, float]:
        """Return the smallest and the largest cluster size to be solved, in units of the varied resource.

        Raises
        ------
        OptionError
            If they are not valid, or jobs do not fit into the smallest.
        """
        now = self.instance.pool[self.resource]
        table = self.instance.table()
        needed = float(table.total_demand[:, table.resources.index(self.resource)].max())
        # Demands are products of floats, and 1.2 / 0.1 is 11.999…: neither may cost a whole size.
        fits = math.ceil(needed * (1 - TOLERANCE))
        low = max(fits, math.ceil(now / 2)) if least is None else least
        high = max(math.ceil(2 * now), low) if most is None else most
        if not 0 < low <= high < math.inf or low != int(low) or high != int(high):
            raise OptionError(
                f"--from {low:g} --to {high:g}: sizes are whole numbers above 0, the smaller first"
            )
        if not within(needed, low):
            wide = np.count_nonzero(table.total_demand[:, table.resources.index(self.resource)] > low)
            raise OptionError(
                f"--from {low:g}: {wide:,} {'job asks' if wide == 1 else 'jobs ask'} for more "
                f"{self.resource} at once, the largest for {needed:g}; "
                f"give --from {fits} at least"
            )
        if most_usd is not None:
            high = self._affordable(low, high, most_usd)
        return float(low), float(high)

    def _affordable(self, low: float, high: float, most_usd: float) -> float:
        price = self.prices.get(self.resource, 0.0)
        if not price:
            raise OptionError(f"--most-usd needs the price of {self.resource}: --price {self.resource}=USD")
        others = (self.rate(low) or 0.0) - price * low
        affordable = math.floor(loosened((most_usd - others) / price))
        if affordable < low:
            raise OptionError(
                f"--most-usd {most_usd:g}: {low:g} {self.resource} cost {self.rate(low):g} USD/h"
            )
        return min(high, affordable)

    def rate(self, size: float) -> float | None:
        """Return the hourly cost (USD) of a cluster with this amount of the resource, None without prices."""
        if not self.prices:
            return None
        amounts = {**self.instance.pool, self.resource: size}
        return math.fsum(price * amounts[name] for name, price in self.prices.items())

    def run(self, low: float, high: float, error: float) -> Limit:
        """Solve cluster sizes until the error is reached; return the limit that stopped the search."""
        for size in dict.fromkeys((low, high)):
            if not self._solve(size):
                return "time"
        while error_of(self.means(), self.bounds()) > error:
            middle = self._widest(error)
            if middle is None:
                return "none"
            if len(self.solved) >= MAX_SIZES:
                return "node"
            if self.clock.expired or not self._solve(middle):
                return "time"
        return "none"

    def _widest(self, error: float) -> float | None:
        """Return the cluster size to solve next, which can lower the error most; None if only by little.

        The possible gain is the drop of the bound or of the mean from the smaller to the larger size.
        """
        sizes, means, bounds = sorted(self.solved), dict(self.means()), dict(self.bounds())
        gains = [
            (
                max(bounds[a] - bounds[b], means[a] - means[b]) / means[a],
                min(max(math.floor(math.sqrt(a * b)), a + 1), b - 1),
            )
            for a, b in itertools.pairwise(sizes)
            if b - a > 1
        ]
        gain, middle = max(gains, default=(0.0, 0.0))
        return middle if gain > error * LEAST_GAIN_SHARE else None

    def _solve(self, size: float) -> bool:
        """Solve the instance for one cluster size; return whether a plan was found within the time limit."""
        cluster, rest, limit = (
            with_resource_amount(self.instance, self.resource, size),
            self.clock.remaining_s,
            None,
        )
        if self.options.time_limit_s is not None and rest is not None:
            limit = max(1.0, min(rest, self.options.time_limit_s / SOLVES_PER_TIME_LIMIT))
        asked = self.options.model_copy(update={"time_limit_s": limit})
        exact = find_solver("exact", cluster.kind)
        result = solve_with(cluster, exact, asked)
        if result.plan is None and not self.clock.expired:
            # Loops are compiled once on a machine, which takes longer than a solve.
            asked = asked.model_copy(update={"time_limit_s": self.clock.remaining_s})
            result = solve_with(cluster, exact, asked)
        if result.plan is not None:
            self.solved[size] = result
        return result.plan is not None

    def means(self) -> list[tuple[float, float]]:
        """Return each solved cluster size with the mean completion time of its plan in seconds."""
        return [(size, float(result.objectives[0].value or 0.0)) for size, result in self.solved.items()]

    def bounds(self) -> list[tuple[float, float]]:
        """Return each solved cluster size with the certified bound on mean completion time in seconds."""
        return [
            (size, float(result.objectives[0].certified_bound or 0.0)) for size, result in self.solved.items()
        ]

    def points(self) -> list[SizePoint]:
        """Return the frontier points: sizes with a better plan than all smaller ones, largest first."""
        points: list[SizePoint] = []
        for size, result in sorted(self.solved.items()):
            record = result.objectives[0]
            if points and not (record.value or 0.0) < points[-1].mean_completion_s:
                continue
            points.append(
                SizePoint(
                    size=size,
                    bound_s=record.certified_bound or 0.0,
                    certificate=result.certificate,
                    mean_completion_s=record.value or 0.0,
                    rate_usd_per_hour=self.rate(size),
                    solver=_method_name(result),
                    plan=result.plan or (),
                )
            )
        return points[::-1]

    def others(self) -> list[SizeBound]:
        """Return the solved sizes that are no frontier points, with their bounds, the largest first."""
        taken = {point.size for point in self.points()}
        return [
            SizeBound(
                size=size,
                bound_s=result.objectives[0].certified_bound or 0.0,
                certificate=result.certificate,
            )
            for size, result in sorted(self.solved.items(), reverse=True)
            if size not in taken
        ]


def _method_name(result: Result) -> str:
    """Return the name of the method that found a schedule, from the beginning of the result's message."""
    return (result.message or result.solver).removeprefix("found by ").partition(";")[0]
