"""Columns that remember how many of their cells are computed with at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np


class CountedColumn(np.ndarray):  # type: ignore[type-arg]
    """A column that notes the largest piece of it that a calculation took."""

    most = 0

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        """Calculate as usual, and note the size."""
        CountedColumn.most = max(CountedColumn.most, *(np.size(given) for given in inputs))
        plain = [given.view(np.ndarray) if isinstance(given, CountedColumn) else given for given in inputs]
        return getattr(ufunc, method)(*plain, **options)


def most_cells_for_a_row(table: Any) -> int:
    """Return how many cells of one column, at most, are computed with when a table makes its rows."""
    columns = {field.name: getattr(table, field.name) for field in fields(table)}
    counted = {
        name: column.view(CountedColumn) for name, column in columns.items() if isinstance(column, np.ndarray)
    }
    watched: Sequence[Any] = replace(table, **counted)
    CountedColumn.most = 0
    assert list(watched) == list(table)
    return CountedColumn.most
