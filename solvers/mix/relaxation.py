"""The linear relaxation of a mix in a box of counts, with prices from which a bound follows.

Rows of requests are in parts of all requests of their type, so that coefficients are alike.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...formulations.mix.program import FULL, MixProgram
from ...instances.common.arrays import Floats
from ...instances.common.fields import Fields
from ..backends.base import BackendError
from ..backends.highs import TOLERANCE, Columns, highs_with_settings
from ..common.base import Clock

SETTINGS: Fields = {
    "presolve": "off",  # the last basis is a better start
    "primal_feasibility_tolerance": TOLERANCE,
}
TOLERANCES = (TOLERANCE, TOLERANCE, 1e-7, 1e-6)
"""Tolerances of the prices for a relaxation that HiGHS cannot solve; after the first without a basis."""
ONE_MORE, MOST_MORE = 1e-6, 1e-3
"""Part by which limits are raised for the prices of one more; the most by which they are."""


@dataclass(frozen=True)
class Relaxed:
    """What the relaxation of a box gives.

    Attributes
    ----------
    bound
        The least cost in the box, by the prices; infinite if they prove that there is no plan.
    counts, prices
        Optimal y, shape (n,), and prices of types and rows, shape (I + m,).
    """

    bound: float
    counts: Floats
    prices: Floats

    @property
    def infeasible(self) -> bool:
        """Whether the box has no plan."""
        return self.bound == math.inf


def model_of(program: MixProgram, elastic: bool = False, whole: bool = False) -> Any:
    """Return the `HighsLp` over y and then x: rows A y ≤ b, then requests, then the time of copies.

    Parameters
    ----------
    elastic
        Each row of A and of requests may be broken for a cost of 1 a unit, and nothing else costs.
    whole
        Whether y is integer.
    """
    n, m, types = len(program.cost), len(program.rows), len(program.demand)
    asked, time, columns = program.demand > 0, m + types, Columns()
    entries: list[list[tuple[int, float]]] = [[] for _ in range(n)]
    for k, row, value in zip(*(each.tolist() for each in program.weights), strict=True):
        entries[k].append((row, value))
    for k in np.unique(program.rates.configuration).tolist():
        entries[k].append((time + k, -1.0))
    for cost, own, most in zip(program.cost.tolist(), entries, program.most.tolist(), strict=True):
        columns.add(0.0 if elastic else cost, own, most)
    of_copies, of_types, _ = program.rates
    parts, scales = program.parts.tolist(), _scales(program).tolist()
    for k, i, part, scale in zip(of_copies.tolist(), of_types.tolist(), parts, scales, strict=True):
        columns.add(0.0, [(m + i, part / scale), (time + k, 1.0 / scale)])
    for row in range(time if elastic else 0):
        columns.add(1.0, [(row, -1.0 if row < m else 1.0)])
    least = np.concatenate([np.full(m, -np.inf), FULL * asked, np.full(n, -np.inf)])
    most = np.concatenate([program.limits, np.full(types, np.inf), np.zeros(n)])
    return columns.program((least, most), np.arange(len(columns.costs)) < n if whole else ())


def _scales(program: MixProgram) -> Floats:
    """Return by how much x is multiplied in the model, so that no coefficient is beyond 1.

    Where one copy could serve a type many times over, x itself would be lost in the tolerances of HiGHS.
    Beyond 10⁹ times HiGHS takes what a type needs of a copy for nothing.
    """
    return np.maximum(program.parts, 1.0)


class Relaxation:
    """The relaxations of one programme in many boxes, each begun from the basis of the one before.

    Parameters
    ----------
    clock
        Where it ends a relaxation, the bound is that without any prices.
    """

    def __init__(self, program: MixProgram, clock: Clock | None = None) -> None:
        self.program, self.clock = program, clock or Clock()
        self._highs = _loaded(program, elastic=False)
        self._elastic: Any = None

    def shares(self, counts: Floats) -> Floats | None:
        """Return optimal x, in the order of the rates, with so many copies; None if they do not suffice.

        The relaxation keeps the counts as limits of x.
        """
        scales, of_copies = _scales(self.program), self.program.rates.configuration
        columns = np.arange(len(counts), len(counts) + len(scales), dtype=np.int32)
        # Within the tolerances a few requests could be served by no copy at all.
        self._highs.changeColsBounds(len(columns), columns, np.zeros_like(scales), counts[of_copies] * scales)
        if not self._run(self._highs, counts, counts):
            return None
        return np.array(self._highs.getSolution().col_value[len(counts) :]) / scales

    def solve(self, low: Floats, high: Floats) -> Relaxed:
        """Return the bound of a box, with counts and prices."""
        feasible = self._run(self._highs, low, high)
        if feasible:
            prices = self._prices(self._highs)
            counts = np.array(self._highs.getSolution().col_value[: len(low)])
            return Relaxed(self.program.bound(prices, low, high), counts, prices)
        if feasible is not None and self._elastic is None:
            self._elastic = _loaded(self.program, elastic=True)
        if feasible is None or not self._run(self._elastic, low, high):
            nothing = np.zeros(len(self.program.demand) + len(self.program.rows))
            return Relaxed(self.program.bound(nothing, low, high), low, nothing)
        prices = self._prices(self._elastic)
        proven = self.program.bound(prices, low, high, 0) > 0
        return Relaxed(math.inf if proven else -math.inf, low, prices)

    def prices_of_more(self, low: Floats, high: Floats) -> Floats | None:
        """Return the prices of types and rows where slightly more can be bought; None if there are none.

        Where several prices are optimal, a device may be worth much to the job that would wait without it,
        while one more is worth little. These are the latter. The relaxation keeps the raised limits.
        """
        for row, (_, _, limit, is_bought) in enumerate(self.program.rows):
            more = min(ONE_MORE * max(limit, 1.0), MOST_MORE) if is_bought else 0.0
            self._highs.changeRowBounds(row, -math.inf, limit + more)
        with suppress(BackendError):  # the prices that are known do as well
            return self._prices(self._highs) if self._run(self._highs, low, high) else None
        return None

    def tableau_rows(self, counts: Floats, least_part: float) -> Iterator[Floats]:
        """Yield the multipliers of the rows of A for each optimal count that is not whole, shape (m,)."""
        _, basic = self._highs.getBasicVariables()
        for place, column in enumerate(basic):
            if 0 <= column < len(counts) and abs(counts[column] - round(counts[column])) > least_part:
                _, multipliers = self._highs.getBasisInverseRow(place)[:2]
                yield np.array(multipliers[: len(self.program.rows)])

    def _run(self, highs: Any, low: Floats, high: Floats) -> bool | None:
        """Run HiGHS in a box; return whether it found an optimum, and not that there is no plan.

        None if the time ended.

        Raises
        ------
        BackendError
            If HiGHS ends in any other way.
        """
        highs.changeColsBounds(len(low), np.arange(len(low), dtype=np.int32), low, high)
        for tolerance in TOLERANCES:  # bounds follow from the prices, whatever their precision
            highs.setOptionValue("dual_feasibility_tolerance", tolerance)
            if self.clock.remaining_s is not None:  # HiGHS counts the time of all its runs
                highs.setOptionValue("time_limit", highs.getRunTime() + self.clock.remaining_s)
            highs.run()
            status = highs.getModelStatus().name
            if status == "kTimeLimit":
                return None
            if status in ("kOptimal", "kModelEmpty", "kInfeasible"):
                return bool(status != "kInfeasible")
            highs.clearSolver()
        raise BackendError(f"HiGHS ended a relaxation with the status {status}")

    def _prices(self, highs: Any) -> Floats:
        """Return the prices of types and rows of the last optimum, none below 0."""
        rows, program = len(self.program.rows), self.program
        duals = np.array(highs.getSolution().row_dual[: rows + len(program.demand)])
        of_types = duals[rows:] / np.where(program.demand > 0, program.demand, np.inf)
        prices: Floats = np.maximum(np.concatenate([of_types, -duals[:rows]]), 0.0)
        return prices


def _loaded(program: MixProgram, elastic: bool) -> Any:
    highs = highs_with_settings(SETTINGS, BackendError)
    highs.passModel(model_of(program, elastic))
    return highs
