"""Prices of time: the form of scheduling certificates, their grid, and the marginal values of resources.

A certificate of scheduling consists of prices of time; `check/` derives what they prove.

The prices also bound the saving from one more unit of a resource. With C + 1 units of resource r at all times
the same prices prove L(λ; C + 1) = L(λ; C) − ∫ λ_r(t) dt, so that no schedule on the larger cluster is below
that. A plan saves at most its distance from the bound plus ∫ λ_r(t) dt / Σ ω_j. Malleable jobs have the
configurations that fit today: larger ones may save more.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from pydantic import Field, field_validator

from ...instances.common.arrays import Floats, Ints
from ...instances.common.fields import Fields, Model, validated_in_batches
from ...instances.scheduling.instance import SchedulingInstance
from ..common.formulation import parsed_certificate
from ..common.objective import rounded_up

MAX_EDGES = 20_000
"""Maximum number of edges of a grid; two thousand are usual, and more hardly raise the bound."""
MAX_FIGURES = 1_000_000
"""Maximum number of prices of all resources."""
MAX_EDGE_S = 1e13
"""Largest allowed edge; the times of instances are at most 1e11 s."""
MAX_PRICE = 1e100
"""Largest allowed price, so that no product or sum overflows."""


@dataclass(frozen=True, eq=False)
class PriceGrid:
    """Piecewise constant dual prices of resources over time, λ_r(t) ≥ 0.

    Attributes
    ----------
    edges_s
        Strictly rising times, shape (G,). Before the first one all prices are 0.
    price
        Price of a unit of each resource from edge g to the next one, per second, shape (G, R). The last row
        holds from the last edge on, and is 0.
    """

    edges_s: Floats
    price: Floats

    def at(self, times_s: Floats) -> Floats:
        """Return the dual prices of the resources at the given times, shape (len(times_s), R)."""
        cell: Ints = np.searchsorted(self.edges_s, times_s, side="right") - 1
        return np.where((cell < 0)[:, None], 0.0, self.price[cell])

    def refined(self, times_s: Floats) -> PriceGrid:
        """Return the same dual prices on a grid with additional edges, even beyond the maximum number."""
        edges = np.union1d(self.edges_s, times_s)
        return PriceGrid(edges, self.at(edges))


MAX_RESOURCES = 1_000

Edge = Annotated[float, Field(ge=0, le=MAX_EDGE_S)]
Price = Annotated[float, Field(ge=0, le=MAX_PRICE)]


class PriceCertificate(Model):
    """A grid of prices as it is stored.

    Attributes
    ----------
    edges_s
        As in `PriceGrid`.
    prices
        Resource → its price in each cell; 0 for those that are missing.
    """

    edges_s: Annotated[
        tuple[Edge, ...], Field(min_length=1, max_length=MAX_EDGES), validated_in_batches(MAX_EDGES)
    ]
    prices: Annotated[
        dict[str, Annotated[tuple[Price, ...], Field(max_length=MAX_EDGES), validated_in_batches(MAX_EDGES)]],
        Field(max_length=MAX_RESOURCES),
        validated_in_batches(MAX_RESOURCES),
    ]

    @field_validator("edges_s", "prices", mode="before")
    @classmethod
    def _plain_numbers(cls, value: Any) -> Any:
        """Raise an error for strings and booleans that pydantic would accept as numbers."""
        rows = value.values() if isinstance(value, dict) else (value,)
        for row in rows:
            if isinstance(row, list | tuple) and not all(type(x) in (int, float) for x in row):
                raise ValueError("must hold numbers only")
        return value


def certificate_of(grid: PriceGrid, resources: Sequence[str]) -> Fields:
    """Return a grid of dual prices as a certificate; `resources` names its columns."""
    priced = {
        name: tuple(price.tolist())
        for name, price in zip(resources, grid.price.T, strict=True)
        if price.any()
    }
    return PriceCertificate(edges_s=tuple(grid.edges_s.tolist()), prices=priced).model_dump(mode="json")


def read_grid(data: Any, resources: Sequence[str]) -> PriceGrid | str:
    """Return the grid of dual prices of an untrusted certificate, or its first format error."""
    given = parsed_certificate(PriceCertificate, data)
    if isinstance(given, str):
        return given
    unknown = sorted(set(given.prices) - set(resources))
    if unknown:
        return f"prices.{unknown[0]}: there is no such resource"
    if len(given.edges_s) * len(resources) > MAX_FIGURES:
        return f"edges_s: {len(given.edges_s):,} for {len(resources):,} resources are too many"
    if (np.diff(given.edges_s) <= 0).any():
        return "edges_s: have to rise"
    price = np.zeros((len(given.edges_s), len(resources)))
    for name, row in given.prices.items():
        if len(row) != len(given.edges_s):
            return f"prices.{name}: has {len(row):,} figures for {len(given.edges_s):,} edges"
        if row[-1]:
            return f"prices.{name}: after the last edge every price has to be 0"
        price[:, resources.index(name)] = row
    return PriceGrid(np.array(given.edges_s), price)


HOUR_S = 3600.0
MAX_NAMED_RESOURCES = 3
"""Maximum number of resources that the advice names."""


def marginal_values(instance: SchedulingInstance, grid: PriceGrid) -> dict[str, float]:
    """Return each resource's marginal value ∫ λ_r(t) dt / Σ ω_j, in seconds of mean completion time."""
    total = math.fsum(instance.table().relative_weight.tolist())
    whole: Floats = np.diff(grid.edges_s) @ grid.price[:-1]
    return dict(zip(instance.pool, (whole / total).tolist(), strict=True))


def marginal_value_text(instance: SchedulingInstance, worth: Mapping[str, float], value: float) -> str:
    """Return a sentence with upper bounds on the savings from one more unit of the scarcest resources.

    Parameters
    ----------
    worth
        Marginal value of each resource, in seconds of mean completion time.
    value
        Mean completion time of the plan [s].
    """
    jobs = instance.table()
    # Ranked by the saving from 1 % more of a resource, as units of different resources do not compare.
    weighed = {name: price * instance.pool.get(name, 0.0) for name, price in worth.items()}
    named = [name for name in sorted(weighed, key=lambda name: -weighed[name]) if worth[name] > 0]
    if not named:
        return "more of no resource saves anything beyond the certified gap"
    equal = bool((jobs.weight == jobs.weight[0]).all())
    clauses = []
    for name in named[:MAX_NAMED_RESOURCES]:
        seconds = rounded_up(worth[name])
        part = f" ({rounded_up(100 * worth[name] / value):g} %)" if value > 0 else ""
        hours = f", {rounded_up(worth[name] * len(jobs) / HOUR_S):,.10g} job-hours in all" if equal else ""
        saved = f"{seconds:,.10g} s of the mean completion time{part}{hours}"
        clauses.append(f"one more {name} throughout saves at most {saved}")
    sizes = ", in the configurations that fit now" if instance.menus().malleable else ""
    return f"{'; '.join(clauses)}, beyond the certified gap{sizes}"
