"""The Lagrangian bound of the pattern formulation, for any prices of pieces.

Supply rows are relaxed with their prices, so that jobs and servers are independent: each job takes its
cheapest pattern, each server the one that is paid most (Dantzig & Wolfe 1960). The check derives the same
bound by itself; here it is found with the pricing of column generation.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction

import numpy as np

from ....formulations.consolidation.certificate import MUST_PLACE, CertifiedGoal
from ....formulations.consolidation.classes import BY_SERVERS, ClassTable, JobClass
from ....instances.common.arrays import Floats, Ints
from .price_by_search import SearchPricing
from .price_jobs import JobPricing
from .price_servers import ServerPricing

MARGIN = 1e-12
"""Relative to all that is added up: more than rounding can be."""


def lagrangian_bound(
    classes: ClassTable,
    pricing: Sequence[ServerPricing | SearchPricing],
    goal: CertifiedGoal,
    levels: Mapping[str, Fraction],
) -> float:
    """Return what a goal is at least, to be minimised, where earlier objectives keep their levels.

    Parameters
    ----------
    pricing
        Of each pool of servers.

    Returns
    -------
    bound
        Not rounded to the objective's step; -∞ if a job that must be placed has no way to be.

    Raises
    ------
    TooLargeError
        If there is too much to be priced.
    """
    weights = {str(name): float(mu) for name, mu in goal.multipliers.items() if name in levels}
    terms = [-mu * float(levels[name]) for name, mu in weights.items()]
    missing = goal.objective == MUST_PLACE
    if not missing:
        weights[goal.objective] = 1.0
    prices = [np.array(listed, dtype=float) for listed in goal.prices]
    patterns = JobPricing(classes, prices, weights)
    for job in classes.jobs:
        cost = _cheapest(job, classes, patterns, weights)
        if job.must_place and not missing:
            if cost is None:
                return -math.inf
            terms.append(cost * len(job.members))
        else:
            outside = float(job.must_place)
            terms.append(min(outside, outside if cost is None else cost) * len(job.members))
    tables = zip(classes.task_shapes, classes.pieces, classes.slots, prices, strict=True)
    # A resident has one piece, which is not to be parted.
    paid = [
        listed if shape.current is not None else _slot_prices(pieces, slots, listed)
        for shape, pieces, slots, listed in tables
    ]
    for pool in pricing:
        for number, most, _ in pool.best(paid):
            gain = min(0.0, weights.get("servers", 0.0) * classes.servers[number].opening - most)
            terms.append(gain * len(classes.servers[number].members))
    return math.fsum(terms) - MARGIN * math.fsum(map(abs, terms))


def _cheapest(
    job: JobClass, classes: ClassTable, patterns: JobPricing, weights: Mapping[str, float]
) -> float | None:
    """Return what one job of a class costs at least if it is placed; None if it cannot be."""
    value = weights.get("value", 0.0) * float(job.value)
    if job.loose:
        if any(not len(classes.pieces[part.shape]) for part in job.parts):
            return None
        found = patterns.of_loose(job, math.inf)
    else:
        by_servers = np.array([_for_servers(job, n, weights) for n in range(1, job.most + 1)])
        found = patterns.best(job, by_servers, math.inf)
    return min((pattern.cost for pattern in found), default=math.inf) - value if found else None


def _for_servers(job: JobClass, servers: int, weights: Mapping[str, float]) -> float:
    counts = (weights[name] * float(job.count(name, servers)) for name in BY_SERVERS if name in weights)
    return sum(counts, 0.0)


def _slot_prices(pieces: Ints, slots: Ints, prices: Floats) -> Floats:
    """Return the best value of tasks of one shape on a server, over all splits into pieces; shape (S,)."""
    if len(pieces) < len(slots):
        singles: Floats = slots[:, 0] * prices[0]
        return singles
    place = np.full(tuple(slots.max(axis=0, initial=0) + 1), -1)
    place[tuple(slots.T)] = np.arange(len(slots))
    best = prices.copy()
    # Small pieces come first, so that both halves of a piece are final when it is looked at.
    for i in np.argsort(slots.sum(axis=1), kind="stable").tolist():
        rest = slots[i] - slots
        one = np.flatnonzero((rest >= 0).all(axis=1))
        other = place[tuple(rest[one].T)]
        halves = best[one] + best[other]
        best[i] = max(best[i], halves[other >= 0].max(initial=-np.inf))
    return best
