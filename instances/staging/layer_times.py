"""Times of layers as people measure them: a column TYPE_ms, TYPE_us or TYPE_s for each type of hardware."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ..common.errors import Fault, Faults
from ..common.fields import NUMBER, Cell
from ..common.printable import shown, some
from .instance import Layer

PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000}
_COLUMN = re.compile(r"(.+)_(s|ms|us)", re.DOTALL)


def with_seconds(data: dict[str, Any], source: str) -> dict[str, Any]:
    """Return a document in which such times of its layers stand in `compute_s`, in seconds.

    Raises
    ------
    InstanceError
        If a column names no type, a time stands twice, or is no number.
    """
    layers, types = data.get("layers"), data.get("types")
    if not isinstance(layers, list) or not isinstance(types, list):
        return data
    names = [str(row["name"]) for row in types if isinstance(row, Mapping) and "name" in row]
    faults = Faults()
    rows = []
    for index, row in enumerate(layers):
        timed = isinstance(row, Mapping) and [key for key in row if _is_time(key)]
        rows.append(_row(row, timed, names, Place(source, index, faults)) if timed else row)
        if faults.stop():
            break
    faults.refuse()
    return {**data, "layers": rows}


def _is_time(key: Any) -> bool:
    return isinstance(key, str) and key not in Layer.model_fields and _COLUMN.fullmatch(key) is not None


class Place:
    """Where a layer stands, for its faults."""

    def __init__(self, source: str, index: int, faults: Faults) -> None:
        self._source = source
        self._path = f"layers[{index}]"
        self._faults = faults

    def refuse(self, key: str, what: str) -> None:
        """Note what is wrong with a field."""
        self._faults.add(Fault(self._source, f"{self._path}.{key}", what))


def _row(row: Mapping[str, Any], timed: list[str], names: list[str], place: Place) -> dict[str, Any]:
    given = row.get("compute_s")
    compute: dict[str, Any] = dict(given) if isinstance(given, Mapping) else {}
    for key in timed:
        match = _COLUMN.fullmatch(key)
        assert match is not None
        # Hardware is called A100 here and a100 there; case decides only between names that differ by it.
        near = [name for name in names if name.casefold() == match[1].casefold()]
        name = match[1] if match[1] in near or not near else near[0]
        if not near:
            place.refuse(key, f"names no type {match[1]!r}; the types are: {some(names, 12)}")
        elif name in compute:
            place.refuse(key, f"is a second time on {name!r}; give one column for each type")
        else:
            compute[name] = _seconds(row[key], PER_SECOND[match[2]], key, place)
    return {key: value for key, value in row.items() if key not in timed} | {"compute_s": compute}


def _seconds(value: Any, per_second: int, key: str, place: Place) -> Any:
    if isinstance(value, Cell) and NUMBER.fullmatch(value):
        return float(value) / per_second
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value / per_second
    place.refuse(key, f"is {shown(value)}, which is not a number; write a plain number")
    return 1.0
