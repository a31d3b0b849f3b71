"""Prices on scarce units within one interval of the stage time: a Lagrangian dual over chains.

    D(y) = min over chains of Σ (cost + y·taken) − y·limit,  y ≥ 0

is concave, and an evaluation is one shortest path, so cutting planes need some dozens of paths. With costs
left out, any y with D(y) > 0 proves that the units do not suffice at all.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ...instances.common.arrays import Floats, Ints
from ..backends.cutting_planes import Envelope
from ..common.base import Clock
from .intervals import Cell, Runs

GROWTH = 8.0
"""How much the box of prices grows at whose edge the best ones lie."""
ROUNDING = 1e-13
"""Relative to what is added up."""
MOST_ROUNDS = 300
TIGHT = 1e-7
"""Relative distance to the best possible bound at which prices count as best."""


@dataclass(frozen=True)
class Dual:
    """Prices, what they prove, and the chains that were met on the way.

    Attributes
    ----------
    prices
        Shape (R,).
    bound
        D at these prices; infinite if there is no chain at all.
    paths
        The runs of each chain, latest last.
    """

    prices: Floats
    bound: float
    paths: list[Ints]


def best_prices(runs: Runs, cell: Cell, target: float, clock: Clock) -> Dual:
    """Return the best prices for a cell, or the first that prove what is wanted.

    Parameters
    ----------
    target
        A bound of this is enough.
    """
    oracle = _Oracle(runs, cell)
    best = oracle.at(cell.prices)
    if cell.prices.any():
        best = max(best, oracle.at(np.zeros_like(cell.prices)), key=lambda answer: answer[1])
    reference = target if cell.counts_cost and math.isfinite(target) else max(1.0, abs(best[1]))
    high = np.maximum(4 * reference / np.maximum(runs.rows.limit, 1.0), 2 * best[0])
    for _ in range(MOST_ROUNDS):
        if best[1] >= target or clock.expired or math.isinf(best[1]):
            break
        prices, above = oracle.envelope.highest(*best, np.zeros_like(high), high)
        if above <= TIGHT * max(abs(best[1]), reference):
            edge = best[0] >= high * (1 - 1e-6)
            if not edge.any() or high.max() > 1e12 * reference:
                break
            high = np.where(edge, GROWTH * high, high)
            continue
        best = max(best, oracle.at(prices), key=lambda answer: answer[1])
    return Dual(best[0], best[1], oracle.paths)


class _Oracle:
    """Evaluates D, and remembers the piece and the chain of each evaluation."""

    def __init__(self, runs: Runs, cell: Cell) -> None:
        self.runs, self.cell = runs, cell
        self.envelope = Envelope()
        self.paths: list[Ints] = []

    def at(self, prices: Floats) -> tuple[Floats, float]:
        """Return the prices and D there."""
        runs, cell = self.runs, self.cell
        weight = runs.weight(cell, prices)
        whole, reach = runs.chain.forward(weight[None])
        if math.isinf(whole[0]):
            return prices, math.inf
        path = runs.chain.cheapest(weight, reach[0])
        self.paths.append(path)
        self.envelope.constants.append(float(cell.cost[path].sum()))
        self.envelope.slopes.append(runs.taken(path, cell.units[path]) - runs.rows.limit)
        spare = float(prices @ runs.rows.limit)
        return prices, float(whole[0]) - spare - ROUNDING * (abs(float(whole[0])) + spare)
