"""The Lagrangian dual of a trace: prices of time by subgradient ascent, which bound the mean completion time.

    L(λ) = Σ_j min over schedules of j alone of ω_j (C_j − r_j) + ∫ λ·a_j dt − Σ_r ∫ C_r λ_r dt

on a grid of times. The supergradient is the usage of each resource by the cheapest schedules in each cell,
less its capacity.

Ascent (Polyak 1969; Held, Wolfe and Crowder 1974): each step goes along a mean of supergradients, as far as
would reach a given share of the distance to the value of a schedule that is known. The share shrinks where
nothing better is found for a while.

Too much use at a time is a reason to raise prices before and after it too, since jobs can move. So
supergradients are smoothed over neighbouring cells at first: the direction d solves (D + s² K) d = g, where
D is the measure of the cells and K has the squared differences of neighbours, s cells far. The distance
shrinks with the share; any fixed positive definite matrix leaves the ascent what it is.

Initial prices, from a schedule: a unit-second that is taken away at t delays the least urgent jobs that run
then, and these delay others that are less urgent still, until no job waits. Jobs that run at s with weight
ω, width a and length p pass on what is lost at a rate of ω / (a p), Smith's ratio, of the least urgent of
them: ρ(s). What is more urgent than all that was delayed is not delayed. So the price is

    λ(t) = ∫ ρ(s) over the s ≥ t at which ρ(s) is the least since t,

exactly so for a fluid of jobs on one machine. On several the least urgent job that runs may be there only
because no other fits, so that quantiles of ρ take the place of the least.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import solveh_banded

from ...formulations.common.clock import Clock
from ...formulations.common.compiled import is_compiled
from ...formulations.common.objective import TIE_TOLERANCE
from ...formulations.scheduling.certificate import MAX_EDGE_S, MAX_EDGES, MAX_FIGURES, PriceGrid
from ...formulations.scheduling.evaluation import runs_without_break
from ...formulations.scheduling.plan import SegmentTable
from ...instances.common.arrays import Floats, Ints, rows_of_runs
from ...instances.scheduling.instance import SchedulingInstance
from . import dual_kernels

MAX_THREADS = 2
"""More threads gain little: an evaluation takes hundredths of a second."""
JOBS_OF_A_THREAD = 500
"""Fewest jobs for which another thread is started."""


@dataclass(frozen=True)
class Evaluation:
    """Value and supergradient of the Lagrangian dual function at given prices of resource-time.

    Attributes
    ----------
    value
        L(λ) over Σ ω_j, a bound on the mean completion time [s] in plain floating point.
    excess
        Usage less capacity, unit-seconds, shape (G − 1, R): a supergradient of L.
    """

    value: float
    excess: Floats


class TimeDual:
    """The Lagrangian dual function of one trace, with prices on the cells of one time grid.

    Parameters
    ----------
    edges_s
        Ascending edges of the grid, the first no later than the first arrival; after the last one resources
        are free.

    Attributes
    ----------
    evaluations
        How many times it was evaluated.
    """

    def __init__(self, instance: SchedulingInstance, edges_s: Floats, threads: int | None = None) -> None:
        self.instance, self.edges_s = instance, edges_s
        self.length_s = np.diff(edges_s)
        table, menus = instance.table(), instance.menus()
        weight = table.relative_weight
        self.total_weight = float(weight.sum())
        self.evaluations = 0
        self._threads = min(threads or MAX_THREADS, MAX_THREADS, os.cpu_count() or 1)
        cell, arrival = np.searchsorted(edges_s, table.arrival_s, side="right") - 1, table.arrival_s
        at_once = runs_without_break(instance)
        self._loop: Callable[..., None]
        self._columns: tuple[Floats | Ints, ...]
        if menus.malleable and not at_once:
            self._loop, order = dual_kernels.malleable_preemptive, np.lexsort((menus.speed, menus.owner))
            configurations = (menus.first, menus.usage[order], menus.speed[order])
            self._columns = (cell, arrival, menus.work, weight, *configurations)
        else:
            # A job that runs without a break keeps one configuration: each is a rigid job to begin with.
            self._loop = dual_kernels.rigid_nonpreemptive if at_once else dual_kernels.rigid_preemptive
            job, length = menus.owner, menus.work[menus.owner] / menus.speed
            self._columns = (cell[job], arrival[job], length, weight[job], menus.usage)

    @cached_property
    def capacity(self) -> Floats:
        """Available unit-seconds of each resource in each cell of the time grid, shape (G − 1, R)."""
        times, amounts = self.instance.capacity_over_time
        since = np.append(np.diff(times), 0.0)[:, None] * amounts
        before = np.concatenate([np.zeros((1, amounts.shape[1])), np.cumsum(since, axis=0)])
        at = np.maximum(np.searchsorted(times, self.edges_s, side="right") - 1, 0)
        until = before[at] + (self.edges_s - times[at])[:, None] * amounts[at]
        return np.maximum(np.diff(until, axis=0), 0.0)

    def evaluate(self, price: Floats) -> Evaluation:
        """Return value and supergradient of the dual function at prices of shape (G − 1, R).

        Raises
        ------
        OutOfTimeError
            If its loops cannot be compiled within the enforced time limit.
        """
        self.evaluations += 1
        full, menus = np.vstack([price, np.zeros((1, price.shape[1]))]), self.instance.menus()
        costs, used = self._costs_and_usage(full, self._columns)
        if len(costs) > len(menus.work):
            best = np.lexsort((costs, menus.owner))[menus.first[:-1]]
            costs, used = self._costs_and_usage(full, tuple(column[best] for column in self._columns))
        value = (float(costs.sum()) - float((price * self.capacity).sum())) / self.total_weight
        return Evaluation(value, used[:-1] - self.capacity)

    def _costs_and_usage(self, price: Floats, columns: tuple[Floats | Ints, ...]) -> tuple[Floats, Floats]:
        """Return the least cost of each job, (J,), and unit-seconds used by all jobs, (G, R)."""
        edges = np.append(self.edges_s, np.inf)
        threads = max(1, min(self._threads, len(columns[0]) // JOBS_OF_A_THREAD))
        costs = np.zeros((2, len(columns[0])))
        used = [np.zeros_like(price) for _ in range(threads)]
        given = [(edges, price, *columns, k, threads, used[k], costs) for k in range(threads)]
        # What has to be compiled first is so in this thread, which knows the clock; sums are the same.
        if threads == 1 or not is_compiled(self._loop):
            for arguments in given:
                self._loop(*arguments)
        else:
            with ThreadPoolExecutor(threads) as pool:
                for done in [pool.submit(self._loop, *arguments) for arguments in given]:
                    done.result()
        return costs[0], np.asarray(sum(used))


CELLS = 2_000
"""Grid cells for a trace of some thousand jobs; 5,000 raise its bound by hundredths of a percent."""
LEAST_CELLS, CELLS_PER_JOB = 40, 20
"""Grid cells for small traces: so many, and so many for each job."""
MAX_CELLS, JOBS_PER_CELL = 4_000, 20
"""Most grid cells, and jobs for each cell of large traces."""
BUSY_SHARE = 0.5
"""Share of the edges at quantiles of arrivals and ends; the others are evenly spaced."""
SHARPNESS = 8.0
"""Power of the utilisation by which a price is divided among several resources."""
URGENCY_QUANTILES = (0.5, 0.3, 0.7)
"""Quantiles of ρ over the running jobs that are tried."""
PRICE_FACTORS = (0.8, 1.2, 1.5)
"""Multiples of the prices of the best quantile that are tried."""
WAITING_MULTIPLES = (0.5, 1.0, 2.0)
"""Multiples of prices by the number of waiting jobs, over the amount of a resource, that are tried too."""


def time_grid(instance: SchedulingInstance, segments: SegmentTable) -> Floats:
    """Return the edges of the time grid in seconds, from the first arrival to the end of a schedule.

    Beyond the latest time allowed for prices resources are free; the bound remains valid.
    """
    arrival, ends = instance.table().arrival_s, np.minimum(segments.completion_s, MAX_EDGE_S)
    most = max(CELLS, min(MAX_CELLS, len(arrival) // JOBS_PER_CELL))
    cells = min(most, LEAST_CELLS + CELLS_PER_JOB * len(arrival), MAX_FIGURES // len(instance.pool) // 2)
    first, last = float(arrival.min()), float(ends.max())
    count = int(BUSY_SHARE * cells)
    busy = np.quantile(np.concatenate([arrival, ends]), np.linspace(0, 1, count))
    edges = np.union1d(np.linspace(first, last, cells - count + 1), busy)
    events = instance.capacity_over_time[0]
    events = events[(events > first) & (events < last)]
    if len(edges) + len(events) <= min(MAX_EDGES, 2 * cells):
        edges = np.union1d(edges, events)
    return edges


def initial_prices(
    instance: SchedulingInstance, segments: SegmentTable, edges: Floats, capacity: Floats
) -> list[Floats]:
    """Return initial dual prices, (G − 1, R) each: three by lost seconds, then three by waiting jobs.

    Parameters
    ----------
    capacity
        Unit-seconds of each resource in each cell, shape (G − 1, R).
    """
    length, usage = np.diff(edges), instance.menus().usage[segments.row]
    present = _time_averages(edges, instance.table().arrival_s, segments.completion_s)
    running, *used = [
        _time_averages(edges, segments.start_s, segments.end_s, amounts) for amounts in (None, *usage.T)
    ]
    waiting = np.maximum(present - running, 0.0)
    if not waiting.any():
        return []
    available = np.maximum(capacity / length[:, None], 1e-300)
    share = np.minimum(np.column_stack(used) / available, 1.0) ** SHARPNESS
    share /= np.maximum(share.sum(axis=1, keepdims=True), 1e-300)
    units = np.maximum(instance.capacity_over_time[1].max(axis=0), 1e-300)
    price = share / units
    urgent = _urgency_quantiles(instance, segments, edges, (usage / units).max(axis=1))
    some_wait = waiting > TIE_TOLERANCE * len(present)
    delays = [_delay_costs(np.where(some_wait, ratio, 0.0), length) for ratio in urgent]
    return [of_cell[:, None] * price for of_cell in (*delays, *(k * waiting for k in WAITING_MULTIPLES))]


def _urgency_quantiles(
    instance: SchedulingInstance, segments: SegmentTable, edges: Floats, width: Floats
) -> list[Floats]:
    """Return quantiles of Smith's ratio (weight / service) of the jobs running in each cell, (G − 1,).

    Parameters
    ----------
    width
        Dominant share of each segment, shape (S,).
    """
    weight, menus = instance.table().relative_weight, instance.menus()
    length_s = menus.work[segments.job] / menus.speed[segments.row]
    ratio = weight[segments.job] / np.maximum(width * length_s, 1e-300)
    middle = (edges[:-1] + edges[1:]) / 2
    first, end = np.searchsorted(middle, segments.start_s), np.searchsorted(middle, segments.end_s)
    cell, segment = rows_of_runs(first, np.maximum(end, first))
    order = np.lexsort((ratio[segment], cell))
    segment, cell = segment[order], cell[order]
    total = np.bincount(cell, width[segment], len(middle))
    until = np.cumsum(width[segment]) - (np.cumsum(total) - total)[cell]
    quantiles = []
    for quantile in URGENCY_QUANTILES:
        reached = np.flatnonzero(until >= quantile * total[cell])
        cells, at = np.unique(cell[reached], return_index=True)
        of_cell = np.zeros(len(middle))
        of_cell[cells] = ratio[segment[reached[at]]]
        quantiles.append(of_cell)
    return quantiles


def _delay_costs(ratio: Floats, length: Floats) -> Floats:
    """Return the delay cost of a lost second in each cell of the time grid, shape (G − 1,).

    The formula is that of the module docstring.
    """
    cost = np.append(np.zeros_like(ratio), 0.0)
    rate = np.append(ratio, 0.0)
    later = [len(ratio)]  # cells in which the ratio is less than in all between them and here
    for g in range(len(ratio) - 1, -1, -1):
        while rate[later[-1]] > rate[g]:
            later.pop()
        cost[g] = rate[g] * length[g] + cost[later[-1]]
        later.append(g)
    return cost[:-1]


def _time_averages(edges: Floats, starts: Floats, ends: Floats, amounts: Floats | None = None) -> Floats:
    """Return the time average in each cell, shape (G − 1,), of the amounts that last from starts to ends."""
    amounts = np.ones(len(starts)) if amounts is None else amounts

    def until(moments: Floats) -> Floats:
        order = np.argsort(moments)
        total = np.append(0.0, np.cumsum(amounts[order]))
        # Measured from the first edge, so that large times do not cancel.
        weighted = np.append(0.0, np.cumsum(amounts[order] * (moments[order] - edges[0])))
        count = np.searchsorted(moments[order], edges)
        return np.asarray(total[count] * (edges - edges[0]) - weighted[count])

    return np.maximum(np.diff(until(starts) - until(ends)) / np.diff(edges), 0.0)


STALLS, DECAY = 12, 0.8
"""Steps without a better bound after which the share of the distance is multiplied by DECAY."""
FIRST_SHARE = 0.5
"""Share of the distance at the start: prices by a schedule need no larger steps."""
LAST_SHARE = 2e-4
"""Share of the distance at which the ascent ends."""
LEAST_IMPROVEMENT = 1e-5
"""Relative increase from which a bound counts as better."""
SMOOTH_CELLS, SMOOTH_DECAY, LEAST_SMOOTH = 20.0, 0.5, 0.3
"""Smoothing width of a step in cells at first, its factor whenever the share shrinks, and its least value."""
MEMORY = 0.5
"""Weight of the previous direction in the next one."""
MAX_STEPS = 5_000
"""Most steps of the ascent; it never took more than a thousand."""
LEAST_DISTANCE = 1e-4
"""Least assumed distance of the bound from the value of the schedule, relatively."""


@dataclass(frozen=True)
class TimePrices:
    """The best dual prices of resource-time found, and the bound that they prove.

    Attributes
    ----------
    grid
        The best prices that were found.
    bound
        On the mean completion time, in plain floating point [s].
    estimate
        Upper limit, up to rounding, of the bound by any prices up to twice these [s].
    evaluations
        How many times the dual function was evaluated.
    trace
        Seconds and the best bound, whenever the share shrank.
    """

    grid: PriceGrid
    bound: float
    estimate: float
    evaluations: int
    trace: list[tuple[float, float]]


def best_prices(
    instance: SchedulingInstance,
    segments: SegmentTable,
    value: float,
    clock: Clock,
    threads: int | None = None,
) -> TimePrices:
    """Return the best dual prices found within the time limit by subgradient ascent, from a schedule.

    Parameters
    ----------
    segments, value
        A feasible schedule, and its mean completion time [s].
    clock
        Its time limit is checked before every evaluation.

    Raises
    ------
    OutOfTimeError
        If the loops cannot be compiled within the enforced time limit.
    """
    edges = time_grid(instance, segments)
    dual = TimeDual(instance, edges, threads)
    ascent = _Ascent(dual, value)
    for price in initial_prices(instance, segments, edges, dual.capacity):
        ascent.begin_at(price, clock)
    best = ascent.price
    for factor in PRICE_FACTORS if best.any() else ():
        ascent.begin_at(factor * best, clock)
    trace = []
    while dual.evaluations < MAX_STEPS and not ascent.is_over() and not clock.expired and ascent.step():
        if ascent.stalls == 0 and ascent.share < FIRST_SHARE:
            trace.append((clock.elapsed_s, ascent.best.value))
    return TimePrices(
        grid=PriceGrid(edges, np.vstack([ascent.price, np.zeros((1, len(instance.pool)))])),
        bound=ascent.best.value,
        estimate=ascent.estimate(),
        evaluations=dual.evaluations,
        trace=trace,
    )


NO_TANGENTS: tuple[float, float, Floats] = (0.0, 0.0, np.zeros(()))
"""Weight of tangents, and the weighted sums of their values at no price and of their slopes."""


class _Ascent:
    """State of the subgradient ascent: the best dual prices so far, and those of the next step.

    Parameters
    ----------
    value
        Mean completion time of a feasible schedule [s].
    """

    def __init__(self, dual: TimeDual, value: float) -> None:
        self.dual, self.value = dual, value
        self.price: Floats = np.zeros_like(dual.capacity)
        self.best = dual.evaluate(self.price)
        self.share, self.stalls = FIRST_SHARE, 0
        self.smooth_cells = SMOOTH_CELLS
        self._next, self._at, self._direction = self.price, self.best, np.zeros_like(self.price)
        # Prices are measured by what a resource costs in all, so that its unit does not matter.
        units = dual.instance.capacity_over_time[1].max(axis=0)
        self._measure: Floats = dual.length_s[:, None] * units**2
        self._older = self._recent = NO_TANGENTS
        self._since = dual.evaluations

    def begin_at(self, price: Floats, clock: Clock) -> None:
        """Evaluate dual prices if there is time, and start the ascent at them if their bound is better."""
        if not clock.expired and not self.is_over():
            evaluation = self.dual.evaluate(price)
            if evaluation.value > self.best.value:
                self.price = self._next = price
                self.best = self._at = evaluation

    def is_over(self) -> bool:
        """Return whether the ascent has converged: tiny steps, or a bound at the schedule's value."""
        return self.share <= LAST_SHARE or self.best.value >= self.value * (1 - TIE_TOLERANCE)

    def step(self) -> bool:
        """Take one step of subgradient ascent; return False if no direction of ascent is left."""
        excess = self._at.excess
        scaled = self._smoothed(np.where((self._next <= 0) & (excess < 0), 0.0, excess))
        self._direction = MEMORY * self._direction + (1 - MEMORY) * scaled
        slope = float((self._direction * excess).sum())
        if slope <= 0:
            if not scaled.any():
                return False  # optimal: no excess where there is a price to change
            self._direction = scaled
            slope = float((scaled * excess).sum())
        distance = max(self.value - self._at.value, LEAST_DISTANCE * abs(self.value))
        step = self.share * distance * self.dual.total_weight / slope
        self._remember(step)
        self._next = np.maximum(self._next + step * self._direction, 0.0)
        self._at = self.dual.evaluate(self._next)
        self.stalls += 1
        if self._at.value > self.best.value:
            if self._at.value > self.best.value + LEAST_IMPROVEMENT * abs(self.best.value):
                self.stalls = 0
            self.price, self.best = self._next, self._at
        if self.stalls >= STALLS:
            self.share *= DECAY
            self.smooth_cells *= SMOOTH_DECAY
            self.stalls = 0
            self._next, self._at = self.price, self.best
            self._direction = np.zeros_like(self._direction)
        return True

    def _smoothed(self, excess: Floats) -> Floats:
        """Return the supergradient smoothed over neighbouring cells, (G − 1, R), 0 where it was 0."""
        moves = (excess != 0) & (self._measure > 0)  # a resource without any capacity has no price
        direction = np.divide(excess, self._measure, out=np.zeros_like(excess), where=moves)
        if self.smooth_cells < LEAST_SMOOTH:
            return direction
        for r in np.flatnonzero(moves.any(axis=0)):
            own = moves[:, r]
            tie = self.smooth_cells**2 * self._measure[:, r].mean() * (own[1:] & own[:-1])
            bands = np.zeros((2, len(own)))
            bands[0, 1:] = -tie
            bands[1] = np.where(own, self._measure[:, r], 1.0)
            bands[1, 1:] += tie
            bands[1, :-1] += tie
            # Where doubles lose the shortest cells beside the longest, this resource is not smoothed.
            with contextlib.suppress(np.linalg.LinAlgError):
                direction[own, r] = solveh_banded(bands, np.where(own, excess[:, r], 0.0))[own]
        return direction

    def _remember(self, step: float) -> None:
        """Add the tangent L(μ) ≤ L(λ) + g·(μ − λ) at the present prices to the mean of recent tangents."""
        if self.dual.evaluations > 2 * self._since:
            self._older, self._recent, self._since = self._recent, NO_TANGENTS, self.dual.evaluations
        steps, costs, excess = self._recent
        total = self.dual.total_weight
        at_zero = self._at.value - float((self._at.excess * self._next).sum()) / total
        self._recent = (steps + step, costs + step * at_zero, excess + step * self._at.excess / total)

    def estimate(self) -> float:
        """Return an upper bound on the dual value by any prices up to twice the best, in seconds."""
        limit = np.inf
        for steps, costs, excess in (self._older, self._recent):
            if steps > 0:
                most = float((np.maximum(excess, 0.0) * 2 * self.price).sum())
                limit = min(limit, (costs + most) / steps)
        return max(self.best.value, limit) if np.isfinite(limit) else self.best.value
