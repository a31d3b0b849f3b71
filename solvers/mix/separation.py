"""Cutting planes for a relaxation: those of the rows of its optimal tableau.

For a basic count that is not whole, the fractional parts of its row of the inverse basis, or of that row with
the other sign, are multipliers of a cut that the relaxation may break (Gomory, "Outline of an algorithm for
integer solutions to linear programs", Bulletin of the American Mathematical Society 64, 1958). They are
rounded to fractions of small denominators, since any multipliers make a valid cut. A row that does not bind
any more is left out, so that the relaxation stays small.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from fractions import Fraction
from math import lcm

import numpy as np

from ...formulations.mix.cuts import MAX_DENOMINATOR, Cut, WholeRows
from ...formulations.mix.program import MixProgram
from ...instances.common.arrays import Floats
from ...instances.common.fields import Fields
from ..common.base import Clock
from .relaxation import Relaxation

MAX_ROUNDS = 100
MAX_CUTS = 40
"""Cuts of one round."""
MAX_CONFIGURATIONS = 5_000
"""Largest number of configurations for which cuts are made."""
FINEST = 1_000
"""Largest denominator of a multiplier."""
FREE = 1e20
"""What HiGHS takes for infinite."""
LEAST_VIOLATION, LEAST_PRICE = 1e-4, 1e-9
LEAST_PART = 1e-6
"""Distance from a whole number from which on a count is not one."""


class Separation:
    """Rounds of cuts for the root of a branching tree.

    Attributes
    ----------
    program
        With the cuts that bind at the end.
    """

    def __init__(self, program: MixProgram) -> None:
        self.program, self._first = program, len(program.rows)
        self._rows = WholeRows(program)
        self._cuts: list[Cut] = []
        self._priced: list[int] = []

    def run(self, target: float, clock: Clock) -> None:
        """Add cuts until the bound of the relaxation reaches the target, or nothing is to be cut off."""
        count = len(self.program.cost)
        low, free = np.zeros(count), np.full(count, FREE)
        possible = count <= MAX_CONFIGURATIONS and not len(self.program.demand)
        for _ in range(MAX_ROUNDS if possible else 0):
            # Limits of single counts follow from the rows; without them the tableau is that of the rows.
            relaxation = Relaxation(replace(self.program, most=free))
            relaxed = relaxation.solve(low, free)
            bound = self.program.bound(relaxed.prices, low, self.program.most)
            cuts = [] if clock.expired or bound >= target else self._violated(relaxation, relaxed.counts)
            if not cuts:
                break
            binds = relaxed.prices[self._first :] > LEAST_PRICE
            self._priced = [row for row, binding in zip(self._priced, binds, strict=True) if binding]
            for cut in cuts:
                self._priced.append(self._first + len(self._cuts))
                self._cuts.append(cut)
            self.program = self._rows.program_with(self._priced)

    def _violated(self, relaxation: Relaxation, counts: Floats) -> list[Cut]:
        """Return the cuts that counts violate most, relative to their size."""
        index, found = [*range(self._first), *self._priced], dict[Cut, float]()
        rows = relaxation.tableau_rows(counts, LEAST_PART)
        for multipliers, sign in itertools.product(rows, (1, -1)):
            parts = [Fraction(u).limit_denominator(FINEST) for u in np.mod(sign * multipliers, 1.0).tolist()]
            inside = [(row, part) for row, part in zip(index, parts, strict=True) if part % 1]
            common = lcm(*(part.denominator for _, part in inside))
            if inside and common <= MAX_DENOMINATOR:
                of_rows, numerators = zip(*((row, int(part * common)) for row, part in inside), strict=True)
                cut = Cut(rows=of_rows, numerators=numerators, denominator=common)
                weights, limit = self._rows.row(cut)
                excess = float(weights @ counts - limit)
                if excess > LEAST_VIOLATION:
                    found[cut] = excess / float(np.linalg.norm(weights) + LEAST_PART)
        chosen = sorted(found, key=lambda cut: -found[cut])[:MAX_CUTS]
        for cut in chosen:
            self._rows.add(cut)
        return chosen

    def as_data(self) -> Fields:
        """Return the cuts that have prices, and those that they are made of, as a certificate has them."""
        needed, number = set[int](), {row: row for row in range(self._first)}
        for row in range(self._first + len(self._cuts) - 1, self._first - 1, -1):
            if row in needed or row in self._priced:
                needed |= {row, *self._cuts[row - self._first].rows}
        made: list[Cut] = []
        for row in sorted(needed - number.keys()):
            cut = self._cuts[row - self._first]
            number[row] = self._first + len(made)
            made.append(cut.model_copy(update={"rows": tuple(number[each] for each in cut.rows)}))
        priced = [number[row] for row in self._priced]
        return {"cuts": [cut.model_dump(mode="json") for cut in made], "priced": priced} if priced else {}
