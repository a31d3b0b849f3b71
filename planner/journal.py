"""The journal of a batch: one line of JSON for each solve that ended, safe against any stop.

A line is complete or worthless: what `kill -9` cut off at the end is dropped when the journal is opened
again. The first line says what was asked, so that nobody continues something else.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple

from ..instances.errors import OptionError
from ..instances.reading import fail
from .engines.record import Record
from .exit_codes import SEVERITY
from .verification import parse_result

NAME = "journal.jsonl"


class _Place(NamedTuple):
    """Where in a journal a finished solve stands, and of which instance it is."""

    offset: int
    instance_sha256: str


class Journal:
    """An open journal, which nobody else can open at the same time.

    Parameters
    ----------
    folder
        Where it lies; made if it is missing.
    asked
        What the batch was asked for, plain data.
    resume
        Whether to continue the journal that is there.

    Attributes
    ----------
    finished
        What an earlier run left, by source and solver; errors are not results, and are left out.

    Raises
    ------
    OptionError
        If there is a journal and it is not to be continued, or it is one of something else, or another
        process writes it, or the folder cannot be written.
    """

    def __init__(self, folder: Path, asked: dict[str, Any], resume: bool) -> None:
        self.path = folder / NAME
        self.finished: dict[tuple[str, str], _Place] = {}
        if folder.exists() and not folder.is_dir():
            raise OptionError(f"{folder}: is a file; a batch writes a folder, so give another --output")
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._file: IO[bytes] = self.path.open("a+b", buffering=0)
        except OSError as error:
            raise self._fault(error) from None
        try:
            self._lock()
            self._continue(asked, resume)
        except BaseException:
            self._file.close()
            raise

    def _fault(self, error: OSError) -> OptionError:
        return OptionError(f"{self.path}: cannot be written: {error.strerror or error}")

    def _lock(self) -> None:
        try:
            import fcntl
        except ImportError:
            return  # where there are no such locks, the user must take care
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            what = "another batch is writing it; wait, or give another --output"
            raise OptionError(f"{self.path}: {what}") from None

    def _continue(self, asked: dict[str, Any], resume: bool) -> None:
        """Read what is there, drop a line that was cut off, and check that it is the same batch."""
        before, end = None, 0
        for offset, number, line in _lines(self.path):
            end = offset + len(line)
            data = _decoded(line, self.path, number)
            if number == 1:
                before = data
                continue
            pair, result = (str(data.get("source")), str(data.get("solver"))), data.get("result")
            if isinstance(result, dict) and result.get("status") != "error":
                self.finished[pair] = _Place(offset, str(result.get("instance_sha256")))
            else:
                self.finished.pop(pair, None)
        if before is not None and not resume:
            what = f"there is a journal of {len(self.finished)} finished solves"
            raise OptionError(f"{self.path}: {what}; continue it with --resume, or give another --output")
        self._file.truncate(end)
        if before is None:
            self._write(json.dumps({"journal": 1, "asked": asked}))
        elif before.get("asked") != asked:
            what = _difference(before.get("asked"), asked)
            raise OptionError(f"{self.path}: is of another batch: {what}")

    def read(self, pair: tuple[str, str]) -> Record:
        """Return a record that an earlier run left."""
        with self.path.open("rb") as file:
            file.seek(self.finished[pair].offset)
            return _record(_decoded(file.readline(), self.path, None), str(self.path))

    def append(self, record: Record, result: str | None) -> None:
        """Write a record; when this returns, it is on the disk.

        Parameters
        ----------
        result
            Of the record, as JSON, if somebody has it already.
        """
        head: dict[str, Any] = {"source": record.source, "solver": record.solver, "seconds": record.seconds}
        if record.result is None:
            self._write(json.dumps(head | {"fault": record.fault, "code": record.code}))
        else:
            self._write(f'{json.dumps(head)[:-1]}, "result": {result or record.result.to_json()}}}')

    def _write(self, line: str) -> None:
        left = memoryview((line + "\n").encode("utf-8", "backslashreplace"))
        try:
            while left:
                left = left[self._file.write(left) :]
            os.fsync(self._file.fileno())
        except OSError as error:
            raise self._fault(error) from None

    def close(self) -> None:
        """Close it, and let others in."""
        self._file.close()


def read_journal(folder: Path) -> Iterator[Record]:
    """Yield what the journal in a folder tells, oldest first; a later record replaces an earlier one.

    Raises
    ------
    InstanceError
        If it is none.
    """
    path = folder / NAME
    for _, number, line in _lines(path) if path.exists() else ():
        if number > 1:
            yield _record(_decoded(line, path, number), f"{path}: line {number}")


def _lines(path: Path) -> Iterator[tuple[int, int, bytes]]:
    """Yield offset, number and text of each complete line."""
    offset = 0
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if not line.endswith(b"\n"):
                return
            yield offset, number, line
            offset += len(line)


def _decoded(line: bytes, path: Path, number: int | None) -> dict[str, Any]:
    """Return the data of a line.

    Raises
    ------
    InstanceError
        If it is not one of a journal, which no stop explains.
    """
    try:
        data = json.loads(line)
    except (ValueError, RecursionError):
        data = None
    if not isinstance(data, dict) or (number == 1) != ("journal" in data):
        raise fail(f"{path}: line {number}", "is not of a journal; give another --output")
    return data


def _record(line: dict[str, Any], place: str) -> Record:
    try:
        source, solver, seconds = str(line["source"]), str(line["solver"]), float(line["seconds"])
        if "result" in line:
            return Record.of(source, solver, parse_result(line["result"], place), seconds)
        code = line["code"]
        if code not in SEVERITY:
            raise ValueError(f"there is no exit code {code!r}")
        return Record(source, solver, None, str(line["fault"]), code, seconds)
    except (KeyError, TypeError, ValueError) as error:
        raise fail(place, f"is not of a journal: {error}") from None


def _difference(before: Any, asked: dict[str, Any]) -> str:
    """Say in what the batch of the journal differs from the one that is asked for."""
    if not isinstance(before, dict):
        return "it does not say what was asked"
    parts = [
        f"{key} was {before.get(key)!r}, now {asked.get(key)!r}"
        for key in sorted(set(before) | set(asked))
        if before.get(key) != asked.get(key)
    ]
    return "; ".join(parts) + "; ask for the same, or give another --output"
