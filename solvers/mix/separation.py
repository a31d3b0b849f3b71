"""Cutting planes for the relaxation of groups of jobs at the root of a branching tree.

Any prices make a valid cut. For a basic count that is not whole, the fractional parts of its row of the
inverse basis, or of that row with the other sign, are prices of the rows that often make one which the
relaxation breaks (Gomory, "Outline of an algorithm for integer solutions to linear programs", Bulletin of
the American Mathematical Society 64, 1958). Rows that do not bind any more are left out, so that the
relaxation stays small. Of requests there are none: what makes their relaxations weak are whole machines,
and a tree over totals of devices meets that.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from ...formulations.mix.cuts import Cut, rounded_row
from ...formulations.mix.program import MixProgram, with_rows
from ...instances.common.arrays import Floats
from ...instances.common.fields import Fields
from ..common.base import Clock
from .relaxation import Relaxation, Relaxed

MAX_ROUNDS = 100
MAX_CUTS = 40
"""Cuts of one round."""
MAX_CONFIGURATIONS = 5_000
"""Largest number of configurations for which cuts are made."""
FREE = 1e20
"""What HiGHS takes for infinite."""
LEAST_VIOLATION, LEAST_PRICE = 1e-4, 1e-9
LEAST_PART = 1e-6
"""Distance from a whole number from which on a count is not one."""
MARGIN = 1.37e-9
"""Part by which prices differ from those at which a weight is just whole, so that rounding in floats, and in
whole numbers by the check, is the same."""


class Separation:
    """Rounds of cuts.

    Attributes
    ----------
    program
        With the cuts that bind at the end.
    """

    def __init__(self, program: MixProgram) -> None:
        self.program, self._base = program, program
        self._first = len(program.demand) + len(program.rows)
        self._cuts: list[Cut] = []
        self._rows: list[tuple[Floats, float]] = []
        self._priced: list[int] = []

    def run(self, target: float, clock: Clock) -> None:
        """Add cuts until the bound of the relaxation reaches the target, or nothing is to be cut off."""
        count = len(self.program.cost)
        # Limits of counts of groups follow from the rows; without them the tableau is that of the rows.
        low, high = np.zeros(count), np.full(count, FREE)
        wanted = count <= MAX_CONFIGURATIONS and not len(self.program.demand)
        for _ in range(MAX_ROUNDS if wanted else 0):
            relaxation = Relaxation(replace(self.program, most=high), clock)
            relaxed = relaxation.solve(low, high)
            bound = self.program.bound(relaxed.prices, low, self._base.most)
            if clock.expired or bound >= target or not self._add_violated(relaxation, relaxed):
                return

    def _add_violated(self, relaxation: Relaxation, relaxed: Relaxed) -> bool:
        """Add the cuts that a relaxation violates most for their size; return whether there are any."""
        places, found = [*range(self._first), *self._priced], dict[Cut, tuple[float, Floats, float]]()
        for prices in self._candidates(relaxation, relaxed):
            weights, limit = rounded_row(self.program, prices)
            excess = float(weights @ relaxed.counts - limit)
            if excess > LEAST_VIOLATION:
                inside = np.flatnonzero(prices).tolist()
                cut = Cut(places=tuple(places[i] for i in inside), prices=tuple(prices[inside].tolist()))
                found[cut] = (excess / float(np.linalg.norm(weights) + 1.0), weights, limit)
        chosen = sorted(found, key=lambda cut: -found[cut][0])[:MAX_CUTS]
        binds = relaxed.prices[self._first :] > LEAST_PRICE
        self._priced = [place for place, binding in zip(self._priced, binds, strict=True) if binding]
        self._priced += range(self._first + len(self._cuts), self._first + len(self._cuts) + len(chosen))
        self._cuts += chosen
        self._rows += [found[cut][1:] for cut in chosen]
        self.program = with_rows(self._base, [self._rows[place - self._first] for place in self._priced])
        return bool(chosen)

    def _candidates(self, relaxation: Relaxation, relaxed: Relaxed) -> Iterator[Floats]:
        """Yield prices of rows and cuts from which cuts may follow that a relaxation breaks."""
        for row in relaxation.tableau_rows(relaxed.counts, LEAST_PART):
            for sign in (1, -1):
                parts = np.mod(sign * row, 1.0)
                parts[(parts < LEAST_PART) | (parts > 1 - LEAST_PART)] = 0.0
                yield parts * (1 + MARGIN)

    def as_data(self) -> Fields:
        """Return the cuts that have prices, and those that they are made of, as a certificate has them."""
        needed, first = set[int](), self._first
        for place in range(first + len(self._cuts) - 1, first - 1, -1):
            if place in needed or place in self._priced:
                needed |= {place, *self._cuts[place - first].places}
        kept = sorted(place for place in needed if place >= first)
        number = {**{i: i for i in range(first)}, **{place: first + i for i, place in enumerate(kept)}}
        cuts = [self._cuts[place - first] for place in kept]
        made = [{"places": [number[i] for i in cut.places], "prices": [*cut.prices]} for cut in cuts]
        return {"cuts": made, "priced": [number[place] for place in self._priced]} if made else {}
