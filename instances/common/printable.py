"""Text that cannot command a terminal: what is not printable is written as an escape."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

# Python's isprintable() knows all of Unicode; this pattern finds in large data what a terminal or a reader
# takes for more than a letter: controls, line ends of Unicode, and marks that turn the direction of writing.
_COMMANDS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]"
)


def visible(text: str) -> str:
    r"""Return text without control characters, as something to be read by people; new lines and tabs stay.

    Others are written as in a string of Python or JSON: ``\x1b``, or ``\u202e`` from 0x7f on, so that JSON
    still means the same.
    """
    return text if text.isprintable() else _COMMANDS.sub(_escape, text)


def one_line(text: str) -> str:
    """Return text as one line, with all white space between words as single blanks."""
    return visible(" ".join(text.split()))


def shortened(text: str, most: int = 60) -> str:
    """Return a long text cut in the end."""
    return text if len(text) <= most else text[: most - 1] + "…"


def some(names: Iterable[str], most: int = 10) -> str:
    """List the first few names."""
    listed = list(islice(names, most + 1))
    return ", ".join(listed[:most]) + (", …" if len(listed) > most else "")


def shown(value: Any, most: int = 60) -> str:
    """Return how Python writes a value, cut where it is long; only the beginning is looked at."""
    text = ""
    for piece in _written(value, most):
        text += piece
        if len(text) > most:
            return text[: most - 3] + "..."
    return text


def _written(value: Any, most: int) -> Iterator[str]:
    """Yield the text of plain data piece by piece."""
    if isinstance(value, str):
        yield repr(str(value[: most + 1]))
    elif isinstance(value, dict):
        yield "{"
        for index, (key, item) in enumerate(value.items()):
            yield ", " if index else ""
            yield from _written(key, most)
            yield ": "
            yield from _written(item, most)
        yield "}"
    elif isinstance(value, list | tuple):
        yield "[" if isinstance(value, list) else "("
        for index, item in enumerate(value):
            yield ", " if index else ""
            yield from _written(item, most)
        yield "]" if isinstance(value, list) else ")"
    else:
        yield repr(value)


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 0x7F else f"\\u{code:04x}"
