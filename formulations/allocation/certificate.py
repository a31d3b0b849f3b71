"""The form of an allocation's certificate: dual prices and a cutoff, and how methods write it.

What it proves is for `check/` to derive; nothing here evaluates anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np
from pydantic import Field, ValidationError

from ...instances.common.arrays import Floats
from ...instances.common.fields import Model, in_slices

CUTOFF_MARGIN = 5e-10
"""A cutoff lies this much below the bound, relatively, so that the plan itself does not count as better."""
LARGEST = 1e100
"""No dual price or cutoff may exceed this, so that no product or sum overflows."""
MOST_PRICES = 1001
"""As many as there may be resources, and one for the budget."""


class PriceCertificate(Model):
    """Dual prices and cutoff.

    Attributes
    ----------
    prices
        λ of each resource, in seconds per unit; for a makespan only their ratios matter.
    cutoff
        No plan is better than this, in seconds; None: there is no plan.
    """

    prices: Annotated[dict[str, Annotated[float, Field(ge=0, le=LARGEST)]], in_slices(MOST_PRICES)]
    cutoff: Annotated[float, Field(ge=-LARGEST, le=LARGEST)] | None = None


def certificate(resources: Sequence[str], prices: Floats, bound: float | None) -> dict[str, Any]:
    """Return the certificate of a bound.

    Parameters
    ----------
    resources, prices
        Names, and their dual prices λ with shape (R,).
    bound
        In seconds; None claims that there is no plan.
    """
    kept = np.clip(np.nan_to_num(prices), 0.0, LARGEST)
    priced = dict(zip(resources, kept.tolist(), strict=True))
    cutoff = None if bound is None else bound - CUTOFF_MARGIN * abs(bound)
    return PriceCertificate(prices=priced, cutoff=cutoff).model_dump()


def certificate_fault(resources: Sequence[str], data: Any) -> str | None:
    """Return what is wrong with the form of a certificate; None if it can be read."""
    try:
        given = PriceCertificate.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg'].lower()}"
    unknown = sorted(set(given.prices) - set(resources))
    return f"prices.{unknown[0]}: there is no such resource" if unknown else None


def read_prices(data: Any) -> dict[str, float]:
    """Return the dual prices of a certificate whose form is right."""
    return PriceCertificate.model_validate(data).prices
