"""Branch and bound of HiGHS on a `HighsLp`, without PuLP and with the tightest tolerances."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...instances.common.arrays import Floats
from ...instances.common.errors import ClusterplanError
from ..common.base import Clock
from ..common.options import SolveOptions
from ..common.result import Limit
from .base import BackendError, Ending
from .threads import run_highs

TOLERANCE = 1e-9
"""HiGHS's default of 1e-6 moves small objectives by more than the gap that is asked for."""
KINDS_OF_TOLERANCE = ("mip_feasibility", "primal_feasibility", "dual_feasibility")
TOLERANCES: dict[str, Any] = {f"{kind}_tolerance": TOLERANCE for kind in KINDS_OF_TOLERANCE}
FIXED = {**TOLERANCES, "small_matrix_value": 1e-12, "mip_rel_gap": 0.0}


def threads_and_seed(threads: int | None, seed: int | None) -> dict[str, Any]:
    """Return HiGHS's settings for these, as far as they were given."""
    given = {"threads": threads, "random_seed": None if seed is None else seed % 2**31}
    return {key: value for key, value in given.items() if value is not None}


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
    settings = {**FIXED, **settings, **threads_and_seed(options.threads, options.seed)}
    if clock.remaining_s is not None:
        settings["time_limit"] = clock.remaining_s
    highs = solver_with(settings, BackendError)
    highs.passModel(model)
    if start is not None:
        start_from(highs, start)
    if not run_highs(highs, clock):
        return None, -math.inf, "time"
    ended = how_it_ended(highs, by_target=True)
    if ended.infeasible:
        return None, math.inf, "none"
    bound = highs.getInfo().mip_dual_bound
    values = np.array(highs.getSolution().col_value) if ended.found else None
    return values, float(bound) if abs(bound) < highs.inf else -math.inf, ended.limit


def linear_program(
    cost: Floats,
    columns: tuple[Floats, Floats],
    rows: tuple[Floats, Floats],
    matrix: tuple[NDArray[np.integer[Any]], NDArray[np.integer[Any]], Floats],
    whole: Iterable[bool] = (),
    by_rows: bool = False,
) -> Any:
    """Return a `HighsLp`, to be minimised.

    Parameters
    ----------
    cost
        Shape (n,).
    columns, rows
        The least and the most of each, shapes (n,) and (m,).
    matrix
        Starts, indices and values of a compressed sparse matrix: of columns, or of rows if `by_rows`.
    whole
        Which columns are integers; nothing if none is.
    """
    import highspy

    lp, formats, types = highspy.HighsLp(), highspy.MatrixFormat, highspy.HighsVarType
    lp.num_col_, lp.num_row_ = len(cost), len(rows[0])
    lp.col_cost_ = cost
    lp.col_lower_, lp.col_upper_ = columns
    lp.row_lower_, lp.row_upper_ = rows
    lp.a_matrix_.format_ = formats.kRowwise if by_rows else formats.kColwise
    lp.a_matrix_.start_, lp.a_matrix_.index_, lp.a_matrix_.value_ = matrix
    lp.integrality_ = [types.kInteger if integer else types.kContinuous for integer in whole]
    return lp


def solver_with(settings: Mapping[str, Any], refusal: type[ClusterplanError]) -> Any:
    """Return HiGHS with these settings.

    Raises
    ------
    ClusterplanError
        The refusal, if it does not accept one of them.
    """
    import highspy

    highs = highspy.Highs()
    highs.setOptionValue("output_flag", False)
    if "threads" in settings:
        highspy.Highs.resetGlobalScheduler(True)  # or it keeps the number that this process began with
    for key, value in settings.items():
        if highs.setOptionValue(key, value) != highspy.HighsStatus.kOk:
            raise refusal(f"HiGHS does not accept the option {key!r} = {value!r}")
    return highs


def start_from(highs: Any, values: Sequence[float] | Floats) -> None:
    """Give HiGHS values of the columns to start from."""
    import highspy

    solution = highspy.HighsSolution()
    solution.col_value = values
    highs.setSolution(solution)


def how_it_ended(highs: Any, by_target: bool = False) -> Ending:
    """Return how the last run ended.

    Parameters
    ----------
    by_target
        Whether it was given an objective at which it may stop.

    Raises
    ------
    BackendError
        If that is neither an answer nor a limit.
    """
    import highspy

    kinds, status = highspy.HighsModelStatus, highs.getModelStatus()
    found = highs.getInfo().primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible
    if status in (kinds.kInfeasible, kinds.kUnboundedOrInfeasible) and not found:
        return Ending(found, True, "none")
    limits: dict[Any, Limit] = {
        kinds.kTimeLimit: "time",
        kinds.kInterrupt: "interrupt",
        kinds.kMemoryLimit: "memory",
        kinds.kIterationLimit: "node",
        kinds.kSolutionLimit: "node",
    }
    targets = (kinds.kObjectiveTarget, kinds.kObjectiveBound) if by_target else ()
    if status not in limits and status not in (kinds.kOptimal, *targets):
        raise BackendError(f"HiGHS stopped with status {highs.modelStatusToString(status)!r}")
    return Ending(found, False, limits.get(status, "none"))
