"""Intervals of the stage time, and the least cost of a stage within one.

For a stage time τ a segment of layers needs k(τ) units, a falling step function, and costs κ·π·τ·k(τ). In an
interval [a, b] it has at least k(b) units, and because k·ET(k) does not fall with k it costs at least

    κ·π·k(b)·max(a, ET(k(b)))

A path of segments at these costs and units is a relaxation of all plans in the interval, and dual prices on
units may be added. It is exact where the interval is so short that no k changes within.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np

from ...formulations.common.tolerance import loosened
from ...formulations.staging.formulation import StagingFormulation
from ...instances.common.arrays import Floats, Ints
from .fewest_units import SegmentTimes
from .kernels import cost_from
from .shortest_path import SegmentGraph


@dataclass(frozen=True)
class Limits:
    """The limits of an instance: one for each limited type, and one for the hourly budget.

    Attributes
    ----------
    weight
        What one unit of each type consumes, shape (R, T).
    capacity
        Shape (R,).
    """

    weight: Floats
    capacity: Floats

    @staticmethod
    def of(formulation: StagingFormulation) -> Limits:
        """Return the limits of an instance."""
        instance = formulation.instance
        limits = [math.inf if one.limit is None else float(one.limit) for one in instance.types]
        limited = np.isfinite(limits)
        weight, capacity = np.eye(len(limits))[limited], np.array(limits)[limited]
        if instance.hourly_budget_usd is not None:
            weight = np.vstack([weight, [one.price_usd_per_hour for one in instance.types]])
            capacity = np.append(capacity, loosened(instance.hourly_budget_usd))
        return Limits(weight, capacity)

    def __len__(self) -> int:
        return len(self.capacity)


@dataclass
class Interval:
    """One interval of the stage time.

    Attributes
    ----------
    low, high
        Both belong to it [s per probe batch].
    units
        Fewest units of every segment, k(high), shape (n,); 1 where a segment cannot be used.
    cost
        Least cost of every segment [USD], shape (n,); infinite where a segment cannot be used.
    prices
        Dual price of each limit [USD per unit], shape (R,).
    counts_cost
        Whether the bound counts cost; else it only shows that units do not suffice.
    bound
        No plan in the interval costs less [USD]; infinite if there is none.
    breakpoints
        Stage times at which the cheapest path changes within the interval.
    arrival
        Least weights of paths at these prices, as of `SegmentGraph.forward`; None if they are not known.
    halve
        Whether to split in the middle. Every second time, or the search might walk from breakpoint to
        breakpoint.
    """

    low: float
    high: float
    units: Floats
    cost: Floats
    prices: Floats
    counts_cost: bool = True
    bound: float = -math.inf
    breakpoints: Floats = field(default_factory=lambda: np.empty(0))
    arrival: Floats | None = None
    halve: bool = False

    def without_costs(self) -> Interval:
        """Return the interval in which segments have no cost and only consume units."""
        free = np.where(np.isinf(self.cost), np.inf, 0.0)
        return replace(self, cost=free, prices=np.zeros_like(self.prices), counts_cost=False)


@dataclass
class Segments:
    """The segments that still matter, and their costs in intervals.

    Attributes
    ----------
    position
        Of each segment in the table, shape (n,).
    rate
        κ·π: USD per second of stage time and unit.
    """

    graph: SegmentGraph
    times: SegmentTimes
    position: Ints
    rate: Floats
    limits: Limits

    @staticmethod
    def of(formulation: StagingFormulation, slowest_s: float) -> Segments:
        """Return the segments that can be as fast as τ = `slowest_s`."""
        table, instance = formulation.table, formulation.instance
        # Most of the others are too slow on however many units.
        position = np.flatnonzero((table.serial <= slowest_s) & (table.comm_serial <= slowest_s))
        first, last, kind = table.places(position)
        segments = Segments(
            SegmentGraph(
                table.layers, len(table.price), first, last, kind, instance.stage_rule == "maximal_runs"
            ),
            SegmentTimes.of(table, position, kind),
            position,
            formulation.cost_factor * table.price[kind],
            Limits.of(formulation),
        )
        able = np.isfinite(segments.times.fewest_units(np.array([slowest_s]))[0])
        return segments if able.all() else segments.only(np.flatnonzero(able))

    def only(self, keep: Ints) -> Segments:
        """Return some of the segments."""
        return Segments(
            self.graph.only(keep), self.times.only(keep), self.position[keep], self.rate[keep], self.limits
        )

    def __len__(self) -> int:
        return len(self.position)

    def interval(self, low: float, high: float, prices: Floats) -> Interval:
        """Return an interval of the stage time, without a bound."""
        return Interval(low, high, *self.times.least_cost(self.rate, low, high), prices)

    def later(self, interval: Interval, low: float) -> Interval:
        """Return the part of an interval from a later stage time on."""
        cost = cost_from(self.rate, interval.units, interval.cost, low)
        return Interval(low, interval.high, interval.units, cost, interval.prices)

    def weight(self, interval: Interval, prices: Floats) -> Floats:
        """Return the priced cost of every segment in an interval, shape (n,)."""
        # No copy where there are no prices.
        if not prices.any():
            return interval.cost
        weight: Floats = (prices @ self.limits.weight)[self.graph.unit_type]
        weight *= interval.units
        weight += interval.cost
        return weight

    def breakpoints(self, interval: Interval, path: Ints) -> Floats:
        """Return the stage times in an interval at which a segment of the path begins to need fewer units."""
        times = self.times.only(path).time_s(interval.units[path])
        return np.unique(times[times > interval.low])

    def fits(self, segments: Ints, units: Floats) -> bool:
        """Return whether some segments keep all limits with these units."""
        return not len(self.limits) or bool((self.consumption(segments, units) <= self.limits.capacity).all())

    def consumptions(self, segments: Ints, units: Floats) -> Floats:
        """Return what each of some segments consumes of each limit, shape (R, k)."""
        result: Floats = self.limits.weight[:, self.graph.unit_type[segments]] * units
        return result

    def consumption(self, segments: Ints, units: Floats) -> Floats:
        """Return what some segments consume of each limit with these units, shape (R,)."""
        result: Floats = self.limits.weight[:, self.graph.unit_type[segments]] @ units
        return result
