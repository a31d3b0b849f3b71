"""HiGHS through highspy: linear programmes, branch and bound on a `HighsLp`, and cutting planes.

Branch and bound uses the tightest tolerances. The cutting-plane master problem maximises the minimum of
linear functions:

    maximise  min_i (constant_i + slope_i·x)  subject to  low ≤ x ≤ high, and Σ x = total where one is given

It serves to maximise Lagrangian duals (Kelley, "The cutting-plane method for solving convex programs",
Journal of the SIAM 8, 1960).

It has few variables and a few dozen rows. `scipy.optimize` would wrap the same solver, and takes longer to
import than most instances to solve.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...instances.common.arrays import Floats
from ...instances.common.errors import ClusterplanError
from ...instances.common.fields import Fields
from ..common.base import Clock
from ..common.result import Limit, SolveOptions
from .base import BackendError, RunEnd, run_highs

TOLERANCE = 1e-9
"""HiGHS's default of 1e-6 moves small objectives by more than the gap that is asked for."""
TOLERANCES: Fields = dict.fromkeys(
    ("mip_feasibility_tolerance", "primal_feasibility_tolerance", "dual_feasibility_tolerance"), TOLERANCE
)
MIP_SETTINGS = {**TOLERANCES, "small_matrix_value": 1e-12, "mip_rel_gap": 0.0}


def threads_and_seed(threads: int | None, seed: int | None) -> Fields:
    """Return the HiGHS options for threads and random seed, as far as they are given."""
    given = {"threads": threads, "random_seed": None if seed is None else seed % 2**31}
    return {key: value for key, value in given.items() if value is not None}


def branch_and_bound(
    model: Any, settings: Fields, clock: Clock, options: SolveOptions, start: Floats | None = None
) -> tuple[Floats | None, float, Limit]:
    """Minimise a `HighsLp`; return column values, lower bound, and the limit that stopped HiGHS.

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
        No values if no solution was found; the bound is infinite if the model is proven infeasible.

    Raises
    ------
    BackendError
        If HiGHS fails.
    """
    settings = {**MIP_SETTINGS, **settings, **threads_and_seed(options.threads, options.seed)}
    highs = highs_with_settings(settings, BackendError)
    ended = run_from(highs, model, clock, start, by_target=True)
    if ended is None:
        return None, -math.inf, "time"
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
    """Return a `HighsLp` to be minimised, with bounds of columns and rows, and integer columns if any.

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


@dataclass
class Columns:
    """Columns of a linear programme: cost, upper limit and sparse entries of each."""

    costs: list[float] = field(default_factory=list)
    most: list[float] = field(default_factory=list)
    starts: list[int] = field(default_factory=lambda: [0])
    rows: list[int] = field(default_factory=list)
    values: list[float] = field(default_factory=list)

    def add(self, cost: float, entries: Iterable[tuple[int, float]], most: float = np.inf) -> None:
        """Add a column of a non-negative variable, as (row, coefficient); equal rows are summed."""
        total: dict[int, float] = {}
        for row, value in entries:
            total[row] = total.get(row, 0.0) + value
        self.rows += total.keys()
        self.values += total.values()
        self.costs.append(cost)
        self.most.append(most)
        self.starts.append(len(self.rows))

    @property
    def matrix(self) -> tuple[NDArray[np.int32], NDArray[np.int32], Floats]:
        """The entries as starts, rows and values of a compressed sparse matrix."""
        starts, rows = np.array(self.starts, dtype=np.int32), np.array(self.rows, dtype=np.int32)
        return starts, rows, np.array(self.values, dtype=float)

    def program(self, rows: tuple[Floats, Floats], whole: Iterable[bool] = ()) -> Any:
        """Return the `HighsLp` with the least and the most of each row, and integer columns if any."""
        most = np.array(self.most)
        return linear_program(np.array(self.costs), (np.zeros(len(most)), most), rows, self.matrix, whole)


@dataclass
class LinearOptimum:
    """The optimum of a linear programme: values and reduced costs of its columns, and prices of its rows."""

    value: float
    values: Floats
    reduced: Floats
    prices: Floats


def linear_optimum(model: Any, time_limit_s: float | None = None) -> LinearOptimum | None:
    """Return the optimum of a linear programme; None if it has none, or the time is up."""
    import highspy

    highs = highs_with_settings({} if time_limit_s is None else {"time_limit": time_limit_s}, BackendError)
    highs.passModel(model)
    highs.run()
    if highs.getModelStatus() != highspy.HighsModelStatus.kOptimal:
        return None
    solution = highs.getSolution()
    columns = solution.col_value, solution.col_dual, solution.row_dual
    return LinearOptimum(float(highs.getInfo().objective_function_value), *map(np.array, columns))


def run_to_optimum(highs: Any, clock: Clock) -> bool:
    """Run HiGHS on a linear programme, perhaps once more, while there is time; return whether it ended."""
    import highspy

    if clock.remaining_s is not None:
        highs.setOptionValue("time_limit", highs.getRunTime() + clock.remaining_s)
    highs.run()
    return bool(highs.getModelStatus() == highspy.HighsModelStatus.kOptimal)


def highs_with_settings(settings: Mapping[str, Any], refusal: type[ClusterplanError]) -> Any:
    """Return a HiGHS instance with these option values, and without output.

    Raises
    ------
    ClusterplanError
        Of type `refusal`, if HiGHS rejects a setting.
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


