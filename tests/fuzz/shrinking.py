"""Making a failing document smaller while it still fails in the same way."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator
from typing import Any

Path = tuple[Any, ...]


def nodes(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Yield every place in plain data and what is there, outer ones first."""
    yield path, value
    if isinstance(value, dict):
        for key in list(value):
            yield from nodes(value[key], (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from nodes(item, (*path, index))


def found_at(data: Any, path: Path) -> Any:
    """Return what is at a place."""
    for step in path:
        data = data[step]
    return data


def without(data: Any, path: Path) -> Any:
    """Return a copy of the data with one entry left out."""
    copied = copy.deepcopy(data)
    del found_at(copied, path[:-1])[path[-1]]
    return copied


def replaced(data: Any, path: Path, value: Any) -> Any:
    """Return a copy of the data with another value at one place."""
    if not path:
        return value
    copied = copy.deepcopy(data)
    found_at(copied, path[:-1])[path[-1]] = value
    return copied


def simpler(number: float) -> Iterator[float]:
    """Yield numbers that are easier to read, the plainest first."""
    yield from (candidate for candidate in (0, 1, 2) if candidate != number)
    if isinstance(number, int):
        if number > 2:
            yield number // 2
            yield number - 1
        return
    for digits in (1, 2, 3, 4, 6, 9, 12):
        rounded = float(f"{number:.{digits}g}")
        if rounded != number:
            yield int(rounded) if rounded.is_integer() and abs(rounded) < 1e6 else rounded


def _smaller(data: Any) -> Iterator[Any]:
    """Yield documents with one entry less, then with one number simpler."""
    places = [path for path, _ in nodes(data) if path]
    # From the end: leaving out an entry of a list then keeps the places before it.
    for path in reversed(places):
        yield without(data, path)
    for path, value in nodes(data):
        if isinstance(value, int | float) and not isinstance(value, bool):
            for number in simpler(value):
                yield replaced(data, path, number)


def shrunk(data: Any, fails: Callable[[Any], bool], seconds: float = 60) -> Any:
    """Return the smallest document found for which `fails` still answers yes.

    Parameters
    ----------
    fails
        Answers whether a document fails as the first did; it must answer yes for `data`.
    seconds
        How long to try.
    """
    end = time.monotonic() + seconds
    progress = True
    while progress:
        progress = False
        for candidate in _smaller(data):
            if time.monotonic() > end:
                return data
            if fails(candidate):
                data, progress = candidate, True
                break
    return data
