"""Prices of time: what a unit of each resource costs a second, as step functions on a grid of times.

They are the content of a certificate of scheduling. Whether they prove anything is for the evaluation to
find out; here they are only brought into a form that it can read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from pydantic import Field, ValidationError, ValidationInfo, field_validator

from ....instances.common.arrays import Floats, Ints
from ....instances.common.fields import Model, in_slices

MOST_EDGES = 20_000
"""Edges of a grid; two thousand are usual, and more hardly raise the bound."""
MOST_FIGURES = 1_000_000
"""Prices of all resources together."""
MOST_RESOURCES = 1_000
LATEST_S = 1e13
"""No edge is later: the times of instances are at most 1e11 s."""
LARGEST = 1e100
"""No price may exceed this, so that no product or sum overflows."""

Edge = Annotated[float, Field(ge=0, le=LATEST_S)]
Price = Annotated[float, Field(ge=0, le=LARGEST)]


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


class PriceCertificate(Model):
    """A grid of prices as it is stored.

    Attributes
    ----------
    edges_s
        As in `PriceGrid`.
    prices
        Resource → its price in each cell; 0 for those that are missing.
    """

    edges_s: Annotated[tuple[Edge, ...], Field(min_length=1, max_length=MOST_EDGES), in_slices(MOST_EDGES)]
    prices: Annotated[
        dict[str, Annotated[tuple[Price, ...], Field(max_length=MOST_EDGES), in_slices(MOST_EDGES)]],
        Field(max_length=MOST_RESOURCES),
        in_slices(MOST_RESOURCES),
    ]

    @field_validator("edges_s", "prices", mode="before")
    @classmethod
    def _plain_numbers(cls, value: Any, info: ValidationInfo) -> Any:
        """Refuse texts and truth values that pydantic would take for numbers."""
        rows = value.values() if isinstance(value, dict) else (value,)
        for row in rows:
            if isinstance(row, list | tuple) and not all(type(x) in (int, float) for x in row):
                raise ValueError("must hold numbers only")
        del info
        return value


def certificate_of(grid: PriceGrid, resources: Sequence[str]) -> dict[str, Any]:
    """Return a grid of prices as a certificate; resources are named in the order of its columns."""
    priced = {
        name: tuple(grid.price[:, r].tolist()) for r, name in enumerate(resources) if grid.price[:, r].any()
    }
    return PriceCertificate(edges_s=tuple(grid.edges_s.tolist()), prices=priced).model_dump()


def read_grid(data: Any, resources: Sequence[str]) -> PriceGrid | str:
    """Return the grid of a certificate that nobody vouches for, or what is wrong with its form."""
    try:
        given = PriceCertificate.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg'].lower()}"
    unknown = sorted(set(given.prices) - set(resources))
    if unknown:
        return f"prices.{unknown[0]}: there is no such resource"
    if len(given.edges_s) * len(resources) > MOST_FIGURES:
        return f"edges_s: {len(given.edges_s):,} for {len(resources):,} resources are too many"
    price = np.zeros((len(given.edges_s), len(resources)))
    for name, row in given.prices.items():
        if len(row) != len(given.edges_s):
            return f"prices.{name}: has {len(row):,} figures for {len(given.edges_s):,} edges"
        price[:, list(resources).index(name)] = row
    try:
        return PriceGrid(np.array(given.edges_s), price)
    except ValueError as error:
        return str(error)
