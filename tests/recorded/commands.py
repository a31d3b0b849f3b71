"""Commands with the files that they read: exit code, what is printed, and what is written.

A file in `given` has for each case ``arguments``, words of the command line, and ``files``, path → lines; a
case with ``hidden`` shows numbers of seconds, and versions of libraries, as ``…``, since it makes them anew.
"""

from __future__ import annotations

import os
import re
import tempfile
from functools import partial
from pathlib import Path
from unittest import mock

from command_line import run_here
from sample_pages import Page

import clusterplan

from .store import Case, Outcome, given

WIDTH = "120"
"""Columns of the terminal that tables and messages are made for."""
SECONDS = re.compile(
    r'\d[\d.,]*\s?(?:ms|s|min)\b|(?<="runtime_s":)[^,}]+|(?<="build_s":)[^,}]+| +\d+\.\d\d$', re.MULTILINE
)
"""Numbers of seconds with their units, in JSON, and in the last column of a table."""
LIBRARIES = re.compile(r'\b(python|numpy)("?:?\s?"?)\d[\w.]*')
USAGE = re.compile(r"Usage: .*?\nTry '[^']*' for help\.\n+", re.DOTALL)
"""What stands above a wrong use: it has the name of the process, and the words of the version of Typer."""


def cases(part: str, quick: int) -> list[Case]:
    """Return the cases of a part.

    Parameters
    ----------
    quick
        Every `quick`-th case is compared in the quick part too.
    """
    return [
        Case(name, partial(_outcome, **case), quick=number % quick == 0)
        for number, (name, case) in enumerate(sorted(given(part).items()))
    ]


def _outcome(arguments: list[str], files: dict[str, list[str]], hidden: bool = False) -> Outcome:
    """Run a command in a folder that has the files, and return everything that it leaves behind."""
    with tempfile.TemporaryDirectory() as name, mock.patch.dict(os.environ, {"COLUMNS": WIDTH}):
        folder = Path(name)
        for path, lines in files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text("\n".join(lines), encoding="utf-8")
        done = run_here(*arguments, cwd=folder)
        texts = {
            path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8")
            for path in sorted(folder.rglob("*"))
            if path.is_file() and path.relative_to(folder).as_posix() not in files
        }
    pages = {path: Page(text) for path, text in texts.items() if path.endswith(".html")}
    written = texts | {path: _text(page) for path, page in pages.items()}
    show = partial(_lines, name, hidden)
    found: Outcome = {
        "exit code": done.returncode,
        "stdout": show(done.stdout),
        "stderr": show(done.stderr),
        "files": {path: show(text) for path, text in written.items()},
    }
    if pages and not hidden:
        found["plots"] = {path: page.data for path, page in pages.items() if _has_plots(page)}
    return found


def _text(page: Page) -> str:
    """Return the text of a page, a line for each piece."""
    return "\n".join(" ".join(text.split()) for text in page.texts if text.strip())


def _has_plots(page: Page) -> bool:
    return any(attributes.get("id") == "data" for attributes, _ in page.raw)


def _lines(folder: str, hidden: bool, text: str) -> list[str]:
    """Return the lines of a text without what differs by folder, version or, if hidden, by run."""
    text = USAGE.sub("", text).replace(folder, "FOLDER").replace(clusterplan.__version__, "VERSION")
    return (LIBRARIES.sub(r"\1\2…", SECONDS.sub("…", text)) if hidden else text).split("\n")
