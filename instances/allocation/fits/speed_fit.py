"""The report of a fitted speed model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from ...common.fields import Model
from ...common.speed import FORMULA_MODELS, FormulaModel, SpeedTable, ring_allreduce_step_s

ModelName = Literal["ps_sync", "ps_async", "ring_allreduce"]
NEEDS_BATCH = ("ps_sync", "ring_allreduce")


class Candidate(Model):
    """How well one model explains the measurements.

    Attributes
    ----------
    mape
        Mean absolute relative error of the step time.
    leave_one_out
        The same, of each point predicted by a fit to all the others.
    rank, coefficients
        How many of the coefficients the measurements determine, and how many there are.
    """

    model: ModelName
    mape: float
    leave_one_out: float
    rank: int
    coefficients: int


class SpeedRange(Model):
    """The smallest and largest values that were measured."""

    ps: tuple[int, int]
    workers: tuple[int, int]
    batch: tuple[float, float] | None

    def words(self) -> str:
        """Return the range as text."""
        parts = [f"{span(*self.ps)} parameter servers"] if self.ps[1] else []
        parts.append(f"{span(*self.workers)} workers")
        if self.batch is not None:
            parts.append(f"batch {span(*self.batch)}")
        return ", ".join(parts)


def instant_alone(model: str, theta: Sequence[float], batch: float | None, shortest_s: float) -> bool:
    """Return whether a ring of one worker would take no time next to the shortest measured step."""
    return model == "ring_allreduce" and theta[0] * (batch or 0.0) + theta[1] <= 1e-6 * shortest_s


def span(low: float, high: float) -> str:
    """Return a range as text; one number where both ends are the same."""
    return f"{low:.10g}" if low == high else f"{low:.10g}–{high:.10g}"


class FittedSpeed(Model):
    """One measurement beside its fit; `error` is fitted/measured − 1."""

    place: str
    ps: int
    workers: int
    batch: float | None
    step_s: float
    fitted_step_s: float
    error: float


class SpeedFit(Model):
    """Coefficients of a speed model, and how far to trust them.

    Attributes
    ----------
    source
        Name of the measurements.
    model, theta, batch
        A speed model of a job; `batch` is the job's global batch, None for `ps_async`.
    batch_per_gpu
        Where the job has one batch for each GPU: this batch, of which M is that of all workers.
    points
        How many measurements there are.
    mape, leave_one_out, rank, coefficients
        See `Candidate`.
    range
        What was measured; beyond it a prediction is an extrapolation.
    candidates
        Scores of every model that was tried, the chosen one among them.
    warnings
        Limits of the fit, a sentence each.
    rows
        Every measurement beside its fit.
    """

    source: str
    model: ModelName
    theta: tuple[float, ...]
    batch: float | None
    batch_per_gpu: float | None = None
    points: int
    mape: float
    leave_one_out: float
    rank: int
    coefficients: int
    range: SpeedRange
    candidates: tuple[Candidate, ...]
    warnings: tuple[str, ...]
    rows: tuple[FittedSpeed, ...]

    def speed(self) -> FormulaModel | SpeedTable:
        """Return the fitted speed model, as a job's variant has it."""
        if self.is_listed:
            return SpeedTable.model_validate(self.fields())
        return FORMULA_MODELS[self.model].model_validate(self.fields())

    @property
    def is_listed(self) -> bool:
        """Whether the speed has no formula of one global batch, so that `fields` lists it."""
        return self.batch_per_gpu is not None and self.model == "ring_allreduce"

    @property
    def instant_alone(self) -> bool:
        """Whether a step of one worker would take no time, so that the fit needs 2 or more."""
        batch = self.batch or self.batch_per_gpu
        return instant_alone(self.model, self.theta, batch, min(row.step_s for row in self.rows))

    def fields(self, workers: tuple[int, int] | None = None) -> dict[str, Any]:
        """Return the fitted speed model as a document has it.

        Parameters
        ----------
        workers
            The fewest and the most workers of a speed that is listed; by default those measured.
        """
        if self.is_listed and self.batch_per_gpu is not None:
            low, high = workers or self.range.workers
            counts = np.arange(low, high + 1)
            step_s = ring_allreduce_step_s(self.theta, self.batch_per_gpu * counts, 0, counts)
            speeds = (counts / step_s).tolist()
            rows = [{"workers": w, "steps_per_s": f} for w, f in zip(counts.tolist(), speeds, strict=True)]
            return {"model": "table", "rows": rows}
        named: dict[str, Any] = {"model": self.model, "theta": list(self.theta)}
        return named if self.batch is None else named | {"batch": self.batch}
