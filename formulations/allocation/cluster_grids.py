"""Grids of clusters for the frontier of cost and completion time.

A grid makes a capacity or budget parametric (`formulations/common/frontier.py`). Step x stands for a
cluster, or for an hourly cost, and a plan of a step keeps the limits of every higher one: F(x) ⊆ F(y) for
x ≤ y, also with the tolerance of limits, because a larger limit has a larger tolerance.

The grids of clusters: the instance's cluster or servers scaled, or free amounts of resources with a price.
`fixed`, `ScaledCluster`: the instance's cluster, scaled. With N_r = C_r, or 10,000 where C_r is not an
integer, the cluster of scale s has ⌊s·N_r⌋·C_r/N_r of resource r. A step is a scale at which a resource with
a price gains a unit, so each costs more than the one before; resources without a price scale along. All
scales are fractions, so no rounding makes a cluster larger or smaller than it is.
`fixed`, `ScaledServers`: of N_c servers with equal free amounts, the cluster of scale s has the first
⌊s·N_c⌋; above 1 there are more of them. A job that runs on a server that is gone has to restart.

`any`, `FreeCluster`: any amounts of the resources with a price, those without as in the instance. A step is a
multiple of g, the greatest common divisor of what single tasks cost per hour, so that every plan costs a
multiple of g; the plans of step x are those that cost at most x. Where there would be more than 10⁸ steps,
g is a multiple of the divisor that is so coarse.
"""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Literal

import numpy as np

from ...instances.allocation.instance import AllocationInstance
from ...instances.allocation.job_table import JobTable
from ...instances.common.arrays import Floats, run_of_each
from ...instances.common.errors import OptionError, OutOfTimeError, TooLargeError
from ...instances.common.servers import AnyServer
from ..common.objective import agree, common_divisor, exact_fraction, loosened, within
from .check.configurations import CheckedConfigurations, ConfigurationDerivation, checked_configurations
from .configurations import Configurations, resource_limits
from .formulation import AllocationFormulation
from .plan import Plan

Mix = Literal["fixed", "any"]
ZERO = Fraction(0)


