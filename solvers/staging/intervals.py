"""Intervals of the stage time, the least cost of a stage within one, and the incumbent of the search.

For a stage time τ a segment of layers needs k(τ) units, a falling step function, and costs κ·π·τ·k(τ). In an
interval [a, b] it has at least k(b) units, and because k·ET(k) does not fall with k it costs at least

    κ·π·k(b)·max(a, ET(k(b)))

A path of segments at these costs and units is a relaxation of all plans in the interval, and dual prices on
units may be added. It is exact where the interval is so short that no k changes within.

The incumbent holds the best known plan or plans. It is updated with every plan that the search meets, and
gives for each interval of stage times the cutoff: the cost below which a plan in it is of interest.
"""

from __future__ import annotations

import bisect
import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from functools import cached_property
from operator import attrgetter

import numpy as np

from ...formulations.common.clock import check_time
from ...formulations.common.objective import loosened
from ...formulations.staging.formulation import StagingFormulation
from ...formulations.staging.stages import Plan, Stage, StageTable
from ...instances.common.arrays import Floats, Ints
from .kernels import backward, cheapest_path, fewest_units, forward, least_cost


@dataclass(frozen=True)
class Limits:
    """Resource limits of an instance: one on units of each limited hardware type, one on the hourly budget.

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
        """Return the limits of an instance: units of limited hardware types, and the budget (USD/h)."""
        limit, budget = formulation.hardware.limit, formulation.instance.hourly_budget_usd
        limited = np.isfinite(limit)
        weight, capacity = np.eye(len(limit))[limited], limit[limited]
        if budget is not None:
            weight = np.vstack([weight, formulation.hardware.price])
            capacity = np.append(capacity, loosened(budget))
        return Limits(weight, capacity)

    def __len__(self) -> int:
        return len(self.capacity)


@dataclass(eq=False)
class Interval:
    """An interval of the slowest stage time, with the stages' fewest units and least costs within it.

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
        Least weights of paths at these prices, as of `Segments.forward`; None if they are not known.
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
        """Return a copy of the interval in which stages have no cost, and only consume units."""
        free = np.where(np.isinf(self.cost), np.inf, 0.0)
        return replace(self, cost=free, prices=np.zeros_like(self.prices), counts_cost=False)


