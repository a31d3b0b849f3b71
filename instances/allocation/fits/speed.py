"""Fits of speed models: coefficients θ from measured steps per second, and their identifiability.

The seconds of a step, 1/f(p, w), are linear in θ (see `common.speed`). θ minimises the sum of squared
*relative* errors of the step time, Σ (x_i·θ / t_i − 1)² with t_i = 1/f_i measured, over θ ≥ 0: every
equation is divided by its measured step time, and the problem is one of non-negative least squares
(Lawson & Hanson 1974). All errors here are relative errors of the step time, on which a job's completion
time depends.

Where the caller fixes no model, the candidate with the smallest leave-one-out error (Stone 1974) is
taken. Measurements that leave coefficients undetermined (p = w throughout leaves 3 of 5 of `ps_sync`; one
constant M leaves 3 of 4 of `ring_allreduce`) are refused unless the caller allows them; the fit then warns
that it holds only inside the measured range.

Measurements with one batch for each GPU (weak scaling, Gustafson 1988) leave θ0 and θ1 undetermined, for
M/w is the same everywhere. A job that keeps this batch needs only their sum, so that θ1 is set to 0. Its
step is the batch of one GPU then, of which w workers make w at a time: the speed is w·f.

The numerical rank of the design matrix, by its singular values (Golub & Van Loan 2013, ch. 5), tells which
coefficients the measured configurations determine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np
from scipy.linalg import null_space
from scipy.optimize import nnls

from ...common.arrays import Floats
from ...common.errors import Fault, InstanceError, OptionError
from ...common.fields import LARGEST, Model
from ...common.speed import FORMULA_MODELS, FORMULAS, FormulaModel, SpeedTable, ring_allreduce_step_s
from ...files.reading import fail
from .measurements import Measurements, SpeedPoint, measurements

LEAST_SINGULAR_VALUE = 1e-9
"""Singular values below this share of the largest count as 0, with columns scaled to length 1."""
LEAST_COMPONENT = 1e-6
"""A coefficient counts as part of the null space if its component there is larger than this."""


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

    @property
    def full(self) -> bool:
        """Whether every coefficient is determined."""
        return self.rank == self.coefficients


def design_matrix(model: str, ps: Floats, workers: Floats, batch: Floats) -> Floats:
    """Return the design matrix of the step time, shape (points, coefficients).

    The step time is linear in θ, so it is this matrix times θ.
    """
    number, step_s = FORMULAS[model]
    columns = [step_s(unit, batch, ps, workers) for unit in np.eye(number)]
    return np.column_stack([np.broadcast_to(column, workers.shape) for column in columns])


def column_lengths(design: Floats) -> Floats:
    """Return the Euclidean length of each column, 1 for a column of zeros."""
    lengths = np.linalg.norm(design, axis=0)
    return np.where(lengths > 0, lengths, 1.0)


def rank_of(design: Floats) -> tuple[int, list[int]]:
    """Return the numerical rank of a design matrix, and the coefficients with a part in its null space.

    These are not determined one by one.
    """
    # R of the QR factorisation has the singular values of the design, and few rows.
    triangle = np.linalg.qr(design / column_lengths(design), mode="r")
    free = null_space(triangle, rcond=LEAST_SINGULAR_VALUE)
    undetermined = np.abs(free).max(axis=1, initial=0.0) > LEAST_COMPONENT
    return design.shape[1] - free.shape[1], np.flatnonzero(undetermined).tolist()


def reasons(model: str, ps: Floats, workers: Floats, batch: Floats) -> list[str]:
    """Return the properties that all measurements share and that hide coefficients, to follow "all have"."""
    shared = []
    if np.ptp(workers) == 0:
        shared.append(f"workers = {workers[0]:g}")
    if model == "ring_allreduce":
        if np.ptp(batch) == 0:
            shared.append(f"batch = {batch[0]:g}")
        elif np.allclose(batch * workers[0], batch[0] * workers, rtol=1e-9):
            shared.append("the same batch per worker")
        return shared
    if np.ptp(ps) == 0:
        shared.append(f"ps = {ps[0]:g}")
    elif np.all(ps == workers):
        shared.append("ps = workers")
    elif np.allclose(ps * workers[0], ps[0] * workers, rtol=1e-9):
        shared.append("the same ratio of ps to workers")
    if model == "ps_sync" and np.ptp(workers) > 0 and np.allclose(batch * workers[0], batch[0] * workers):
        shared.append("the same batch per worker")
    return shared


def remedy(model: str, batch: Floats) -> str:
    """Return a text on the further measurements that would determine every coefficient."""
    if model == "ring_allreduce":
        if np.ptp(batch) == 0:
            return "measure other numbers of workers with another batch too, in a column batch"
        return "measure more combinations of workers and batch"
    return "measure more combinations of ps and workers, not all in one ratio"


class SpeedRange(Model):
    """The smallest and largest values that were measured."""

    ps: tuple[int, int]
    workers: tuple[int, int]
    batch: tuple[float, float] | None

    def words(self) -> str:
        """Return the measured range as text."""
        parts = [f"{span(*self.ps)} parameter servers"] if self.ps[1] else []
        parts.append(f"{span(*self.workers)} workers")
        if self.batch is not None:
            parts.append(f"batch {span(*self.batch)}")
        return ", ".join(parts)


def instant_alone(model: str, theta: Sequence[float], batch: float | None, shortest_s: float) -> bool:
    """Return whether the fitted step time of ring all-reduce with one worker is practically 0."""
    return model == "ring_allreduce" and theta[0] * (batch or 0.0) + theta[1] <= 1e-6 * shortest_s


def span(low: float, high: float) -> str:
    """Return a range as text; a single number where both ends are equal."""
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
        """Return the fitted speed model in the form that a job's variant has."""
        kind = SpeedTable if self.is_listed else FORMULA_MODELS[self.model]
        return kind.model_validate(self.fields())

    @property
    def is_listed(self) -> bool:
        """Whether no formula with one global batch describes the speed, so that `fields` gives a table."""
        return self.batch_per_gpu is not None and self.model == "ring_allreduce"

    @property
    def instant_alone(self) -> bool:
        """Whether the fitted step time of one worker is 0, so that the fit needs 2 workers or more."""
        batch = self.batch or self.batch_per_gpu
        return instant_alone(self.model, self.theta, batch, min(row.step_s for row in self.rows))

    def fields(self, workers: tuple[int, int] | None = None) -> dict[str, Any]:
        """Return the fitted speed model as the fields of a document.

        Parameters
        ----------
        workers
            Minimum and maximum workers of a table of speeds; by default those measured.
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


RING: ModelName = "ring_allreduce"
TASKS = ("ps", "workers")


@dataclass(frozen=True)
class _Data:
    """The measurements of a job's speed as columns, one entry for each measured point."""

    given: Measurements[SpeedPoint]
    ps: Floats
    workers: Floats
    batch: Floats
    step_s: Floats
    per_gpu: float | None

    @property
    def columns(self) -> tuple[Floats, Floats, Floats]:
        """Parameter servers, workers and batch of each point."""
        return self.ps, self.workers, self.batch


