"""Type aliases of NumPy arrays, and large arrays that take little memory."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]
ShortInts = NDArray[np.int32]


def narrow(column: Ints) -> Ints:
    """Return an array of integers as 32-bit integers, which halves its memory traffic."""
    return column.astype(np.int32)


def offsets(counts: ArrayLike) -> Ints:
    """Return where each of the consecutive runs of so many rows starts; one more at the end."""
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


def run_of_each(first: Ints) -> Ints:
    """Return the index of its run for each row of the runs with these offsets."""
    return np.repeat(np.arange(len(first) - 1), np.diff(first))


def rows_of_runs(begin: Ints, end: Ints) -> tuple[Ints, Ints]:
    """Return the rows of runs, each from its begin until before its end, and the index of the run of each."""
    first = offsets(end - begin)
    run = run_of_each(first)
    return (begin - first[:-1])[run] + np.arange(len(run)), run


class NarrowFloats(NDArrayOperatorsMixin):
    """An array of floats that is stored in the narrowest type in which all its numbers are exact.

    What is read of it are floats of 64 bits, so that sums are as precise as those of a usual array. Large
    arrays should be read in parts: any other operation makes a usual array of all of it.
    """

    TYPES = (np.uint16, np.float32, np.float64)

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.stored: NDArray[Any] = np.empty(shape, self.TYPES[0])

    def __getitem__(self, rows: Any) -> Floats:
        part: Floats = self.stored[rows].astype(np.float64)
        return part

    def __setitem__(self, rows: Any, values: Floats) -> None:
        with np.errstate(invalid="ignore", over="ignore"):
            while not np.array_equal(values.astype(self.stored.dtype), values):
                wider = self.TYPES[self.TYPES.index(self.stored.dtype.type) + 1]
                self.stored = self.stored.astype(wider)
        self.stored[rows] = values

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Floats:
        return self.stored.astype(np.float64)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **more: Any) -> Any:
        if ufunc in (np.minimum, np.maximum) and method.startswith("reduce"):
            # One of the numbers, which the narrow type has too.
            return getattr(ufunc, method)(self.stored, *inputs[1:], **more).astype(np.float64)
        wide = (x[...] if isinstance(x, NarrowFloats) else x for x in inputs)
        return getattr(ufunc, method)(*wide, **more)

    def truncate(self, rows: int) -> None:
        """Keep the first rows alone."""
        self.stored = self.stored[:rows]