class ClusterGrid(ABC):
    """Family of clusters of rising hourly cost, each identified by a number (its step).

    A step is a scale of the cluster or an hourly cost. Steps go from `first` to `last`; higher ones exceed
    `most_usd` or have no better plan.

    Parameters
    ----------
    instance
        Its objective and its budget are ignored.
    prices
        USD per hour of one unit of each resource.
    most_usd
        Maximum cost of a step, in USD per hour; None for no maximum, of servers for that of the grid.

    Attributes
    ----------
    error_per_gap
        Ratio of the requested error to the gap of a single cluster, unless a gap is requested.
    """

    mix: Mix
    first = ZERO
    error_per_gap = 100

    def __init__(
        self, instance: AllocationInstance, prices: Mapping[str, float], most_usd: float | None
    ) -> None:
        self.prices = {name: prices[name] for name in instance.resources if prices.get(name, 0.0) > 0}
        self.most_usd = most_usd
        changes = {
            "objective": "total_completion_time",
            "prices_usd_per_hour": self.prices,
            "budget_usd_per_hour": None,
            "jobs": instance.table() if instance.servers is None else instance.jobs,
        }
        self.instance = instance.model_copy(update=changes)
        self.table: JobTable = self.instance.table()

    @property
    @abstractmethod
    def last(self) -> Fraction:
        """The last step (cluster) of the grid: higher ones exceed `most_usd` or have no better plan."""

    @abstractmethod
    def next(self, step: Fraction) -> Fraction:
        """Return the next higher step of the grid: the scale, or the hourly cost, of the next cluster."""

    @abstractmethod
    def at_most(self, amount: Fraction) -> Fraction:
        """Return the highest step of the grid that is not above a number."""

    @abstractmethod
    def lowest_with(self, need: Floats) -> Fraction | None:
        """Return the lowest step whose cluster has the needed amounts of all resources; None if none has.

        `need` has the order of the resources of `wide`.
        """

    @abstractmethod
    def cluster(self, step: Fraction) -> AllocationInstance:
        """Return the instance with the capacities, or the hourly budget, of a step of the grid."""

    @abstractmethod
    def rate(self, step: Fraction) -> float:
        """Return the hourly cost of the cluster of a step of the grid, in USD per hour."""

    @abstractmethod
    def place(
        self, step: Fraction, formulation: AllocationFormulation, plan: Plan
    ) -> tuple[Fraction, dict[str, float]]:
        """Return the lowest step whose cluster admits a feasible plan of `step`, and the plan's cluster."""

    @abstractmethod
    def step_of(self, rate: float, capacities: Mapping[str, float]) -> Fraction | None:
        """Return the step of the cluster with these capacities; None if the cluster is not in the grid."""

    @property
    @abstractmethod
    def widest_cluster(self) -> AllocationInstance:
        """An instance in which the configurations of the clusters of all steps fit."""

    @cached_property
    def wide(self) -> Configurations:
        """The table of the configurations that fit in the cluster of some step of the grid."""
        try:
            return AllocationFormulation(self.widest_cluster).configurations
        except OutOfTimeError:
            raise
        except TooLargeError as error:
            raise TooLargeError(f"{error}, or look for no clusters beyond --most-usd") from None

    @cached_property
    def _wide_checked(self) -> CheckedConfigurations:
        """The configurations that fit in the cluster of some step, as the check derives them."""
        derivation = ConfigurationDerivation(self.widest_cluster, self.table)
        return checked_configurations(derivation, self.wide)

    def assumptions(self) -> tuple[str, ...]:
        """Return the modelling assumptions of the grid of clusters, one sentence each."""
        free = [name for name in self.instance.resources if name not in self.prices]
        lines = [self._clusters_text()]
        if free:
            what = "scale along at no cost" if self.mix == "fixed" else "stay as they are, at no cost"
            lines.append(f"resources without a price {what}: {', '.join(free)}")
        return (*lines, "the hourly budget and the objective of the instance play no part")

    @abstractmethod
    def _clusters_text(self) -> str:
        """Return a sentence that describes the clusters of the grid."""

    @cached_property
    def weight(self) -> float:
        """Sum Σ ω of the weights of all jobs."""
        return math.fsum(self.table.weight)

    def previous(self, step: Fraction) -> Fraction:
        """Return the next lower step of the grid, below a step above `ZERO`."""
        return self.highest(lambda _: True, ZERO, step)

    def highest(self, holds: Callable[[Fraction], bool], low: Fraction, high: Fraction) -> Fraction:
        """Return, by bisection, the highest step that satisfies a condition monotone in the step.

        Parameters
        ----------
        low, high
            A step that satisfies the condition, and a higher one that does not.
        """
        # Where rounding down yields no progress, go on by single steps.
        while self.next(low) < high:
            middle = self.at_most((low + high) / 2)
            middle = middle if middle > low else self.next(low)
            low, high = (middle, high) if holds(middle) else (low, middle)
        return low

    def formulation(self, step: Fraction) -> AllocationFormulation:
        """Return the formulation of the cluster of a step, with the fitting configurations of `wide`."""
        cluster = self.cluster(step)
        resources, capacity = resource_limits(cluster)
        assert resources == self.wide.resources
        formulation = AllocationFormulation(cluster)
        formulation.configurations = self.wide.within(capacity)
        formulation.checked = self._wide_checked.within(capacity)
        return formulation

    def cost_of(self, capacities: Mapping[str, float]) -> float:
        """Return the hourly cost of a cluster with the given capacities, in USD per hour."""
        return math.fsum(price * capacities.get(name, 0.0) for name, price in self.prices.items())

    def unpriced(self) -> dict[str, float]:
        """Return the capacity of each resource without a price, by name."""
        return {name: c for name, c in self.instance.resources.items() if name not in self.prices}


