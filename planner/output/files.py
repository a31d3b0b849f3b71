"""Writing the files of a report."""

from __future__ import annotations

import gzip
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from ...instances.common.errors import OptionError
from ...instances.common.printable import visible


def write_all(folder: Path, texts: Mapping[str, str]) -> list[Path]:
    """Write texts to files of these names in a folder, which is made if it is missing; return their paths.

    A name that ends in ``.gz`` is packed.

    Control characters are written as escapes, since files are also shown in terminals; not in pages, whose
    content policy counts every character of their scripts.

    Raises
    ------
    OptionError
        If they cannot be written.
    """
    for name, text in texts.items():
        shown = text if name.endswith(".html") else visible(text)
        if name.endswith(".gz"):
            _write_bytes(folder / name, gzip.compress(_encoded(shown), mtime=0))
        else:
            write_file(folder / name, shown)
    return [folder / name for name in texts]


def write_file(path: Path, text: str) -> None:
    """Write a text as it is to a file, whose folder is made if it is missing.

    Raises
    ------
    OptionError
        If it cannot be written.
    """
    _write_bytes(path, _encoded(text))


def _encoded(text: str) -> bytes:
    # Names in an instance may hold half of a surrogate pair, which no encoding has.
    return text.encode("utf-8", errors="backslashreplace")


def _write_bytes(path: Path, raw: bytes) -> None:
    """Write a file, whose folder is made if it is missing.

    Raises
    ------
    OptionError
        If it cannot be written.
    """
    special = path.exists() and not path.is_file()  # such as /dev/stdout, which nothing can stand in for
    kept = path.resolve()  # a link stays a link
    partial = path if special else kept.with_name(f".{kept.name}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial.write_bytes(raw)
        if not special:
            os.replace(partial, kept)  # nobody shall find half a file
    except OSError as error:
        if not special:
            with suppress(OSError):
                partial.unlink()
        where = path if error.filename in (None, str(partial)) else error.filename
        raise OptionError(f"{where}: cannot be written: {error.strerror or error}") from None