@dataclass(frozen=True)
class _Fit:
    """One speed model fitted to the measurements."""

    score: Candidate
    theta: Floats
    errors: Floats
    undetermined: Sequence[int]


def fit_speed(
    given: str | Path | Sequence[SpeedPoint],
    model: ModelName | Literal["auto"] = "auto",
    batch: float | None = None,
    allow_rank_deficient: bool = False,
    source: str | None = None,
    batch_per_gpu: float | None = None,
) -> SpeedFit:
    """Fit a speed model to measurements.

    Parameters
    ----------
    given
        A CSV file with the columns workers and steps_per_s, and ps and batch where they matter; or points.
    model
        By default the one with the smallest leave-one-out error: `ring_allreduce` where no point has
        parameter servers, else `ps_sync` or `ps_async`.
    batch
        Global batch M of the job; also of the measurements where they do not name it. Needed by `ps_sync`
        and `ring_allreduce` unless all measurements name one and the same.
    allow_rank_deficient
        Accept measurements that leave coefficients undetermined; the fit then carries a warning.
    source
        The name of the measurements in error messages; by default the file.
    batch_per_gpu
        The batch that each worker has in all measurements and in the job, in place of `batch`. The job's step
        is this batch then; its remaining steps are its remaining samples divided by it.

    Raises
    ------
    InstanceError
        If measurements are wrong, too few, or leave coefficients undetermined; faults name the lines.
    OptionError
        If there is no such model, or the batch is not a positive number.
    """
    if model != "auto" and model not in FORMULAS:
        raise OptionError(f"model {model!r}: allowed: auto, {', '.join(FORMULAS)}")
    for name, value in (("batch", batch), ("batch_per_gpu", batch_per_gpu)):
        if value is not None and not 1e-6 <= value <= 1e12:
            raise OptionError(f"{name} {value:g}: must lie between 1e-6 and 1e12")
    if batch is not None and batch_per_gpu is not None:
        raise OptionError("batch and batch_per_gpu exclude each other; give one of them")
    points = measurements(given, SpeedPoint, source)
    names = _candidates(points, model, batch_per_gpu is not None)
    job_batch = _job_batch(points, names, model, batch) if batch_per_gpu is None else None
    data = _columns(points, names[0], job_batch, batch_per_gpu)
    _check_variety(data)
    fits = [_fit(data, name) for name in names]
    best = _choose(data, fits, allow_rank_deficient)
    if best.theta.max() > LARGEST:
        raise points.fault(f"a coefficient would exceed {LARGEST:g}; check the units of the columns")
    return _report(data, best, fits, job_batch)


