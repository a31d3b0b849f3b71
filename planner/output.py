"""Output to terminals and files: control characters escaped, files written whole, long lists shortened.

Names in instances, messages of plug-ins and names of files are untrusted. All that this package writes to
stdout and stderr goes through `VisibleStream`, which writes control characters as escapes, since a
terminal would obey them. Only rich writes past it, through `reports.text.console`, which escapes all text
before rich adds its colours.

Shortening takes points along a curve, so that a table still shows its shape, and the first lines of one
sort. The command line loads this module when it starts, so that it imports nothing heavy.
"""

from __future__ import annotations

import gzip
import io
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TextIO, TypeVar, cast

from ..instances.common.errors import OptionError, visible


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
        """Write text with unprintable characters escaped."""
        self.styled.write(visible(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write lines with unprintable characters escaped."""
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


def unwrapped_stream(stream: Any) -> TextIO:
    """Return the stream wrapped by a `VisibleStream`, or the stream itself if it is not wrapped."""
    unwrapped: TextIO = stream.styled if isinstance(stream, VisibleStream) else stream
    return unwrapped


def say(text: str) -> None:
    """Print a line of text on stderr."""
    print(text, file=sys.stderr)


def write_all(folder: Path, texts: Mapping[str, str]) -> list[Path]:
    """Write texts to files in a folder, created if missing, and return their paths.

    Files whose names end in ``.gz`` are compressed.

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
    """Write text unchanged to a file, and create its folder if missing.

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
    """Write a file, atomically where possible, and create its folder if missing.

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


MAX_ROWS = 40
MAX_NAMED = 20
"""Largest number of similar lines that are printed."""

PointT = TypeVar("PointT")


def thinned(points: Sequence[PointT], figures: Callable[[PointT], tuple[float, float]]) -> list[PointT]:
    """Return at most `MAX_ROWS` points of a curve, evenly spaced along it on logarithmic axes.

    Parameters
    ----------
    points
        In the order of the curve, along which both figures rise or fall.
    figures
        The two figures of a point; one that is 0 does not count.
    """
    if len(points) <= MAX_ROWS:
        return list(points)
    import numpy as np  # heavy

    with np.errstate(all="ignore"):
        logs = np.log([figures(point) for point in points])
        shares = (logs - logs[0]) / (logs[-1] - logs[0])
        known = np.isfinite(shares)
        along = np.where(known, shares, 0.0).sum(axis=1) / known.sum(axis=1)
    along = np.where(known.any(axis=1), along, np.linspace(0, 1, len(points)))
    chosen = {0, len(points) - 1}
    for index, share in enumerate(along):
        # The next point is taken once the curve has come as far as the points taken so far should reach.
        if share * (MAX_ROWS - 1) >= len(chosen) - 1:
            chosen.add(index)
    return [points[index] for index in sorted(chosen)][:MAX_ROWS]


def some_lines(lines: Sequence[str], more: str) -> Iterator[str]:
    """Yield the first `MAX_NAMED` lines, and a line with the number of the remaining ones."""
    yield from lines[:MAX_NAMED]
    if len(lines) > MAX_NAMED:
        yield more.format(len(lines) - MAX_NAMED)


KeyT = TypeVar("KeyT")
ItemT = TypeVar("ItemT")


def grouped(pairs: Iterable[tuple[KeyT, ItemT]]) -> dict[KeyT, list[ItemT]]:
    """Return the items of each key, in their order, given pairs of key and item."""
    groups: dict[KeyT, list[ItemT]] = {}
    for key, item in pairs:
        groups.setdefault(key, []).append(item)
    return groups
