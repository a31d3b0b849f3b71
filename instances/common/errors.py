"""Errors that a user can cause and correct, and the escaping of untrusted text in messages.

Each error says what is wrong and what is allowed. Text that is not printable could control a terminal, so
that it is written as an escape. The command line loads this module when it starts: it imports no large
library.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

# Python's isprintable() knows all of Unicode; this pattern finds in large data what a terminal or a reader
# takes for more than a letter: controls, line ends of Unicode, and marks that turn the direction of writing.
_COMMANDS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]"
)


def visible(text: str) -> str:
    r"""Return text with control characters escaped for display; new lines and tabs stay.

    Others are written as in a string of Python or JSON: ``\x1b``, or ``\u202e`` from 0x7f on, so that JSON
    still means the same.
    """
    return text if text.isprintable() else _COMMANDS.sub(_escape, text)


def one_line(text: str) -> str:
    """Return text as one line, with all white space between words as single blanks."""
    return visible(" ".join(text.split()))


def shortened(text: str, most: int = 60) -> str:
    """Return a text cut at the end if it is longer than `most` characters."""
    return text if len(text) <= most else text[: most - 1] + "…"


def some(names: Iterable[str], most: int = 10) -> str:
    """Return the first few names as text, with … if there are more."""
    listed = list(islice(names, most + 1))
    return ", ".join(listed[:most]) + (", …" if len(listed) > most else "")


def first_names(names: Sequence[str], most: int) -> str:
    """Return the first few names as text, with the number of the others."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


LONGEST_SHOWN = 60
"""Limit of the characters of a value in a message."""


def shown(value: Any) -> str:
    """Return a value in Python notation, cut if it is long; only its beginning is formatted."""
    text = ""
    for piece in _written(value):
        text += piece
        if len(text) > LONGEST_SHOWN:
            return text[: LONGEST_SHOWN - 3] + "..."
    return text


def _written(value: Any) -> Iterator[str]:
    """Yield the Python notation of plain data in fragments; long strings are cut."""
    if isinstance(value, str):
        yield repr(str(value[: LONGEST_SHOWN + 1]))
    elif isinstance(value, dict):
        yield "{"
        for index, (key, item) in enumerate(value.items()):
            yield ", " if index else ""
            yield from _written(key)
            yield ": "
            yield from _written(item)
        yield "}"
    elif isinstance(value, list | tuple):
        yield "[" if isinstance(value, list) else "("
        for index, item in enumerate(value):
            yield ", " if index else ""
            yield from _written(item)
        yield "]" if isinstance(value, list) else ")"
    else:
        yield repr(value)


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 0x7F else f"\\u{code:04x}"


MAX_FAULTS = 100
"""Faults that an error names; the others are counted."""
LONGEST_PART = 2_000
"""Characters of each part of a fault."""


class ClusterplanError(Exception):
    """Base of all errors whose text is meant for the user."""


class OptionError(ClusterplanError):
    """An option, solver name or value that cannot be used as given."""


class RefusedError(OptionError):
    """A valid request that none of the named solvers or options can fulfil."""


class UnavailableError(ClusterplanError):
    """A solver or library that is known but not installed, or cannot be loaded here."""


class TooLargeError(ClusterplanError):
    """An instance whose explicit model would exceed the size limit of a method."""


class OutOfTimeError(TooLargeError):
    """Work that exceeded its time limit without a partial result."""


@dataclass(frozen=True)
class Fault:
    """One fault of an input.

    Parameters
    ----------
    source
        File name, or the name of the input where there is no file.
    path
        The place inside it, such as ``jobs[3].variants[0].speed.theta``; empty for the whole.
    what
        What is wrong and what is allowed, in one line.
    """

    source: str
    path: str
    what: str

    def __str__(self) -> str:
        parts = (self.source, self.path, self.what)
        return ": ".join(one_line(shortened(part, LONGEST_PART)) for part in parts if part)


class InstanceError(ClusterplanError):
    """An input that is not a valid document; holds the first hundred faults that were found.

    Parameters
    ----------
    faults
        At least one fault; the text of the error is one line for each.
    more
        How many more there are.
    stopped
        Whether reading stopped before the end of the input, so that the number of further faults is unknown.

    Attributes
    ----------
    faults
        The faults that the text names.
    """

    def __init__(self, faults: Iterable[Fault], more: int = 0, stopped: bool = False) -> None:
        remaining = iter(faults)
        self.faults = tuple(itertools.islice(remaining, MAX_FAULTS))
        self.more = more + sum(1 for _ in remaining)
        self.stopped = stopped
        super().__init__("\n".join([*map(str, self.faults), *self._rest()]))

    def _rest(self) -> Iterator[str]:
        if self.more:
            yield f"… and {self.more:,} more fault{'s' if self.more > 1 else ''}"
        if self.stopped:
            yield "… and perhaps more: reading stopped here"


def refuse_faults(source: str, complaints: Iterable[tuple[str, str]]) -> None:
    """Raise an `InstanceError` with one fault for each complaint, a pair of path and message.

    Raises
    ------
    InstanceError
        If there is any.
    """
    faults = [Fault(source, path, what) for path, what in complaints]
    if faults:
        raise InstanceError(faults)


def refuse_options(*rules: tuple[bool, str]) -> None:
    """Raise an `OptionError` for the first broken rule, a pair of whether it is broken and the message.

    Raises
    ------
    OptionError
        If one is broken.
    """
    for broken, what in rules:
        if broken:
            raise OptionError(what)


class Faults:
    """Collects the faults of a long input; as many are kept as an error lists, the others are counted.

    A reader calls `stop` after each fault and ends once the list is full.
    """

    def __init__(self) -> None:
        self._kept: list[Fault] = []
        self._more = 0
        self._stopped = False

    def add(self, fault: Fault) -> None:
        """Add a fault."""
        if len(self._kept) >= MAX_FAULTS:
            self._more += 1
        else:
            self._kept.append(fault)

    def add_all(self, error: InstanceError, place: str = "") -> None:
        """Add the faults of an error, with `place` before their paths."""
        for fault in error.faults:
            path = f"{place}.{fault.path}".strip(".") if place else fault.path
            self.add(Fault(fault.source, path, fault.what))
        self._more += error.more
        self._stopped |= error.stopped

    def stop(self) -> bool:
        """Return whether reading should end because the list of faults is full; the error mentions it."""
        self._stopped |= len(self._kept) >= MAX_FAULTS
        return len(self._kept) >= MAX_FAULTS

    def refuse(self) -> None:
        """Raise an error with the collected faults, if there are any.

        Raises
        ------
        InstanceError
            If there is a fault.
        """
        if self._kept:
            raise InstanceError(self._kept, self._more, self._stopped)