@dataclass(frozen=True, eq=False)
class Segments(StageTable):
    """Candidate stages (runs of layers on a type) that fixing has not excluded, as arcs between layers.

    Attributes
    ----------
    types
        T.
    alternating
        Whether neighbours have to differ in type.
    position
        Place of each segment in the table of all, shape (n,).
    most, rate
        Units that a segment may have, and κ·π: USD per second of stage time and unit, shape (n,).
    """

    columns = (*StageTable.columns, "position", "most", "rate")

    types: int
    alternating: bool
    limits: Limits
    position: Ints
    most: Floats
    rate: Floats

    @staticmethod
    def of(formulation: StagingFormulation, slowest_s: float) -> Segments:
        """Return the candidate stages of an instance that can be as fast as a stage time in seconds."""
        table, hardware = formulation.table, formulation.hardware
        # Most of the others are too slow on however many units.
        position = np.flatnonzero((table.serial <= slowest_s) & (table.comm_serial <= slowest_s))
        fast = table.only(position)
        segments = Segments(
            **vars(fast),
            types=len(hardware.price),
            alternating=formulation.instance.stage_rule == "maximal_runs",
            limits=Limits.of(formulation),
            position=position,
            most=hardware.most[fast.type],
            rate=formulation.cost_factor * hardware.price[fast.type],
        )
        able = np.isfinite(segments.fewest_units(np.array([slowest_s]))[0])
        return segments if able.all() else segments.only(np.flatnonzero(able))

    def __len__(self) -> int:
        return len(self.position)

    @property
    def _times(self) -> tuple[Floats, Floats, Floats, Floats, Floats]:
        return self.serial, self.parallel, self.comm_serial, self.comm_parallel, self.most

    @cached_property
    def _arcs(self) -> tuple[Ints, Ints, Ints]:
        """Offsets of the stages by last layer, (L + 1,), and first layer and type of each stage, (n,)."""
        ends = np.arange(self.layers + 1, dtype=self.last.dtype)
        return np.searchsorted(self.last, ends), self.first, self.type

    def fewest_units(self, time_s: Floats) -> Floats:
        """Return the smallest k ≥ 1 with ET(k) ≤ τ of each stage, infinite where none is within the limit.

        The ceiling of A/(τ − S) is one too many or too few at many exact breakpoints, so it is corrected
        by the very time that counts.

        Parameters
        ----------
        time_s
            τ, shape (B,).

        Returns
        -------
        units
            Shape (B, n).
        """
        check_time()
        units = np.empty((len(time_s), len(self.serial)))
        fewest_units(*self._times, time_s, units)
        return units

    def interval(self, low: float, high: float, prices: Floats) -> Interval:
        """Return an interval of the stage time in seconds, with units and costs but without a bound."""
        check_time()
        units, cost = np.empty(len(self)), np.empty(len(self))
        least_cost(*self._times, self.rate, low, high, np.empty(len(self), bool), units, cost)
        return Interval(low, high, units, cost, prices)

    def later(self, interval: Interval, low: float) -> Interval:
        """Return the part of an interval of stage times from a later stage time on."""
        cost = self.rate * low
        cost *= interval.units
        np.maximum(cost, interval.cost, out=cost)
        return Interval(low, interval.high, interval.units, cost, interval.prices)

    def forward(self, weight: Floats) -> tuple[float, Floats]:
        """Return the minimum weights of paths of stages from the first layer on.

        Parameters
        ----------
        weight
            Of each segment, shape (n,), infinite where it cannot be used.

        Returns
        -------
        shortest, arrival
            Least weight of a path of all layers, and, shape (T, L + 1), of one that ends before layer p and
            that a segment of type t may follow.
        """
        check_time()
        arrival = np.full((self.types, self.layers + 1), np.inf)
        arrival[:, 0] = 0.0
        return forward(*self._arcs, weight, self.alternating, arrival), arrival

    def backward(self, weight: Floats) -> Floats:
        """Return the minimum weight of a path from layer p on that may follow a stage of type t.

        Shape (B, L + 1, T); a row of `weight`, shape (B, n), is as in `forward`.
        """
        arrival = np.zeros((len(weight), self.types, self.layers + 1))
        return self._backward(weight, arrival)[0].swapaxes(1, 2)

    def through(self, weight: Floats, arrival: Floats) -> Floats:
        """Return the minimum weight of a path of all layers through each stage, (n,).

        It serves reduced-cost fixing; the arguments are as in `forward`.
        """
        through: Floats = self._backward(weight[None], arrival[None])[1][0]
        return through

    def _backward(self, weight: Floats, arrival: Floats) -> tuple[Floats, Floats]:
        check_time()
        rest, through = np.full_like(arrival, np.inf), np.empty_like(weight)
        rest[:, :, -1] = 0.0
        backward(*self._arcs, weight, arrival, self.alternating, rest, through)
        return rest, through

    def cheapest(self, weight: Floats, arrival: Floats) -> Ints:
        """Return the indices, in order, of the stages of a path of minimum weight over all layers.

        Parameters
        ----------
        weight, arrival
            As in `forward`; there has to be a path.
        """
        return cheapest_path(*self._arcs, weight, arrival, self.alternating)

    def weight(self, interval: Interval, prices: Floats) -> Floats:
        """Return the cost plus units at dual prices of each candidate stage in an interval, shape (n,)."""
        # No copy where there are no prices.
        if not prices.any():
            return interval.cost
        weight: Floats = (prices @ self.limits.weight)[self.type]
        weight *= interval.units
        weight += interval.cost
        return weight

    def breakpoints(self, interval: Interval, path: Ints) -> Floats:
        """Return the stage times in an interval at which a stage of a path begins to need fewer units."""
        times = self.only(path).time_s(interval.units[path])
        return np.unique(times[times > interval.low])

    def fits(self, segments: Ints, units: Floats) -> bool:
        """Return whether the given stages with these units are within all limits."""
        return not len(self.limits) or bool((self.consumption(segments, units) <= self.limits.capacity).all())

    def consumptions(self, segments: Ints, units: Floats) -> Floats:
        """Return what each of the given stages consumes of each limit, shape (R, k)."""
        return self.limits.weight[:, self.type[segments]] * units

    def consumption(self, segments: Ints, units: Floats) -> Floats:
        """Return the total that the given stages with these units consume of each limit, shape (R,)."""
        result: Floats = self.limits.weight[:, self.type[segments]] @ units
        return result


EQUALITY_TOLERANCE = 2e-10
"""Relative difference up to which plans count as equally good: the order of float additions varies."""


@dataclass(frozen=True)
class Candidate:
    """A feasible plan as arrays: its stages, as positions in the stage table, and the units of each.

    Attributes
    ----------
    time_s, cost_usd
        τ, and the cost of the training.
    """

    time_s: float
    cost_usd: float
    segments: Ints
    units: Floats


