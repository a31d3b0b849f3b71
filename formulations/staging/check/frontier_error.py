"""What the certificate of a frontier proves: by how much any plan can beat the points that are listed.

The certificate is a list of intervals as for a single plan. In the interval that begins at stage time a, a
plan matters if it costs less than the cheapest point that is as fast as a, less the part ε. Where no point is
so fast, every plan matters within the highest cost that was looked for.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Sequence
from typing import Any

from ....instances.staging.instance import StagingInstance
from ...common.tolerance import loosened
from ..certificate import CUTOFF_MARGIN, read_certificate
from ..plan import Corner
from .certificate import ROUNDING, CertificateCheck

SUMS_OVER_SETS = 1 - 2e-11
"""A point of a graph's frontier counts as being so much faster."""
MOST_WORK = 3_000_000_000
"""Bounds that the enumeration may evaluate: a frontier is as much as dozens of single plans."""


def certified_error(
    instance: StagingInstance,
    corners: Sequence[Corner],
    error: float,
    most_usd: float | None,
    data: Any,
    most_work: int | None = None,
) -> float | None:
    """Return the part by which no plan that costs at most `most_usd` beats the corners.

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
        Bounds that the enumeration of what prices leave open may evaluate; at most three thousand million.

    Returns
    -------
    error
        The claimed one, or the larger one that is proven; None if none is, or the data are malformed.
    """
    given = read_certificate(instance, {"intervals": data})
    if isinstance(given, str):
        return None
    # Stage times of a graph are sums over sets, which two additions give a little differently.
    as_fast = SUMS_OVER_SETS if instance.is_graph else 1.0
    times = [corner.time_s * as_fast for corner in corners]
    least: list[float] = []
    for corner in corners:
        least.append(min(corner.cost_usd, least[-1]) if least else corner.cost_usd)
    limits = [instance.cost_limit_usd, most_usd]
    most = min((loosened(limit) for limit in limits if limit is not None), default=math.inf)

    def cheapest(low: float) -> float:
        at = bisect.bisect_right(times, low)
        return least[at - 1] if at else math.inf

    def cutoff(low: float) -> float:
        return min(cheapest(low) * (1 - error - CUTOFF_MARGIN), most)

    worst = error
    check = CertificateCheck(instance)
    work = MOST_WORK if most_work is None else min(MOST_WORK, most_work)
    for interval, bound in check.unproven(given.intervals, check.slowest_s, cutoff, work):
        reference = cheapest(interval.low)
        if math.isinf(reference):
            return None
        worst = max(worst, 1 - bound / reference)
    return worst


def proves_none(instance: StagingInstance, most_usd: float | None, data: Any) -> bool:
    """Return whether the intervals prove that no plan costs at most so much, or that there is none at all."""
    given = read_certificate(instance, {"intervals": data})
    if isinstance(given, str):
        return False
    check = CertificateCheck(instance)
    most = math.inf if most_usd is None else loosened(most_usd) * (1 + ROUNDING)
    cutoff = min(check.most_usd, most)
    return not check.unproven(given.intervals, check.slowest_s, lambda _: cutoff)
