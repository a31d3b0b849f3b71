"""The journal of a batch: one line of JSON for each solve that ended, safe against any stop.

A line is complete and unaltered, or worthless: what `kill -9` cut off at the end is dropped when the
journal is opened again, and a line whose checksum does not match does not count. The first line says what
was asked, so that nobody continues something else.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple

from ...instances.common.errors import OptionError
from ...instances.files.reading import fail
from ..exit_codes import SEVERITY
from ..verification.stored import parse_result
from .journal_lines import Line, lines, not_of_a_journal, sealed
from .record import Record

log = logging.getLogger("clusterplan")

NAME = "journal.jsonl"
VERSION = 2
"""Of the format; 1 had no checksums."""


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
        What an earlier run left, by source and solver; errors are not results, and are left out, as are
        altered lines.

    Raises
    ------
    OptionError
        If there is a journal and it is not to be continued, or it is one of something else, or another
        process writes it, or the folder cannot be written.
    InstanceError
        If it does not begin as a journal does, or its first line was altered.
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
        """Read an earlier journal, cut off an incomplete last line, and check that the batch is the same."""
        before, end = None, 0
        altered: list[Line] = []
        with self.path.open("rb") as file:
            for line in lines(file):
                end = line.offset + len(line.text)
                if line.number == 1:
                    before = _head(line, self.path)
                elif line.intact:
                    self._take(line)
                else:
                    altered.append(line)
        if before is not None and not resume:
            what = f"there is a journal of {len(self.finished)} finished solves"
            raise OptionError(f"{self.path}: {what}; continue it with --resume, or give another --output")
        self._file.truncate(end)  # a line without its end was being written when the batch stopped
        if before is None:
            self._write(json.dumps({"journal": VERSION, "asked": asked}))
        elif before.get("asked") != asked:
            what = _difference(before.get("asked"), asked)
            raise OptionError(f"{self.path}: is of another batch: {what}")
        # An altered line needs no word if a later intact one has the same pair.
        for line in altered:
            if line.data is None or line.pair not in self.finished:
                what = "was altered since it was written: its checksum does not match. It does not count"
                log.warning("%s: %s %s; what is missing is solved again", self.path, line.shown(), what)

    def _take(self, line: Line) -> None:
        """Note the place of a finished solve; a later one, or an error, replaces an earlier one."""
        if line.data is None or "journal" in line.data:
            raise not_of_a_journal(f"{self.path}: line {line.number}")
        result = line.data.get("result")
        if isinstance(result, dict) and result.get("status") != "error":
            self.finished[line.pair] = _Place(line.offset, str(result.get("instance_sha256")))
        else:
            self.finished.pop(line.pair, None)

    def read(self, pair: tuple[str, str]) -> Record:
        """Return a record that an earlier run left."""
        with self.path.open("rb") as file:
            file.seek(self.finished[pair].offset)
            line = next(lines(file), None)
        if line is None or not line.intact:
            raise fail(str(self.path), f"the line of {pair[0]} was altered while the batch ran")
        return _record(line, self.path)

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
        left = memoryview(sealed(line))
        try:
            while left:  # an unbuffered write may take only a part
                left = left[self._file.write(left) :]
            os.fsync(self._file.fileno())
        except OSError as error:
            raise self._fault(error) from None

    def close(self) -> None:
        """Close it, and let others in."""
        self._file.close()


def read_journal(folder: Path) -> Iterator[Record]:
    """Yield the records of a folder's journal from its intact lines, oldest first; of a pair the last holds.

    Raises
    ------
    InstanceError
        If it is none.
    """
    path = folder / NAME
    if not path.exists():
        return
    with path.open("rb") as file:
        for line in lines(file):
            if line.number > 1 and line.intact:
                yield _record(line, path)


def _head(line: Line, path: Path) -> dict[str, Any]:
    """Return the head of a journal, its first line.

    Raises
    ------
    InstanceError
        If it is not of a journal, or nobody can say any more what was asked.
    """
    if line.data is None or "journal" not in line.data:
        raise not_of_a_journal(f"{path}: line 1")
    if not line.intact:
        what = "was altered since it was written, or by an older version: its checksum does not match"
        raise fail(f"{path}: line 1", f"{what}, so what was asked is uncertain; give another --output")
    return line.data


def _record(line: Line, path: Path) -> Record:
    place, data = f"{path}: line {line.number}", line.data or {}
    try:
        source, solver, seconds = str(data["source"]), str(data["solver"]), float(data["seconds"])
        if "result" in data:
            return Record.of(source, solver, parse_result(data["result"], place), seconds)
        code = data["code"]
        if code not in SEVERITY:
            raise ValueError(f"there is no exit code {code!r}")
        return Record(source, solver, None, str(data["fault"]), code, seconds)
    except (KeyError, TypeError, ValueError) as error:
        raise not_of_a_journal(place, str(error)) from None


def _difference(before: Any, asked: dict[str, Any]) -> str:
    """Return how the options of the journal differ from those asked for."""
    if not isinstance(before, dict):
        return "it does not say what was asked"
    parts = [
        f"{key} was {before.get(key)!r}, now {asked.get(key)!r}"
        for key in sorted(set(before) | set(asked))
        if before.get(key) != asked.get(key)
    ]
    return "; ".join(parts) + "; ask for the same, or give another --output"
