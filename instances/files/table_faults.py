"""Faults in the rows of a CSV file, told by its lines; what is wrong with a whole column is said once."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from ..common.errors import Fault, InstanceError
from .csv_tables import lines_of, records
from .reading import read_text

_ROW = re.compile(r"(\w+)\[([0-9]+)\](?:\.(.*))?", re.DOTALL)


class TableFile(NamedTuple):
    """A CSV file that holds a list of a document, and what faults call it."""

    path: Path
    source: str


def by_lines(error: InstanceError, files: Mapping[str, TableFile]) -> InstanceError:
    """Return an error whose faults in the rows of CSV files name file, line and column.

    Parameters
    ----------
    files
        Key of the document → the file that holds its list, one row for each entry.
    """
    matches = [_ROW.fullmatch(fault.path) for fault in error.faults]
    last: dict[str, int] = {}
    for match in matches:
        if match is not None and match[1] in files:
            last[match[1]] = max(int(match[2]), last.get(match[1], 0))
    read = {key: _lines(files[key], row) for key, row in last.items()}
    found: dict[tuple[str, str, str], list[Fault]] = {}
    for fault, match in zip(error.faults, matches, strict=True):
        if match is None or match[1] not in read:
            found[fault.source, fault.path, fault.what] = [fault]
            continue
        header, lines = read[match[1]]
        told = _told(match[3] or "", fault.what, files[match[1]].source, header, lines[int(match[2])])
        found.setdefault((told.source, match[3] or "", told.what), []).append(told)
    faults = [_once(alike) for alike in found.values()]
    # What a missing column leaves out in every row is not counted again.
    whole = all(fault.path == "line 1" for fault in faults)
    return InstanceError(faults, 0 if whole else error.more, error.stopped and not whole)


def _lines(file: TableFile, last: int) -> tuple[list[str], list[int]]:
    """Return the header of a file and the number of each row's line, up to a row; it was read before."""
    found = records(lines_of(read_text(file.path, file.source)), file.source)
    header = [name.strip() for name in next(found)[1]]
    return header, [line for line, _ in itertools.islice(found, last + 1)]


def _told(column: str, what: str, source: str, header: list[str], line: int) -> Fault:
    """Return the fault of a row; of the header, where the column is missing or unknown."""
    if what.startswith("is missing") and not any(name.split(".")[0] == column for name in header):
        return Fault(source, "line 1", f"has no column {column}; the columns are: {', '.join(header)}")
    if what.startswith("unknown key"):
        return Fault(source, "line 1", f"column {column}: {what}")
    return Fault(source, f"line {line}" + (f": {column}" if column else ""), what)


def _once(alike: list[Fault]) -> Fault:
    """Return one fault for those that differ in their line alone."""
    first, more = alike[0], len(alike) - 1
    if not more or first.path == "line 1":
        return first
    return Fault(first.source, first.path, f"{first.what} (and so in {more} more line{'s'[: more > 1]})")
