"""The core problem of a multiple-choice knapsack (Balas & Zemel 1980; Pisinger 1995), solved by HiGHS.

Jobs with one item left are constants. Costs and demands are taken relative to each job's least, and limits
to what that leaves, all scaled to moderate figures, because HiGHS works with absolute tolerances. So no
coefficient is negative, and where HiGHS drops a tiny one the model is only looser: its bound still holds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...instances.common.arrays import Floats, Ints
from ..backends.highs_mip import branch_and_bound, linear_program
from ..common.base import Clock
from ..common.options import SolveOptions
from ..common.result import Limit
from .knapsack import MultipleChoice


@dataclass(frozen=True)
class CoreSettings:
    """Constants of a core on HiGHS.

    Attributes
    ----------
    bound_error
        How far the bound of HiGHS may be off, in units of the scaled costs.
    largest_cost
        The largest scaled cost lies between half of this and this.
    least_gap
        Least absolute gap that is asked of HiGHS.
    fine_coefficient
        The largest coefficient of limits in the second attempt, for which the tolerance of 1e-9 is far below
        the slack that limits have.
    tightening
        Relative to the largest demand: how much tighter limits are in the third attempt.
    most_choices
        Choices that are looked through where HiGHS sees limits only so far.
    """

    bound_error: float = 1e-6
    largest_cost: float = 4096
    least_gap: float = 1e-9
    fine_coefficient: float = 2.0**13
    tightening: float = 1e-8
    most_choices: int = 10_000


SETTINGS = CoreSettings()


@dataclass(frozen=True)
class CoreAnswer:
    """A choice from a core, and a bound on all choices.

    Attributes
    ----------
    chosen
        Item of each job; None if no choice was found that keeps the limits.
    bound
        No choice costs less; infinite if none keeps the limits.
    limit
        What stopped HiGHS, `none` if it ended or reached the target.
    """

    chosen: Ints | None
    bound: float
    limit: Limit = "none"


def solve_core(
    problem: MultipleChoice,
    clock: Clock,
    options: SolveOptions,
    *,
    start: Ints | None = None,
    target: float = -math.inf,
    gap: float = 0.0,
    nodes: int | None = None,
    attempt: int = 0,
) -> CoreAnswer:
    """Solve a core.

    Parameters
    ----------
    start
        Items of the core, one of each job, to start from.
    target
        A choice that costs no more is good enough.
    gap
        Distance between choice and bound that is good enough.
    nodes
        Most nodes of the search; None for no limit.
    attempt
        0, then 1 with limits in so fine a unit that HiGHS tolerates next to nothing, then 2 with tighter
        limits.
    """
    counts = np.diff(problem.start)
    base = problem.start[:-1]
    free = np.flatnonzero(counts > 1)
    least = np.minimum.reduceat(problem.demand, base, axis=0)
    cheapest = np.minimum.reduceat(problem.cost, base)
    constant, slack = math.fsum(cheapest), problem.limit - least.sum(axis=0)
    if not len(free):
        fits = bool((slack >= 0).all())
        return CoreAnswer(base if fits else None, constant if fits else math.inf)
    items = np.flatnonzero(np.repeat(counts > 1, counts))
    owner = np.repeat(np.arange(len(free)), counts[free])
    cost = problem.cost[items] - cheapest[free][owner]
    demand = problem.demand[items] - least[free][owner]
    unit = _unit(cost)
    model = _model(
        cost / unit, demand, slack, owner, len(free), SETTINGS.fine_coefficient if attempt else 1.0
    )
    highs: dict[str, Any] = {"mip_abs_gap": max(gap / unit, SETTINGS.least_gap)}
    if math.isfinite(target):
        highs["objective_target"] = (target - constant) / unit
    if nodes is not None:
        highs["mip_max_nodes"] = nodes
    known = None if start is None else np.isin(items, start).astype(float)
    values, bound, limit = branch_and_bound(model, highs, clock, options, known)
    if bound == math.inf:
        return CoreAnswer(None, math.inf, limit)
    lowest = constant + unit * (bound - SETTINGS.bound_error)
    if values is None:
        return CoreAnswer(None, lowest, limit)
    chosen = base.copy()
    # Values are integers within a tolerance: of each job the item of the largest value is chosen.
    order = np.lexsort((-values, owner))
    chosen[free] = items[order[np.unique(owner[order], return_index=True)[1]]]
    if problem.fits(chosen):
        return CoreAnswer(chosen, lowest, limit)
    # The choice breaks a limit by what HiGHS tolerates.
    if attempt == 0:
        finer = solve_core(problem, clock, options, target=target, gap=gap, nodes=nodes, attempt=1)
        if finer.chosen is not None or finer.bound == math.inf:
            return finer
    if attempt <= 1:  # ask for a choice that keeps the limits by far; the bound stands
        tighter = replace(problem, limit=problem.limit - SETTINGS.tightening * problem.demand.max(axis=0))
        other = solve_core(tighter, clock, options, target=target, gap=gap, nodes=nodes, attempt=2)
        if other.chosen is None and math.prod(counts.tolist()) <= SETTINGS.most_choices:
            return _enumerated(problem)
        return CoreAnswer(other.chosen, lowest, limit)
    return CoreAnswer(None, lowest, limit)


def _enumerated(problem: MultipleChoice) -> CoreAnswer:
    """Return the best of all choices of a small core."""
    counts = np.diff(problem.start)
    choices = np.stack(np.unravel_index(np.arange(counts.prod()), counts), axis=1) + problem.start[:-1]
    fitting = choices[(problem.demand[choices].sum(axis=1) <= problem.limit).all(axis=1)]
    if not len(fitting):
        return CoreAnswer(None, math.inf)
    best = min(fitting, key=problem.value)
    return CoreAnswer(best, problem.value(best))


def _unit(cost: Floats) -> float:
    """Return the divisor of costs: a power of 2, which rounds nothing; the largest is some thousands."""
    largest = float(np.abs(cost).max())
    return 2.0 ** math.ceil(math.log2(largest / SETTINGS.largest_cost)) if largest > 0 else 1.0


def _model(cost: Floats, demand: Floats, slack: Floats, owner: Ints, jobs: int, size: float) -> Any:
    """Return the model: one constraint of each job, and R limits whose largest coefficient is `size`."""
    columns, limits = demand.shape
    largest = np.abs(demand).max(axis=0)
    scale = np.where(largest > 0, largest, 1.0) / size
    low = np.concatenate([np.ones(jobs), np.full(limits, -np.inf)])
    high = np.concatenate([np.ones(jobs), slack / scale])
    # Every column has one entry in its job's row and one in each limit.
    places = np.column_stack([owner, np.tile(jobs + np.arange(limits), (columns, 1))])
    values = np.column_stack([np.ones(columns), demand / scale])
    matrix = np.arange(columns + 1) * (limits + 1), places.ravel(), values.ravel()
    zero, one = np.zeros(columns), np.ones(columns)
    return linear_program(cost, (zero, one), (low, high), matrix, [True] * columns)
