"""The journal of a batch: one line of JSON for each solve that ended, safe against any stop.

A line is complete or worthless: what `kill -9` cut off at the end is dropped when the journal is opened
again. The first line says what was asked, so that nobody continues something else.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import IO, Any

from ..instances.errors import InstanceError, OptionError
from ..instances.reading import fail
from .engines.record import Record
from .verification import parse_result

NAME = "journal.jsonl"


class Journal:
    """An open journal, which nobody else can open at the same time.

    Parameters
    ----------
    folder
        Where it lies; made if it is missing.
    asked
        What the batch was asked for, plain data: solver and options.
    resume
        Whether to continue the journal that is there.

    Attributes
    ----------
    finished
        The records with a result that an earlier run left, by source and solver; errors are not results.

    Raises
    ------
    OptionError
        If there is a journal and it is not to be continued, or it is one of something else, or another
        process writes it, or the folder cannot be written.
    """

    def __init__(self, folder: Path, asked: dict[str, Any], resume: bool) -> None:
        self.path = folder / NAME
        self.finished: dict[tuple[str, str], Record] = {}
        if folder.exists() and not folder.is_dir():
            raise OptionError(f"{folder}: is a file; a batch writes a folder, so give another --output")
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._file: IO[str] = self.path.open("a+", encoding="utf-8", newline="\n")
        except OSError as error:
            raise OptionError(f"{self.path}: cannot be written: {error.strerror or error}") from None
        try:
            self._lock()
            self._continue(asked, resume)
        except BaseException:
            self._file.close()
            raise

    def _lock(self) -> None:
        try:
            import fcntl
        except ImportError:
            return  # where there are no such locks, the user must take care
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise OptionError(
                f"{self.path}: another batch is writing it; wait, or give another --output"
            ) from None

    def _continue(self, asked: dict[str, Any], resume: bool) -> None:
        """Read what is there, drop a line that was cut off, and check that it is the same batch."""
        lines, end = _complete_lines(self.path)
        if lines and not resume:
            raise OptionError(
                f"{self.path}: there is a journal of {len(lines) - 1} solves; continue it with --resume, "
                "or give another --output"
            )
        self._file.truncate(end)
        if not lines:
            self._write(json.dumps({"journal": 1, "asked": asked}))
            return
        before = lines[0].get("asked")
        if before != asked:
            raise OptionError(f"{self.path}: is of another batch: {_difference(before, asked)}")
        for pair, record in _records(lines, self.path).items():
            if record.result is not None and record.result.status != "error":
                self.finished[pair] = record

    def append(self, record: Record, result: str | None) -> None:
        """Write a record, with its result as JSON; when this returns, it is on the disk."""
        head: dict[str, Any] = {"source": record.source, "solver": record.solver, "seconds": record.seconds}
        if result is None:
            self._write(json.dumps(head | {"fault": record.fault, "code": record.code}))
        else:
            self._write(f'{json.dumps(head)[:-1]}, "result": {result}}}')

    def _write(self, line: str) -> None:
        try:
            self._file.write(line + "\n")
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            raise OptionError(f"{self.path}: cannot be written: {error.strerror or error}") from None

    def close(self) -> None:
        """Close it, and let others in."""
        self._file.close()


def read_journal(folder: Path) -> dict[tuple[str, str], Record]:
    """Return what the journal in a folder tells, the last line of each source and solver.

    Raises
    ------
    InstanceError
        If it is none.
    """
    path = folder / NAME
    return _records(_complete_lines(path)[0], path)


def _records(lines: list[dict[str, Any]], path: Path) -> dict[tuple[str, str], Record]:
    found = [_read(line, f"{path}: line {number}") for number, line in enumerate(lines[1:], 2)]
    return {(record.source, record.solver): record for record in found}


def _complete_lines(path: Path) -> tuple[list[dict[str, Any]], int]:
    """Return the lines that are complete, and where the last of them ends.

    Raises
    ------
    InstanceError
        If a line in the middle is not JSON, which no stop explains.
    """
    lines: list[dict[str, Any]] = []
    end = 0
    with path.open("rb") as file:
        for number, raw in enumerate(file, 1):
            if not raw.endswith(b"\n"):
                break
            try:
                data = json.loads(raw)
            except ValueError:
                data = None
            if not isinstance(data, dict) or (number == 1 and "journal" not in data):
                raise fail(f"{path}: line {number}", "is not of a journal; give another --output")
            lines.append(data)
            end += len(raw)
    return lines, end


def _read(line: dict[str, Any], place: str) -> Record:
    try:
        source, solver, seconds = line["source"], line["solver"], line["seconds"]
        if "result" in line:
            return Record.of(source, solver, parse_result(line["result"], place), seconds)
        return Record(source, solver, None, line["fault"], line["code"], seconds)
    except (KeyError, TypeError) as error:
        raise fail(place, f"is not of a journal: {error}") from None
    except InstanceError as error:
        raise OptionError(f"{error}; remove that line, or give another --output") from None


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