SCALING_PARTS = 10_000
"""Number of parts in which a non-integer capacity is scaled."""
MAX_STEPS = 10**8
"""Maximum number of steps for the mix `any`; the tolerance of a limit, 10⁻⁹, stays well below a step."""


def largest_job_demand(table: JobTable) -> dict[str, float]:
    """Return the maximum demand of a single job for each resource."""
    ps, workers = table.max_ps.copy(), table.max_workers.copy()
    of_row = run_of_each(table.first_row)
    np.maximum.at(ps, of_row, table.row_ps)
    np.maximum.at(workers, of_row, table.row_workers)
    most = (ps[:, None] * table.ps_demand + workers[:, None] * table.worker_demand).max(axis=0)
    return dict(zip(table.resources, most.tolist(), strict=True))


@dataclass(frozen=True)
class ScaledPart:
    """A part of a cluster that is scaled in whole units: how many there are now, and what one of them has."""

    count: int
    unit: Mapping[str, Fraction]


class ScaledCluster(ClusterGrid):
    """Grid of the mix `fixed`: the instance's cluster scaled; a step is the scale factor."""

    mix: Mix = "fixed"

    def __init__(
        self, instance: AllocationInstance, prices: Mapping[str, float], most_usd: float | None
    ) -> None:
        super().__init__(instance, prices, most_usd)
        self._parts = self._all_parts()
        self._rising = [part.count for part in self._parts if part.unit.keys() & self.prices.keys()]
        if not self._rising:
            raise OptionError(
                f"the cluster has none of the resources with a price ({', '.join(self.prices)}), so scaling "
                "it costs nothing; try --mix any, or price another resource"
            )

    def _all_parts(self) -> list[ScaledPart]:
        """Return the parts of the instance's cluster: each resource."""
        parts = []
        for name, amount in self.instance.resources.items():
            if amount:
                count = int(amount) if float(amount).is_integer() else SCALING_PARTS
                parts.append(ScaledPart(count, {name: Fraction(amount) / count}))
        return parts

    def next(self, step: Fraction) -> Fraction:
        """Return the scale factor of the next larger cluster."""
        return min(Fraction(math.floor(step * n) + 1, n) for n in self._rising)

    def at_most(self, amount: Fraction) -> Fraction:
        """Return the largest scale factor of the grid that is not above a number."""
        return max(Fraction(math.floor(amount * n), n) for n in self._rising)

    def capacities(self, step: Fraction) -> dict[str, float]:
        """Return the capacity of each resource in the cluster of a scale factor."""
        amounts = dict.fromkeys(self.instance.resources, ZERO)
        for part in self._parts:
            units = math.floor(step * part.count)
            amounts |= {name: amounts[name] + units * amount for name, amount in part.unit.items()}
        return {name: float(amount) for name, amount in amounts.items()}

    def cluster(self, step: Fraction) -> AllocationInstance:
        """Return the instance with the capacities of a scale factor."""
        return self.instance.model_copy(update={"resources": self.capacities(step)})

    def rate(self, step: Fraction) -> float:
        """Return the hourly cost of the cluster of a scale factor, used or not, in USD per hour."""
        return self.cost_of(self.capacities(step))

    def _last_that(self, holds: Callable[[Fraction], bool]) -> Fraction:
        """Return the largest scale factor, or 0, up to which a condition holds that fails from some on."""
        high = self.next(ZERO)
        while holds(high):
            high = self.next(2 * high)
        return self.highest(holds, ZERO, high)

    def lowest_with(self, need: Floats) -> Fraction | None:
        """Return the scale factor of the smallest cluster with these amounts; None if none has them.

        `need` has the order of the resources of the instance.
        """
        needed = dict(zip(self.wide.resources, need.tolist(), strict=True))
        scaled = {name for part in self._parts for name in part.unit}
        if not all(name in scaled or within(amount, 0.0) for name, amount in needed.items()):
            return None

        def lacks(step: Fraction) -> bool:
            there = self.capacities(step)
            return not all(within(amount, there[name]) for name, amount in needed.items())

        return self.next(self._last_that(lacks)) if lacks(ZERO) else ZERO

    def place(
        self, step: Fraction, formulation: AllocationFormulation, plan: Plan
    ) -> tuple[Fraction, dict[str, float]]:
        """Return the step, and its cluster, unchanged: a cluster costs the same whether used or not."""
        del formulation, plan
        return step, self.capacities(step)

    def step_of(self, rate: float, capacities: Mapping[str, float]) -> Fraction | None:
        """Return the scale factor of a cluster; None if it is no scaled cluster of the instance."""
        cost = self.cost_of(capacities)
        if not math.isfinite(cost):
            return None
        step = self._last_that(lambda step: self.rate(step) <= cost)
        own = self.capacities(step)
        right = own.keys() == capacities.keys() and all(agree(own[name], capacities[name]) for name in own)
        return step if right and step <= self.last and agree(rate, self.rate(step)) else None

    @property
    def widest_cluster(self) -> AllocationInstance:
        """The dearest allowed cluster; without a maximum cost, one in which any configuration fits alone."""
        if self.most_usd is not None:
            return self.cluster(self._dearest)
        most = largest_job_demand(self.table)
        resources = {name: most[name] if amount else 0.0 for name, amount in self.instance.resources.items()}
        return self.instance.model_copy(update={"resources": resources})

    @cached_property
    def _dearest(self) -> Fraction:
        """The scale factor of the largest cluster that costs at most `most_usd` per hour."""
        return self._last_that(lambda step: within(self.rate(step), self.most_usd or 0.0))

    @cached_property
    def last(self) -> Fraction:
        """The scale factor from which all jobs run fastest, or the largest within `most_usd`.

        From there on every job has its best configuration of `wide`, so no larger cluster has a better plan.
        """
        configs = self.wide
        if not configs.counts.all():  # there is no plan anywhere, which this cluster shows
            return self.lowest_with(configs.capacity) or ZERO
        price = np.array([self.prices.get(name, 0.0) for name in configs.resources])
        # Of each job the fastest configuration comes first, and the cheapest among equals.
        order = np.lexsort((configs.demand @ price, configs.cost, configs.owner))
        top = self.lowest_with(configs.demand[order[configs.start[:-1]]].sum(axis=0))
        assert top is not None
        return top if self.most_usd is None else min(top, self._dearest)

    def _clusters_text(self) -> str:
        resources = self.instance.resources
        parts = [name for name, amount in resources.items() if not float(amount).is_integer()]
        text = "every cluster is the instance's, scaled, in steps of one unit of a resource with a price"
        return text + (f"; {', '.join(parts)} in parts of 1/{SCALING_PARTS:,}" if parts else "")


