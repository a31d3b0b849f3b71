"""Cutting planes of a mix: what follows from its rows at some prices, rounded.

At prices (π, τ) ≥ 0 every plan keeps Σ_k d_k y_k ≤ β with d_k = Σ_r τ_r A_rk − max_i π_i μ_ki and
β = τ·b − π·λ. Since y is whole and not negative, then also Σ_k ⌊d_k⌋ y_k ≤ ⌊β⌋ (Chvátal, "Edmonds polytopes
and a hierarchy of combinatorial problems", Discrete Mathematics 4, 1973). What makes relaxations of groups
of jobs weak are odd numbers of jobs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from ...instances.common.errors import TooLargeError
from ...instances.common.fields import Count, Model
from ..common.clock import check_time
from ..common.objective import whole_numbers
from .program import MixProgram, Numbers, with_rows

MAX_PRICE = 1e100
"""Upper limit of prices, so that no product of figures overflows."""
MAX_PRICES = 100_000
MAX_ENTRIES = 20_000_000
"""Weights of all cuts together, of which one takes about 50 bytes."""
LARGEST = 2**200
"""Largest weight of a cut: cuts that are made of cuts at large prices would grow without end."""
Price = Annotated[float, Field(ge=0, le=MAX_PRICE)]


class Cut(Model):
    """The prices from which a cut follows.

    Attributes
    ----------
    places
        What has a price: indices among the types of requests, the rows, those of totals, and the cuts before
        this one.
    """

    places: Annotated[tuple[Count, ...], Field(max_length=MAX_PRICES)]
    prices: Annotated[tuple[Price, ...], Field(max_length=MAX_PRICES)]


def rounded_row(program: MixProgram, prices: Numbers, unit: int = 1) -> tuple[Numbers, Any]:
    """Return weights, shape (n,), and limit of the cut at some prices, which are in parts of 1/`unit`.

    Both are whole numbers.
    """
    whole = unit * program.unit
    return program.reduced_costs(prices, 0) // whole, -program.constant(prices) // whole


def with_cuts(program: MixProgram, cuts: Sequence[Cut], priced: Sequence[int]) -> MixProgram:
    """Return a programme in whole numbers with some of the cuts, which may be made of all before them.

    Raises
    ------
    TooLargeError
        If they would take too much memory.
    """
    if len(cuts) * len(program.cost) > MAX_ENTRIES:
        raise TooLargeError(
            f"{len(cuts):,} cuts of {len(program.cost):,} configurations are too many to check"
        )
    rows, first = list[tuple[Numbers, Any]](), len(program.demand) + len(program.rows)
    for cut in cuts:
        check_time()
        # The cuts that it is made of become the last rows of a programme of their own.
        chosen = [place for place in cut.places if place >= first]
        wholes, unit = whole_numbers(cut.prices)
        prices = np.zeros(first + len(chosen), dtype=object)
        number = {place: first + index for index, place in enumerate(chosen)}
        prices[[number.get(place, place) for place in cut.places]] = wholes
        own = with_rows(program, [rows[place - first] for place in chosen])
        weights, limit = rounded_row(own, prices, unit)
        if max(abs(weights).max(initial=0), abs(limit)) > LARGEST:
            raise TooLargeError("a cut of the certificate has weights that are too large to check")
        rows.append((weights, limit))
    return with_rows(program, [rows[place - first] for place in priced])