def _candidates(
    given: Measurements[SpeedPoint], model: ModelName | Literal["auto"], weak: bool
) -> list[ModelName]:
    """Return the speed models that fit the measured numbers of parameter servers.

    For a job with a fixed batch per GPU (`weak`), `ps_sync` has the form of `ps_async`.
    """
    without = [index for index, point in enumerate(given.points) if point.ps == 0]
    everywhere, ring = len(without) == len(given.points), model == "ring_allreduce"
    if ring or (model == "auto" and everywhere):
        what = f"is {{}}; {RING} has no parameter servers: leave the column out, or choose another model"
        wrong = [index for index, point in enumerate(given.points) if point.ps > 0]
    else:
        needs = "other rows have parameter servers" if model == "auto" else f"{model} has parameter servers"
        what, wrong = f"is {{}}; {needs}, so every row needs at least 1", without
    if wrong:
        raise InstanceError(
            given.fault_at(index, "ps", what.format(given.points[index].ps)) for index in wrong
        )
    if weak and model == "ps_sync":
        what = "with batch_per_gpu it has the form of ps_async; allowed: auto, ps_async, ring_allreduce"
        raise OptionError(f"model 'ps_sync': {what}")
    if model != "auto":
        return [model]
    if everywhere:
        return [RING]
    return ["ps_async"] if weak else ["ps_sync", "ps_async"]


def _job_batch(
    given: Measurements[SpeedPoint], names: Sequence[str], model: str, batch: float | None
) -> float | None:
    """Return the job's global batch M; refuse measurements of which the batch remains unknown."""
    needing = [name for name in names if name in NEEDS_BATCH]
    measured = {point.batch for point in given.points}
    if batch is not None or not needing:
        return batch
    missing = [index for index, point in enumerate(given.points) if point.batch is None]
    if len(missing) == len(given.points):
        other = "; or choose ps_async, which needs none" if model == "auto" and len(names) > 1 else ""
        what = f"has no column batch; {needing[0]} needs the global batch: add it, or give the option batch"
        raise fail(given.source, what + other)
    if missing:
        what = "is missing; give the global batch of each row, or the option batch for those without"
        raise InstanceError(given.fault_at(index, "batch", what) for index in missing)
    if len(measured) > 1:
        what = "takes several values; give the option batch, the global batch that the job will train with"
        raise given.fault(what, "batch")
    return measured.pop()


