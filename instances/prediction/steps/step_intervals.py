"""Intervals of whole steps: inside what was measured, outside of it, and on another cluster.

Inside, the errors are those of runs that were left out of the correction. Outside, nobody has measured; there
the formula speaks alone, and how well it goes beyond its measurements is tried on them: the largest and the
smallest value of each feature are left out in turn, and the errors of these groups give the ends of a new one
(`student_ends`). On another cluster the errors are those of the runs that were measured there.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ...common.arrays import Flags, Floats
from ..estimate import Estimate
from ..intervals.conformal import farthest, student_ends
from ..intervals.levels import OUTSIDE
from .megatron import A100_SERVER, Machine
from .runs import Runs
from .step_fit import StepFit, fit_formula, fit_steps

FEWEST_LEFT = 10
"""Runs without a feature's end that a fit for the outside needs."""
UNTRIED = OUTSIDE
"""Factor of the ends outside where a feature differs that never varied: nothing could be tried there."""
UNKNOWN = (-0.7, 0.7)
"""Ends outside where too little was measured to try: a factor of two."""
Ends = tuple[float, float]


@dataclass(frozen=True)
class StepIntervals:
    """A fitted model of steps whose predictions have intervals.

    Parameters
    ----------
    inside, outside
        Ends of the logarithm of measured over predicted time.
    untried
        Factor of the ends where a feature differs that never varied.
    """

    fit: StepFit
    inside: Ends
    outside: Ends
    untried: float = UNTRIED

    def predict(self, runs: Runs) -> list[Estimate]:
        """Return the seconds of each run's step."""
        found = []
        fixed = self.fit.least == self.fit.most
        untried = (runs.features() != self.fit.least)[:, fixed].any(axis=1)
        for seconds, inside, far in zip(self.fit.seconds(runs), self.fit.inside(runs), untried, strict=True):
            low, high = self.inside if inside else self.outside
            if far:
                low, high = self.untried * low, self.untried * high
            basis = "measured steps" if inside else "measured steps of other sizes"
            ends = seconds * np.exp(min(low, 0.0)), seconds * np.exp(max(high, 0.0))
            found.append(Estimate(float(seconds), float(ends[0]), float(ends[1]), bool(inside), basis))
        return found

    def scaled_to(self, runs: Runs, seconds: Floats) -> StepIntervals:
        """Return the model for another cluster, from runs that were measured there.

        Each of them is predicted from the others; one alone leaves the interval of the outside.

        Raises
        ------
        OptionError
            If nothing was measured there.
        """
        there = self.fit.scaled_to(runs, seconds)
        if len(runs) < 2:
            return replace(self, fit=there, inside=self.outside)
        errors = []
        for index in range(len(runs)):
            others = np.arange(len(runs)) != index
            scaled = self.fit.scaled_to(runs.only(others), seconds[others])
            errors.append(np.log(seconds[index] / scaled.seconds(runs.only(~others))[0]))
        away = farthest(np.array(errors))
        return StepIntervals(there, (-away, away), (-away, away), untried=1.0)


def fit_with_intervals(runs: Runs, seconds: Floats, machine: Machine = A100_SERVER) -> StepIntervals:
    """Fit a model of steps, and the intervals of its predictions.

    Raises
    ------
    OptionError
        If nothing was measured, or a time is not positive.
    """
    fit = fit_steps(runs, seconds, machine)
    outside = _outside(runs, seconds, machine)
    if fit.correction is None:
        return StepIntervals(fit, outside, outside)
    low, high = np.quantile(fit.correction.errors, (0.05, 0.95))
    return StepIntervals(fit, (float(low), float(high)), outside)


def _outside(runs: Runs, seconds: Floats, machine: Machine) -> Ends:
    """Return the ends outside, from the ends of each feature that are left out."""
    scores: list[Floats] = []
    groups: list[int] = []
    for index, held in enumerate(_ends_of_features(runs)):
        if (~held).sum() >= FEWEST_LEFT:
            fit = fit_formula(runs.only(~held), seconds[~held], machine)
            scores.append(np.log(seconds[held] / fit.seconds(runs.only(held))))
            groups += [index] * int(held.sum())
    return student_ends(np.concatenate(scores), groups) if len(scores) > 1 else UNKNOWN


def _ends_of_features(runs: Runs) -> list[Flags]:
    """Return which runs have the smallest and which the largest value of each feature that varies."""
    found = []
    for column in runs.features().T:
        if column.min() < column.max():
            found += [column == column.min(), column == column.max()]
    return found
