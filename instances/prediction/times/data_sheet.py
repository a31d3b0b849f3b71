"""Times on a GPU that nobody measured: the coefficients of other GPUs on its data sheet."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..estimate import Estimate
from ..hardware import Gpu
from ..intervals.levels import spread, spread_of_total
from ..operators import Operator
from .coefficients import Coefficients, platform
from .families import FAMILY, parts, queued
from .operator_times import OperatorTimes


class DataSheetTimes(OperatorTimes):
    """PALEO's roofline with platform percentages.

    Parameters
    ----------
    gpu
        On which the operators run.
    coefficients
        Of each family; by default those fitted to public measurements of other GPUs.
    """

    def __init__(self, gpu: Gpu, coefficients: Coefficients | None = None) -> None:
        self.gpu = gpu
        self.coefficients = coefficients or platform()
        self.basis = f"data sheet of {gpu.name}, platform percentages of other GPUs"

    def predict(self, operators: Sequence[Operator]) -> list[Estimate]:
        """Return the seconds of each operator, all its `count` calls together."""
        estimates = []
        for row, operator in zip(parts(operators, self.gpu), operators, strict=True):
            family = FAMILY[operator.kind]
            seconds = float(row @ self.coefficients[family]) * operator.count
            low, high = spread("data sheet", family, inside=False)
            estimates.append(Estimate(seconds, seconds * low, seconds * high, False, self.basis))
        return estimates

    def total(self, operators: Sequence[Operator]) -> Estimate:
        """Return the seconds of all together."""
        thetas = np.array([self.coefficients[FAMILY[op.kind]] for op in operators])
        counts = np.array([float(op.count) for op in operators])
        seconds = queued(parts(operators, self.gpu), thetas, counts)
        low, high = spread_of_total("data sheet", inside=False)
        return Estimate(seconds, seconds * low, seconds * high, False, self.basis)
