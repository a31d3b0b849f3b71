"""The form of a certificate of scheduling: prices of time, and how methods write it.

What the prices prove is for `check/` to derive; nothing here evaluates anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np
from pydantic import Field, ValidationError, field_validator

from ...instances.common.fields import Model, in_slices
from .price_grid import LARGEST, LATEST_S, MOST_EDGES, MOST_FIGURES, PriceGrid

MOST_RESOURCES = 1_000

Edge = Annotated[float, Field(ge=0, le=LATEST_S)]
Price = Annotated[float, Field(ge=0, le=LARGEST)]


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
    def _plain_numbers(cls, value: Any) -> Any:
        """Refuse texts and truth values that pydantic would take for numbers."""
        rows = value.values() if isinstance(value, dict) else (value,)
        for row in rows:
            if isinstance(row, list | tuple) and not all(type(x) in (int, float) for x in row):
                raise ValueError("must hold numbers only")
        return value


def certificate_of(grid: PriceGrid, resources: Sequence[str]) -> dict[str, Any]:
    """Return a grid of prices as a certificate; resources are named in the order of its columns."""
    priced = {
        name: tuple(grid.price[:, r].tolist()) for r, name in enumerate(resources) if grid.price[:, r].any()
    }
    return PriceCertificate(edges_s=tuple(grid.edges_s.tolist()), prices=priced).model_dump(mode="json")


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
