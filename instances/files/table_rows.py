"""How the cells of a row become fields: the name of a column is the path of a field."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..common.fields import Cell
from .limits import DEEPEST_COLUMN, MOST_COLUMNS
from .reading import fail


def _place(row: dict[Any, Any], path: list[str], cell: Cell) -> None:
    """Put a cell where its column name, a path such as ``variants.0.speed.theta.2``, says."""
    here: Any = row
    for step in path[:-1]:
        here = here.setdefault(step, {})
        if not isinstance(here, dict):
            raise KeyError(step)
    here[path[-1]] = cell


def _lists(value: Any) -> Any:
    """Turn mappings whose keys are 0, 1, 2, … into lists."""
    if not isinstance(value, dict):
        return value
    if value and set(value) == {str(index) for index in range(len(value))}:
        return [_lists(value[str(index)]) for index in range(len(value))]
    return {key: _lists(item) for key, item in value.items()}


def check_header(header: list[str], source: str, where: str = "line 1") -> None:
    """Make sure that columns have names of their own.

    Raises
    ------
    InstanceError
        If there are too many, one has no name or another one's, or a name leads down too many levels.
    """
    if len(header) > MOST_COLUMNS:
        raise fail(source, f"has {len(header):,} columns; at most {MOST_COLUMNS:,} are read", where)
    if max((name.count(".") for name in header), default=0) > DEEPEST_COLUMN:
        raise fail(source, f"has a column name with more than {DEEPEST_COLUMN} dots", where)
    if len(set(header)) < len(header) or "" in header:
        raise fail(source, "has a column without a name, or two of the same name", where)


def nested_row(
    cells: Iterable[tuple[int, list[str], Any]], source: str, where: str = "line 1", lists: bool = True
) -> dict[str, Any]:
    """Return the filled cells of a row, each with its column's number and path, as a mapping of fields.

    Parameters
    ----------
    lists
        Whether a path may have a number in it, which is a place in a list.

    Raises
    ------
    InstanceError
        If a cell stands where another column has fields.
    """
    row: dict[Any, Any] = {}
    for number, path, cell in cells:
        try:
            _place(row, path, cell)
        except (KeyError, TypeError):
            raise fail(source, f"column {number} clashes with another column", where) from None
    nested: dict[str, Any] = _lists(row) if lists else row
    return nested
