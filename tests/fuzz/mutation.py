"""Damaging plain data: numbers, types, entries and names are altered at random places."""

from __future__ import annotations

import copy
import math
import random
from collections.abc import Callable
from typing import Any

from .shrinking import Path, found_at, nodes

EXTREMES: tuple[Any, ...] = (
    *(0, -0.0, 1, -1, 0.5, 1e-9, 1e12, -1e12, 1e15, 1e16, 1e-300, 5e-324, 1e300, 1e308, -1e308, 10**18),
    *(2**63, 10**400, -(10**400), math.nan, math.inf, -math.inf),
)
STRANGE: tuple[Any, ...] = (
    *(None, True, False, "", "nan", "inf", "-1", "1e308", "\x1b[31m", "a\nb", "\udcff", "=1+1", "é" * 300),
    *([], {}, [[]], [None], {"": 0}, {"a": {"b": []}}),
)
BY_HOW_MUCH = (1e-12, 1e-10, 1e-9, 1e-8, 1e-6, 1e-3, 0.1, 0.5, 1.0)


def _other_number(rng: random.Random, number: float) -> Any:
    chance = rng.random()
    if chance < 0.35:
        try:
            return number * (1 + rng.choice([-1, 1]) * rng.choice(BY_HOW_MUCH))
        except OverflowError:
            return 0
    if chance < 0.55 and isinstance(number, int):
        return number + rng.choice([-2, -1, 1, 2])
    if chance < 0.65:
        return -number
    return rng.choice(EXTREMES)


def _alter(rng: random.Random, data: Any, path: Path) -> None:
    """Give a place another value."""
    holder, old = found_at(data, path[:-1]), found_at(data, path)
    if isinstance(old, int | float) and not isinstance(old, bool) and rng.random() < 0.8:
        holder[path[-1]] = _other_number(rng, old)
    else:
        holder[path[-1]] = copy.deepcopy(rng.choice(STRANGE + EXTREMES))


def _delete(rng: random.Random, data: Any, path: Path) -> None:
    """Leave an entry out."""
    del rng
    del found_at(data, path[:-1])[path[-1]]


def _repeat(rng: random.Random, data: Any, path: Path) -> None:
    """Put an entry into its list again, or under another key."""
    holder = found_at(data, path[:-1])
    entry = copy.deepcopy(holder[path[-1]])
    if isinstance(holder, list):
        holder.insert(rng.randint(0, len(holder)), entry)
        if rng.random() < 0.05:
            holder.extend([entry] * 3000)
    else:
        holder[rng.choice([f"{path[-1]}2", "x", str(path[-1]).upper(), "", "a.b", 7, None])] = entry


def _transplant(rng: random.Random, data: Any, path: Path) -> None:
    """Put here what is at another place."""
    others = [other for other, _ in nodes(data) if other]
    found_at(data, path[:-1])[path[-1]] = copy.deepcopy(found_at(data, rng.choice(others)))


def _swap(rng: random.Random, data: Any, path: Path) -> None:
    """Exchange an entry with another of its list or mapping."""
    holder = found_at(data, path[:-1])
    keys = list(holder) if isinstance(holder, dict) else list(range(len(holder)))
    other = rng.choice(keys)
    holder[path[-1]], holder[other] = holder[other], holder[path[-1]]


def _nest(rng: random.Random, data: Any, path: Path) -> None:
    """Wrap an entry in lists or mappings."""
    value = found_at(data, path)
    for _ in range(rng.choice([1, 1, 2, 40, 300])):
        value = [value] if rng.random() < 0.7 else {"a": value}
    found_at(data, path[:-1])[path[-1]] = value


CHANGES: tuple[tuple[Callable[[random.Random, Any, Path], None], float], ...] = (
    (_alter, 6),
    (_delete, 2),
    (_repeat, 1),
    (_transplant, 1),
    (_swap, 1),
    (_nest, 0.3),
)


def mutated(rng: random.Random, data: Any, under: Path = ()) -> Any:
    """Return a copy of plain data with one to three changes.

    Parameters
    ----------
    under
        Only what is below this place changes.
    """
    data = copy.deepcopy(data)
    changes, weights = zip(*CHANGES, strict=True)
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        places = [(*under, *path) for path, _ in nodes(found_at(data, under)) if path]
        if not places:
            break
        change = rng.choices(changes, weights)[0]
        change(rng, data, rng.choice(places))
    return data
