"""The certificate of a staging plan: intervals that cover all stage times, prices for each, and a cutoff.

Every plan has a stage time in one of the intervals. For each it is shown, at its prices and without trusting
any solver, that no plan in it beats the cutoff; where prices alone do not show it, the few runs that they
leave are looked through. An interval for which neither succeeds keeps its price bound, and the least of
these is what is certified.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from pydantic import Field, ValidationError

from ...instances.common.arrays import Floats
from ...instances.common.fields import Model, Name, in_slices
from ...instances.staging.instance import StagingInstance
from ..common.tolerance import loosened
from .interval_bounds import MOST_WORK, Cover, Interval, Limits
from .stage_times import StageTable

CLOSE = 5e-10
"""A cutoff lies this much below the value, relatively, so that the plan itself does not count as better."""
ROUNDING = 1e-12
"""Limits are this much wider here, relatively, than in the check of a plan: sums may round otherwise."""
SMALLEST = 1e-100
"""A price below this counts as 0, so that no product underflows on its way into a sum."""
LARGEST = 1e100
"""No price or cutoff may exceed this, so that no product or sum overflows."""
BUDGET = "hourly_budget_usd"
"""Name of the budget's price beside those of the types: USD for one USD/h."""
MOST_INTERVALS = 100_000
MOST_PRICES = 1000
"""As many as there may be types."""

Price = Annotated[float, Field(ge=0, le=LARGEST)]


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

    until_s: Annotated[float, Field(gt=0, le=LARGEST)]
    prices: Annotated[dict[Name, Price], in_slices(MOST_PRICES)] = {}
    budget_price: Price = 0.0
    counts_cost: bool = True


class StagingCertificate(Model):
    """Intervals from fast to slow, and the claim.

    Attributes
    ----------
    cutoff
        No plan has a better objective than this; None: there is no plan.
    """

    cutoff: Annotated[float, Field(gt=-LARGEST, le=LARGEST)] | None = None
    intervals: Annotated[
        tuple[CertifiedInterval, ...], Field(max_length=MOST_INTERVALS), in_slices(MOST_INTERVALS)
    ]


def scarce(instance: StagingInstance, slack: float = 0.0) -> Limits:
    """Return what bounds units: one row for each type with a limit, and one for an hourly budget.

    Parameters
    ----------
    slack
        Relative, of the budget alone: its sum is not of whole numbers.
    """
    kinds = instance.types
    rows = [row for row, kind in zip(np.eye(len(kinds)), kinds, strict=True) if kind.limit is not None]
    most = [float(kind.limit) for kind in kinds if kind.limit is not None]
    if instance.hourly_budget_usd is not None:
        rows.append(np.array([kind.price_usd_per_hour for kind in kinds]))
        most.append(loosened(instance.hourly_budget_usd) * (1 + slack))
    return Limits(np.array(rows).reshape(-1, len(kinds)), np.array(most))


@dataclass(frozen=True)
class Facts:
    """What the check takes from the instance.

    Attributes
    ----------
    cost_factor
        κ: USD per second of stage time and USD/h.
    slowest_s
        No plan within the floor has a longer stage time; may be infinite.
    """

    instance: StagingInstance
    table: StageTable
    cost_factor: float
    slowest_s: float

    @property
    def most_usd(self) -> float:
        """A cost above which no plan keeps the cost limit."""
        limit = self.instance.cost_limit_usd
        return math.inf if limit is None else loosened(limit) * (1 + ROUNDING)

    @property
    def limited(self) -> list[str]:
        """Names of the types with a limit."""
        return [kind.name for kind in self.instance.types if kind.limit is not None]


def read_certificate(facts: Facts, data: Any) -> StagingCertificate | str:
    """Return the certificate, or what is wrong with its form."""
    try:
        given = StagingCertificate.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg'].lower()}"
    ends = [interval.until_s for interval in given.intervals]
    if any(a >= b for a, b in itertools.pairwise(ends)):
        return "intervals: until_s has to rise from one interval to the next"
    for index, interval in enumerate(given.intervals):
        unknown = sorted(set(interval.prices) - set(facts.limited))
        if unknown:
            return f"intervals.{index}.prices.{unknown[0]}: there is no limited type of this name"
    return given