MOST_SCALE = 2
"""Servers are scaled up to this by default: no sum of amounts shows when all jobs run fastest on servers."""
MOST_SERVERS = 100_000
"""Largest number of servers of a scaled cluster."""


class ScaledServers(ScaledCluster):
    """Grid of the mix `fixed` for servers: so many of each shape; a step is the scale factor."""

    error_per_gap = 4  # placements are searched: the last parts of a gap take most of the time

    def __init__(
        self, instance: AllocationInstance, prices: Mapping[str, float], most_usd: float | None
    ) -> None:
        self._shapes: dict[tuple[tuple[str, float], ...], list[str]] = defaultdict(list)
        for name, server in instance.expanded_servers.items():
            self._shapes[tuple(sorted(server.available.items()))].append(name)
        super().__init__(instance, prices, most_usd)
        self.most_usd = most_usd or MOST_SCALE * self.rate(Fraction(1))
        if self._dearest * len(instance.expanded_servers) > MOST_SERVERS:
            raise TooLargeError(f"the dearest cluster has over {MOST_SERVERS:,} servers; lower --most-usd")
        # Added servers of a shape have the same names in all clusters, and none that the instance has.
        self._added = next(
            text
            for text in (f"more{n}-" for n in itertools.count())
            if not any(name.startswith(text) for name in instance.expanded_servers)
        )

    def _all_parts(self) -> list[ScaledPart]:
        """Return the parts of the instance's cluster: the servers of each shape."""
        return [
            ScaledPart(len(names), {name: Fraction(amount) for name, amount in shape if amount})
            for shape, names in self._shapes.items()
        ]

    def cluster(self, step: Fraction) -> AllocationInstance:
        """Return the instance with the servers of a scale factor; jobs on others do not run now."""
        servers: dict[str, AnyServer] = {}
        for shape, names in enumerate(self._shapes.values()):
            count = math.floor(step * len(names))
            more = [f"{self._added}{shape}-{k}" for k in range(count - len(names))]
            for name, like in zip((*names, *more)[:count], itertools.cycle(names), strict=False):
                row = self.instance.expanded_servers[like]
                servers[name] = row.model_copy(update={"name": name, "count": None})
        jobs = self.instance.jobs
        if self.instance.has_placements:
            jobs = tuple(
                job
                if job.current is None or servers.keys() >= (job.current.placement or {}).keys()
                else job.model_copy(update={"current": None})
                for job in jobs
            )
        changes = {"servers": tuple(servers.values()), "jobs": jobs, "resources": self.capacities(step)}
        return self.instance.model_copy(update=changes)

    def formulation(self, step: Fraction) -> AllocationFormulation:
        """Return the formulation of the cluster of a step: times depend on which servers there are."""
        return AllocationFormulation(self.cluster(step))

    @cached_property
    def last(self) -> Fraction:
        """The scale factor of the largest cluster within `most_usd`."""
        return self._dearest

    def _clusters_text(self) -> str:
        return (
            "every cluster has the same share of the servers of each shape, in steps of a server; jobs on "
            "servers left out restart"
        )


