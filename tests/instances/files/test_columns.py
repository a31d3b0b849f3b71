"""Tables in columns: what their cells mean, typed or as text."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from clusterplan.instances.common.errors import InstanceError
from clusterplan.instances.common.fields import Cell
from clusterplan.instances.files import columns as module
from clusterplan.instances.files.columns import Columns

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
