"""Smoothed dual prices: columns are priced between the best prices so far and those of the relaxation.

Prices of a relaxation over few columns jump from round to round. Those on the way from the prices of the best
bound to them lead to the bound in fewer rounds (Wentges 1997; Pessoa, Sadykov, Uchoa & Vanderbeck 2018).
"""

from __future__ import annotations

from dataclasses import dataclass

from .master import DualPrices


@dataclass
class Smoothing:
    """Where to price next.

    Attributes
    ----------
    center
        Prices of the best bound.
    share
        Weight of the center where the last columns improved the relaxation.
    misses
        Rounds since they did: each takes the prices further from the center.
    """

    center: DualPrices
    share: float = 0.3
    misses: int = 0

    def next(self, prices: DualPrices, improved: bool) -> tuple[DualPrices, bool]:
        """Return prices, and whether to search the pricing problems at these to the end.

        Parameters
        ----------
        improved
            Whether the last columns improved the relaxation.
        """
        self.misses = 0 if improved else self.misses + 1
        weight = 1 - (self.misses + 1) * (1 - self.share)
        if weight <= 0:
            # Where not even the relaxation's own prices helped, heuristics do not do any more.
            return prices, self.misses * (1 - self.share) >= 1
        return mixed(self.center, prices, weight), False


def mixed(first: DualPrices, second: DualPrices, weight: float) -> DualPrices:
    """Return prices between two, with this weight on the first."""
    rest = 1 - weight
    names = {*first.earlier, *second.earlier}
    return DualPrices(
        tuple(weight * a + rest * b for a, b in zip(first.pieces, second.pieces, strict=True)),
        weight * first.servers + rest * second.servers,
        weight * first.jobs + rest * second.jobs,
        {
            name: weight * first.earlier.get(name, 0.0) + rest * second.earlier.get(name, 0.0)
            for name in sorted(names)
        },
    )
