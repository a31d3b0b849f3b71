"""Measured times of operators, as the script of a measurement plan writes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ...common.errors import Fault, Faults, OptionError
from ...files.csv_tables import numbered_rows
from ...files.reading import fail, read_text
from ..operators import SHAPES, Operator

COLUMNS = ("kind", "precision", "shape", "seconds")
"""Of the CSV file; a shape is its sizes with × or x between them, such as 4096x1024x1024."""
MOST = 100_000


@dataclass(frozen=True)
class Measurement:
    """One call of an operator, and the seconds that it took."""

    operator: Operator
    seconds: float


def shape_text(shape: Sequence[int]) -> str:
    """Return a shape as the tables write it."""
    return "x".join(map(str, shape))


def read_measurements(path: str | Path) -> list[Measurement]:
    """Return the rows of a CSV file with the columns kind, precision, shape and seconds.

    Raises
    ------
    InstanceError
        If a column is missing or a row wrong; faults name the lines.
    """
    source = str(path)
    header, rows = numbered_rows(read_text(Path(path), source), source)
    missing = [name for name in COLUMNS if name not in header]
    if missing:
        raise fail(
            source, f"has no column {', '.join(missing)}; the columns are {', '.join(COLUMNS)}", "line 1"
        )
    if not rows:
        raise fail(source, "holds no measurements")
    if len(rows) > MOST:
        raise fail(source, f"has {len(rows):,} rows; at most {MOST:,} are read")
    found, faults = [], Faults()
    for line, row in rows:
        try:
            found.append(_measurement(row))
        except (OptionError, ValueError) as error:
            faults.add(Fault(source, f"line {line}", str(error)))
    faults.refuse()
    return found


def _measurement(row: Mapping[str, str]) -> Measurement:
    kind, text, seconds_text = (row.get(name, "") for name in ("kind", "shape", "seconds"))
    text = text.replace("×", "x")
    if kind not in SHAPES:
        raise OptionError(f"operator {str(kind)!r:.60}: unknown; there are {', '.join(SHAPES)}")
    sizes = text.split("x")
    if not all(size.strip().isdecimal() and len(size) < 16 for size in sizes):
        raise ValueError(f"shape is {str(text)!r:.60}; it must be whole numbers with x between them")
    try:
        seconds = float(seconds_text)
    except ValueError:
        raise ValueError(f"seconds is {str(seconds_text)!r:.60}, which is not a number") from None
    if not 0 < seconds < 1e6:
        raise ValueError(f"seconds is {seconds:g}; it must be greater than 0 and less than 1e6")
    shape = tuple(int(size) for size in sizes)
    return Measurement(Operator(str(kind), shape, precision=str(row.get("precision", ""))), seconds)
