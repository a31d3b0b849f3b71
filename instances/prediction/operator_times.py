"""Times of operators on a GPU, predicted from its data sheet or from measurements by fitted coefficients.

The times of a family of operators have the same parts. In PALEO (Qi, Sparks & Talwalkar 2017), a time has a
part of arithmetic at a share of the peak, a part of memory at a share of its bandwidth, and a
constant for the call. Here it is their sum, t = Σ θ_k·x_k with θ ≥ 0, where the parts x are those of
`PARTS`. Matrix products are computed in tiles: rows are rounded up to whole tiles, and every tile has a
beginning and an end beside its inner loop, which is a time for each element of the result (CUTLASS,
"Efficient GEMM in CUDA"). Data that fit into the second-level cache are not read from memory again when a
call is repeated.

A call that is timed alone waits until the host has launched it. In a model the host launches while the
GPU still works on earlier calls, so that a step takes the larger of the work and the launches of all
calls (`HOST`); of each launch a part (`EXPOSED`) stays visible between two kernels.

Coefficients of the parts are fitted to measurements of one GPU, or of several together. The sum of
squared relative errors Σ (x·θ / t − 1)² is least over θ ≥ 0: non-negative least squares (Lawson & Hanson
1974) on rows divided by their measured times. Twenty measurements determine the speed of a GPU, but not all
its coefficients. So the fit is shrunk towards those of other GPUs, μ, in two steps (ridge regression;
Hoerl & Kennard 1970): to s·μ with a scale s of the arithmetic and one of the memory, and the scales to 1,

    Σ (x·θ/t − 1)² + `DRAWN`²·Σ (θ_k/μ_k − s_g(k))² + `SCALE_DRAWN`²·Σ (s_g − 1)².

For a GPU without measurements, coefficients of other GPUs are used with the peaks that it sustains
according to its data sheet. Measured times are those that the script of a measurement plan writes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
from numpy.typing import ArrayLike
from pydantic import Field
from scipy.optimize import nnls

from ..common.arrays import Floats
from ..common.errors import Fault, Faults, OptionError
from ..common.faults import validated_rows
from ..common.fields import Model, Name, Positive
from ..files.csv_tables import model_rows
from ..files.reading import fail
from .calibration import Estimate, spread_of_total
from .hardware import Gpu, powered, sustained
from .operators import SHAPES, Operator, Shape

COLUMNS = ("kind", "precision", "shape", "seconds")
"""Columns of the CSV file; a shape is its sizes with × or x between them, such as 4096x1024x1024."""
MOST = 100_000


@dataclass(frozen=True)
class Measurement:
    """A measured call of an operator, and its seconds."""

    operator: Operator
    seconds: float


class _Row(Model):
    kind: Name
    precision: Name
    shape: Shape
    seconds: Annotated[Positive, Field(lt=1e6)]


def read_measurements(path: str | Path) -> list[Measurement]:
    """Return the measurements in a CSV file with the columns kind, precision, shape and seconds.

    Raises
    ------
    InstanceError
        If a column is missing or a row wrong; faults name the lines.
    """
    source = str(path)
    rows = model_rows(Path(path), _Row)
    if len(rows) > MOST:
        raise fail(source, f"has {len(rows):,} rows; at most {MOST:,} are read")
    measured, faults = [], Faults()
    for line, row in validated_rows(_Row, rows, source):
        try:
            measured.append(Measurement(Operator(row.kind, row.shape, precision=row.precision), row.seconds))
        except OptionError as error:
            faults.add(Fault(source, f"line {line}", str(error)))
    faults.refuse()
    return measured


FAMILY: Mapping[str, str] = {
    **dict.fromkeys(SHAPES, "elementwise"),
    "linear": "linear",
    **dict.fromkeys(("bmm", "attention"), "bmm"),
    "conv": "conv",
    "layer_norm": "norm",
    "rms_norm": "norm",
    "batch_norm": "norm",
    "softmax": "softmax",
}
"""Kind of operator → family, whose measurements predict it."""
FAMILIES = tuple(dict.fromkeys(FAMILY.values()))
PARTS = ("flops", "flops, tiles of 128 rows", "flops, tiles of 64 rows", "tiles", "bytes", "uncached", "call")
"""Names of the columns of `parts`."""
ARITHMETIC = ("linear", "bmm", "conv")
"""Families with a time of arithmetic; the others are limited by memory."""
MEMORY = (4, 5)
"""Columns of the memory."""
GROUPS = ((0, 1, 2, 3), MEMORY)
"""Columns with a common scale on a GPU: arithmetic, and memory."""
_OF_PRODUCTS: Mapping[str, tuple[int, ...]] = {"linear": (0, 1, 3, 4, 6), "bmm": (0, 1, 2, 3, 4, 6)}
USED: Mapping[str, tuple[int, ...]] = {
    **dict.fromkeys(FAMILIES, (4, 5, 6)),
    **_OF_PRODUCTS,
    "conv": _OF_PRODUCTS["linear"],
}
"""Family → the columns of its times."""
INNER = 64
"""Length of the inner loop that is the unit of the time of a tile's beginning and end."""
WINOGRAD_SHARE = 0.52
"""Share of the arithmetic of a convolution that remains if the library uses Winograd's algorithm.

For kernels of 3 × 3 in steps of one, Winograd's F(2×2, 3×3) multiplies 16 times where 36 are counted, a share
of 0.44, and transforms pictures before and after (Lavin & Gray 2016). cuDNN does so for some shapes;
NeuSight's, all of this kind, take 0.52 of the time that linear layers take for as much arithmetic."""
EXPOSED = 0.2
"""Part of a launch that does not overlap with earlier work.

The best of 0, 0.1, 0.2, 0.3 and 0.4 by mean error of whole models on P100, T4, V100 and A100."""

