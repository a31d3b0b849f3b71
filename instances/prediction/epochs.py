"""Prediction of the epochs until a training meets its target, from records by batch size.

Up to a critical batch size the epochs are about constant; beyond it they grow with the batch:
E(B) = a + b·B, with the critical batch a/b (McCandlish et al. 2018, equation 2.11, for
E·B·steps). a and b are fitted to records of other batch sizes, with relative errors and b ≥ 0. If b is not
significantly above 0 at the level `SIGNIFICANCE` (one-sided t-test), epochs are taken as constant, as they
are for most fine-tuning: a slope that is only noise predicts worse than none. `Work` holds the amount and
deadline of a training.

The interval is that of a new training at a batch size that was not recorded: each recorded batch size is
held out in turn, and the errors of its trainings count how sizes differ and how seeds do
(`student_ends`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated

import numpy as np
from pydantic import Field
from scipy import special

from ..common.arrays import Floats
from ..common.errors import OptionError
from ..common.faults import validated_rows
from ..common.fields import Model, Positive
from ..files.csv_tables import model_rows
from .calibration import Estimate, student_ends

SIGNIFICANCE = 0.05
FEWEST_SIZES = 3
"""Number of batch sizes from which on a slope is fitted."""
LEAST_HALF_WIDTH = 1e-9
"""Least half-width of an interval in the logarithm, against rounding."""
UNKNOWN = 3.0
"""Without enough records, the ends of the interval are the prediction divided and multiplied by this."""


@dataclass(frozen=True)
class EpochRecord:
    """A recorded training run: batch size, and epochs until the target was met; None: never met."""

    batch: float
    epochs: float | None


@cache
def predict_epochs(records: tuple[EpochRecord, ...], batch: float) -> Estimate:
    """Return the epochs (in the field `seconds`) until the target is met with a batch size.

    It is inside what was measured if the batch lies between recorded ones. Batch sizes of which fewer than
    half of the trainings met the target are left out.

    Raises
    ------
    OptionError
        If no record can be used.
    """
    sizes, epochs = _means(records)
    if not len(sizes):
        raise OptionError("no recorded batch size met the target in half of its trainings; give the epochs")
    a, b = _line(sizes, epochs)
    predicted = a + b * batch
    low, high = _ends(predicted, records, sizes, epochs)
    needed = f"critical batch {a / b:.4g}" if b else "which need as many"
    inside = bool(sizes.min() <= batch <= sizes.max())
    return Estimate(predicted, low, high, inside, f"records of other batch sizes, {needed}")


def _means(records: Sequence[EpochRecord]) -> tuple[Floats, Floats]:
    """Return the batch sizes that met the target, and the mean number of epochs of each."""
    by_size: dict[float, list[float | None]] = defaultdict(list)
    for record in records:
        by_size[record.batch].append(record.epochs)
    kept = {}
    for size, given in sorted(by_size.items()):
        met = [value for value in given if value is not None]
        if 2 * len(met) >= len(given):
            kept[size] = float(np.mean(met))
    return np.array(list(kept)), np.array(list(kept.values()))


def _line(sizes: Floats, epochs: Floats) -> tuple[float, float]:
    """Return a and b of epochs = a + b·batch by relative least squares; b is 0 unless significant."""
    constant = float((1 / epochs).sum() / (1 / epochs**2).sum())
    if len(sizes) < FEWEST_SIZES:
        return constant, 0.0
    columns = np.stack([1 / epochs, sizes / epochs], axis=1)
    (a, b), *_ = np.linalg.lstsq(columns, np.ones(len(sizes)))
    rest = columns @ np.array([a, b]) - 1.0
    free = len(sizes) - 2
    error = np.sqrt(float(rest @ rest) / free * np.linalg.inv(columns.T @ columns)[1, 1])
    if min(a, b) <= 0 or (error > 0 and special.stdtr(free, -b / error) > SIGNIFICANCE):
        return constant, 0.0
    return float(a), float(b)


def leave_one_out(sizes: Floats, epochs: Floats) -> Floats:
    """Return predicted/recorded − 1 of each batch size's epochs, predicted from the other sizes."""
    errors = []
    for index in range(len(sizes)):
        a, b = _line(np.delete(sizes, index), np.delete(epochs, index))
        errors.append((a + b * sizes[index]) / epochs[index] - 1.0)
    return np.array(errors)