def run_from(
    highs: Any, model: Any, clock: Clock, start: Sequence[float] | Floats | None, by_target: bool = False
) -> RunEnd | None:
    """Run HiGHS on a model from start values of its columns; return how it ended, None at its deadline.

    A time limit that was set before holds in place of that of the clock.
    """
    import highspy

    highs.passModel(model)
    if start is not None:
        solution = highspy.HighsSolution()
        solution.col_value = start
        highs.setSolution(solution)
    if clock.remaining_s is not None and highs.getOptionValue("time_limit")[1] == highs.inf:
        highs.setOptionValue("time_limit", clock.remaining_s)  # after the model took its time
    return run_end(highs, by_target) if run_highs(highs, clock) else None


def run_end(highs: Any, by_target: bool = False) -> RunEnd:
    """Return whether HiGHS's last run found a solution, proved infeasibility, or hit a limit.

    Parameters
    ----------
    by_target
        Whether an objective target was set, at which HiGHS may stop.

    Raises
    ------
    BackendError
        If HiGHS stopped for any other reason.
    """
    import highspy

    kinds, status = highspy.HighsModelStatus, highs.getModelStatus()
    has_solution = highs.getInfo().primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible
    if status in (kinds.kInfeasible, kinds.kUnboundedOrInfeasible) and not has_solution:
        return RunEnd(has_solution, True, "none")
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
    return RunEnd(has_solution, False, limits.get(status, "none"))


def maximize_cutting_planes(
    constants: Floats, slopes: Floats, low: Floats, high: Floats, total: float | None = None
) -> tuple[Floats, float] | None:
    """Return the maximiser and maximum of a cutting-plane model; None if HiGHS finds no optimum.

    Parameters
    ----------
    constants, slopes
        Shapes (n,) and (n, R).
    low, high
        The box, shapes (R,).
    """
    # One more column h is the height: h − slope_i·x ≤ constant_i for every piece, and h is maximised.
    pieces, size = slopes.shape
    rows = np.column_stack([-slopes, np.ones(pieces)])
    least, most = np.full(pieces, -np.inf), constants
    if total is not None:
        rows = np.vstack([rows, [*np.ones(size), 0.0]])
        least, most = np.append(least, total), np.append(most, total)
    cost, columns = np.append(np.zeros(size), -1.0), (np.append(low, -np.inf), np.append(high, np.inf))
    starts, index = np.arange(len(rows) + 1) * (size + 1), np.tile(np.arange(size + 1), len(rows))
    lp = linear_program(cost, columns, (least, most), (starts, index, rows.ravel()), by_rows=True)
    found = linear_optimum(lp)
    return None if found is None else (found.values[:-1], float(found.values[-1]))


LEVEL_MARGIN = 1e-6
"""Part of its width by which a box around a level set is wider than computed."""


class CuttingPlaneModel:
    """Cutting-plane model of a concave function: its tangents f(x) ≤ constant_i + slope_i·x."""

    def __init__(self) -> None:
        self.constants: list[float] = []
        self.slopes: list[Floats] = []

    def maximize(self, best: Floats, value: float, low: Floats, high: Floats) -> tuple[Floats, float]:
        """Return the model's maximiser within a box, and its maximum less the best function value.

        Distances from the best point are scaled by the box, and heights by the tangents' distance from the
        best value: near convergence both are tiny compared to the figures themselves.

        Parameters
        ----------
        best, value
            The best point so far, and the function's value there.
        """
        wide, above, slopes, box = self._scaled(best, value, low, high)
        unit = max(float(np.median(np.abs(above))), float(np.abs(slopes).max()) * 1e-9, 1e-300)
        answer = maximize_cutting_planes(above / unit, slopes / unit, *box)
        if answer is None:
            return best, 0.0
        return np.clip(best + answer[0] * wide, low, high), answer[1] * unit

    def _scaled(
        self, best: Floats, value: float, low: Floats, high: Floats
    ) -> tuple[Floats, Floats, Floats, tuple[Floats, Floats]]:
        """Return the widths of a box, and heights above a value, slopes and ends of the box in them."""
        # A box of no width in some direction still needs a unit to divide by.
        wide = np.maximum(high - low, 1e-300)
        slopes = np.array(self.slopes)
        above = np.array(self.constants) + slopes @ best - value
        return wide, above, slopes * wide, ((low - best) / wide, (high - best) / wide)

    def level_box(self, best: Floats, value: float, low: Floats, high: Floats) -> tuple[Floats, Floats]:
        """Return the smallest box that holds the points of a box at which the model is at least `value`."""
        wide, above, slopes, box = self._scaled(best, value, low, high)
        unit = np.maximum(np.abs(slopes).max(axis=1), 1e-300)
        count, size = slopes.shape
        entries = np.tile(np.arange(size), count), (slopes / unit[:, None]).ravel()
        matrix, limits = (np.arange(count + 1) * size, *entries), (-above / unit, np.full(count, np.inf))
        ends = low.copy(), high.copy()
        for r, (end, sign) in itertools.product(range(size), zip(ends, (1.0, -1.0), strict=True)):
            found = linear_optimum(linear_program(sign * np.eye(size)[r], box, limits, matrix, by_rows=True))
            if found is not None:
                # What HiGHS tolerates is far below this part of the width.
                end[r] = best[r] + wide[r] * (found.values[r] - sign * LEVEL_MARGIN)
        return np.maximum(ends[0], low), np.minimum(ends[1], high)
