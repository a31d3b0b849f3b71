"""Uncertainty: between which ends figures of an instance lie, and the instances of these ends."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping, MutableSequence
from typing import Any

from .fields import Complaint, Flag, Model, Name, Positive, Text

ENDS = ("low", "middle", "high")
"""The ends of all intervals together, and what the instance itself has."""
EACH = "*"


class Uncertain(Model):
    """The interval of one figure, or of several that are too small or too large together.

    Attributes
    ----------
    figure
        Where it stands in the resolved document, as a JSON pointer (RFC 6901) such as
        ``/layers/0/compute_s/h100``; ``*`` stands for all entries of a list or mapping.
    low, high
        What the figure is multiplied by at the low and the high end. Of a time `low` is below 1; of a speed,
        which is large where times are small, above.
    inside
        Whether it was predicted inside what was measured.
    basis
        What the interval rests on.
    """

    figure: Name
    low: Positive
    high: Positive
    inside: Flag = False
    basis: Text | None = None


def scaled(document: Any, pointer: str, factor: float) -> Iterator[Complaint]:
    """Multiply the figures that a pointer names; yield what is wrong with it."""
    parts = [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")]
    if parts[0] or len(parts) < 2:
        yield pointer, "is no pointer; write such as /layers/0/compute_s/h100"
        return
    places: list[tuple[Any, Any]] = [((document,), 0)]
    for part in parts[1:]:
        places = [(inner, key) for place, at in places for inner, key in _keys(place[at], part)]
    if not places:
        yield pointer, "names no figure of the instance"
    for holder, key in places:
        value = holder[key]
        if isinstance(value, bool) or not isinstance(value, int | float):
            yield pointer, f"names {type(value).__name__}, which is no number"
            return
        holder[key] = value * factor


def _keys(holder: Any, part: str) -> list[tuple[Any, Any]]:
    """Return the entries of a list or mapping that a part of a pointer names."""
    if isinstance(holder, MutableMapping):
        keys: list[Any] = list(holder) if part == EACH else [part] if part in holder else []
    elif isinstance(holder, MutableSequence):
        indices = range(len(holder))
        keys = [index for index in indices if part in (EACH, str(index))]
    else:
        keys = []
    return [(holder, key) for key in keys]
