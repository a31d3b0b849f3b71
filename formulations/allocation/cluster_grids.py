"""The two grids of clusters: the instance's cluster scaled, or free amounts of the resources with a price.

`fixed`, `ScaledCluster`: the instance's cluster, scaled. With N_r = C_r, or 10,000 where C_r is not an
integer, the cluster of scale s has ⌊s·N_r⌋·C_r/N_r of resource r. A step is a scale at which a resource with
a price gains a unit, so each costs more than the one before; resources without a price scale along. All
scales are fractions, so no rounding makes a cluster larger or smaller than it is.

`any`, `FreeCluster`: any amounts of the resources with a price, those without as in the instance. A step is a
multiple of g, the greatest common divisor of what single tasks cost per hour, so that every plan costs a
multiple of g; the plans of step x are those that cost at most x. Where there would be more than 10⁸ steps,
g is a multiple of the divisor that is so coarse.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from functools import cached_property

import numpy as np

from ...instances.allocation.instance import AllocationInstance
from ...instances.allocation.job_table import JobTable
from ...instances.common.arrays import Floats, Ints
from ...instances.common.errors import OptionError
from ..common.tolerance import agree, loosened, within
from .cluster_grid import ZERO, ClusterGrid, Mix
from .configurations import Configurations

PARTS = 10_000
"""An amount that is not whole is scaled in so many parts of what the instance has."""
MOST_STEPS = 10**8
"""Of the mix `any`; the tolerance of a limit, 10⁻⁹, then stays well below a step."""


def fastest_configurations(configs: Configurations, price: Floats) -> Ints:
    """Return for each job its configuration of least ω·t, the cheapest of several.

    Parameters
    ----------
    price
        Of each resource.
    """
    order = np.lexsort((configs.demand @ price, configs.cost, configs.owner))
    fastest: Ints = order[configs.start[:-1]]
    return fastest


def widest(table: JobTable) -> Floats:
    """Return the most that one job can take of each resource, shape (R,)."""
    ps, workers = table.max_ps.copy(), table.max_workers.copy()
    if len(table.row_ps):
        of_row = np.repeat(np.arange(len(table.model)), np.diff(table.first_row))
        np.maximum.at(ps, of_row, table.row_ps)
        np.maximum.at(workers, of_row, table.row_workers)
    most: Floats = (ps[:, None] * table.ps_demand + workers[:, None] * table.worker_demand).max(axis=0)
    return most


class ScaledCluster(ClusterGrid):
    """The mix `fixed`; a step is a scale."""

    mix: Mix = "fixed"

    def __init__(
        self, instance: AllocationInstance, prices: Mapping[str, float], most_usd: float | None
    ) -> None:
        super().__init__(instance, prices, most_usd)
        self._counts = {
            name: int(amount) if float(amount).is_integer() else PARTS
            for name, amount in instance.resources.items()
        }
        self._unit = {
            name: Fraction(amount) / self._counts[name] if amount else ZERO
            for name, amount in instance.resources.items()
        }
        self._rising = [self._counts[name] for name in self.prices if self._counts[name]]
        if not self._rising:
            raise OptionError(
                f"the cluster has none of the resources with a price ({', '.join(self.prices)}), so scaling "
                "it costs nothing; try --mix any, or price another resource"
            )

    def next(self, step: Fraction) -> Fraction:
        """Return the next larger cluster."""
        return min(Fraction(math.floor(step * n) + 1, n) for n in self._rising)

    def at_most(self, amount: Fraction) -> Fraction:
        """Return the largest cluster of at most a scale."""
        return max(Fraction(math.floor(amount * n), n) for n in self._rising)

    def capacities(self, step: Fraction) -> dict[str, float]:
        """Return what the cluster of a scale has of each resource."""
        return {
            name: float(math.floor(step * n) * self._unit[name]) if n else 0.0
            for name, n in self._counts.items()
        }

    def cluster(self, step: Fraction) -> AllocationInstance:
        """Return the instance with the cluster of a scale."""
        return self.instance.model_copy(update={"resources": self.capacities(step)})

    def rate(self, step: Fraction) -> float:
        """Return what the cluster of a scale costs, used or not, in USD per hour."""
        return self.cost_of(self.capacities(step))

    def lowest_with(self, need: Floats) -> Fraction | None:
        """Return the smallest cluster that has so much of each resource."""
        least = ZERO
        for (name, n), amount in zip(self._counts.items(), need.tolist(), strict=True):
            if not n and not within(amount, 0.0):
                return None
            if n:
                units = math.ceil(Fraction(amount) / self._unit[name])
                units -= bool(units) and within(amount, float((units - 1) * self._unit[name]))
                least = max(least, Fraction(units, n))
        below = self.at_most(least)
        return below if below == least else self.next(below)

    def place(self, step: Fraction, used: Mapping[str, float]) -> tuple[Fraction, dict[str, float]]:
        """Return the step itself: a cluster is paid for whether it is used or not."""
        del used
        return step, self.capacities(step)

    def step_of(self, rate: float, capacities: Mapping[str, float]) -> Fraction | None:
        """Return the scale of a cluster; None if it is not the instance's cluster, scaled."""
        scales = [
            Fraction(round(Fraction(capacities.get(name, 0.0)) / self._unit[name]), n)
            for name, n in self._counts.items()
            if n and name in self.prices
        ]
        step = max(scales)
        own = self.capacities(step)
        right = own.keys() == capacities.keys() and all(agree(own[name], capacities[name]) for name in own)
        return step if right and step >= 0 and agree(rate, self.rate(step)) else None

    @property
    def widest_cluster(self) -> AllocationInstance:
        """The dearest cluster; without a limit, one in which every configuration fits alone."""
        if self.most_usd is not None:
            return self.cluster(self._dearest)
        most = zip(self.instance.resources.items(), widest(self.table).tolist(), strict=True)
        resources = {name: wide if amount else 0.0 for (name, amount), wide in most}
        return self.instance.model_copy(update={"resources": resources})

    @cached_property
    def _dearest(self) -> Fraction:
        """The largest cluster that costs at most `most_usd`."""
        assert self.most_usd is not None
        high = self.next(ZERO)
        while within(self.rate(high), self.most_usd):
            high = self.next(2 * high)
        return self.highest(lambda step: within(self.rate(step), self.most_usd or 0.0), ZERO, high)

    @cached_property
    def last(self) -> Fraction:
        """The smallest cluster in which all jobs have their fastest configurations, or the dearest allowed.

        Beyond it every job has what `wide` has best, so no larger cluster has a better plan.
        """
        configs = self.wide
        if (np.diff(configs.start) == 0).any():  # there is no plan anywhere, which this cluster shows
            return self.lowest_with(configs.capacity) or ZERO
        price = np.array([self.prices.get(name, 0.0) for name in configs.resources])
        top = self.lowest_with(configs.demand[fastest_configurations(configs, price)].sum(axis=0))
        assert top is not None
        return top if self.most_usd is None else min(top, self._dearest)

    def _about(self) -> str:
        parts = [name for name, n in self._counts.items() if n != self.instance.resources[name]]
        text = "every cluster is the instance's, scaled, in steps of one unit of a resource with a price"
        return text + (f"; {', '.join(parts)} in parts of 1/{PARTS:,}" if parts else "")


