"""Branch and bound of HiGHS on a `HighsLp`, without PuLP and with the tightest tolerances."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...instances.common.arrays import Floats
from ..common.base import Clock
from ..common.options import SolveOptions
from ..common.result import Limit
from .base import BackendError
from .threads import run_highs

FIXED: dict[str, Any] = {
    "mip_feasibility_tolerance": 1e-9,
    "primal_feasibility_tolerance": 1e-9,
    "dual_feasibility_tolerance": 1e-9,
    "small_matrix_value": 1e-12,
    "mip_rel_gap": 0.0,
    "output_flag": False,
}


def branch_and_bound(
    model: Any, settings: dict[str, Any], clock: Clock, options: SolveOptions, start: Floats | None = None
) -> tuple[Floats | None, float, Limit]:
    """Return the values of the columns, the bound, and the limit that stopped HiGHS.

    Parameters
    ----------
    model
        A `HighsLp`, to be minimised.
    settings
        Options of HiGHS beside the tight tolerances.
    start
        Values of the columns to start from.

    Returns
    -------
    values, bound, limit
        No values if none were found; the bound is infinite if it was proven that there are none.

    Raises
    ------
    BackendError
        If HiGHS gives up.
    """
    import highspy

    highs = highspy.Highs()
    settings = {**FIXED, **settings}
    if clock.remaining_s is not None:
        settings["time_limit"] = clock.remaining_s
    if options.seed is not None:
        settings["random_seed"] = options.seed % 2**31
    if options.threads is not None:
        settings["threads"] = options.threads
        highspy.Highs.resetGlobalScheduler(True)
    for key, value in settings.items():
        if highs.setOptionValue(key, value) != highspy.HighsStatus.kOk:
            raise BackendError(f"HiGHS does not accept the option {key!r} = {value!r}")
    highs.passModel(model)
    if start is not None:
        solution = highspy.HighsSolution()
        solution.col_value = start
        highs.setSolution(solution)
    run_highs(highs)
    kinds, status, info = highspy.HighsModelStatus, highs.getModelStatus(), highs.getInfo()
    found = info.primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible
    if status in (kinds.kInfeasible, kinds.kUnboundedOrInfeasible) and not found:
        return None, math.inf, "none"
    limits: dict[Any, Limit] = {
        kinds.kTimeLimit: "time",
        kinds.kInterrupt: "interrupt",
        kinds.kMemoryLimit: "memory",
        kinds.kIterationLimit: "node",
        kinds.kSolutionLimit: "node",
    }
    enough = kinds.kOptimal, kinds.kObjectiveTarget, kinds.kObjectiveBound
    if status not in limits and status not in enough:
        raise BackendError(f"HiGHS stopped with status {highs.modelStatusToString(status)!r}")
    bound = info.mip_dual_bound if abs(info.mip_dual_bound) < highspy.kHighsInf else -math.inf
    values = np.array(highs.getSolution().col_value) if found else None
    return values, float(bound), limits.get(status, "none")
