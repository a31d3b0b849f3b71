"""Certificates of dual prices for allocation, and the marginal values of resources.

A certificate consists of dual prices and a cutoff, on servers also of prices of pieces (see `splits`);
`check/` derives what it proves.

The marginal value of a resource is the saving from one more unit of it. With V(C) the optimum at
capacities C, e_r one unit of r and V the value of the plan, 0 ≤ V(C) − V(C + e_r) ≤ λ_r + V − L(λ): the
dual price, and the distance of the plan from the Lagrangian bound. That holds among the configurations that
fit in the cluster as it is; larger ones may save more, and the text says so where there are any.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from ...instances.allocation.instance import AllocationInstance
from ...instances.common.arrays import Floats, run_of_each
from ...instances.common.fields import Fields, Many, Model, entries, validated_in_batches
from ..common.formulation import parsed_certificate
from ..common.objective import all_loosened, rounded_up
from .configurations import BUDGET, demand_of, resource_limits, task_demands
from .splits import PiecePrices

log = logging.getLogger("clusterplan")

CUTOFF_MARGIN = 5e-10
"""Relative distance of the cutoff below the bound, so that the plan itself does not count as better."""
MAX_PRICE = 1e100
"""Upper limit of dual prices and cutoffs, so that no product or sum overflows."""
MAX_PRICES = 1001
"""Maximum number of dual prices: one for each possible resource, and one for the budget."""
MAX_PIECE_PRICES = 10_000
"""Maximum number of prices of pieces of one resource, and of its units on a server with such pieces."""
PRICE_BITS = 40
"""Bits of prices of pieces, so that sums of some thousands are exact, in whatever order they are added."""

Price = Annotated[float, Field(ge=0, le=MAX_PRICE)]


class PriceCertificate(Model):
    """Dual prices and cutoff.

    Attributes
    ----------
    prices
        λ of each resource, in seconds per unit; for a makespan only their ratios matter.
    cutoff
        No plan is better than this, in seconds; None: there is no plan.
    pieces
        Prices in seconds of a piece with 1, 2, … units of a resource, in an instance with servers.
    """

    prices: Annotated[dict[str, Price], validated_in_batches(MAX_PRICES)]
    cutoff: Annotated[float, Field(ge=-MAX_PRICE, le=MAX_PRICE)] | None = None
    pieces: (
        Annotated[
            dict[str, Annotated[tuple[Price, ...], *entries(MAX_PIECE_PRICES, least=1)]],
            validated_in_batches(MAX_PRICES),
        ]
        | None
    ) = None


class EarlierPrices(PriceCertificate):
    """Certificate of an earlier result, and prices at which its search evaluated the Lagrangian dual.

    Attributes
    ----------
    cuts
        λ of each resource, in seconds per unit.
    """

    cuts: Many[Annotated[dict[str, Price], validated_in_batches(MAX_PRICES)]] = ()


def earlier_prices(resources: Sequence[str], data: Any) -> list[Floats]:
    """Return the dual prices that an earlier result knows, the best first, each of shape (R,).

    A resource that is new has the price 0. What is malformed is left out, with a warning.
    """
    given = parsed_certificate(EarlierPrices, data)
    if isinstance(given, str):
        log.warning("the prices of the warm start are left out: %s", given)
        return []
    return [np.array([prices.get(name, 0.0) for name in resources]) for prices in (given.prices, *given.cuts)]


def certificate_of(
    resources: Sequence[str], prices: Floats, bound: float | None, pieces: PiecePrices | None = None
) -> Fields:
    """Return the certificate of a lower bound (dual prices and cutoff) as plain data for JSON.

    Parameters
    ----------
    resources, prices
        Names, and their dual prices λ with shape (R,).
    bound
        In seconds; None claims that there is no plan.
    pieces
        Prices of pieces, which are rounded to `PRICE_BITS`.
    """
    kept = np.clip(np.nan_to_num(prices), 0.0, MAX_PRICE)
    data: Fields = {
        "prices": dict(zip(resources, kept.tolist(), strict=True)),
        "cutoff": None if bound is None else bound - CUTOFF_MARGIN * abs(bound),
    }
    if pieces is not None:
        _, exponent = math.frexp(max(map(max, pieces.values()), default=0.0))
        unit = math.ldexp(1.0, max(exponent, -900) - PRICE_BITS)
        data["pieces"] = {
            name: [unit * round(max(price, 0.0) / unit) for price in listed]
            for name, listed in pieces.items()
        }
    return PriceCertificate.model_validate(data).model_dump(mode="json", include=set(data))


def read_certificate(
    resources: Sequence[str], data: Any, on_servers: Mapping[str, float] | None = None
) -> PriceCertificate | str:
    """Return an untrusted certificate of dual prices, or its first format error.

    Parameters
    ----------
    on_servers
        Resources of which pieces may have prices, and the most that a server has; None without servers.
    """
    given = parsed_certificate(PriceCertificate, data)
    if isinstance(given, str):
        return given
    if given.pieces is not None and on_servers is None:
        return "pieces: the instance has no servers, so that there are no pieces; leave it out"
    most = on_servers or {}
    for key, names, known in (("prices", given.prices, resources), ("pieces", given.pieces or (), most)):
        unknown = sorted(set(names) - set(known))
        if unknown:
            return f"{key}.{unknown[0]}: there is no such resource"
    many = [name for name in given.pieces or () if most[name] > MAX_PIECE_PRICES]
    if many:
        return f"pieces.{many[0]}: a server has more than {MAX_PIECE_PRICES:,} units of it; leave it out"
    return given


HOUR_S = 3600.0
NEGLIGIBLE_HOURS = 1e-6
"""Savings below this, in weighted job-hours, count as zero; a few milliseconds."""
UNIT_TEXTS = {BUDGET: "USD/h of budget"}
"""Text for one unit of a resource, where that is not its name."""


def marginal_value_text(instance: AllocationInstance, prices: Mapping[str, float], beyond: float) -> str:
    """Return a sentence with the marginal value of each scarce resource, and which to buy next.

    A resource is only recommended if its dual price exceeds the distance of the plan from the bound. Figures
    are rounded up because they bound the savings from above.

    Parameters
    ----------
    prices
        λ of each resource, in weighted job-seconds per unit.
    beyond
        V − L(λ), in weighted job-seconds.
    """
    rest = max(beyond, 0.0) / HOUR_S
    scarce = {name: price / HOUR_S for name, price in prices.items() if price > 0}
    weighted = any(weight != 1 for weight in instance.table().weight)
    unit = "weighted job-hours" if weighted else "job-hours"
    larger = instance.servers is not None or _some_exceed_capacity(instance)
    among = "in the configurations that fit now, " if larger else ""
    if not scarce and rest < NEGLIGIBLE_HOURS:
        return f"{among}nothing is scarce: one more unit of anything saves nothing"
    if not scarce:
        return f"{among}nothing is scarce: one more unit saves at most {rounded_up(rest, 2):g} {unit}"
    (first, most), *others = (
        (f"one more {UNIT_TEXTS.get(name, name)}", f"at most {rounded_up(hours + rest, 4):g}")
        for name, hours in sorted(scarce.items(), key=lambda item: -item[1])
    )
    more = "".join(f", {one} {saved}" for one, saved in others)
    text = f"{among}{first} saves {most} {unit}{more}"
    usd = instance.prices_usd_per_hour
    value = {
        name: hours / usd[name] for name, hours in scarce.items() if usd.get(name, 0.0) > 0 and hours > rest
    }
    if not value:
        return text
    best = max(value, key=value.__getitem__)
    saved = f"at most {rounded_up(value[best], 4):g} {unit} per USD/h"
    return f"{text}; buy {best} next: it saves most for its price, {saved}"


def _some_exceed_capacity(instance: AllocationInstance) -> bool:
    """Return whether some configuration exceeds a capacity or the hourly budget."""
    table = instance.table()
    variant = np.append(np.arange(len(table.model)), run_of_each(table.first_row))
    ps, workers = np.append(table.max_ps, table.row_ps), np.append(table.max_workers, table.row_workers)
    demand = demand_of(task_demands(instance, table), variant, ps, workers)
    return bool((demand > all_loosened(resource_limits(instance)[1])).any())
