"""Epochs: how often a training goes over its samples until a target is met, at a batch size.

Up to a critical size, a larger batch needs as many epochs; beyond it more, for its steps are not so many
times better: E(B) = a + b·B, with the critical batch a/b (McCandlish et al. 2018, equation 2.11, for
E·B·steps). a and b are fitted to records of other batch sizes, with relative errors and b ≥ 0. Where the
records do not show at the level of `SIGNIFICANCE` that b is above 0 (one-sided t-test), epochs are taken as
constant, as they are for most fine-tuning: a slope that is only noise predicts worse than none.

The interval is that of a new training at a batch size that was not recorded: each recorded batch size is held
out in turn, and the errors of its trainings count how sizes differ and how seeds do (`student_ends`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

from ..common.arrays import Floats
from ..common.errors import OptionError
from .intervals.conformal import student_ends

SIGNIFICANCE = 0.05
FEWEST_SIZES = 3
"""Batch sizes from which on a slope can be told from noise."""
LEAST = 1e-9
"""Half the width of an interval that knows no doubt, for rounding."""
UNKNOWN = 3.0
"""Without enough records, epochs lie between those recorded over this, and times this."""


@dataclass(frozen=True)
class EpochRecord:
    """A training that met the target after so many epochs; None: it never did."""

    batch: float
    epochs: float | None


@dataclass(frozen=True)
class EpochEstimate:
    """Epochs until the target is met.

    Parameters
    ----------
    epochs, low, high
        The prediction and the ends of its 90 % interval.
    inside
        Whether the batch lies between recorded ones.
    critical_batch
        a/b; None where epochs are constant.
    leave_one_out
        Mean absolute relative error of each recorded batch size predicted from the others; None with fewer
        than three.
    failed
        Share of the trainings at the nearest recorded batch size that never met the target.
    """

    epochs: float
    low: float
    high: float
    inside: bool
    critical_batch: float | None
    leave_one_out: float | None
    failed: float

    @property
    def basis(self) -> str:
        """What it rests on, in a few words."""
        if self.critical_batch is None:
            return "records of other batch sizes, which need as many"
        return f"records of other batch sizes, critical batch {self.critical_batch:.4g}"


def predict_epochs(records: Sequence[EpochRecord], batch: float) -> EpochEstimate:
    """Return the epochs that a training with a batch size needs.

    Batch sizes of which fewer than half of the trainings met the target are left out.

    Raises
    ------
    OptionError
        If no record helps, or a figure is not positive.
    """
    if not batch > 0:
        raise OptionError(f"batch {batch:g}: must be greater than 0")
    sizes, epochs = _means(records)
    if not len(sizes):
        raise OptionError("no recorded batch size met the target in half of its trainings; give the epochs")
    a, b = _line(sizes, epochs)
    found = a + b * batch
    errors = leave_one_out(sizes, epochs)
    low, high = _interval(found, _scores(records, sizes, epochs, errors))
    nearest = sizes[np.abs(np.log(sizes / batch)).argmin()]
    own = [record.epochs for record in records if record.batch == nearest]
    return EpochEstimate(
        epochs=found,
        low=low,
        high=high,
        inside=bool(sizes.min() <= batch <= sizes.max()),
        critical_batch=a / b if b else None,
        leave_one_out=float(np.abs(errors).mean()) if len(errors) else None,
        failed=own.count(None) / len(own),
    )


def _means(records: Sequence[EpochRecord]) -> tuple[Floats, Floats]:
    """Return the batch sizes that met the target, and the mean of their epochs."""
    by_size: dict[float, list[float | None]] = defaultdict(list)
    for record in records:
        if not record.batch > 0 or (record.epochs is not None and not record.epochs > 0):
            raise OptionError(f"{record}: batch and epochs must be greater than 0")
        by_size[record.batch].append(record.epochs)
    kept = {}
    for size, given in sorted(by_size.items()):
        met = [value for value in given if value is not None]
        if 2 * len(met) >= len(given):
            kept[size] = float(np.mean(met))
    return np.array(list(kept)), np.array(list(kept.values()))


def _line(sizes: Floats, epochs: Floats) -> tuple[float, float]:
    """Return a and b of the line with the least squared relative errors; b is 0 unless it is significant."""
    constant = float((1 / epochs).sum() / (1 / epochs**2).sum())
    if len(sizes) < FEWEST_SIZES:
        return constant, 0.0
    columns = np.stack([1 / epochs, sizes / epochs], axis=1)
    (a, b), *_ = np.linalg.lstsq(columns, np.ones(len(sizes)))
    rest = columns @ np.array([a, b]) - 1.0
    free = len(sizes) - 2
    variance = float(rest @ rest) / free * np.linalg.inv(columns.T @ columns)[1, 1]
    if a <= 0 or b <= 0:
        return constant, 0.0
    if variance > 0 and special.stdtr(free, -b / np.sqrt(variance)) > SIGNIFICANCE:
        return constant, 0.0
    return float(a), float(b)


def leave_one_out(sizes: Floats, epochs: Floats) -> Floats:
    """Return predicted/recorded − 1 of each batch size, predicted from all the others."""
    if len(sizes) < FEWEST_SIZES:
        return np.array([])
    errors = []
    for index in range(len(sizes)):
        a, b = _line(np.delete(sizes, index), np.delete(epochs, index))
        errors.append((a + b * sizes[index]) / epochs[index] - 1.0)
    return np.array(errors)


def _scores(
    records: Sequence[EpochRecord], sizes: Floats, epochs: Floats, errors: Floats
) -> tuple[list[float], list[float]]:
    """Return log(recorded/predicted) of each training, predicted from other sizes, and its size."""
    if not len(errors):
        return [], []
    predicted = dict(zip(sizes.tolist(), (epochs * (1.0 + errors)).tolist(), strict=True))
    rows = [(float(np.log(r.epochs / predicted[r.batch])), r.batch) for r in records
            if r.epochs is not None and r.batch in predicted]  # fmt: skip
    return [score for score, _ in rows], [size for _, size in rows]


def _interval(found: float, scores: tuple[list[float], list[float]]) -> tuple[float, float]:
    """Return the ends of the interval of a new training; wide where too few sizes were recorded."""
    if not scores[0]:
        return found / UNKNOWN, found * UNKNOWN
    low, high = student_ends(np.array(scores[0]), scores[1])
    return found * float(np.exp(min(low, -LEAST))), found * float(np.exp(max(high, LEAST)))
