"""Reading JSON from files that nobody vouches for, in memory that is known before."""

from __future__ import annotations

import json
import re
import sys
from typing import Any

from ..common.printable import shown
from .limits import MOST_MEMORY, PER_BYTE

MANY_KEYS = 200_000
"""Different keys from which on each is counted with the text that it is."""
PER_VALUE, PER_OBJECT, PER_LIST, PER_NEW_KEY = 65, 65, 25, 170
"""Bytes that Python takes: for each value, more for an object or list, and more for a key of its own."""
# A text in quotes that is not closed ends with the file, so that the search never starts again inside it.
_TEXT = re.compile(r'"((?:[^"\\]++|\\.)*+)(?:"(\s*+:)?|\\?\Z)', re.DOTALL)


class TooMuchError(ValueError):
    """A text that would take too much memory."""


class _TwiceError(ValueError):
    """A key that stands twice."""


def parse_json(text: str, most_values: int | None = None) -> Any:
    """Return the data of a JSON text.

    Parameters
    ----------
    most_values
        That it may hold; by default as many as fit into the memory for a text of its length.

    Raises
    ------
    ValueError
        If it is malformed, repeats a key, or holds too much; where it is malformed, a `JSONDecodeError`.
    RecursionError
        If it is nested too deeply.
    """
    check_size(text, most_values)
    try:
        return json.loads(text, object_pairs_hook=unique_keys)
    except (_TwiceError, json.JSONDecodeError):
        raise
    except ValueError:  # a number with more digits than Python reads at once
        return json.loads(text, object_pairs_hook=unique_keys, parse_int=whole)


def whole(text: str) -> int | float:
    """Return a whole number; one with absurdly many digits is infinite, which the field then refuses."""
    return int(text) if len(text) < 400 else float("-inf" if text.startswith("-") else "inf")


def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the object of these pairs; Python's own reader would keep the last of two that share a key.

    Raises
    ------
    ValueError
        If a key stands twice.
    """
    mapping = dict(pairs)
    if len(mapping) < len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise _TwiceError(f"the key {shown(key)} stands twice; each key may stand once")
            seen.add(key)
    return mapping


def check_size(text: str, most_values: int | None = None) -> None:
    """Make sure that what a JSON text says fits into memory, before anything is made of it.

    Raises
    ------
    TooMuchError
        If it does not.
    """
    # Every value but the first has a comma or a bracket before it; those inside of texts are counted too.
    objects, lists = text.count("{"), text.count("[")
    values = text.count(",") + objects + lists
    if most_values is not None and values > most_values:
        most = f"at most {most_values:,} are read from a document"
        raise TooMuchError(f"holds about {values:,} values; {most}: put its lists into CSV or Parquet tables")
    # What is left of the memory once the text itself is held.
    room = max(MOST_MEMORY, PER_BYTE * len(text)) - (sys.getsizeof(text) - len(text))
    room -= PER_VALUE * values + PER_OBJECT * objects + PER_LIST * lists
    if room < 0 or (room < PER_NEW_KEY * text.count(":") and _has_many_keys(text)):
        raise TooMuchError(f"holds about {values:,} values, more than are read from a file of this size")


def _has_many_keys(text: str) -> bool:
    keys: set[str] = set()
    for match in _TEXT.finditer(text):
        if match[2] is not None:
            keys.add(match[1])
            if len(keys) > MANY_KEYS:
                return True
    return False
