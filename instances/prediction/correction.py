"""A smooth correction near what was measured: a Gaussian process of what a formula leaves over.

Rasmussen & Williams 2006, chapters 2 and 5, with a Matérn kernel of order 3/2 over one distance. Its length
and its noise are those of a small grid with the largest marginal likelihood of the measurements, so that
nothing is tuned on others. Away from the measurements the correction fades to nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.spatial.distance import cdist

from ..common.arrays import Floats

LENGTHS = (1.0, 2.0, 4.0, 8.0)
NOISES = (1e-4, 1e-2, 1e-1)
"""Variances of the noise, as shares of the variance of the process."""


@dataclass(frozen=True)
class Correction:
    """A fitted correction.

    Parameters
    ----------
    at
        The features that were measured, shape (points, features).
    weights
        Of the kernel at each of them.
    length
        Over which the correction changes, in the units of the features.
    errors
        What is left over at each of them after the correction that the others give.
    """

    at: Floats
    weights: Floats
    length: float
    errors: Floats

    def __call__(self, features: Floats) -> Floats:
        """Return the correction at features, shape (points,)."""
        return np.asarray(_matern(features, self.at, self.length) @ self.weights)


def _matern(one: Floats, other: Floats, length: float) -> Floats:
    distance = np.sqrt(3.0) * cdist(one, other) / length
    return np.asarray((1.0 + distance) * np.exp(-distance))


def fit_correction(
    features: Floats, rest: Floats, lengths: Sequence[float] = LENGTHS, noises: Sequence[float] = NOISES
) -> Correction:
    """Fit a correction to what is left over.

    Parameters
    ----------
    features
        Shape (points, features), all in one unit.
    rest
        Shape (points,).
    lengths, noises
        The grid that is searched.
    """
    best: tuple[float, Correction] | None = None
    for length in lengths:
        kernel = _matern(features, features, length)
        for noise in noises:
            factor = cho_factor(kernel + noise * np.eye(len(rest)), lower=True)
            weights = cho_solve(factor, rest)
            # The variance of the process is at its own maximum.
            variance = max(float(rest @ weights) / len(rest), 1e-300)
            likelihood = -0.5 * len(rest) * np.log(variance) - float(np.log(np.diag(factor[0])).sum())
            if best is None or likelihood > best[0]:
                # The error of a point that is left out, from the inverse alone (section 5.4.2).
                errors = weights / np.diag(cho_solve(factor, np.eye(len(rest))))
                best = likelihood, Correction(features, weights, length, errors)
    assert best is not None
    return best[1]
