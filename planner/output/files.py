"""Writing the files of a report."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from ...instances.common.errors import OptionError
from ...instances.common.printable import visible


def write_all(folder: Path, texts: Mapping[str, str]) -> list[Path]:
    """Write texts to files of these names in a folder, which is made if it is missing; return their paths.

    Control characters are written as escapes, since files are also shown in terminals; not in pages, whose
    content policy counts every character of their scripts.

    Raises
    ------
    OptionError
        If they cannot be written.
    """
    paths = [folder / name for name in texts]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, text in zip(paths, texts.values(), strict=True):
            partial = path.with_name(f".{path.name}.partial")
            kept = text if path.suffix == ".html" else visible(text)
            partial.write_text(kept, encoding="utf-8", errors="backslashreplace", newline="\n")
            os.replace(partial, path)  # nobody shall find half a file
    except OSError as error:
        where = error.filename or folder
        raise OptionError(f"{where}: cannot be written: {error.strerror or error}") from None
    return paths
