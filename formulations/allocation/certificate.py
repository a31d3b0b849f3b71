"""The certificate of an allocation: prices and a cutoff, from which anyone can derive the bound again.

The check trusts nothing but the menu. It evaluates the price bound with rounding that can only weaken it,
drops every configuration whose reduced cost lies beyond the cutoff, and looks through all combinations of
the rest for one below the cutoff. Where that search ends without finding any, the cutoff is certified;
where it gives up, the price bound is.
"""

from __future__ import annotations

import math
from typing import Annotated, Any

import numpy as np
from pydantic import Field, ValidationError

from ...instances.common.arrays import Floats
from ...instances.common.fields import Model, in_slices
from ..common.check.enumeration import Choices, none_below
from ..common.clock import check_time
from .configurations import Menu
from .dual_bound import (
    MARGIN,
    least_priced,
    makespan_price_bound,
    price_bound,
    priced_capacity,
    priced_parts,
    proves_none_before,
)

CLOSE = 5e-10
"""A cutoff lies this much below the value, relatively, so that the plan itself does not count as better."""
LARGEST = 1e100
"""No price or cutoff may exceed this, so that no product or sum overflows."""
SMALLEST = 1e-100
"""A price below this counts as 0, so that no product underflows on its way into a sum."""
MOST_PRICES = 1001
"""As many as there may be resources, and one for the budget."""
MOST_FREE = 4000
"""Rows beyond one for each job that the search is tried on."""


class PriceCertificate(Model):
    """Prices and cutoff.

    Attributes
    ----------
    prices
        λ of each row of capacity, in seconds per unit; for a makespan only their ratios matter.
    cutoff
        No plan is better than this, in seconds; None: there is no plan.
    """

    prices: Annotated[dict[str, Annotated[float, Field(ge=0, le=LARGEST)]], in_slices(MOST_PRICES)]
    cutoff: Annotated[float, Field(ge=-LARGEST, le=LARGEST)] | None = None


def certificate(menu: Menu, prices: Floats, bound: float | None) -> dict[str, Any]:
    """Return the certificate of a bound; None stands for the claim that there is no plan."""
    kept = np.clip(np.nan_to_num(prices), 0.0, LARGEST)
    priced = dict(zip(menu.rows, kept.tolist(), strict=True))
    cutoff = None if bound is None else bound - CLOSE * abs(bound)
    return PriceCertificate(prices=priced, cutoff=cutoff).model_dump()


def certificate_fault(menu: Menu, data: Any) -> str | None:
    """Return what is wrong with the form of a certificate; None if it can be read."""
    try:
        given = PriceCertificate.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg'].lower()}"
    unknown = sorted(set(given.prices) - set(menu.rows))
    return f"prices.{unknown[0]}: there is no such resource" if unknown else None


def read_prices(data: Any) -> dict[str, float]:
    """Return the prices of a certificate whose form is right."""
    return PriceCertificate.model_validate(data).prices


def certified_bound(menu: Menu, makespan: bool, data: Any) -> float | None:
    """Return the bound that a certificate proves.

    Returns
    -------
    bound
        Seconds; infinite if it proves that there is no plan, None if it is malformed.
    """
    try:
        given = PriceCertificate.model_validate(data)
    except ValidationError:
        return None
    prices = np.array([given.prices.get(name, 0.0) for name in menu.rows])
    prices[prices < SMALLEST] = 0.0
    if makespan:
        return _makespan_bound(menu, prices, given.cutoff)
    return _total_bound(menu, prices, given.cutoff)


def _total_bound(menu: Menu, prices: Floats, cutoff: float | None) -> float:
    priced = price_bound(menu, prices)
    dearest = math.fsum(np.maximum.reduceat(menu.cost, menu.start[:-1])) * (1 + MARGIN)
    if priced > dearest:
        return math.inf
    claim = dearest if cutoff is None else cutoff
    if priced >= claim:
        return priced
    choices = _survivors(menu, menu.cost, prices, claim - priced)
    if choices is None or not none_below(choices, prices, claim):
        return priced
    return math.inf if cutoff is None else claim


def _makespan_bound(menu: Menu, prices: Floats, cutoff: float | None) -> float:
    claim = math.inf if cutoff is None else cutoff
    if proves_none_before(menu, prices, claim):
        return claim
    # Any choice of rows that end in time is a counterexample: with no costs, one below 0 + margin.
    late = np.where(menu.time_s < claim, 0.0, math.inf)
    choices = _survivors(menu, late, prices, _slack(menu, late, prices))
    if choices is not None and none_below(choices, prices, 0.0):
        return claim
    bound = makespan_price_bound(menu, prices)
    check_time()  # it may have ended early
    return bound


def _slack(menu: Menu, late: Floats, prices: Floats) -> float:
    """Return λ·C − Σ_j min_k λ·a_k over the rows in time: what a choice may waste."""
    least = least_priced(menu, prices, late)
    return priced_capacity(menu, prices) * (1 + MARGIN) - least * (1 - MARGIN)


def _survivors(menu: Menu, cost: Floats, prices: Floats, reach: float) -> Choices | None:
    """Return the rows whose reduced cost is within reach; None if they are too many to search."""
    found, counts, total = [], [], 0
    for start, value, low in priced_parts(menu, prices, cost):
        size = np.diff(start)
        edge = np.repeat(low * (1 + MARGIN) + reach * (1 + MARGIN), size)
        near = (value * (1 - MARGIN) <= edge) & np.isfinite(value)
        found.append(start[0] + np.flatnonzero(near))
        counts.append(np.add.reduceat(near, start[:-1] - start[0], dtype=np.int64))
        total += len(found[-1]) - len(low)
        if total > MOST_FREE:
            return None
    rows = np.concatenate(found)
    offsets = np.concatenate([[0], np.cumsum(np.concatenate(counts))])
    return Choices(offsets, cost[rows], menu.demand[rows], menu.limit)