def _columns(
    given: Measurements[SpeedPoint], model: ModelName, batch: float | None, per_gpu: float | None
) -> _Data:
    """Return measurements as columns; with a fixed batch per GPU, `ps_async` steps are of one worker."""
    points = given.points
    ps, workers = (np.array([getattr(point, key) for point in points], dtype=float) for key in TASKS)
    step_s = 1.0 / np.array([point.steps_per_s for point in points], dtype=float)
    if per_gpu is None:
        batches = np.array([point.batch or batch or 1.0 for point in points], dtype=float)
        return _Data(given, ps, workers, batches, step_s, None)
    batches = per_gpu * workers
    wrong = [
        given.fault_at(index, "batch", f"is {point.batch:g}; {per_gpu:g} for each GPU make {made:g}")
        for index, (point, made) in enumerate(zip(points, batches, strict=True))
        if point.batch is not None and not np.isclose(point.batch, made, rtol=1e-9)
    ]
    if wrong:
        raise InstanceError(wrong)
    return _Data(given, ps, workers, batches, step_s if model == RING else step_s / workers, per_gpu)


def _check_variety(data: _Data) -> None:
    """Refuse measurements of a single configuration, or with a single speed."""
    number = len(data.step_s)
    configurations = np.unique(np.column_stack(data.columns), axis=0)
    if len(configurations) < 2:
        at = f"workers {data.workers[0]:g}" + (f", ps {data.ps[0]:g}" if data.ps[0] else "")
        have = "is the only row" if number == 1 else f"all {number} rows have one configuration"
        raise data.given.fault(f"{have} ({at}); at least 2 different ones are needed")
    if np.ptp(data.step_s) == 0:
        what = f"is {data.given.points[0].steps_per_s:g} in all {number} rows, whatever the configuration; "
        raise data.given.fault(what + "check that the column holds what was measured", "steps_per_s")


def _solve(design: Floats, step_s: Floats) -> tuple[Floats, float]:
    """Return θ ≥ 0 with the minimum sum of squared relative errors of the step time, and its error.

    That is the mean absolute relative leave-one-out error.
    """
    lengths = column_lengths(design)
    rows, ones = design / lengths / step_s[:, None], np.ones(len(step_s))
    theta, _ = nnls(rows, ones, maxiter=1000)
    errors = np.empty(len(step_s))
    for index, row in enumerate(rows.copy()):
        rows[index], ones[index] = 0.0, 0.0  # leaves the point out: an equation 0 = 0 fits any θ
        errors[index] = row @ nnls(rows, ones, maxiter=1000)[0] - 1.0
        rows[index], ones[index] = row, 1.0
    return np.asarray(theta / lengths, dtype=float), float(np.abs(errors).mean())


def _fit(data: _Data, model: ModelName) -> _Fit:
    design = design_matrix(model, *data.columns)
    kept = [index for index in range(design.shape[1]) if index != 1 or data.per_gpu is None or model != RING]
    design = design[:, kept]
    try:
        theta, left_out = _solve(design, data.step_s)
    except RuntimeError:
        raise data.given.fault(f"{model} cannot be fitted to these figures; check their units") from None
    full = np.zeros(FORMULAS[model][0])
    full[kept] = theta
    errors = design @ theta / data.step_s - 1.0
    rank, undetermined = rank_of(design)
    mape = float(np.abs(errors).mean())
    score = Candidate(model=model, mape=mape, leave_one_out=left_out, rank=rank, coefficients=len(kept))
    return _Fit(score, full, errors, undetermined)


def _explanation(data: _Data, fit: _Fit) -> str:
    """Return a clause on rank deficiency: which coefficients are undetermined, and why."""
    score, names = fit.score, ", ".join(f"θ{index}" for index in fit.undetermined)
    number = f"only {score.rank} of the {score.coefficients} coefficients of {score.model} are determined"
    text = f"{number} ({names} are not)"
    common = reasons(score.model, *data.columns)
    if common:
        return f"{text}: all have {' and '.join(common)}"
    distinct = len(np.unique(np.column_stack(data.columns), axis=0))
    if distinct < score.coefficients:
        return f"{text}: there are {distinct} different configurations"
    return f"{text}: these configurations do not tell them apart"


