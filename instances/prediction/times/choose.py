"""The times that one has: from a GPU's name, and measurements if there are any."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..hardware import Gpu, gpu_named
from .data_sheet import DataSheetTimes
from .fitted import FittedTimes
from .measurements import Measurement, read_measurements
from .operator_times import OperatorTimes


def times_on(gpu: str | Gpu, measurements: str | Path | Sequence[Measurement] | None = None) -> OperatorTimes:
    """Return the times of operators on a GPU.

    Parameters
    ----------
    gpu
        A name of the catalogue, or a data sheet.
    measurements
        A CSV file, or measurements; without them there are the data sheet and other GPUs' coefficients.

    Raises
    ------
    OptionError
        If the GPU is not known.
    InstanceError
        If the file is wrong.
    """
    known = gpu_named(gpu) if isinstance(gpu, str) else gpu
    if measurements is None:
        return DataSheetTimes(known)
    rows = read_measurements(measurements) if isinstance(measurements, str | Path) else measurements
    return FittedTimes(known, rows)
