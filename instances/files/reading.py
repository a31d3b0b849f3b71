"""Reading untrusted files: bytes, text, and the plain data of YAML and JSON documents."""

from __future__ import annotations

import codecs
import json
import sys
from pathlib import Path
from typing import Any, Literal

import yaml

from ..common.errors import Fault, InstanceError
from .gzip_reading import PackingError, unpacked
from .json_reading import TooMuchError, parse_json
from .limits import MOST_BYTES, MOST_YAML_BYTES, MOST_YAML_BYTES_SLOW
from .yaml_reading import HAS_C, parse_yaml

MOST_YAML = MOST_YAML_BYTES if HAS_C else MOST_YAML_BYTES_SLOW
DOCUMENT_SUFFIXES = (".yaml", ".yml", ".json")
TABLE_SUFFIXES = (".csv", ".parquet")


def fail(source: str, what: str, path: str = "") -> InstanceError:
    """Return an error that holds a single fault."""
    return InstanceError([Fault(source, path, what)])


def is_standard_input(path: Path) -> bool:
    """Return whether a path stands for standard input: ``-`` or ``/dev/stdin``."""
    return str(path) in ("-", "/dev/stdin")


def is_stream(path: Path) -> bool:
    """Return whether a path is standard input or a pipe, which is read once and lies in no folder."""
    try:
        return is_standard_input(path) or path.is_fifo()
    except OSError:  # a name that is too long, or a folder that may not be entered
        return False


def checked_file(path: Path, source: str) -> None:
    """Make sure that a path is a regular file of at most 1 GiB, a pipe or standard input.

    Raises
    ------
    InstanceError
        If it is not.
    """
    try:
        if is_stream(path):
            return
        if path.is_dir():
            raise fail(source or "''", "is a folder; give a file")
        if path.exists() and not path.is_file():
            raise fail(source, "is a device; give a file, a pipe, or - for standard input")
        if path.stat().st_size > MOST_BYTES:
            raise fail(source, "is larger than 1 GiB; split it")
    except FileNotFoundError:
        raise fail(source, "there is no such file") from None
    except (OSError, ValueError) as error:
        raise fail(source, f"cannot be read: {getattr(error, 'strerror', None) or error}") from None


def read_bytes(path: Path, source: str) -> bytes:
    """Return the bytes of a file.

    Raises
    ------
    InstanceError
        If the file is missing, unreadable or larger than 1 GiB.
    """
    checked_file(path, source)
    try:
        return _stream_bytes(path, source) if is_stream(path) else path.read_bytes()
    except OSError as error:
        raise fail(source, f"cannot be read: {error.strerror or error}") from None


def _stream_bytes(path: Path, source: str) -> bytes:
    """Return what comes through a pipe or standard input, whose size is not known before."""
    if not is_standard_input(path):
        with path.open("rb") as stream:
            raw = stream.read(MOST_BYTES + 1)
    elif sys.stdin is None:
        raise fail(source, "standard input is closed; give a file")
    else:
        raw = sys.stdin.buffer.read(MOST_BYTES + 1)
        if not raw:
            raise fail(source, "standard input is empty, or was read already; - may stand once")
    if len(raw) > MOST_BYTES:
        raise fail(source, "is larger than 1 GiB; split it")
    return raw


def text_of(raw: bytes, source: str, errors: Literal["strict", "replace"] = "strict") -> str:
    """Return bytes as text.

    Parameters
    ----------
    errors
        Whether bytes that are not UTF-8 are refused, or count as U+FFFD.

    Raises
    ------
    InstanceError
        If they are empty or not UTF-8 text.
    """
    if raw[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        raise fail(source, "is text in UTF-16; save it as UTF-8")
    try:
        text = raw.decode("utf-8-sig", errors)
    except UnicodeDecodeError as error:
        what = "is not text (UTF-8); a YAML, JSON or CSV file is needed"
        # Lines are of no use where it is no text at all, such as a picture.
        line = 1 + raw.count(b"\n", 0, error.start)
        raise fail(source, what, "" if b"\0" in raw else f"line {line}") from None
    if "\0" in text:
        raise fail(source, "is a binary file; a YAML, JSON or CSV file is needed")
    if not text.strip():
        raise fail(source, "is empty")
    return text


def read_text(path: Path, source: str | None = None, errors: Literal["strict", "replace"] = "strict") -> str:
    """Return the text of a file; one that ends in ``.gz`` is unpacked; `errors` as in `text_of`.

    Raises
    ------
    InstanceError
        If the file is missing, unreadable, empty, too large or not UTF-8 text.
    """
    source = source or str(path)
    raw = read_bytes(path, source)
    try:
        return text_of(unpacked(raw) if path.suffix == ".gz" else raw, source, errors)
    except PackingError as error:
        raise fail(source, str(error)) from None


def parse_document(
    text: str, source: str, suffix: str, most_values: int | None = None, quoting: bool = True
) -> Any:
    """Return the data of a YAML or JSON text.

    Parameters
    ----------
    most_values
        That a JSON text may hold; by default as many as fit into the memory for a text of its length.
    quoting
        Whether faults may repeat what stands in the text.

    Raises
    ------
    InstanceError
        If the text is malformed, repeats a key, nests too deeply or holds too much.
    """
    if suffix != ".json" and len(text) > MOST_YAML:
        size = f"is YAML of {len(text):,} characters; at most {MOST_YAML:,} are read"
        raise fail(source, f"{size}: write it as JSON, or move its lists to CSV or Parquet tables")
    try:
        return parse_json(text, most_values) if suffix == ".json" else parse_yaml(text)
    except RecursionError:
        raise fail(source, "is nested too deeply") from None
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise fail(source, f"is not valid JSON: {error.msg}", where) from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        problem = f": {getattr(error, 'problem', error)}" if quoting else ""
        raise fail(source, f"is not valid YAML{problem}", where) from None
    except TooMuchError as error:
        raise fail(source, str(error)) from None
    except ValueError as error:
        raise fail(source, str(error) if quoting else "repeats a key, or an alias refers to itself") from None


def read_mapping(path: Path, otherwise: str = "is not a mapping") -> dict[str, Any]:
    """Return the mapping that a JSON file holds.

    Parameters
    ----------
    otherwise
        What is said of a file that holds something else.

    Raises
    ------
    InstanceError
        If the file cannot be read, or holds no mapping.
    """
    data = parse_document(read_text(path), str(path), ".json")
    if not isinstance(data, dict):
        raise fail(str(path), otherwise)
    return data
