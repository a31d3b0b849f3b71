"""Records of trainings: how many epochs each needed at its batch size."""

from __future__ import annotations

from pathlib import Path

from ...common.errors import Fault, Faults
from ...files.csv_tables import numbered_rows
from ...files.reading import fail, read_text
from ..epochs import EpochRecord

COLUMNS = ("batch", "epochs")


def read_records(path: str | Path) -> tuple[EpochRecord, ...]:
    """Return the records of a CSV file; an empty cell of `epochs` says that the target was never met.

    Raises
    ------
    InstanceError
        If a column is missing, or a row wrong; faults name the lines.
    """
    source = str(path)
    header, rows = numbered_rows(read_text(Path(path), source), source)
    missing = [name for name in COLUMNS if name not in header]
    if missing:
        raise fail(source, f"has no column {' and no '.join(missing)}; it needs batch and epochs", "line 1")
    found, faults = [], Faults()
    for line, row in rows:
        given = (row.get("epochs") or "").strip()
        batch, epochs = _positive(row.get("batch")), _positive(given) if given else None
        if batch is None or (given and epochs is None):
            what = "batch and epochs must be numbers greater than 0 (no epochs: the target was never met)"
            faults.add(Fault(source, f"line {line}", what))
        else:
            found.append(EpochRecord(batch, epochs))
    faults.refuse()
    return tuple(found)


def _positive(text: str | None) -> float | None:
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if 0 < value <= 1e12 else None
