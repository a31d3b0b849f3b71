"""Identifiability: which coefficients of a speed model the measured configurations determine.

The numerical rank of the design matrix decides, by its singular values (Golub & Van Loan 2013, ch. 5).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...common.arrays import Floats
from ...common.speed import FORMULAS

LEAST_SINGULAR_VALUE = 1e-9
"""Singular values below this share of the largest count as 0, with columns scaled to length 1."""
LEAST_COMPONENT = 1e-6
"""A coefficient has a part in the null space if its component there is larger."""


@dataclass(frozen=True)
class Rank:
    """The rank of a design matrix.

    Parameters
    ----------
    rank
        How many independent combinations of coefficients the measurements determine.
    coefficients
        How many coefficients there are.
    undetermined
        Indices of the coefficients that are not determined one by one.
    """

    rank: int
    coefficients: int
    undetermined: tuple[int, ...]

    @property
    def full(self) -> bool:
        """Whether every coefficient is determined."""
        return self.rank == self.coefficients


def design_matrix(model: str, ps: Floats, workers: Floats, batch: Floats) -> Floats:
    """Return the seconds of a step at each point with one coefficient 1 and the others 0.

    The step time is linear in θ, so it is this matrix times θ; shape (points, coefficients).
    """
    number, step_s = FORMULAS[model]
    columns = [step_s(unit, batch, ps, workers) for unit in np.eye(number)]
    return np.column_stack([np.broadcast_to(column, workers.shape) for column in columns])


def column_lengths(design: Floats) -> Floats:
    """Return the length of each column, 1 for one that is 0 throughout."""
    lengths = np.linalg.norm(design, axis=0)
    return np.where(lengths > 0, lengths, 1.0)


def rank_of(design: Floats) -> Rank:
    """Return the rank, and the coefficients that have a part in the null space."""
    number = design.shape[1]
    # R of the QR factorisation has the singular values of the design, and few rows.
    triangle = np.linalg.qr(design / column_lengths(design), mode="r")
    _, values, directions = np.linalg.svd(triangle, full_matrices=True)
    rank = int(np.sum(values > LEAST_SINGULAR_VALUE * values[0]))
    free = np.abs(directions[rank:]).max(axis=0, initial=0.0) > LEAST_COMPONENT
    return Rank(rank, number, tuple(np.flatnonzero(free).tolist()))


def reasons(model: str, ps: Floats, workers: Floats, batch: Floats) -> list[str]:
    """Return the common properties that hide coefficients, as endings of "all have …"."""
    found = []
    if np.ptp(workers) == 0:
        found.append(f"workers = {workers[0]:g}")
    if model == "ring_allreduce":
        if np.ptp(batch) == 0:
            found.append(f"batch = {batch[0]:g}")
        elif np.allclose(batch * workers[0], batch[0] * workers, rtol=1e-9):
            found.append("the same batch per worker")
        return found
    if np.ptp(ps) == 0:
        found.append(f"ps = {ps[0]:g}")
    elif np.all(ps == workers):
        found.append("ps = workers")
    elif np.allclose(ps * workers[0], ps[0] * workers, rtol=1e-9):
        found.append("the same ratio of ps to workers")
    if model == "ps_sync" and np.ptp(workers) > 0 and np.allclose(batch * workers[0], batch[0] * workers):
        found.append("the same batch per worker")
    return found


def explanation(rank: Rank, model: str, ps: Floats, workers: Floats, batch: Floats) -> str:
    """Return one clause: how many coefficients are determined, which are not, and why."""
    names = ", ".join(f"θ{index}" for index in rank.undetermined)
    number = f"only {rank.rank} of the {rank.coefficients} coefficients of {model} are determined"
    text = f"{number} ({names} are not)"
    common = reasons(model, ps, workers, batch)
    if common:
        return f"{text}: all have {' and '.join(common)}"
    distinct = len(np.unique(np.column_stack([ps, workers, batch]), axis=0))
    if distinct < rank.coefficients:
        return f"{text}: there are {distinct} different configurations"
    return f"{text}: these configurations do not tell them apart"


def remedy(model: str, batch: Floats) -> str:
    """Return what to measure so that every coefficient is determined."""
    if model == "ring_allreduce":
        if np.ptp(batch) == 0:
            return "measure other numbers of workers with another batch too, in a column batch"
        return "measure more combinations of workers and batch"
    return "measure more combinations of ps and workers, not all in one ratio"