class Incumbent(ABC):
    """Base class of incumbents: keeps the best of the plans found, and gives cutoffs for intervals.

    Parameters
    ----------
    cost_limit_usd
        Plans that cost more are of no interest; infinite if there is no limit.
    gap
        Relative distance at which a bound is good enough.
    """

    leftmost_first = False
    """Whether only the fastest open interval may hold the optimum."""
    any_cost = True
    """Whether the cutoff of an interval may stay infinite, so that any plan in it is of interest."""

    best: Candidate | None = None
    """The single best plan, where one is kept; intervals are split first at its stage time."""
    by: tuple[str, ...]
    """The figures by which that plan is best, the first before the second."""

    def __init__(self, cost_limit_usd: float, gap: float) -> None:
        self.cost_limit_usd = loosened(cost_limit_usd)
        # A plan at exactly the limit counts, so the cutoff is the next float.
        self.most_usd = math.nextafter(self.cost_limit_usd, math.inf)
        # Half of the gap is kept back for the rounding of bounds and plans.
        self.close_enough = 1 - max(gap / 2, EQUALITY_TOLERANCE)

    def update(self, candidate: Candidate) -> bool:
        """Keep a plan if it improves on those kept; return whether it does.

        The plan may exceed only the cost limit.
        """
        figures = attrgetter(*self.by)
        improves: bool = candidate.cost_usd <= self.cost_limit_usd and (
            self.best is None or figures(candidate) < figures(self.best)
        )
        if improves:
            self.best = candidate
        return improves

    @abstractmethod
    def cutoff(self, low: float) -> float:
        """Return the cost in USD below which a plan with stage time τ ≥ low is an improvement.

        It is infinite where any plan is, −∞ where none is.
        """

    @property
    def has_plan(self) -> bool:
        """Whether a feasible plan is known."""
        return self.best is not None


class Cheapest(Incumbent):
    """Incumbent that keeps the plan of minimum cost."""

    any_cost = False
    by = ("cost_usd",)

    def cutoff(self, low: float) -> float:
        """Return the cost of the cheapest plan in USD less the tolerated gap; without one the cost limit."""
        del low
        if self.best is None:
            return self.most_usd
        return self.best.cost_usd * self.close_enough


class Fastest(Incumbent):
    """Incumbent that keeps the plan of minimum stage time within the cost limit."""

    leftmost_first = True
    by = ("time_s", "cost_usd")

    def cutoff(self, low: float) -> float:
        """Return the cost limit in USD where τ ≥ low may be faster by more than the gap, else −∞."""
        if self.best is not None and low >= self.best.time_s * self.close_enough:
            return -math.inf
        return self.most_usd


class NonDominated(Incumbent):
    """Incumbent that keeps the Pareto-optimal plans in cost and stage time, up to a relative cost error.

    Parameters
    ----------
    error
        Plans whose cost is lower by no more than this part than that of a plan as fast are left out.
    """

    def __init__(self, cost_limit_usd: float, error: float) -> None:
        super().__init__(cost_limit_usd, 2 * error)
        self.points: list[Candidate] = []
        """By rising stage time and falling cost."""

    def update(self, candidate: Candidate) -> bool:
        """Keep a plan if no other dominates it, and drop those that it dominates; return whether kept."""
        if candidate.cost_usd > self.cost_limit_usd:
            return False
        at = bisect.bisect_right(self.points, candidate.time_s, key=lambda point: point.time_s)
        if at and self.points[at - 1].cost_usd <= candidate.cost_usd:
            return False
        # Equally fast and, as the test before says, cheaper: it takes that point's place.
        if at and self.points[at - 1].time_s == candidate.time_s:
            at -= 1
        end = at
        while end < len(self.points) and self.points[end].cost_usd >= candidate.cost_usd:
            end += 1
        self.points[at:end] = [candidate]
        return True

    def cutoff(self, low: float) -> float:
        """Return the cost in USD of the cheapest known plan with τ ≤ low less the error, or the limit."""
        at = bisect.bisect_right(self.points, low, key=lambda point: point.time_s)
        if not at:
            return self.most_usd
        return self.points[at - 1].cost_usd * self.close_enough

    @property
    def has_plan(self) -> bool:
        """Whether a feasible plan is known."""
        return bool(self.points)


def plan_of(formulation: StagingFormulation, candidate: Candidate) -> tuple[Stage, ...]:
    """Convert a candidate (stages by position in the stage table, and units) to a plan."""
    table, at = formulation.table, candidate.segments
    columns = table.first[at], table.last[at], table.type[at], candidate.units.astype(int)
    return tuple(map(formulation.stage, *(column.tolist() for column in columns)))


def candidate_of(formulation: StagingFormulation, plan: Plan) -> Candidate | None:
    """Convert a feasible plan to a candidate, None if one of its stages is not in the stage table."""
    positions = formulation.positions(plan)
    if positions is None:
        return None
    return Candidate(
        formulation.stage_time_s(plan),
        formulation.plan_cost_usd(plan),
        np.array(positions),
        np.array([float(s.units) for s in plan]),
    )
