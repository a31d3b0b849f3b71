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


def _exists(data: Any, path: Path) -> bool:
    try:
        found_at(data, path)
    except (LookupError, TypeError):
        return False
    return True


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

    def tried(candidates: Iterator[Any]) -> Iterator[Any]:
        for candidate in candidates:
            if time.monotonic() > end:
                return
            if fails(candidate):
                yield candidate
                return

    progress = True
    while progress and time.monotonic() < end:
        progress = False
        # Outer places first, for they take the inner ones with them; of a list the last entry first.
        places = sorted(
            (path for path, _ in nodes(data) if path), key=lambda path: (len(path), -places_rank(path))
        )
        for path in places:
            if _exists(data, path):
                for smaller in tried(iter([without(data, path)])):
                    data, progress = smaller, True
        for path, value in list(nodes(data)):
            if isinstance(value, int | float) and not isinstance(value, bool):
                for smaller in tried(replaced(data, path, number) for number in simpler(value)):
                    data, progress = smaller, True
    return data


def places_rank(path: Path) -> int:
    """Return the position in its list of what is at a place; 0 in a mapping."""
    return path[-1] if isinstance(path[-1], int) else 0
