"""What the certificate of a frontier proves: by how much any plan can beat the points that are listed.

The certificate is a list of intervals as for a single plan. In the interval that begins at stage time a, a
plan matters if it costs less than the cheapest point that is as fast as a, less the part ε. Where no point is
so fast any plan matters that costs no more than what was looked for.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..common.tolerance import loosened
from .certificate import CLOSE, ROUNDING, read_certificate, unproven
from .formulation import StagingFormulation

MOST_WORK = 3_000_000_000
"""Of the check: a frontier is as much as dozens of single plans."""


@dataclass(frozen=True)
class Corner:
    """A point of the frontier: stage time and cost."""

    time_s: float
    cost_usd: float


def certified_error(
    formulation: StagingFormulation,
    corners: Sequence[Corner],
    error: float,
    most_usd: float | None,
    data: Any,
    most_work: int = MOST_WORK,
) -> float | None:
    """Return the part by which no plan within the most that is looked for beats the corners.

    Parameters
    ----------
    corners
        By rising stage time; each of a feasible plan.
    error
        ε that is claimed.
    most_usd
        Dearer plans do not matter; None: all do.
    data
        The intervals of the certificate, plain data.
    most_work
        Bounds that the search for what prices leave open may evaluate.

    Returns
    -------
    error
        The claimed one, or the larger one that is proven; None if none is, or the data are malformed.
    """
    given = read_certificate(formulation.facts, {"intervals": data})
    if isinstance(given, str):
        return None
    times = [corner.time_s for corner in corners]
    least: list[float] = []
    for corner in corners:
        least.append(min(corner.cost_usd, least[-1]) if least else corner.cost_usd)
    limits = [formulation.instance.cost_limit_usd, most_usd]
    most = min((loosened(limit) for limit in limits if limit is not None), default=math.inf)

    def cheapest(low: float) -> float:
        at = bisect.bisect_right(times, low)
        return least[at - 1] if at else math.inf

    def cutoff(low: float) -> float:
        return min(cheapest(low) * (1 - error - CLOSE), most)

    worst = error
    facts = formulation.facts
    for interval, bound in unproven(facts, given.intervals, facts.slowest_s, cutoff, most_work):
        reference = cheapest(interval.low)
        if math.isinf(reference):
            return None
        worst = max(worst, 1 - bound / reference)
    return worst


def proves_none(formulation: StagingFormulation, most_usd: float | None, data: Any) -> bool:
    """Return whether the intervals prove that no plan costs at most so much, or that there is none at all."""
    facts = formulation.facts
    given = read_certificate(facts, {"intervals": data})
    if isinstance(given, str):
        return False
    most = math.inf if most_usd is None else loosened(most_usd) * (1 + ROUNDING)
    cutoff = min(facts.most_usd, most)
    return not unproven(facts, given.intervals, facts.slowest_s, lambda _: cutoff)
