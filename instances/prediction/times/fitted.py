"""Times on a GPU of which some operators were measured."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from ...common.arrays import Floats
from ...common.errors import OptionError
from ..estimate import Estimate
from ..hardware import Gpu
from ..intervals.levels import spread, spread_of_total
from ..operators import Operator
from ..power import powered
from .coefficients import Coefficients, fitted, platform
from .data_sheet import DataSheetTimes
from .families import FAMILY, GROUPS, parts, queued, sizes
from .measurements import Measurement
from .operator_times import OperatorTimes, counts_of

FEWEST = 3
"""Measurements of a family that its three coefficients need; with fewer the data sheet speaks."""
MEASURED = 0.9
"""Of a total's time that must lie in measured families for the total to count as measured."""


class FittedTimes(OperatorTimes):
    """Coefficients fitted to measurements of the GPU itself, family by family and precision by precision.

    An operator alone is corrected by what its neighbours among the measurements leave over.
    Families and precisions that were not measured are predicted from the data sheet, which their basis says;
    that of a total does where they take more than a tenth of its time.

    Parameters
    ----------
    gpu
        On which everything was measured.
    measured
        At least one measurement.
    coefficients
        Of other GPUs, to which the fit is drawn.

    Raises
    ------
    OptionError
        If there is no measurement.
    """

    def __init__(
        self, gpu: Gpu, measured: Sequence[Measurement], coefficients: Coefficients | None = None
    ) -> None:
        if not measured:
            raise OptionError(f"{gpu.name}: there are no measurements")
        self.gpu = gpu
        prior = coefficients or platform()
        self.sheet = DataSheetTimes(gpu)
        self.fits = {}
        self.counts: dict[tuple[str, str], int] = {}
        self.measured = {m.operator.precision for m in measured}
        for precision in sorted(self.measured):
            own = [m for m in measured if m.operator.precision == precision]
            for family, fit in fitted(gpu, own, prior).items():
                if len(fit.residuals) >= FEWEST:
                    self.fits[family, precision] = fit
                    self.counts[family, precision] = len(fit.residuals)

    def predict(self, operators: Sequence[Operator]) -> list[Estimate]:
        """Return the seconds of each operator, all its `count` calls together."""
        estimates = self.sheet.predict(operators)
        for index, (row, operator) in enumerate(zip(parts(operators, self.gpu), operators, strict=True)):
            key = self._key(operator)
            if key not in self.fits:
                continue
            fit = self.fits[key]
            seconds = float(row @ fit.theta) * fit.factor(operator) * operator.count
            inside = self._inside(operator)
            low, high = spread("measured", key[0], inside, _scale(fit.residuals))
            basis = f"{self.counts[key]} measurements of {key[0]} on {self.gpu.name}"
            estimates[index] = Estimate(seconds, seconds * low, seconds * high, inside, basis)
        return estimates

    def total(self, operators: Sequence[Operator]) -> Estimate:
        """Return the seconds of all together, without corrections.

        Those are of calls that are repeated alone, when clocks and caches are not those of a model: whole
        models on P100, T4, V100 and A100 err by 3.2 % without and by 3.7 % with them.
        """
        rows, counts = self.seconds(operators), counts_of(operators)
        each = rows.sum(axis=1) * counts
        measured = each @ np.array([self._key(op) in self.fits for op in operators])
        known = measured >= MEASURED * each.sum()
        inside = bool(each @ np.array([self._inside(op) for op in operators]) >= MEASURED * each.sum())
        low, high = spread_of_total("measured" if known else "data sheet", inside)
        seconds, longest = self._cool_and_hot(operators, rows, counts)
        basis = self._basis(operators, 1.0 if known else float(measured / each.sum()))
        return Estimate(seconds, seconds * low, longest * high, inside, basis)

    def _basis(self, operators: Sequence[Operator], share: float) -> str:
        """Return what a total rests on, of whose time this share was measured."""
        count = sum(self.counts[key] for key in {self._key(op) for op in operators} & set(self.counts))
        if not count:
            used = {op.precision for op in operators}
            other = "" if used & self.measured else f", and they are in {_listed(self.measured)}"
            few = f"too few measurements are of this model's operators in {_listed(used)}{other}"
            return f"{self.sheet.basis}; {few}"
        basis = f"{count} measurements on {self.gpu.name}"
        return basis if share == 1.0 else f"{basis} for {share:.0%} of the time; else {self.sheet.basis}"

    def cool_and_hot(self, operators: Sequence[Operator]) -> tuple[float, float]:
        """Return the seconds of all together: as measured, and with the board at the limit of its power.

        A few calls may be timed before the board has come to that limit. In a whole model its products of
        matrices are then slower, up to what `powered` leaves of the peak. Both are equal where it leaves all
        of it; what was not measured comes from the data sheet, which has the limit already.
        """
        counts = counts_of(operators)
        return self._cool_and_hot(operators, self.seconds(operators), counts)

    def _cool_and_hot(
        self, operators: Sequence[Operator], rows: Floats, counts: Floats
    ) -> tuple[float, float]:
        known = np.array([self._key(op) in self.fits for op in operators])
        arithmetic = rows[:, list(GROUPS[0])].sum(axis=1)
        peak, held = (parts(operators, gpu)[:, 0] for gpu in (self.gpu, powered(self.gpu)))
        hot = rows.copy()
        hot[:, 0] += known * np.maximum(held - np.maximum(arithmetic, peak), 0.0)
        return queued(rows, counts), queued(hot, counts)

    def seconds(self, operators: Sequence[Operator]) -> Floats:
        """Return the seconds of each part of one call of each operator; shape (operators, parts)."""
        rows = self.sheet.seconds(operators)
        for index, (row, operator) in enumerate(zip(parts(operators, self.gpu), operators, strict=True)):
            if self._key(operator) in self.fits:
                rows[index] = row * self.fits[self._key(operator)].theta
        return rows

    @staticmethod
    def _key(operator: Operator) -> tuple[str, str]:
        return FAMILY[operator.kind], operator.precision

    def _inside(self, operator: Operator) -> bool:
        """Return whether its operations and bytes are no more than the most that were measured."""
        fit = self.fits.get(self._key(operator))
        return fit is not None and bool(np.all(sizes(operator) <= fit.largest))


def _listed(precisions: Iterable[str]) -> str:
    return " and ".join(sorted(precisions))


def _scale(residuals: np.ndarray) -> float:
    """Return the size of the errors of measurements that were left out."""
    return float(np.sqrt(np.mean(residuals**2)))
