"""The report of a fitted speed model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from ...common.fields import Model
from ..speed import FORMULA_MODELS, FormulaModel

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
    points: int
    mape: float
    leave_one_out: float
    rank: int
    coefficients: int
    range: SpeedRange
    candidates: tuple[Candidate, ...]
    warnings: tuple[str, ...]
    rows: tuple[FittedSpeed, ...]

    def speed(self) -> FormulaModel:
        """Return the fitted speed model, as a job's variant has it."""
        return FORMULA_MODELS[self.model].model_validate(self.fields())

    @property
    def instant_alone(self) -> bool:
        """Whether a step of one worker would take no time, so that the fit needs 2 or more."""
        return instant_alone(self.model, self.theta, self.batch, min(row.step_s for row in self.rows))

    def fields(self) -> dict[str, Any]:
        """Return the fitted speed model as a document has it."""
        named: dict[str, Any] = {"model": self.model, "theta": list(self.theta)}
        return named if self.batch is None else named | {"batch": self.batch}
