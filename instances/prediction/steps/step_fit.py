"""Whole steps fitted to measured ones: coefficients near the data sheet's, and a correction between runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import least_squares

from ...common.arrays import Flags, Floats
from ...common.errors import OptionError
from ..correction import Correction, fit_correction
from .megatron import A100_SERVER, COEFFICIENTS, Machine, step_seconds
from .runs import Runs

ERROR = 0.1
"""Relative error that the formula is expected to have; beside it the priors weigh."""
PRIOR_WEIGHT = 8.0
"""Of 0.5 to 80 that which goes best beyond its measurements: the ends of each feature left out in turn, among
the runs of one hidden size alone; 8 is best for either of vTrain's two."""
FEWEST = 50
"""Measured runs from which on there is a correction."""


@dataclass(frozen=True)
class StepFit:
    """A fitted model of steps.

    Parameters
    ----------
    values
        The coefficients of `step_seconds`.
    scale
        What it is multiplied by, such as for another cluster.
    correction
        Of the logarithm inside the measured range; None where too little was measured.
    least, most
        Ends of the measured range of the features.
    """

    values: Mapping[str, float]
    machine: Machine
    least: Floats
    most: Floats
    scale: float = 1.0
    correction: Correction | None = None

    def inside(self, runs: Runs) -> Flags:
        """Return which runs lie inside what was measured."""
        features = runs.features()
        return np.asarray(((features >= self.least) & (features <= self.most)).all(axis=1))

    def seconds(self, runs: Runs) -> Floats:
        """Return the seconds of each run's step; shape (runs,)."""
        found = self.scale * step_seconds(self.values, runs, self.machine)
        if self.correction is None:
            return found
        return np.where(self.inside(runs), found * np.exp(self.correction(runs.features())), found)

    def scaled_to(self, runs: Runs, seconds: Floats) -> StepFit:
        """Return the model for another cluster: times the median of measured over predicted there.

        Raises
        ------
        OptionError
            If nothing was measured there.
        """
        if not len(runs):
            raise OptionError("no run was measured on the other cluster; measure one or more")
        return replace(self, scale=self.scale * float(np.median(seconds / self.seconds(runs))))


def fit_steps(runs: Runs, seconds: Floats, machine: Machine = A100_SERVER) -> StepFit:
    """Fit coefficients, and from `FEWEST` runs on a correction, to measured steps.

    Raises
    ------
    OptionError
        If nothing was measured, or a time is not positive.
    """
    fitted = fit_formula(runs, seconds, machine)
    if len(runs) < FEWEST:
        return fitted
    rest = np.log(seconds / fitted.seconds(runs))
    return replace(fitted, correction=fit_correction(runs.features(), rest))


def fit_formula(runs: Runs, seconds: Floats, machine: Machine = A100_SERVER) -> StepFit:
    """Fit coefficients alone to measured steps.

    They are the most likely ones given their priors and errors of the logarithm (maximum a posteriori), so
    that those that the runs do not tell apart stay near the data sheet.

    Raises
    ------
    OptionError
        If nothing was measured, or a time is not positive.
    """
    if not len(runs) or len(runs) != len(seconds) or not (seconds > 0).all():
        raise OptionError("measured steps: needs one or more, each with seconds greater than 0")
    prior = np.log([one.value for one in COEFFICIENTS.values()])
    spread = np.array([one.spread for one in COEFFICIENTS.values()])

    def named(logarithms: Floats) -> dict[str, float]:
        return dict(zip(COEFFICIENTS, np.exp(logarithms).tolist(), strict=True))

    def residuals(logarithms: Floats) -> Floats:
        errors = np.log(step_seconds(named(logarithms), runs, machine) / seconds)
        return np.concatenate([errors / ERROR, PRIOR_WEIGHT * (logarithms - prior) / spread])

    values = named(least_squares(residuals, prior).x)
    features = runs.features()
    return StepFit(values, machine, features.min(axis=0), features.max(axis=0))
