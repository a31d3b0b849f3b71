"""Measured speeds and losses, read from untrusted CSV files; every error names the line."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Generic, TypeVar

from pydantic import Field

from ... import examples
from ...common.errors import MAX_FAULTS, Fault, InstanceError, refuse_faults, some
from ...common.faults import LONGEST_KEY, validated_rows
from ...common.fields import Model, NonNegative, Positive, PositiveCount, TaskCount
from ...files.csv_tables import numbered_rows
from ...files.reading import fail, read_text

EXAMPLE = "example:"
MAX_POINTS = 10_000


class SpeedPoint(Model):
    """One measured speed.

    Attributes
    ----------
    ps, workers
        What the job ran with; no parameter servers with ring all-reduce.
    steps_per_s
        Steps per second; with `ps_async` of all workers together.
    batch
        The global batch M of this measurement, where it is known.
    """

    ps: TaskCount = 0
    workers: Annotated[PositiveCount, Field(le=100_000)]
    steps_per_s: Annotated[Positive, Field(ge=1e-9, le=1e9)]
    batch: Annotated[Positive, Field(ge=1e-6, le=1e12)] | None = None


class LossPoint(Model):
    """One measured training loss."""

    step: NonNegative
    loss: NonNegative


PointT = TypeVar("PointT", bound=Model)


@dataclass(frozen=True)
class Measurements(Generic[PointT]):
    """Measured points, with the source and lines that error messages name.

    Parameters
    ----------
    source
        File name, or the name of the points in error messages where there is no file.
    points
        At least one.
    lines
        Line number of each point in the file; empty without a file.
    unused
        Columns of the file that are not used.
    """

    source: str
    points: tuple[PointT, ...]
    lines: tuple[int, ...] = ()
    unused: tuple[str, ...] = ()

    def place(self, index: int) -> str:
        """Return the name of one point in messages: its line in the file, or its index."""
        return f"line {self.lines[index]}" if self.lines else f"points[{index}]"

    @property
    def span(self) -> str:
        """The name of all points together in messages: a range of lines or indices."""
        first, last = self.place(0), self.place(len(self.points) - 1)
        if first == last:
            return first
        return f"lines {self.lines[0]}–{self.lines[-1]}" if self.lines else f"{first}–{last}"

    def fault(self, what: str, path: str = "") -> InstanceError:
        """Return an error about all points."""
        return fail(self.source, what, ": ".join(part for part in (self.span, path) if part))

    def fault_at(self, index: int, path: str, what: str) -> Fault:
        """Return a fault of one point, for an error about several."""
        return Fault(self.source, f"{self.place(index)}: {path}", what)

    def notes(self) -> list[str]:
        """Return a warning about the columns that are not used, if there are any."""
        if not self.unused:
            return []
        return [f"These columns of the file are not used: {some(map(repr, self.unused), 8)}."]


def measurements(
    given: str | Path | Sequence[PointT], model: type[PointT], source: str | None
) -> Measurements[PointT]:
    """Return the points of a CSV file, of a bundled one (``example:NAME.csv``), or those passed in.

    Raises
    ------
    InstanceError
        If a column is missing, a cell wrong, or there are no points or more than 10,000.
    """
    if isinstance(given, str | Path):
        return _read(_file(given, source or str(given)), model, source or str(given))
    points = Measurements(source or "measurements", tuple(given))
    _check_number(len(points.points), points.source)
    return points


def _file(given: str | Path, source: str) -> Path:
    """Return the path of a file, or of a bundled one called ``example:NAME.csv``."""
    text = str(given)
    if not text.startswith(EXAMPLE):
        return Path(given)
    folder = Path(examples.__path__[0])
    bundled = {path.name: path for path in sorted(folder.glob("synthetic-*.csv"))}
    name = text.removeprefix(EXAMPLE)
    if name not in bundled:
        raise fail(source, f"there are no such measurements; there are: {', '.join(bundled)}")
    return bundled[name]


def _check_number(number: int, source: str) -> None:
    if number == 0:
        raise fail(source, "holds no measurements")
    if number > MAX_POINTS:
        raise fail(source, f"has {number:,} rows; at most {MAX_POINTS:,} are fitted: thin or average them")


def _read(path: Path, model: type[PointT], source: str) -> Measurements[PointT]:
    header, rows = numbered_rows(read_text(path, source), source)
    _check_number(len(rows), source)
    unused = _check_columns(header, model, source)
    points = tuple(point for _, point in validated_rows(model, rows, source))
    return Measurements(source, points, tuple(line for line, _ in rows), unused)


def _check_columns(header: Sequence[str], model: type[Model], source: str) -> tuple[str, ...]:
    """Return the columns that are not used; raise if a required one is missing or one looks misspelt."""
    fields = model.model_fields
    absent = [name for name in fields if name not in header]
    unused = [name for name in header if name not in fields]
    complaints = []
    for name in unused:
        near = difflib.get_close_matches(name[:LONGEST_KEY].lower(), absent, n=1, cutoff=0.8)
        if near:
            what = f"unknown column {name[:60]!r}; did you mean {near[0]!r}?"
            complaints.append(("line 1", what))
        if len(complaints) == MAX_FAULTS:
            break
    missing = [name for name in absent if fields[name].is_required()]
    if missing:
        what = f"has no column {', '.join(missing)}; the columns are {', '.join(fields)}"
        complaints.append(("line 1", what))
    refuse_faults(source, complaints)
    return tuple(name[:60] for name in unused)