def _choose(data: _Data, fits: Sequence[_Fit], allowed: bool) -> _Fit:
    """Return the fit with the smallest leave-one-out error among those whose coefficients are determined."""
    usable = [fit for fit in fits if fit.score.full or allowed]
    if not usable:
        ways = "or accept predictions inside the measured range only: allow_rank_deficient"
        each = data.batch / data.workers
        if data.per_gpu is None and np.ptp(data.workers) > 0 and np.allclose(each, each[0], rtol=1e-9):
            ways = f"or give batch_per_gpu {each[0]:g} if the job keeps it, {ways}"
        raise InstanceError(
            Fault(
                data.given.source,
                data.given.span,
                f"{_explanation(data, fit)}; {remedy(fit.score.model, data.batch)}, {ways}",
            )
            for fit in fits
        )
    return min(usable, key=lambda fit: fit.score.leave_one_out)


def _warnings(
    data: _Data, best: _Fit, fits: Sequence[_Fit], range_: SpeedRange, batch: float | None
) -> list[str]:
    notes = data.given.notes()
    if not best.score.full:
        clause = _explanation(data, best)
        notes.append(
            f"{clause[0].upper()}{clause[1:]}; predictions hold only inside the measured range "
            f"({range_.words()}), for configurations like those measured."
        )
    notes += [
        f"{fit.model} was not considered: it has rank {fit.rank} of {fit.coefficients}."
        for fit in (each.score for each in fits)
        if best.score.full and not fit.full
    ]
    if batch is not None and range_.batch is not None and not range_.batch[0] <= batch <= range_.batch[1]:
        notes.append(f"The job's batch {batch:g} lies outside those measured, {span(*range_.batch)}.")
    if data.per_gpu is not None:
        notes.append(
            f"A step is the batch of one GPU, {data.per_gpu:g} samples: remaining_steps are the remaining "
            "samples divided by it."
        )
    if _falls(data):
        notes.append("Fewer workers are faster throughout; does steps_per_s hold a time in place of a speed?")
    if instant_alone(best.score.model, best.theta.tolist(), batch or data.per_gpu, float(data.step_s.min())):
        notes.append("With 1 worker the fitted step takes no time (θ0 = θ1 = 0); use it with 2 or more.")
    return notes


def _falls(data: _Data) -> bool:
    """Return whether the speed falls so steeply with the number of workers that it is probably a time."""
    workers = np.unique(data.workers)
    if len(workers) < 3 or data.per_gpu is not None or np.ptp(data.batch) > 0:
        return False
    step_s = [float(np.median(data.step_s[data.workers == w])) for w in workers]
    return all(2 * later > 3 * earlier for earlier, later in pairwise(step_s))


def _report(data: _Data, best: _Fit, fits: Sequence[_Fit], batch: float | None) -> SpeedFit:
    with_batch = best.score.model in NEEDS_BATCH
    points = data.given.points
    range_ = SpeedRange(
        ps=(int(data.ps.min()), int(data.ps.max())),
        workers=(int(data.workers.min()), int(data.workers.max())),
        batch=(float(data.batch.min()), float(data.batch.max())) if with_batch else None,
    )
    rows = tuple(
        FittedSpeed(
            place=data.given.place(index),
            ps=point.ps,
            workers=point.workers,
            batch=float(data.batch[index]) if with_batch else None,
            step_s=float(data.step_s[index]),
            fitted_step_s=float(data.step_s[index] * (1.0 + best.errors[index])),
            error=float(best.errors[index]),
        )
        for index, point in enumerate(points)
    )
    job_batch = batch if with_batch else None
    return SpeedFit(
        source=data.given.source,
        theta=tuple(best.theta.tolist()),
        batch=job_batch,
        batch_per_gpu=data.per_gpu,
        points=len(points),
        **best.score.model_dump(),
        range=range_,
        candidates=tuple(fit.score for fit in fits),
        warnings=tuple(_warnings(data, best, fits, range_, job_batch)),
        rows=rows,
    )
