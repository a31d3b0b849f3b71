"""Large tables whose rows are much alike: rows that differ in a name alone are checked once.

A server or job among 100,000 asks for what hundreds of others ask for. One row of each sort goes the way
of all small tables; the others are copies of the object that it becomes. Fields that no rule ties to
another field may differ within a sort, and each of their cells is checked by itself.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np
from pydantic import TypeAdapter, ValidationError

from ..common.arrays import Ints
from ..common.fields import Model
from ..files.columns import Columns
from ..files.limits import MOST_ALIKE_CELLS

ModelT = TypeVar("ModelT", bound=Model)

ALIKE = 2
"""Rows of a sort on average from which on it is worth while to look for sorts."""


def read_alike(columns: Columns, model: type[ModelT], own: Mapping[str, Any]) -> list[ModelT] | None:
    """Return one object for each row of a table.

    Parameters
    ----------
    columns
        The table.
    model
        What each row is.
    own
        Type of each field that holds one cell and that no rule of the model ties to another field.

    Returns
    -------
    objects
        Objects of one sort share the values of all but their own fields. None if the table has to be read
        row by row, for it has a fault, or its rows are not alike.
    """
    if columns.cells > MOST_ALIKE_CELLS:
        return None
    own = {name: kind for name, kind in own.items() if name in columns.names}
    sort, first = _sorts(columns, own)
    if len(first) * ALIKE > len(columns):
        return None
    try:
        values = [_values(columns, name, kind) for name, kind in own.items()]
        patterns = [model.model_validate(row) for row in columns.rows(first)]
    except ValidationError:
        return None
    given = [[name in pattern.model_fields_set for name in own] for pattern in patterns]
    return [
        patterns[kind].model_copy(update=dict(itertools.compress(zip(own, cells, strict=True), given[kind])))
        for kind, *cells in zip(sort.tolist(), *values, strict=True)
    ]


def _sorts(columns: Columns, own: Mapping[str, Any]) -> tuple[Ints, Ints]:
    """Return the sort of each row, and the first row of each sort; an own field counts as given or not."""
    sort = np.zeros(len(columns), dtype=np.int64)
    for name in columns.names:
        codes = columns.given(name).astype(np.int64) if name in own else columns.distinct(name)[0] + 1
        _, sort = np.unique(sort * (int(codes.max()) + 1) + codes, return_inverse=True)
    first: Ints = np.unique(sort, return_index=True)[1]
    return sort, first


def _values(columns: Columns, name: str, kind: Any) -> list[Any]:
    """Return what the cells of an own field mean, None where there is none."""
    codes, cells = columns.distinct(name)
    adapter: TypeAdapter[tuple[Any, ...]] = TypeAdapter(tuple[kind, ...])
    values: list[Any] = np.array([*adapter.validate_python(cells), None], dtype=object)[codes].tolist()
    return values
