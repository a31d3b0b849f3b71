"""Tables in columns: what their cells mean, typed or as text.

Cells of a row as fields.

Tables of pandas as rows of documents.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sample_documents import ALLOCATION, CONSOLIDATION

from clusterplan.instances.common.errors import InstanceError
from clusterplan.instances.common.fields import Cell
from clusterplan.instances.documents import parse_instance
from clusterplan.instances.files import columns as module
from clusterplan.instances.files.columns import Columns, check_header, frame_rows, is_frame, nested_row
from clusterplan.instances.files.reading import DEEPEST_COLUMN, MOST_COLUMNS

TEXT = Columns(
    pa.table(
        {"n": ["1", "2.5", "x", None], "f": ["TRUE", "false", "1", None], "t.0": ["'=1", "a", "a", None]}
    ),
    "t",
    typed=False,
)
TYPED = Columns(
    pa.table(
        {
            "n": pa.array([1.0, 2.5, None]),
            "f": pa.array([True, False, None]),
            "t": pa.array(["a", "b", None]).dictionary_encode(),
        }
    ),
    "t",
    typed=True,
)


def test_text_means_what_a_field_would_read() -> None:
    """Numbers, whole numbers and truth values; NaN where a cell is none."""
    assert np.array_equal(TEXT.numbers("n"), [1, 2.5, np.nan, np.nan], equal_nan=True)
    assert np.array_equal(TEXT.whole_numbers("n"), [1, np.nan, np.nan, np.nan], equal_nan=True)
    assert np.array_equal(TEXT.flags("f"), [1, 0, np.nan, np.nan], equal_nan=True)
    assert TEXT.given("n").tolist() == [True, True, True, False]
    codes, words = TEXT.texts("t.0")
    assert [words[code] if code >= 0 else None for code in codes] == ["=1", "a", "a", None]


def test_typed_cells_are_of_one_type() -> None:
    """A number is no truth value and no text."""
    assert np.array_equal(TYPED.numbers("n"), [1, 2.5, np.nan], equal_nan=True)
    assert np.array_equal(TYPED.whole_numbers("n"), [1, np.nan, np.nan], equal_nan=True)
    assert np.array_equal(TYPED.flags("f"), [1, 0, np.nan], equal_nan=True)
    assert np.isnan(TYPED.flags("n")).all()
    assert np.isnan(TYPED.numbers("f")).all()
    assert TYPED.texts("t")[0].tolist() == [0, 1, -1]
    assert TYPED.texts("n")[0].tolist() == [-1, -1, -1]


def test_rows_are_nested_and_without_empty_cells() -> None:
    """The last row of text has no cell at all; a number in a name is a place in a list."""
    rows = TEXT.rows()
    assert rows[0] == {"n": "1", "f": "TRUE", "t": ["'=1"]}
    assert isinstance(rows[0]["n"], Cell)
    assert rows[3] == {}
    assert TYPED.rows(np.array([1])) == [{"n": 2.5, "f": False, "t": "b"}]
    assert (len(TEXT.head(2)), TEXT.cells) == (2, 9)


def test_many_rows_are_not_read_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit is on rows and on filled cells."""
    monkeypatch.setattr(module, "MOST_SMALL_ROWS", 3)
    with pytest.raises(InstanceError, match="split it"):
        TEXT.rows()


def test_names_are_paths() -> None:
    """Whole numbers from 0 without a gap are a list; others stay keys."""
    cells = [(1, ["a", "b"], 1), (2, ["c", "0"], 2), (3, ["c", "1"], 3), (4, ["d", "1"], 4)]
    assert nested_row(cells, "t") == {"a": {"b": 1}, "c": [2, 3], "d": {"1": 4}}
    assert nested_row(cells[1:3], "t", lists=False) == {"c": {"0": 2, "1": 3}}


def test_two_columns_for_one_place() -> None:
    """The second one is named."""
    with pytest.raises(InstanceError, match="line 1: column 2 clashes"):
        nested_row([(1, ["a"], 1), (2, ["a", "b"], 2)], "t")


@pytest.mark.parametrize(
    "header", [["a", "a"], [""], ["a" + ".a" * (DEEPEST_COLUMN + 1)], list(map(str, range(MOST_COLUMNS + 1)))]
)
def test_headers_that_are_refused(header: list[str]) -> None:
    """Repeated, empty, too deep, too many."""
    with pytest.raises(InstanceError):
        check_header(header, "t")
    check_header(["a", "a.b"], "t")


def test_columns_are_paths_and_empty_cells_are_not_given() -> None:
    """As in a CSV file; numbers stay numbers, whole ones too."""
    frame = pd.DataFrame({"name": ["a", "b"], "x.y": [1, 2], "z": [None, 0.5], "l.0": ["p", None]})
    assert is_frame(frame)
    assert frame_rows(frame, "t") == [
        {"name": "a", "x": {"y": 1}, "l": ["p"]},
        {"name": "b", "x": {"y": 2}, "z": 0.5},
    ]


def test_missing_values_of_every_sort_are_not_given() -> None:
    frame = pd.DataFrame({"a": pd.array([1, None], dtype="Int64"), "t": pd.to_datetime(["2020-01-01", None])})
    assert [sorted(row) for row in frame_rows(frame, "t")] == [["a", "t"], []]


def test_other_values_are_left_as_they_are() -> None:
    rows = [{"name": "a"}]
    assert frame_rows(rows, "t") is rows
    assert not is_frame(rows)


def test_cells_may_be_mappings() -> None:
    assert frame_rows(pd.DataFrame({"d": [{"gpu": 1}]}), "t") == [{"d": {"gpu": 1}}]


def test_clashing_columns_are_named() -> None:
    frame = pd.DataFrame([[1, 2]], columns=["a", "a.b"])
    with pytest.raises(InstanceError, match=r"t: the table: column 2 clashes"):
        frame_rows(frame, "t")
    with pytest.raises(InstanceError, match="two of the same name"):
        frame_rows(pd.DataFrame([[1, 2]], columns=["a", "a"]), "t")


def test_a_table_may_stand_for_any_list() -> None:
    """In a document and in `replace`, which validate it."""
    servers = pd.DataFrame({"name": ["n-0", "n-1"], "capacity.gpu": [4, 4], "capacity.cpu": [8, 8]})
    same = parse_instance({**CONSOLIDATION, "servers": servers})
    assert [server.capacity for server in same.servers] == [{"gpu": 4.0, "cpu": 8.0}] * 2  # type: ignore[attr-defined]
    instance = parse_instance(ALLOCATION)
    with pytest.raises(InstanceError, match=r"jobs\[0\].weight: is -1"):
        instance.replace(jobs=pd.DataFrame({"name": ["x"], "weight": [-1]}))
