"""Times on a GPU that nobody measured: coefficients of other GPUs on what its data sheet lets it sustain."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...common.arrays import Floats
from ..estimate import Estimate
from ..hardware import Gpu
from ..intervals.levels import spread, spread_of_total
from ..operators import Operator
from ..power import sustained
from .coefficients import Coefficients, of_data_sheets
from .families import FAMILY, PARTS, parts, queued
from .operator_times import OperatorTimes, counts_of


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
        self.gpu = sustained(gpu)
        self.coefficients = coefficients or of_data_sheets()
        self.basis = f"data sheet of {gpu.name}, at the efficiency of other GPUs"

    def seconds(self, operators: Sequence[Operator]) -> Floats:
        """Return the seconds of each part of one call of each operator; shape (operators, parts)."""
        thetas = [self.coefficients[FAMILY[op.kind]] for op in operators]
        return np.asarray(parts(operators, self.gpu) * np.reshape(thetas, (-1, len(PARTS))))

    def predict(self, operators: Sequence[Operator]) -> list[Estimate]:
        """Return the seconds of each operator, all its `count` calls together."""
        estimates = []
        for row, operator in zip(self.seconds(operators), operators, strict=True):
            seconds = float(row.sum()) * operator.count
            low, high = spread("data sheet", FAMILY[operator.kind], inside=False)
            estimates.append(Estimate(seconds, seconds * low, seconds * high, False, self.basis))
        return estimates

    def total(self, operators: Sequence[Operator]) -> Estimate:
        """Return the seconds of all together."""
        seconds = queued(self.seconds(operators), counts_of(operators))
        low, high = spread_of_total("data sheet", inside=False)
        return Estimate(seconds, seconds * low, seconds * high, False, self.basis)
