"""Output without control characters, which a terminal would obey.

Names in instances, messages of plug-ins and names of files are untrusted. All that this package writes to
stdout and stderr goes through `VisibleStream`, which writes control characters as escapes. Only rich writes
past it, through `text.console`, which escapes all text before rich adds its colours.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO, cast

from ...instances.common.printable import visible


class VisibleStream:
    """A text stream that writes unprintable characters as escapes.

    Attributes
    ----------
    styled
        The stream itself, for text that is clean already and has colours.
    """

    def __init__(self, stream: TextIO) -> None:
        self.styled = stream

    def write(self, text: str) -> int:
        """Write text, made visible."""
        self.styled.write(visible(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write lines, made visible."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.styled, name)


def as_visible(stream: TextIO) -> TextIO:
    """Return a stream that escapes unprintable characters, and writes ? for letters it cannot encode."""
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors="replace")  # a name must not fail because the terminal lacks a letter
    return cast(TextIO, VisibleStream(stream))


@contextmanager
def visible_output() -> Iterator[None]:
    """Make stdout and stderr escape unprintable characters."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = map(as_visible, before)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def below(stream: Any) -> TextIO:
    """Return the stream below a `VisibleStream`; any other stream as it is."""
    found: TextIO = stream.styled if isinstance(stream, VisibleStream) else stream
    return found


def say(text: str) -> None:
    """Print a line for people on stderr."""
    print(text, file=sys.stderr)
