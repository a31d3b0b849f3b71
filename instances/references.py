"""Files that a document refers to: where they may lie, and how they are read.

Documents are untrusted: a document may name only files beside or below itself, and an error about a file
that is no table, document or catalogue does not quote its content.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .files import tables
from .files.columns import Columns
from .files.reading import (
    DOCUMENT_SUFFIXES,
    MAX_VALUES,
    TABLE_SUFFIXES,
    checked_file,
    fail,
    is_stream,
    parse_document,
    read_text,
)

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")


@dataclass(frozen=True)
class Folder:
    """The folder to which the paths in a document are relative.

    Parameters
    ----------
    path
        Relative references start here.
    allow_outside
        Whether files may also lie elsewhere.
    """

    path: Path
    allow_outside: bool = False

    def file(self, reference: str, source: str) -> Path:
        """Return the path of a file that a document refers to.

        Raises
        ------
        InstanceError
            If it lies outside the folder, links and ``..`` followed, and may not.
        """
        if _URL.match(reference):
            raise fail(source, "is an address; only files are read: download it, and give its path")
        path = (self.path / reference).absolute()
        if self.allow_outside:
            return _refuse_pipe(path, source)
        try:
            # Links and dots are followed first, for they may lead outside.
            resolved = path.resolve()
            inside = resolved.is_relative_to(self.path.resolve())
        except (OSError, ValueError, RuntimeError):  # a loop of links, or a name that no file can have
            raise fail(source, "cannot be read: it is no path of a file") from None
        if not inside:
            what = "lies outside the folder of the document; move it there, or allow it with --allow-outside"
            raise fail(source, f"{what} (in Python: allow_outside=True)")
        return _refuse_pipe(resolved, source)


def _refuse_pipe(path: Path, source: str) -> Path:
    """Return the path of a file that a document names; refuse pipes, which could block for ever."""
    if is_stream(path):
        raise fail(source, "is a pipe or standard input, which a document cannot refer to; name a file")
    return path


def read_file(path: Path, source: str, columns: bool = False, quoting: bool = True) -> Any:
    """Return the content of a document or table file; a table of many rows as `Columns` if `columns` is set.

    Parameters
    ----------
    quoting
        Whether error messages may quote the content of the file.

    Raises
    ------
    InstanceError
        If the file cannot be read, or is neither a document nor a table.
    """
    checked_file(path, source)
    suffix = path.suffix.lower()
    if is_stream(path) and suffix not in TABLE_SUFFIXES:
        text = read_text(path, source)
        form = ".json" if text.lstrip()[:1] in ("{", "[") and suffix not in (".yaml", ".yml") else ".yaml"
        return parse_document(text, source, form, MAX_VALUES, quoting)
    if suffix in TABLE_SUFFIXES:
        return tables.read_table(path, source, columns)
    if suffix not in DOCUMENT_SUFFIXES:
        allowed = ", ".join(DOCUMENT_SUFFIXES + TABLE_SUFFIXES)
        raise fail(source, f"has the ending {suffix!r}; allowed: {allowed}")
    return parse_document(read_text(path, source), source, suffix, MAX_VALUES, quoting)


def read_list(folder: Folder, reference: str, key: str, source: str, columns: bool = False) -> Any:
    """Return the list in a file that a document refers to; the file may also hold it under `key`.

    Raises
    ------
    InstanceError
        If there is no such file that may be read, or it holds no list of things with names.
    """
    if not reference.strip():
        raise fail(source, "is empty; give a list, or the path of a file", key)
    source = f"{source}: {key}: {reference}"
    data = read_file(folder.file(reference, source), source, columns, quoting=False)
    rows = data[key] if isinstance(data, Mapping) and key in data else data
    if not _have_names(rows):
        raise fail(source, f"is not a list of {key}; its entries, or rows, need a name each")
    return rows


def _have_names(rows: Any) -> bool:
    """Return whether rows are a list of mappings with names, as every list of a document must be."""
    if isinstance(rows, Columns):
        return "name" in rows.names or "job" in rows.names
    if not isinstance(rows, list) or not all(isinstance(row, Mapping) for row in rows):
        return False
    return not rows or any("name" in row or "job" in row for row in rows)