def certified_cost(facts: Facts, data: Any) -> float | None:
    """Return the cost below which the certificate proves that there is no plan [USD].

    Returns
    -------
    bound
        Infinite if it proves that there is no plan; None if it is malformed.
    """
    given = read_certificate(facts, data)
    if isinstance(given, str):
        return None
    cutoff = facts.most_usd if given.cutoff is None else given.cutoff
    open_ones = unproven(facts, given.intervals, facts.slowest_s, lambda _: cutoff)
    return min([math.inf if given.cutoff is None else cutoff, *(bound for _, bound in open_ones)])


def certified_stage_time(facts: Facts, claimed_s: float | None, data: Any) -> float | None:
    """Return the stage time below which the certificate proves that there is no plan [s per probe batch].

    Parameters
    ----------
    claimed_s
        The cutoff as a stage time; None for the claim that there is no plan.

    Returns
    -------
    bound
        Infinite if it proves that there is no plan; None if it is malformed.
    """
    given = read_certificate(facts, data)
    if isinstance(given, str):
        return None
    last = facts.slowest_s if claimed_s is None else math.nextafter(claimed_s, 0.0)
    open_ones = unproven(facts, given.intervals, last, lambda _: facts.most_usd)
    return min([math.inf if claimed_s is None else claimed_s, *(one.low for one, _ in open_ones)])


def unproven(
    facts: Facts,
    given: Sequence[CertifiedInterval],
    last_s: float,
    cutoff: Callable[[float], float],
    most_work: int = MOST_WORK,
) -> list[tuple[Interval, float]]:
    """Return the intervals that could not be shown, each with a bound on the cost of a plan in it.

    Parameters
    ----------
    last_s
        The slowest stage time to be shown. What the intervals leave over is one more, without prices.
    cutoff
        Of the fast end of an interval: a plan in it that costs less would refute the claim.
    most_work
        Bounds that the searches of all intervals may evaluate together.
    """
    instance, limits = facts.instance, scarce(facts.instance, ROUNDING)
    found: list[Interval] = []
    low = 0.0
    for interval in given:
        if low > last_s:
            break
        prices = [interval.prices.get(name, 0.0) for name in facts.limited]
        if instance.hourly_budget_usd is not None:
            prices.append(interval.budget_price)
        known = np.array(prices)
        known[known < SMALLEST] = 0.0
        found.append(Interval(low, min(interval.until_s, last_s), known, interval.counts_cost, cutoff(low)))
        low = math.nextafter(interval.until_s, math.inf)
    if low <= last_s:
        found.append(Interval(low, last_s, np.zeros(len(limits.most)), True, cutoff(low)))
    apart = instance.stage_rule == "maximal_runs"
    return Cover(facts.table, facts.cost_factor, limits, apart, most_work).unproven(found)


def row_prices(instance: StagingInstance, prices: Floats) -> tuple[dict[str, float], float]:
    """Return prices of the rows of `scarce` by name of the type, and that of the budget."""
    limited = [kind.name for kind in instance.types if kind.limit is not None]
    kept = np.clip(np.nan_to_num(prices), 0.0, LARGEST).tolist()
    named = {name: price for name, price in zip(limited, kept, strict=False) if price > 0}
    return named, kept[-1] if len(kept) > len(limited) else 0.0


def prices_at(instance: StagingInstance, data: Any, time_s: float) -> dict[str, float] | None:
    """Return the prices of the interval with this stage time, of every limited type and of the budget.

    None if the certificate does not reach so far, or claims only that units do not suffice there.
    """
    given = StagingCertificate.model_validate(data)
    own = next((interval for interval in given.intervals if time_s <= interval.until_s), None)
    if own is None or not own.counts_cost:
        return None
    prices = {kind.name: own.prices.get(kind.name, 0.0) for kind in instance.types if kind.limit is not None}
    if instance.hourly_budget_usd is not None:
        prices[BUDGET] = own.budget_price
    return prices or None
