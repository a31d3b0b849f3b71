"""What one more unit of a resource saves at most, by the prices of time that prove the bound.

With C + 1 units of resource r at all times the same prices prove L(λ; C + 1) = L(λ; C) − ∫ λ_r(t) dt, so that
no schedule on the larger cluster is below that. A plan saves at most its distance from this bound and
∫ λ_r(t) dt / Σ ω_j more. Malleable jobs have the configurations that fit today: larger ones may save more.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from ...instances.common.arrays import Floats
from ...instances.scheduling.instance import SchedulingInstance
from ..common.tolerance import rounded_up
from .price_grid import PriceGrid

HOUR_S = 3600.0
MOST_NAMED = 3
"""Resources that the advice names."""


def worth_of_units(instance: SchedulingInstance, grid: PriceGrid) -> dict[str, float]:
    """Return ∫ λ_r(t) dt / Σ ω_j of each resource: seconds of mean completion time for a unit throughout."""
    weight = instance.table().weight
    total = math.fsum((weight / weight.max()).tolist())
    whole: Floats = np.diff(grid.edges_s) @ grid.price[:-1]
    return {name: float(whole[r]) / total for r, name in enumerate(instance.pool)}


def buy_next(instance: SchedulingInstance, worth: Mapping[str, float], value: float) -> str:
    """Return what one more unit of the resources that matter most saves at most, one sentence.

    Parameters
    ----------
    worth
        Of each resource, as `worth_of_units` returns it.
    value
        The mean completion time [s] that the plan has.
    """
    jobs = instance.table()
    # By what a hundredth more of a resource saves, for units of unlike resources do not compare.
    weighed = {name: price * instance.pool.get(name, 0.0) for name, price in worth.items()}
    named = [name for name in sorted(weighed, key=lambda name: -weighed[name]) if worth[name] > 0]
    if not named:
        return "more of no resource saves anything beyond the certified gap"
    equal = bool((jobs.weight == jobs.weight[0]).all())
    said = []
    for name in named[:MOST_NAMED]:
        seconds = rounded_up(worth[name])
        part = f" ({rounded_up(100 * worth[name] / value):g} %)" if value > 0 else ""
        hours = f", {rounded_up(worth[name] * len(jobs) / HOUR_S):,.10g} job-hours in all" if equal else ""
        saved = f"{seconds:,.10g} s of the mean completion time{part}{hours}"
        said.append(f"one more {name} throughout saves at most {saved}")
    sizes = ", in the configurations that fit now" if instance.menus().malleable else ""
    return f"{'; '.join(said)}, beyond the certified gap{sizes}"
