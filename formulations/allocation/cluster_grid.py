"""The grid of clusters of a trade-off between cost and completion time: a parametric capacity or budget.

A grid is a finite sequence of rising steps. Step x stands for a cluster, or for an hourly cost, and a plan
of a step keeps the limits of every higher one: F(x) ⊆ F(y) for x ≤ y, also with the tolerance within which a
limit counts as kept, because a larger limit has a larger tolerance. So the least mean completion time V(x)
does not rise along the grid, and a bound that is proven for a step holds for all steps below.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from typing import Literal

from ...instances.allocation.instance import AllocationInstance
from ...instances.allocation.job_table import JobTable
from ...instances.common.arrays import Floats
from ...instances.common.errors import OutOfTimeError, TooLargeError
from .check.configurations import CheckedConfigurations, derive
from .configurations import BUDGET, Configurations, build_configurations, resource_limits
from .formulation import AllocationFormulation
from .plan import JobAllocation

Mix = Literal["fixed", "any"]
ZERO = Fraction(0)


class ClusterGrid(ABC):
    """Steps of rising cost, from `ZERO` to `last`; steps beyond are too dear, or bring nothing.

    Parameters
    ----------
    instance
        Its objective and its budget play no part.
    prices
        USD per hour of one unit of each resource.
    most_usd
        Dearer steps, in USD per hour, are left out; None: none is.
    """

    mix: Mix

    def __init__(
        self, instance: AllocationInstance, prices: Mapping[str, float], most_usd: float | None
    ) -> None:
        self.prices = {name: prices[name] for name in instance.resources if prices.get(name, 0.0) > 0}
        self.most_usd = most_usd
        changes = {
            "objective": "total_completion_time",
            "prices_usd_per_hour": self.prices,
            "budget_usd_per_hour": None,
            "jobs": instance.table(),
        }
        self.instance = instance.model_copy(update=changes)
        self.table: JobTable = self.instance.table()

    @property
    @abstractmethod
    def last(self) -> Fraction:
        """The highest step that matters: dearer ones exceed `most_usd`, or have no better plan."""

    @abstractmethod
    def next(self, step: Fraction) -> Fraction:
        """Return the step above."""

    @abstractmethod
    def at_most(self, amount: Fraction) -> Fraction:
        """Return the highest step that is not above an amount."""

    @abstractmethod
    def lowest_with(self, need: Floats) -> Fraction | None:
        """Return the lowest step that has so much of each resource of `wide`; None if none has."""

    @abstractmethod
    def cluster(self, step: Fraction) -> AllocationInstance:
        """Return the instance of a step."""

    @abstractmethod
    def rate(self, step: Fraction) -> float:
        """Return what a step costs, in USD per hour."""

    @abstractmethod
    def place(self, step: Fraction, used: Mapping[str, float]) -> tuple[Fraction, dict[str, float]]:
        """Return the lowest step and the cluster of a plan that was found for a step.

        Parameters
        ----------
        used
            What the plan takes of each resource.
        """

    @abstractmethod
    def step_of(self, rate: float, capacities: Mapping[str, float]) -> Fraction | None:
        """Return the step of a cluster; None if the grid has no such cluster."""

    @property
    @abstractmethod
    def widest_cluster(self) -> AllocationInstance:
        """An instance whose configurations are those that any step allows."""

    @cached_property
    def wide(self) -> Configurations:
        """Every configuration that any step allows."""
        try:
            return build_configurations(self.widest_cluster, self.table)
        except OutOfTimeError:
            raise
        except TooLargeError as error:
            raise TooLargeError(f"{error}, or look for no clusters beyond --most-usd") from None

    @cached_property
    def _wide_checked(self) -> CheckedConfigurations:
        """The same, as the check derives them."""
        return derive(self.widest_cluster, self.table, self.wide)

    def assumptions(self) -> tuple[str, ...]:
        """Return the assumptions of the grid, a sentence each."""
        free = [name for name in self.instance.resources if name not in self.prices]
        lines = [self._about()]
        if free:
            what = "scale along at no cost" if self.mix == "fixed" else "stay as they are, at no cost"
            lines.append(f"resources without a price {what}: {', '.join(free)}")
        return (*lines, "the hourly budget and the objective of the instance play no part")

    @abstractmethod
    def _about(self) -> str:
        """Return which clusters there are, in a sentence."""

    @cached_property
    def weight(self) -> float:
        """Σ ω of the jobs."""
        return math.fsum(self.table.weight)

    def previous(self, step: Fraction) -> Fraction:
        """Return the highest step below one that is above `ZERO`."""
        return self.highest(lambda _: True, ZERO, step)

    def highest(self, holds: Callable[[Fraction], bool], low: Fraction, high: Fraction) -> Fraction:
        """Return the highest step for which something holds, which it does up to some step.

        Parameters
        ----------
        low, high
            A step for which it holds, and a higher one for which it does not.
        """
        # Bisection; where rounding down yields no progress, go on by single steps.
        while self.next(low) < high:
            middle = self.at_most((low + high) / 2)
            middle = middle if middle > low else self.next(low)
            low, high = (middle, high) if holds(middle) else (low, middle)
        return low

    def formulation(self, step: Fraction) -> AllocationFormulation:
        """Return the formulation of a step; its configurations are a subset of `wide`."""
        cluster = self.cluster(step)
        resources, capacity = resource_limits(cluster)
        assert resources == self.wide.resources
        formulation = AllocationFormulation(cluster)
        formulation.configurations = self.wide.within(capacity)
        formulation.checked = self._wide_checked.within(capacity)
        return formulation

    def own(self) -> AllocationFormulation:
        """Return the formulation of the instance's own cluster, without its budget."""
        return AllocationFormulation(self.instance)

    def own_rate(self) -> float:
        """Return what the instance's own cluster costs, in USD per hour."""
        return self.cost_of(self.instance.resources)

    def cost_of(self, capacities: Mapping[str, float]) -> float:
        """Return what a cluster costs, in USD per hour."""
        return math.fsum(price * capacities.get(name, 0.0) for name, price in self.prices.items())

    def unpriced(self) -> dict[str, float]:
        """Return what the instance has of the resources without a price."""
        return {name: c for name, c in self.instance.resources.items() if name not in self.prices}

    def used(self, formulation: AllocationFormulation, plan: Sequence[JobAllocation]) -> dict[str, float]:
        """Return what a feasible plan takes of each resource."""
        configs = formulation.configurations
        taken = configs.demand[formulation.indices_of(plan)].sum(axis=0)
        return {
            name: use for name, use in zip(configs.resources, taken.tolist(), strict=True) if name != BUDGET
        }
