"""What was timed on the hardware at hand, read once, and refused where it cannot be seconds of that GPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median

from ...common.errors import OptionError
from ...files.reading import fail
from ..hardware import Gpu
from ..times.data_sheet import DataSheetTimes
from ..times.measurements import Measurement, read_measurements
from .rented import Rented

SLOWER, FASTER = 100.0, 20.0
"""Beyond so many times what the data sheet says, half of the times are of another unit or another machine."""


def measured_on(
    hardware: Sequence[Rented], given: Mapping[str, str | Path]
) -> dict[str, Sequence[Measurement]]:
    """Return the measurements of each name.

    Raises
    ------
    OptionError
        If a name is not in the hardware.
    InstanceError
        If a file is wrong, or its times cannot be seconds of that GPU.
    """
    gpus = {one.name: one.gpu for one in hardware}
    for name in given:
        if name not in gpus:
            known = ", ".join(gpus)
            raise OptionError(f"measurements of {name!r:.60}: not in the hardware; there are {known}")
    return {name: _plausible(gpus[name], file) for name, file in given.items()}


def _plausible(gpu: Gpu, file: str | Path) -> Sequence[Measurement]:
    rows = read_measurements(file)
    said = DataSheetTimes(gpu).predict([row.operator for row in rows])
    ratio = median(row.seconds / one.seconds for row, one in zip(rows, said, strict=True))
    if ratio > SLOWER:
        what = f"half of its times are {ratio:,.0f} times what the data sheet of {gpu.name} says, or more"
        raise fail(str(file), f"{what}; seconds are needed: are they milliseconds, or of another machine?")
    if ratio < 1 / FASTER:
        what = f"half of its times are 1/{1 / ratio:,.0f} of what the data sheet of {gpu.name} says, or less"
        raise fail(str(file), f"{what}; seconds of one call on that GPU are needed")
    return rows
