"""How the page of a schedule begins: what it reaches, and how far that is from the best possible."""

from __future__ import annotations

import math
from typing import cast

from ...formulations.scheduling.formulation import SchedulingFormulation
from ...formulations.scheduling.plan import Segment
from ...instances.scheduling.instance import SchedulingInstance
from ...solvers.common.result import Result
from ..output.text import figure
from ..reports.text import duration, short, unit_of_time


def lead(instance: SchedulingInstance, result: Result) -> str:
    """Return what a schedule reaches, and below what no scheduler can be, where that is known."""
    plan = cast("tuple[Segment, ...]", result.plan)
    metrics = SchedulingFormulation(instance).metrics(plan)
    record = result.objectives[0]
    value = metrics.mean_s if record.value is None else record.value
    unit = unit_of_time(2 * value)  # 1.5 h read better than 90 min
    reached = f"{short(value / unit[0], 4)} {unit[1]}"
    if instance.objective == "makespan":
        said = f"With {result.solver} all jobs are done after {reached}"
    else:
        weighted = "weighted " if len(set(instance.table().weight.tolist())) > 1 else ""
        said = f"With {result.solver} a job is done {reached} after it arrives, on {weighted}average"
    return f"{said}{_limit(result, value, unit)}. Jobs wait {duration(metrics.mean_queueing_s)} on average."


def _limit(result: Result, value: float, unit: tuple[float, str]) -> str:
    """Return below what nothing can be; without prices of time that is how long jobs run."""
    bound = result.objectives[0].certified_bound
    if bound is None or not 0 < bound <= value * (1 + 1e-9) or value <= 0:
        return ""
    away = 100 * max(0.0, 1 - bound / value)
    if away < 1e-4:
        return ", and no scheduler can be below that"
    far = f"{away:.1f}" if away >= 1 else figure(away, 2)
    if bound < unit[0]:
        unit = unit_of_time(2 * bound)
    no = f"; no scheduler can be below {short(rounded_down(bound / unit[0]), 4)} {unit[1]}"
    if result.certificate is None:
        return f"{no} ({far} % away), as far as the lengths of jobs alone can tell"
    return f"{no} ({far} % away)"


def rounded_down(value: float, digits: int = 4) -> float:
    """Return a bound with so many digits that it still holds."""
    if value <= 0:
        return 0.0
    step = 10.0 ** (math.floor(math.log10(value)) + 1 - digits)
    return math.floor(value / step) * step
