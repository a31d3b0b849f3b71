"""Where the numbers of random instances come from: many digits, many scales, ties, and sums that just fit."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

SORTS: dict[str, Callable[[random.Random], float]] = {
    "small": lambda rng: rng.randint(1, 9),
    "tenths": lambda rng: rng.choice([0.1, 0.2, 0.3, 0.4, 0.6, 0.7, 0.8, 0.9]),
    "decimals": lambda rng: rng.randint(1, 60) / 10,
    "cents": lambda rng: rng.randint(1, 500) / 100,
    "digits": lambda rng: rng.uniform(0.1, 10),
    "nine": lambda rng: round(rng.uniform(0.1, 10), 9),
    "milli": lambda rng: rng.randint(1, 96_000) / 1000,
    "mib": lambda rng: rng.randint(1, 2**20) / 1024,
    "nine digits": lambda rng: rng.randint(10**8, 10**9 - 1),
    "wide": lambda rng: 10 ** rng.uniform(-7, 7),
    "powers": lambda rng: 10.0 ** rng.randint(-7, 7),
    "extremes": lambda rng: rng.choice([1e12, 1e-9, 0.3, 1.0, 7e11, 3e-9, 1e12 + 1]),
    "thirds": lambda rng: rng.randint(1, 9) / rng.choice([3, 7, 9]),
}
"""How a positive number is drawn."""
WIDE = ("wide", "powers", "extremes")
"""Sorts whose numbers lie more than 12 orders of magnitude apart."""
PLAIN = ("small", "tenths", "tenths", "decimals", "cents")
"""Sorts as people write them, whose sums are close to each other, and often not what they seem in doubles."""
FACTORS = (1, 1, 1, 1, 1e-6, 1e-3, 1e3, 1e6)
"""By what all numbers of a family may be multiplied."""
MARGINS = (0, 0, 0, 0, 1e-16, -1e-16, 1e-12, -1e-12, 9e-10, 1.1e-9, -9e-10, -1.1e-9, 1e-8, -1e-8, 1e-6, -1e-6)
"""By how much, relatively, a limit may miss what just fits."""


class Palette:
    """Numbers of one instance: each family of quantities has a sort of its own, or a mixture.

    Parameters
    ----------
    rng
        Every draw is from this generator.
    """

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self._plain = rng.random() < 0.3
        self._one_sort = rng.choice(list(SORTS)) if rng.random() < 0.25 else None
        self._families: dict[str, tuple[Callable[[], float], float]] = {}

    def draw(self, family: str) -> float:
        """Return a positive number of a family of quantities."""
        if family not in self._families:
            factor = 1 if self._plain else self.rng.choice(FACTORS)
            self._families[family] = self._source(), factor
        source, factor = self._families[family]
        number = source()
        return number * factor if 1e-8 < number < 1e8 else number

    def _source(self) -> Callable[[], float]:
        rng = self.rng
        chance = rng.random()
        if self._plain:
            sort = SORTS[rng.choice(PLAIN)]
            return lambda: sort(rng)
        if self._one_sort is not None:
            sort = SORTS[self._one_sort]
            return lambda: sort(rng)
        if chance < 0.15:
            ties = [SORTS[rng.choice(list(SORTS))](rng) for _ in range(2)]
            return lambda: rng.choice(ties)
        if chance < 0.3:
            return lambda: SORTS[rng.choice(list(SORTS))](rng)
        sort = SORTS[rng.choice(WIDE) if chance < 0.8 else rng.choice(list(SORTS))]
        return lambda: sort(rng)

    def near(self, amount: float) -> float:
        """Return an amount that just fits, or just does not, or is well apart."""
        if self.rng.random() < 0.4:
            return amount * self.rng.uniform(0.3, 3)
        return amount * (1 + self.rng.choice(MARGINS))

    def sum_of_some(self, amounts: Sequence[float]) -> float:
        """Return the sum of a random part of the amounts, which is not empty, in a random order."""
        chosen = [self.rng.choice(amounts) for _ in range(self.rng.randint(1, len(amounts)))]
        return sum(chosen)