HOST = 1.6
"""Launch time in a model relative to single calls: Python and automatic differentiation take longer.

With it, steps of vTrain on A100 that wait for the host, such as of one sample, are as long as they were
measured; without it they are a quarter shorter, and those of Sailor on GH200 a tenth."""


def parts(operators: Sequence[Operator], gpu: Gpu) -> Floats:
    """Return the terms of the time of one call of each operator, in seconds; shape (operators, terms).

    The columns are `PARTS`.

    Raises
    ------
    OptionError
        If the GPU has no peak for a precision.
    """
    rows = np.zeros((len(operators), len(PARTS)))
    for row, operator in zip(rows, operators, strict=True):
        family = FAMILY[operator.kind]
        moved = operator.bytes
        row[4:] = moved / gpu.bytes_per_s, max(moved - gpu.cache_bytes, 0.0) / gpu.bytes_per_s, 1.0
        if family in ARITHMETIC:
            peak = gpu.peak(operator.precision)
            flops, height = operator.flops / peak, _rows(operator)
            row[:3] = flops, flops * _tiled(height, 128), flops * _tiled(height, 64)
            row[3] = 2.0 * INNER * operator.outputs / peak
            if _uses_winograd(operator):
                row[:4] *= WINOGRAD_SHARE
        row[[column for column in range(len(PARTS)) if column not in USED[family]]] = 0.0
    return rows


def _uses_winograd(operator: Operator) -> bool:
    """Return whether a library may use Winograd's algorithm for an operator."""
    if operator.kind != "conv" or operator.precision != "fp32":
        return False
    kernel = operator["kernel_height"], operator["kernel_width"]
    return kernel == (3, 3) and operator["stride"] == 1 and operator["groups"] == 1


def _rows(operator: Operator) -> int:
    """Return the rows of the matrix product by which an operator is computed."""
    if operator.kind == "conv":
        return operator.outputs // operator["filters"]
    return operator["rows"]