class FreeCluster(ClusterGrid):
    """The mix `any`; a step is an hourly cost in USD."""

    mix: Mix = "any"

    @cached_property
    def grain(self) -> Fraction:
        """Between two steps, in USD per hour."""
        names = [self.table.resources.index(name) for name in self.prices]
        prices = [Fraction(str(price)) for price in self.prices.values()]
        tasks = np.concatenate([self.table.ps_demand, self.table.worker_demand])[:, names]
        divisor = ZERO
        for row in np.unique(tasks, axis=0).tolist():
            cost = sum((p * Fraction(str(d)) for p, d in zip(prices, row, strict=True)), ZERO)
            divisor = _common_divisor(divisor, cost)
        if not divisor:
            raise OptionError(
                f"no task takes any of the resources with a price ({', '.join(self.prices)}), so there is "
                "nothing to trade; price what the jobs use"
            )
        return divisor * max(1, math.ceil(self._wide_usd / divisor / MOST_STEPS))

    @cached_property
    def _wide_usd(self) -> Fraction:
        """What the plan costs in which every job takes as much as it can, or the most that is allowed."""
        configs = self.wide
        if (np.diff(configs.start) == 0).any():  # there is no plan, whatever the cost
            return Fraction(self.most_usd or 1.0)
        most = math.fsum(np.maximum.reduceat(configs.demand[:, -1], configs.start[:-1]))
        if self.most_usd is not None:
            most = min(most, self.most_usd)
        return Fraction(most)

    @cached_property
    def last(self) -> Fraction:
        """The cost at which a budget binds no more, or the most that is allowed."""
        steps = math.floor(self._wide_usd / self.grain)
        if self.most_usd is None:
            return (steps + 1) * self.grain
        return (steps + within(float((steps + 1) * self.grain), self.most_usd)) * self.grain

    def next(self, step: Fraction) -> Fraction:
        """Return the next higher cost."""
        return step + self.grain

    def at_most(self, amount: Fraction) -> Fraction:
        """Return the highest step that does not cost more."""
        return math.floor(amount / self.grain) * self.grain

    def previous(self, step: Fraction) -> Fraction:
        """Return the next lower cost."""
        return step - self.grain

    def cluster(self, step: Fraction) -> AllocationInstance:
        """Return the instance with more of the resources with a price than can be used, and a budget."""
        return self._roomy(float(step))

    def _roomy(self, budget: float) -> AllocationInstance:
        most = zip(self.instance.resources.items(), widest(self.table).tolist(), strict=True)
        jobs = len(self.table)
        resources = {name: jobs * wide if name in self.prices else c for (name, c), wide in most}
        return self.instance.model_copy(update={"resources": resources, "budget_usd_per_hour": budget})

    def rate(self, step: Fraction) -> float:
        """Return the step."""
        return float(step)

    def lowest_with(self, need: Floats) -> Fraction | None:
        """Return the least cost that is enough; the other capacities do not depend on the step."""
        *others, cost = need.tolist()
        limits = self.wide.capacity[:-1].tolist()
        if not all(within(amount, limit) for amount, limit in zip(others, limits, strict=True)):
            return None
        return self._reaching(cost)

    def _reaching(self, cost: float) -> Fraction:
        """Return the lowest step whose plans may cost so much, with half of the tolerance to spare."""
        step = self.at_most(Fraction(cost))
        return step if cost <= (float(step) + loosened(float(step))) / 2 else self.next(step)

    def place(self, step: Fraction, used: Mapping[str, float]) -> tuple[Fraction, dict[str, float]]:
        """Return what a plan costs as a step, and what it uses; the rest as the instance has it."""
        capacities = self.instance.resources | {name: used[name] for name in self.prices}
        return min(step, self._reaching(self.cost_of(capacities))), capacities

    def step_of(self, rate: float, capacities: Mapping[str, float]) -> Fraction | None:
        """Return the step of an hourly cost; None if a resource without a price is not the instance's."""
        fixed = [name for name in self.instance.resources if name not in self.prices]
        if any(capacities.get(name) != self.instance.resources[name] for name in fixed) or not rate >= 0:
            return None
        return self._reaching(rate)

    @property
    def widest_cluster(self) -> AllocationInstance:
        """The cluster of the highest budget; without a limit, one in which every configuration fits alone."""
        most = self.most_usd
        if most is None:
            most = self.cost_of(dict(zip(self.instance.resources, widest(self.table).tolist(), strict=True)))
        return self._roomy(most)

    def _about(self) -> str:
        names = ", ".join(self.prices)
        text = f"any amounts of {names}, as the plans use them"
        return f"{text}; hourly costs in steps of {float(self.grain):g} USD"


def _common_divisor(a: Fraction, b: Fraction) -> Fraction:
    """Return the greatest number of which both are multiples."""
    return Fraction(
        math.gcd(a.numerator * b.denominator, b.numerator * a.denominator), a.denominator * b.denominator
    )


def cluster_grid_of(
    instance: AllocationInstance, mix: Mix, prices: Mapping[str, float], most_usd: float | None
) -> ClusterGrid:
    """Return the grid of a scaling mode, `fixed` or `any`.

    Raises
    ------
    OptionError
        If nothing in which the clusters differ has a price.
    """
    return (ScaledCluster if mix == "fixed" else FreeCluster)(instance, prices, most_usd)
