"""Kelley's cutting-plane method: the master problem, which maximises a lower envelope of linear pieces.

    maximise  min_i (constant_i + slope_i·x)  subject to  low ≤ x ≤ high, and Σ x = total where one is given

It maximises Lagrangian duals (Kelley, "The cutting-plane method for solving convex programs", Journal of the
SIAM 8, 1960).

A few variables and a few dozen rows, solved by HiGHS itself: `scipy.optimize` would wrap the same solver, and
takes longer to import than most instances to solve.
"""

from __future__ import annotations

import numpy as np

from ...instances.common.arrays import Floats
from .base import BackendError
from .highs_mip import linear_program, solver_with


def highest_point(
    constants: Floats, slopes: Floats, low: Floats, high: Floats, total: float | None = None
) -> tuple[Floats, float] | None:
    """Return where the envelope is highest, and how high; None if HiGHS does not say.

    Parameters
    ----------
    constants, slopes
        Shapes (n,) and (n, R).
    low, high
        The box, shapes (R,).
    """
    import highspy

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
    highs = solver_with({}, BackendError)
    highs.passModel(lp)
    highs.run()
    if highs.getModelStatus() != highspy.HighsModelStatus.kOptimal:
        return None
    values = np.array(highs.getSolution().col_value)
    return values[:-1], float(values[-1])


class Envelope:
    """The cutting planes of a concave function found so far: f(x) ≤ constant_i + slope_i·x."""

    def __init__(self) -> None:
        self.constants: list[float] = []
        self.slopes: list[Floats] = []

    def highest(self, best: Floats, value: float, low: Floats, high: Floats) -> tuple[Floats, float]:
        """Return where within a box the envelope is highest, and by how much above the best value.

        Distances are taken from the best point in units of the box, and heights in units of how far the
        pieces lie above the best value: near the end both are tiny beside the figures themselves.

        Parameters
        ----------
        best, value
            The best point so far, and the function's value there.
        """
        # A box of no width in some direction still needs a unit to divide by.
        wide = np.maximum(high - low, 1e-300)
        slopes = np.array(self.slopes)
        above = np.array(self.constants) + slopes @ best - value
        slopes = slopes * wide
        unit = max(float(np.median(np.abs(above))), float(np.abs(slopes).max()) * 1e-9, 1e-300)
        box = ((low - best) / wide, (high - best) / wide)
        answer = highest_point(above / unit, slopes / unit, *box)
        if answer is None:
            return best, 0.0
        return np.clip(best + answer[0] * wide, low, high), answer[1] * unit