class FreeCluster(ClusterGrid):
    """Grid of the mix `any`: free amounts of the priced resources; a step is an hourly cost in USD."""

    mix: Mix = "any"

    @cached_property
    def grain(self) -> Fraction:
        """Difference of two consecutive hourly costs of the grid, in USD per hour."""
        names = [self.table.resources.index(name) for name in self.prices]
        prices = [*map(exact_fraction, self.prices.values())]
        tasks = np.concatenate([self.table.ps_demand, self.table.worker_demand])[:, names]
        divisor = common_divisor(
            sum((p * exact_fraction(d) for p, d in zip(prices, row, strict=True)), ZERO)
            for row in np.unique(tasks, axis=0).tolist()
        )
        if divisor is None:
            raise OptionError(
                f"no task takes any of the resources with a price ({', '.join(self.prices)}), so there is "
                "nothing to trade; price what the jobs use"
            )
        return divisor * max(1, math.ceil(self._max_cost_usd / divisor / MAX_STEPS))

    @cached_property
    def _max_cost_usd(self) -> Fraction:
        """Total hourly cost [USD/h] if each job has its dearest configuration, at most `most_usd`."""
        configs = self.wide
        if not configs.counts.all():  # there is no plan, whatever the cost
            return Fraction(self.most_usd or 1.0)
        most = math.fsum(configs.most(configs.demand[:, -1]))
        if self.most_usd is not None:
            most = min(most, self.most_usd)
        return Fraction(most)

    @cached_property
    def last(self) -> Fraction:
        """The hourly cost from which a budget is not binding, or the maximum allowed one, in USD per hour."""
        steps = math.floor(self._max_cost_usd / self.grain)
        if self.most_usd is None:
            return (steps + 1) * self.grain
        return (steps + within(float((steps + 1) * self.grain), self.most_usd)) * self.grain

    def next(self, step: Fraction) -> Fraction:
        """Return the next higher hourly cost of the grid, in USD per hour."""
        return step + self.grain

    def at_most(self, amount: Fraction) -> Fraction:
        """Return the highest hourly cost of the grid that is not above an amount in USD per hour."""
        return math.floor(amount / self.grain) * self.grain

    def previous(self, step: Fraction) -> Fraction:
        """Return the next lower hourly cost of the grid, in USD per hour."""
        return step - self.grain

    def cluster(self, step: Fraction) -> AllocationInstance:
        """Return the instance with an hourly budget, and with ample capacities of the priced resources."""
        return self._with_budget(float(step))

    def _with_budget(self, budget: float) -> AllocationInstance:
        most, jobs = largest_job_demand(self.table), len(self.table)
        ample = {name: jobs * most[name] for name in self.prices}
        resources = {**self.instance.resources, **ample}
        return self.instance.model_copy(update={"resources": resources, "budget_usd_per_hour": budget})

    def rate(self, step: Fraction) -> float:
        """Return the hourly cost of a step in USD per hour, which is the step itself."""
        return float(step)

    def lowest_with(self, need: Floats) -> Fraction | None:
        """Return the minimum budget that covers the need; None if an unpriced resource is too small.

        `need` has the order of the resources of `wide`: amounts, and last the hourly cost.
        """
        *others, cost = need.tolist()
        limits = self.wide.capacity[:-1].tolist()
        if not all(within(amount, limit) for amount, limit in zip(others, limits, strict=True)):
            return None
        return self._step_for_cost(cost)

    def _step_for_cost(self, cost: float) -> Fraction:
        """Return the lowest budget of the grid that admits plans of an hourly cost.

        Half of the tolerance is left to spare.
        """
        step = self.at_most(Fraction(cost))
        return step if cost <= (float(step) + loosened(float(step))) / 2 else self.next(step)

    def place(
        self, step: Fraction, formulation: AllocationFormulation, plan: Plan
    ) -> tuple[Fraction, dict[str, float]]:
        """Return the hourly cost of a plan, as a step, and the cluster with the priced resources it uses."""
        configs = formulation.configurations
        taken = configs.demand[formulation.indices_of(plan)].sum(axis=0)
        used = dict(zip(configs.resources, taken.tolist(), strict=True))
        capacities = self.instance.resources | {name: used[name] for name in self.prices}
        return min(step, self._step_for_cost(self.cost_of(capacities))), capacities

    def step_of(self, rate: float, capacities: Mapping[str, float]) -> Fraction | None:
        """Return the grid's hourly cost for a rate; None if an unpriced capacity is not the instance's."""
        same = all(capacities.get(name) == amount for name, amount in self.unpriced().items())
        return self._step_for_cost(rate) if same and rate >= 0 else None

    @property
    def widest_cluster(self) -> AllocationInstance:
        """The cluster of the maximum budget; without a maximum, one in which any configuration fits alone."""
        most = self.most_usd
        return self._with_budget(self.cost_of(largest_job_demand(self.table)) if most is None else most)

    def _clusters_text(self) -> str:
        names = ", ".join(self.prices)
        text = f"any amounts of {names}, as the plans use them"
        return f"{text}; hourly costs in steps of {float(self.grain):g} USD"


def cluster_grid_of(
    instance: AllocationInstance, mix: Mix, prices: Mapping[str, float], most_usd: float | None
) -> ClusterGrid:
    """Return the grid of clusters of a mix: `fixed` scales the cluster, `any` sets an hourly budget.

    Raises
    ------
    OptionError
        If no resource in which the clusters differ has a price, or amounts are free that are on servers.
    """
    if mix == "any" and instance.servers is not None:
        raise OptionError(
            f"{instance.name}: --mix any takes free amounts of resources, and the instance has servers; "
            "take --mix fixed, which scales the number of servers of each shape"
        )
    grids = {"any": FreeCluster, "fixed": ScaledCluster if instance.servers is None else ScaledServers}
    return grids[mix](instance, prices, most_usd)


def certified_total(formulation: AllocationFormulation, certificate: object) -> float:
    """Return the certified lower bound on Σ ω t of a cluster, in job-seconds; infinite if it has no plan."""
    if formulation.elementary_infeasibility() is not None:
        return math.inf
    return formulation.certified_bounds(certificate)[0] or 0.0
