"""Prices of time: what a unit of each resource costs a second, as step functions on a grid of times."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...instances.common.arrays import Floats, Ints

MOST_EDGES = 20_000
"""Edges of a grid; two thousand are usual, and more hardly raise the bound."""
MOST_FIGURES = 1_000_000
"""Prices of all resources together."""
LATEST_S = 1e13
"""No edge is later: the times of instances are at most 1e11 s."""
LARGEST = 1e100
"""No price may exceed this, so that no product or sum overflows."""


@dataclass(frozen=True, eq=False)
class PriceGrid:
    """λ_r(t) ≥ 0, piecewise constant.

    Attributes
    ----------
    edges_s
        Times that rise strictly, shape (G,). Before the first one everything is free.
    price
        Price of a unit of each resource from edge g to the next one, per second, shape (G, R). The last row
        holds from the last edge on, and is 0.

    Raises
    ------
    ValueError
        If shapes do not agree, or a figure is not allowed.
    """

    edges_s: Floats
    price: Floats

    def __post_init__(self) -> None:
        edges, price = self.edges_s, self.price
        if edges.ndim != 1 or price.ndim != 2 or len(price) != len(edges) or not len(edges):
            raise ValueError(f"{edges.shape} edges and {price.shape} prices do not go together")
        if len(edges) > MOST_EDGES:
            raise ValueError(f"{len(edges):,} edges are too many; at most {MOST_EDGES:,} are allowed")
        if price.size > MOST_FIGURES:
            raise ValueError(f"{price.size:,} prices are too many; at most {MOST_FIGURES:,} are allowed")
        if not (np.diff(edges) > 0).all() or not (edges[0] >= 0 and edges[-1] <= LATEST_S):
            raise ValueError(f"edges have to rise from 0 or more to at most {LATEST_S:g}")
        if not ((price >= 0) & (price <= LARGEST)).all():
            raise ValueError(f"prices have to be from 0 to {LARGEST:g}")
        if price[-1].any():
            raise ValueError("after the last edge every price has to be 0")

    @classmethod
    def free(cls, resources: int) -> PriceGrid:
        """Return prices that are 0 for ever."""
        return cls(np.zeros(1), np.zeros((1, resources)))

    def at(self, times_s: Floats) -> Floats:
        """Return the prices at these times, shape (len(times_s), R)."""
        cell: Ints = np.searchsorted(self.edges_s, times_s, side="right") - 1
        return np.where((cell < 0)[:, None], 0.0, self.price[cell])

    def refined(self, times_s: Floats) -> PriceGrid:
        """Return the same prices on a grid that has these times too; for the evaluation, without its cap."""
        edges = np.union1d(self.edges_s, times_s)
        grid = object.__new__(PriceGrid)
        object.__setattr__(grid, "edges_s", edges)
        object.__setattr__(grid, "price", self.at(edges))
        return grid