def _tiled(rows: int, tile: int) -> float:
    """Return by which factor rounding up to whole tiles enlarges the rows of a matrix product."""
    return -(-rows // tile) * tile / rows


def queued(each: Floats, counts: Floats) -> float:
    """Return the seconds of consecutive calls: the larger of GPU work and of kernel launches."""
    return max(work_and_launches(each, counts))


def work_and_launches(each: Floats, counts: Floats) -> tuple[float, float]:
    """Return the total seconds of GPU work, and of kernel launches on the host.

    Parameters
    ----------
    each
        Seconds of each part of one call of each operator; shape (operators, parts).
    counts
        Calls of each operator; shape (operators,).
    """
    work, launches = each[:, :-1].sum(axis=1), each[:, -1]
    return float((work + EXPOSED * launches) @ counts), HOST * float(launches @ counts)


def logarithms(operator: Operator) -> tuple[float, ...]:
    """Return the features by which operators are near each other: log2 of its sizes.

    The sizes of a matrix product; the rows and width of a norm; the bytes of an elementwise operator.
    """
    family = FAMILY[operator.kind]
    if family == "elementwise":
        return (float(np.log2(operator.bytes)),)
    return tuple(float(np.log2(max(size, 1))) for size in operator.shape)


def counts_of(operators: Sequence[Operator]) -> Floats:
    """Return the number of calls of each operator; shape (operators,)."""
    return np.array([float(operator.count) for operator in operators])


SHRINKAGE = 1.0
"""Weight of the shrinkage of a coefficient to that of other GPUs, up to scale, relative to a measurement."""
SCALE_SHRINKAGE = 0.5
"""Weight of the shrinkage of the scale to 1, relative to a measurement.

The best of 0.2, 0.5, 1, 1.5, 2 and 3 by mean error of whole models on P100, T4, V100 and A100."""
LEAST_CALL = 1e-8
"""Least seconds of a call, so that contradictory measurements give no time of 0."""

PLATFORM: Mapping[str, tuple[float, ...]] = {
    "linear": (1.315, 0.02799, 0, 0.1897, 1.868, 0, 4.772e-05),
    "bmm": (0.07596, 0, 0.7936, 0.9984, 1.019, 0, 3.496e-05),
    "conv": (0, 1.637, 0, 0, 2.497, 0, 1.661e-4),
    "norm": (0, 0, 0, 0, 1.224, 0.5789, 4.704e-05),
    "softmax": (0, 0, 0, 0, 0, 1.61, 3.786e-05),
    "elementwise": (0, 0, 0, 0, 0, 1.232, 2.936e-05),
}
"""Coefficients of other GPUs, to which a fit is shrunk: fitted to the single-precision rows of NeuSight (Lee,
Phanishayee & Mahajan 2025) on P4, P100, T4, V100 and A100, all with equal weights."""

DATA_SHEETS: Mapping[str, tuple[float, ...]] = {
    **PLATFORM,
    "linear": (0.7553, 0.3867, 0, 0.6138, 0.5299, 0, 5.234e-05),
    "bmm": (0.3415, 0, 0.3849, 0.7097, 0.8665, 0, 3.732e-05),
    "conv": (0, 1.145, 0, 0, 2.163, 0, 1.93e-4),
}
"""The same for the peaks that GPUs sustain (`hardware.sustained`), for a GPU without measurements.
A fit does not need them, because its measurements reflect what the GPU sustains."""

Coefficients = Mapping[str, ArrayLike]
"""Family → coefficients, one for each of `PARTS`."""


@dataclass(frozen=True)
class Fit:
    """The coefficients fitted to one family of operators on one GPU.

    Parameters
    ----------
    theta
        The coefficients.
    points
        How many measurements there are.
    largest
        Maximum floating-point operations and bytes of measured calls.
    """

    theta: Floats
    points: int
    largest: Floats


def relative_fit(design: Floats, seconds: Floats, towards: Floats) -> Floats:
    """Return the coefficients θ ≥ 0 with the minimum sum of squared relative errors of the times.

    Parameters
    ----------
    design
        Shape (measurements, parts).
    seconds
        Shape (measurements,).
    towards
        Coefficients of other GPUs to which it is shrunk, up to scale.
    """
    drawn, to = _shrinkage_rows(towards)
    rows = np.vstack([np.pad(design / seconds[:, None], ((0, 0), (0, len(GROUPS)))), drawn])
    return least_coefficients(rows, np.append(np.ones(len(seconds)), to))[: design.shape[1]]


def _shrinkage_rows(towards: Floats) -> tuple[Floats, Floats]:
    """Return matrix rows and right-hand sides that shrink θ to scaled coefficients of other GPUs.

    The scales of `GROUPS` are additional unknowns after the coefficients; the call has no scale.
    """
    columns = np.flatnonzero(towards > 0)
    scaled = np.array([[column in group for group in GROUPS] for column in columns])
    own = np.eye(len(towards))[columns] * SHRINKAGE / towards[columns, None]
    scales = np.pad(SCALE_SHRINKAGE * np.eye(len(GROUPS)), ((0, 0), (len(towards), 0)))
    rows = np.vstack([np.hstack([own, -SHRINKAGE * scaled]), scales])
    return rows, np.append(SHRINKAGE * ~scaled.any(axis=1), np.full(len(GROUPS), SCALE_SHRINKAGE))


def least_coefficients(rows: Floats, values: Floats) -> Floats:
    """Return the non-negative least-squares solution, computed with columns scaled to equal length."""
    lengths = np.linalg.norm(rows, axis=0)
    lengths = np.where(lengths > 0, lengths, 1.0)
    solution, _ = nnls(rows / lengths, values)
    return np.asarray(solution / lengths)


def by_family(operators: Iterable[Operator]) -> dict[str, list[int]]:
    """Return operator family → indices of its operators."""
    indices: dict[str, list[int]] = {}
    for index, operator in enumerate(operators):
        indices.setdefault(FAMILY[operator.kind], []).append(index)
    return indices


def fitted(gpu: Gpu, measured: Sequence[Measurement], towards: Coefficients) -> dict[str, Fit]:
    """Return operator family → fit, for each family with measurements on a GPU."""
    operators = [measurement.operator for measurement in measured]
    fits = {}
    for family, indices in by_family(operators).items():
        chosen = [operators[index] for index in indices]
        seconds = np.array([measured[index].seconds for index in indices])
        theta = relative_fit(parts(chosen, gpu), seconds, np.asarray(towards[family]))
        theta[-1] = max(theta[-1], LEAST_CALL)
        fits[family] = Fit(theta, len(chosen), np.max([[op.flops, op.bytes] for op in chosen], axis=0))
    return fits


FEWEST = 3
"""Measurements of a family that its three coefficients need; with fewer the data sheet is used."""
MEASURED = 0.9
"""Share of a total's time that must be in measured families for the total to count as measured."""


class OperatorTimes:
    """Predicts the seconds of operators on one GPU, from its data sheet and from measurements.

    Without measurements, times are those of PALEO's roofline, with efficiencies fitted to other GPUs. With
    some, coefficients are fitted by family and precision. Families and precisions without measurements are
    predicted from the data sheet, which the basis of a total states if they take more than a tenth of it.

    Parameters
    ----------
    gpu
        The GPU on which the operators run.
    measured
        Measurements on this GPU.
    sheet, towards
        Coefficients of each family: for the data sheet, and those to which a fit is shrunk. By default they
        are those fitted to public measurements of other GPUs.
    """

    def __init__(
        self,
        gpu: Gpu,
        measured: Sequence[Measurement] = (),
        sheet: Coefficients = DATA_SHEETS,
        towards: Coefficients = PLATFORM,
    ) -> None:
        self.gpu, self.sustained, self.sheet = gpu, sustained(gpu), sheet
        self.sheet_basis = f"data sheet of {gpu.name}, at the efficiency of other GPUs"
        self.fits = {}
        self.measured = {m.operator.precision for m in measured}
        for precision in sorted(self.measured):
            own = [m for m in measured if m.operator.precision == precision]
            for family, fit in fitted(gpu, own, towards).items():
                if fit.points >= FEWEST:
                    self.fits[family, precision] = fit

    def total(self, operators: Sequence[Operator]) -> Estimate:
        """Return the predicted seconds of a whole step of these operators.

        What single repeated calls take beside the formula is not added: clocks and caches are others than in
        a model. The error of whole models on P100, T4, V100 and A100 is 3.2 % without and 3.7 % with it.

        Raises
        ------
        OptionError
            If the GPU has no peak for a precision.
        """
        rows, counts = self.seconds(operators), counts_of(operators)
        if not self.fits:
            seconds = queued(rows, counts)
            low, high = spread_of_total("data sheet", inside=False)
            return Estimate(seconds, seconds * low, seconds * high, False, self._basis(operators, 0.0))
        each = rows.sum(axis=1) * counts
        measured = each @ np.array([self._fit(op) is not None for op in operators])
        known = measured >= MEASURED * each.sum()
        inside = bool(each @ np.array([self._inside(op) for op in operators]) >= MEASURED * each.sum())
        low, high = spread_of_total("measured" if known else "data sheet", inside)
        seconds, longest = self.unthrottled_and_power_limited(operators, rows)
        basis = self._basis(operators, 1.0 if known else float(measured / each.sum()))
        return Estimate(seconds, seconds * low, longest * high, inside, basis)

    def _basis(self, operators: Sequence[Operator], share: float) -> str:
        """Return the text on what a total is based on; `share` of its time was measured."""
        if not self.measured:
            return self.sheet_basis
        used = {(FAMILY[op.kind], op.precision) for op in operators}
        count = sum(self.fits[key].points for key in used & set(self.fits))
        if not count:
            precisions = {op.precision for op in operators}
            other = "" if precisions & self.measured else f", and they are in {_listed(self.measured)}"
            return (
                f"{self.sheet_basis}; too few measurements are of this model's operators in "
                f"{_listed(precisions)}{other}"
            )
        basis = f"{count} measurements on {self.gpu.name}"
        return basis if share == 1.0 else f"{basis} for {share:.0%} of the time; else {self.sheet_basis}"

    def launch_bound(self, operators: Sequence[Operator]) -> bool:
        """Return whether launching all kernels takes the host longer than the GPU runs them."""
        work, launches = work_and_launches(self.seconds(operators), counts_of(operators))
        return launches > work

    def unthrottled_and_power_limited(
        self, operators: Sequence[Operator], rows: Floats
    ) -> tuple[float, float]:
        """Return the total seconds without and with the GPU's power limit, given those of each call.

        A few calls may be timed before the board reaches that limit. In a whole model its matrix products are
        then slower, down to the peak of `powered`. Both totals are equal if that is the full peak;
        predictions from the data sheet include the limit already.
        """
        counts, hot = counts_of(operators), rows.copy()
        known = np.array([self._fit(op) is not None for op in operators])
        arithmetic = rows[:, list(GROUPS[0])].sum(axis=1)
        peak, limited = (parts(operators, gpu)[:, 0] for gpu in (self.gpu, powered(self.gpu)))
        hot[:, 0] += known * np.maximum(limited - np.maximum(arithmetic, peak), 0.0)
        return queued(rows, counts), queued(hot, counts)

    def seconds(self, operators: Sequence[Operator]) -> Floats:
        """Return the seconds of each term of one call of each operator; shape (operators, terms)."""
        rows = parts(operators, self.sustained)
        thetas = [self.sheet[FAMILY[operator.kind]] for operator in operators]
        if self.fits:
            for index, row in enumerate(parts(operators, self.gpu)):
                if fit := self._fit(operators[index]):
                    rows[index], thetas[index] = row, fit.theta
        return np.asarray(rows * np.array(thetas).reshape(-1, len(PARTS)))

    def _fit(self, operator: Operator) -> Fit | None:
        """Return the fit of an operator's family in its precision; None if too few were measured."""
        return self.fits.get((FAMILY[operator.kind], operator.precision))

    def _inside(self, operator: Operator) -> bool:
        """Return whether an operator's operations and bytes lie within the measured range."""
        fit = self._fit(operator)
        return fit is not None and bool(np.all(np.array([operator.flops, operator.bytes]) <= fit.largest))


def _listed(precisions: Iterable[str]) -> str:
    return " and ".join(sorted(precisions))
