"""The form of staging certificates, with functions to write and to read them.

A certificate holds intervals that cover all stage times, dual prices for each, and a cutoff. `check/`, which
this module does not import, derives what it proves.
"""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from pydantic import Field

from ...instances.common.arrays import Floats
from ...instances.common.fields import Model, Name, entries, validated_in_batches
from ...instances.staging.instance import StagingInstance
from ..common.formulation import parsed_certificate

CUTOFF_MARGIN = 5e-10
"""Relative distance of the cutoff below the value, so that the plan itself does not count as better."""
MAX_PRICE = 1e100
"""Upper limit of prices and cutoffs, so that no product or sum overflows."""
BUDGET = "hourly_budget_usd"
"""Name of the dual price of the hourly budget, in USD for one USD/h."""
MAX_INTERVALS = 100_000
MAX_PRICES = 1000
"""Maximum number of prices, one for each possible type."""

Price = Annotated[float, Field(ge=0, le=MAX_PRICE)]


class CertifiedInterval(Model):
    """Stage times from the end of the interval before, or 0, to `until_s`.

    Attributes
    ----------
    prices
        USD for one unit of each limited type; 0 where a type is missing.
    budget_price
        USD for one USD/h of the hourly budget.
    counts_cost
        Whether costs are added to what units are worth; if not, the claim is that units do not suffice.
    """

    until_s: Annotated[float, Field(gt=0, le=MAX_PRICE)]
    prices: Annotated[dict[Name, Price], validated_in_batches(MAX_PRICES)] = {}
    budget_price: Price = 0.0
    counts_cost: bool = True


class StagingCertificate(Model):
    """Intervals from fast to slow, and the claim.

    Attributes
    ----------
    cutoff
        No plan has a better objective than this; None: there is no plan.
    """

    cutoff: Annotated[float, Field(gt=-MAX_PRICE, le=MAX_PRICE)] | None = None
    intervals: Annotated[tuple[CertifiedInterval, ...], *entries(MAX_INTERVALS)]


def limited_types(instance: StagingInstance) -> list[str]:
    """Return the names of the hardware types of limited number, in the order of the instance."""
    return [hardware.name for hardware in instance.types if hardware.limit is not None]


def read_certificate(instance: StagingInstance, data: Any) -> StagingCertificate | str:
    """Return the parsed certificate of intervals of stage times, or its first format error."""
    given = parsed_certificate(StagingCertificate, data)
    if isinstance(given, str):
        return given
    if (np.diff([interval.until_s for interval in given.intervals]) <= 0).any():
        return "intervals: until_s has to rise from one interval to the next"
    known = set(limited_types(instance))
    for index, interval in enumerate(given.intervals):
        unknown = sorted(set(interval.prices) - known)
        if unknown:
            return f"intervals.{index}.prices.{unknown[0]}: there is no limited type of this name"
    return given


def named_prices(instance: StagingInstance, prices: Floats) -> tuple[dict[str, float], float]:
    """Return the positive dual prices of limited hardware types by name, and that of the hourly budget.

    Parameters
    ----------
    prices
        Dual prices of the limited types in the order of the instance, then of the budget, shape (R,).
    """
    limited = limited_types(instance)
    kept = np.clip(np.nan_to_num(prices), 0.0, MAX_PRICE).tolist()
    named = {name: price for name, price in zip(limited, kept, strict=False) if price > 0}
    return named, kept[-1] if len(kept) > len(limited) else 0.0


def prices_at(instance: StagingInstance, given: StagingCertificate, time_s: float) -> dict[str, float] | None:
    """Return the dual prices of hardware types and budget in the interval of a stage time, in USD.

    None if no interval contains the stage time, or if its claim is only that units do not suffice.
    """
    own = next((interval for interval in given.intervals if time_s <= interval.until_s), None)
    if own is None or not own.counts_cost:
        return None
    prices = {name: own.prices.get(name, 0.0) for name in limited_types(instance)}
    if instance.hourly_budget_usd is not None:
        prices[BUDGET] = own.budget_price
    return prices or None
