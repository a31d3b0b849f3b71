"""Columns of a model: they accept the rows that pydantic accepts, and hold what its objects hold."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import AfterValidator, Field, ValidationError

from clusterplan.instances.common.fields import (
    NONE_NAMED,
    Amounts,
    ByCount,
    Count,
    Flag,
    Model,
    Name,
    NonNegative,
    Positive,
    validated_in_batches,
)
from clusterplan.instances.files import columnar
from clusterplan.instances.files.columnar import (
    LONGEST_NAME,
    ColumnarRows,
    Listed,
    TooManyCells,
    Unless,
    Words,
    columns_of,
    fields_of,
    written,
)
from clusterplan.instances.files.columns import Columns


class Line(Model):
    """A part of one sort: two coefficients."""

    model: Literal["line"]
    theta: tuple[NonNegative, NonNegative]


class Point(Model):
    """An entry of a list inside an entry of a list."""

    x: Count = 3
    y: Positive


class Points(Model):
    """A part of another sort."""

    model: Literal["points"]
    rows: Annotated[tuple[Point, ...], Field(min_length=1, max_length=2), validated_in_batches(2)]


class Entry(Model):
    """An entry of a list."""

    name: Name
    curve: Annotated[Line | Points, Field(discriminator="model")]


class Place(Model):
    """A part that need not be there."""

    at: Name
    level: Count = 1


class Row(Model):
    """A row with a field of every kind."""

    name: Name
    size: Positive
    weight: NonNegative | None = None
    stage: Literal["first", "last"] = "last"
    fine: Flag = False
    demand: Amounts = NONE_NAMED
    place: Place | None = None
    entries: tuple[Entry, ...] = ()


LINE = {"name": "a", "curve.model": "line", "curve.theta.0": "1", "curve.theta.1": "2"}
POINTS = {
    "name": "b",
    "curve.model": "points",
    "curve.rows.0.x": "1",
    "curve.rows.0.y": "2",
    "curve.rows.1.y": "4",
}
ROWS: list[dict[str, str | None]] = [
    {"name": "r0", "size": "1"},
    {"name": "r1", "size": "2.5", "weight": "0", "stage": "first", "fine": "TRUE", "demand.gpu": "1"},
    {"name": "'=r2", "size": "1e3", "place.at": "x", "demand.cpu": "2", "demand.gpu": "0"},
    {"name": "r3", "size": "4", **{f"entries.0.{name}": cell for name, cell in LINE.items()}},
    {
        "name": "r4",
        "size": "5",
        **{f"entries.0.{name}": cell for name, cell in POINTS.items()},
        **{f"entries.1.{name}": cell for name, cell in LINE.items()},
        **{f"entries.2.{name}": cell for name, cell in POINTS.items()},
    },
]
NAMES = sorted({name for row in ROWS for name in row})


def read(rows: list[dict[str, str | None]]) -> tuple[ColumnarRows, list[Any]]:
    """Return the columns of rows of text, and each row as an object, or None where it is invalid."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    table = pa.table({name: pa.array([row.get(name) for row in rows], pa.string()) for name in names})
    columns = Columns(table, "t", typed=False)
    objects: list[Any] = []
    for row in columns.rows():
        try:
            objects.append(Row.model_validate(row))
        except ValidationError:
            objects.append(None)
    return ColumnarRows(columns, Row), objects


def same(one: Any, other: Any) -> bool:
    """Return whether two columns have the same cells."""
    if isinstance(one, Words):
        return list(one.texts()) == list(other.texts())
    if isinstance(one, dict):
        empty = np.full(len(ROWS), np.nan)
        pairs = ((one.get(key, empty), other.get(key, empty)) for key in one | other)
        return all(same(*pair) for pair in pairs)
    return bool(np.array_equal(one, other, equal_nan=True))


CHANGES = st.tuples(
    st.integers(0, len(ROWS) - 1),
    st.sampled_from([*NAMES, "entries.3.name", "entries.1.curve.rows.2.y", "place.colour", "demand.a.b"]),
    st.sampled_from(
        [None, "0", "1", "-1", "1.5", "2e9", "1e16", "x", "first", "line", "points", "true", "a\tb"]
    ),
)


@settings(max_examples=300, deadline=None)
@given(changes=st.lists(CHANGES, max_size=3))
def test_columns_and_objects_are_one(changes: list[tuple[int, str, str | None]]) -> None:
    """A row is suspected if and only if pydantic refuses it, and the others hold the same values."""
    rows = [dict(row) for row in ROWS]
    for row, name, cell in changes:
        rows[row][name] = cell
    columns, objects = read(rows)
    for name in columns.unread:
        columns.wrong |= columns.given([name])
    assert columns.wrong.tolist() == [each is None for each in objects]
    if None not in objects:
        expected = columns_of(objects, (Row,))
        assert expected.keys() == columns.values.keys()
        assert [path for path, column in expected.items() if not same(column, columns[path])] == []


def test_entries_of_lists_are_found_by_offsets() -> None:
    """Those of one row are in a row, those of a list inside them too."""
    columns, _ = read(ROWS)
    assert columns["entries"].tolist() == [0, 0, 0, 0, 1, 4]
    assert columns["entries.name"].texts() == ["a", "b", "a", "b"]
    assert columns["entries.curve.rows"].tolist() == [0, 0, 2, 2, 4]
    assert columns["entries.curve.rows.x"].tolist() == [1, 3, 1, 3]
    assert columns.rows_of("entries.curve.rows").tolist() == [4] * 4
    columns.suspect("entries", np.array([True, False, False, False]))
    assert columns.wrong.tolist() == [False] * 3 + [True, False]


def test_fields_that_no_column_holds_are_left_out() -> None:
    """A validator that columns do not know might refuse any cell."""

    class Other(Model):
        short: Annotated[Positive, AfterValidator(lambda value: value)]
        counts: ByCount
        several: Name | tuple[Name, ...]
        size: Positive

    assert list(fields_of((Other,))) == ["size"]
    wanted = columns_of([], (Row,), ("place", "entries", "demand"))
    assert list(wanted) == ["name", "size", "weight", "stage", "fine"]


def test_names_have_a_greatest_length() -> None:
    """As in objects."""
    columns, objects = read([ROWS[0] | {"name": "x" * (LONGEST_NAME + long)} for long in (0, 1)])
    assert columns.wrong.tolist() == [False, True] == [each is None for each in objects]


def test_too_many_cells_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Entries of lists take memory for each of their fields."""
    monkeypatch.setattr(columnar, "MAX_CELLS", 60)
    read(ROWS[:1])
    with pytest.raises(TooManyCells):
        read(ROWS)


def test_lists_are_written_as_numbered_columns() -> None:
    """Columns of entries without a cell, and those with only the default, are left out."""
    entries = {
        "name": np.array(["a", "b", "c"], dtype=object),
        "size": np.array([1.0, np.nan, 2.0]),
        "weight": Unless(np.array([0.0, 0.0, 5.0]), 0.0),
        "count": np.ma.masked_array([1, 2, 3], [False, True, False]),
    }
    columns = {
        "name": ["x", None, "z"],
        "fine": Unless(np.zeros(3, dtype=bool), False),
        "last": np.full(3, np.nan),
        "entries": Listed(np.array([0, 2, 2, 3]), entries),
    }
    assert written(columns, 3).to_pydict() == {
        "name": ["x", None, "z"],
        "last": [None, None, None],
        "entries.0.name": ["a", None, "c"],
        "entries.0.size": [1, None, 2],
        "entries.0.weight": [0, None, 5],
        "entries.0.count": [1, None, 3],
        "entries.1.name": ["b", None, None],
    }