def _ends(
    predicted: float, records: Sequence[EpochRecord], sizes: Floats, epochs: Floats
) -> tuple[float, float]:
    """Return both ends of the interval of a new run's epochs; wide if few batch sizes were recorded."""
    if len(sizes) < FEWEST_SIZES:
        return predicted / UNKNOWN, predicted * UNKNOWN
    others = dict(zip(sizes.tolist(), (epochs * (1.0 + leave_one_out(sizes, epochs))).tolist(), strict=True))
    scores = [
        (float(np.log(run.epochs / others[run.batch])), run.batch)
        for run in records
        if run.epochs is not None and run.batch in others
    ]
    low, high = student_ends(np.array([score for score, _ in scores]), [batch for _, batch in scores])
    low, high = np.exp([min(low, -LEAST_HALF_WIDTH), max(high, LEAST_HALF_WIDTH)]).tolist()
    return predicted * low, predicted * high


Figure = Annotated[Positive, Field(le=1e12)]


class _Row(Model):
    batch: Figure
    epochs: Figure | None


def read_records(path: str | Path) -> tuple[EpochRecord, ...]:
    """Return the training runs of a CSV file; empty `epochs` means that the target was never met.

    Raises
    ------
    InstanceError
        If a column is missing, or a row wrong; faults name the lines.
    """
    filled = ((line, {"epochs": None, **row}) for line, row in model_rows(Path(path), _Row))
    return tuple(EpochRecord(row.batch, row.epochs) for _, row in validated_rows(_Row, filled, str(path)))


HOUR_S = 3600.0


@dataclass(frozen=True)
class Work:
    """The amount of training that an instance requires, and its deadline.

    Parameters
    ----------
    samples, epochs
        M samples and E epochs.
    within_h
        Deadline in hours; None: no deadline.
    microbatches
        Batches of each GPU between two exchanges of gradients.
    global_batch
        Samples of all GPUs together between two exchanges, in place of `microbatches`.
    records
        Trainings at other batch sizes, from which epochs are predicted in place of `epochs`.

    Raises
    ------
    OptionError
        If a figure is out of range.
    """

    samples: float = 1e6
    epochs: float = 1.0
    within_h: float | None = None
    microbatches: int = 8
    global_batch: int | None = None
    records: tuple[EpochRecord, ...] = ()

    def __post_init__(self) -> None:
        for name in ("samples", "epochs", "within_h", "microbatches", "global_batch"):
            value = getattr(self, name)
            if value is not None and not 0 < value <= 1e15:
                raise OptionError(
                    f"{name.removesuffix('_h')} {value:g}: must be greater than 0, at most 1e15"
                )

    @property
    def total(self) -> float:
        """Number of samples that are trained on in all epochs."""
        return self.samples * self.epochs

    @property
    def floor_samples_per_s(self) -> float | None:
        """Throughput in samples per second that the deadline requires; None without deadline."""
        return None if self.within_h is None else self.total / (self.within_h * HOUR_S)

    def batches(self, batch: int, replicas: int) -> int:
        """Return the number of batches (microbatches) that each replica processes in one step."""
        if self.global_batch is None:
            return self.microbatches
        return -(-self.global_batch // (batch * replicas))

    def divides(self, batch: int, replicas: int) -> bool:
        """Return whether the global batch suffices for one batch per replica in every step."""
        return self.global_batch is None or batch * replicas <= max(self.global_batch, batch)

    def epochs_at(self, samples: int) -> Estimate:
        """Return the epochs (in the field `seconds`) if a step has this number of samples.

        Raises
        ------
        OptionError
            If the records cannot be used.
        """
        if self.records:
            return predict_epochs(self.records, samples)
        return Estimate(self.epochs, self.epochs, self.epochs, True, "given")
