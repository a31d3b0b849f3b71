"""Tables in files: columns, CSV, Parquet."""

from __future__ import annotations

import csv
import random
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pydantic import create_model
from sample_documents import ALLOCATION, CONSOLIDATION

from clusterplan.instances.common.errors import Fault, InstanceError, OptionError
from clusterplan.instances.common.fields import Cell, Model
from clusterplan.instances.documents import parse_instance
from clusterplan.instances.files import columns as module
from clusterplan.instances.files import csv_tables
from clusterplan.instances.files.columns import Columns, frame_rows, is_frame, nested_row
from clusterplan.instances.files.csv_tables import (
    CsvColumns,
    TableFile,
    by_lines,
    model_rows,
    parse_table,
)
from clusterplan.instances.files.tables import can_be_columns, read_table, write_table


def test_names_that_can_be_columns() -> None:
    """Dots and numbers lead into fields, and blanks at the ends are lost."""
    assert can_be_columns(["gpu", "memory gib"])
    assert not any(can_be_columns([name]) for name in ("a.b", "0", " a"))


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_table_survives_its_file(tmp_path: Path, ending: str) -> None:
    """Text with commas, and text that a spreadsheet would take for a formula."""
    write_table(pa.table({"t": ["a, b", "'x", "1"]}), tmp_path / f"t.{ending}")
    assert read_table(tmp_path / f"t.{ending}", "t") == [{"t": "a, b"}, {"t": "'x"}, {"t": "1"}]
    write_table(pa.table({"t": ["=1"]}), tmp_path / "f.csv")
    assert (tmp_path / "f.csv").read_text().split()[1] == "'=1"


def test_what_cannot_be_written(tmp_path: Path) -> None:
    """Blanks that CSV loses, and folders that are not there."""
    with pytest.raises(OptionError, match="blank"):
        write_table(pa.table({"t": [" a"]}), tmp_path / "t.csv")
    with pytest.raises(InstanceError, match="cannot be written"):
        write_table(pa.table({"t": ["a"]}), tmp_path / "no" / "t.parquet")


def test_a_table_has_a_column_for_each_field(tmp_path: Path) -> None:
    """Others may stand beside them."""
    file = tmp_path / "t.csv"
    file.write_text("a,b\n1,2\n", encoding="utf-8")
    assert model_rows(file, create_model("A", __base__=Model, a=(str, ...))) == [(2, {"a": "1", "b": "2"})]
    file.write_text("a;b\n1;2\n", encoding="utf-8")
    with pytest.raises(InstanceError, match=r"line 1: is one column, 'a;b'; put commas between the columns"):
        model_rows(file, create_model("A", __base__=Model, a=(str, ...)))
    file.write_text("a,b\n1,2\n", encoding="utf-8")
    with pytest.raises(InstanceError, match=r"t\.csv: line 1: has no column c, d; needed: a, c, d$"):
        model_rows(file, create_model("B", __base__=Model, a=(str, ...), c=(str, ...), d=(str, ...)))


def test_a_column_may_be_missing_where_its_field_may(tmp_path: Path) -> None:
    """Rows of another length are faults, or handed over where somebody asks for them."""
    file = tmp_path / "t.csv"
    file.write_text("a\n1\n2,3\n\n4\n", encoding="utf-8")
    model = create_model("A", __base__=Model, a=(str, ...), b=(str, ""))
    misfits: list[Fault] = []
    assert model_rows(file, model, misfits) == [(2, {"a": "1"}), (5, {"a": "4"})]
    assert [(fault.path, fault.what) for fault in misfits] == [("line 3", "has 2 cells; the header has 1")]
    with pytest.raises(InstanceError, match=r"line 3: has 2 cells; the header has 1$"):
        model_rows(file, model)


@pytest.mark.parametrize("alphabet", ["ab 1.", 'ab,1"\n', "ab\r\n1"])
def test_large_tables_are_read_as_small_ones(alphabet: str) -> None:
    """Any cells, quoted where they have to be."""
    rng = random.Random(alphabet)
    for _ in range(40):
        rows = [["".join(rng.choices(alphabet, k=rng.randint(0, 4))) for _ in range(3)] for _ in range(9)]
        quoted = [
            ",".join(
                '"' + cell.replace('"', '""') + '"' if set(cell) & set(',"\r\n') else cell for cell in row
            )
            for row in rows
        ]
        text = "x,y,z\n" + "\n".join(quoted) + "\n"
        columns = CsvColumns(text.encode(), "t")
        assert columns.rows() == parse_table(text, "t")
        assert CsvColumns(text.encode(), "t").head(4).rows() == columns.rows()[:4]
        assert len(columns) == len(list(csv.reader(text.splitlines(keepends=True)))) - 1


def test_pyarrow_is_not_believed_where_it_finds_other_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """With quotes, the rows that Python finds are counted."""
    text = 'x,y\n"a,b",1\nc,2\n'
    whole = CsvColumns(text.encode(), "t").rows()
    by_arrow = CsvColumns._by_arrow
    monkeypatch.setattr(CsvColumns, "_by_arrow", lambda self, raw: by_arrow(self, raw).slice(1))  # type: ignore[union-attr]
    assert CsvColumns(text.encode(), "t").rows() == whole
    assert len(whole) < csv_tables.CHUNK


MISSING, UNKNOWN = "is missing; it must be given", "unknown key; allowed here: a"


def told(tmp_path: Path, text: str, *faults: tuple[str, str], more: int = 0) -> list[str]:
    """Return the lines of an error about the rows of a table."""
    path = tmp_path / "t.csv"
    path.write_text(text)
    error = InstanceError([Fault("d", where, what) for where, what in faults], more)
    return str(by_lines(error, {"jobs": TableFile(path, "t.csv")})).splitlines()


def test_a_row_is_told_by_its_line(tmp_path: Path) -> None:
    """Blank lines and cells of several lines count."""
    text = 'name,x\na,1\n\n"b\nb",2\nc,3\n'
    lines = told(tmp_path, text, ("jobs[0].x", "is 1"), ("jobs[1].x", "is 2"), ("jobs[2]", "is odd"))
    assert lines == ["t.csv: line 2: x: is 1", "t.csv: line 5: x: is 2", "t.csv: line 6: is odd"]


def test_a_missing_column_is_said_once(tmp_path: Path) -> None:
    """However many rows lack it, and without the count of the others."""
    faults = [(f"jobs[{row}].y", MISSING) for row in range(3)]
    assert told(tmp_path, "name\na\nb\nc\n", *faults, more=9) == [
        "t.csv: line 1: has no column y; the columns are: name"
    ]


def test_an_empty_cell_is_no_missing_column(tmp_path: Path) -> None:
    assert told(tmp_path, "name,y\na,\nb,1\n", ("jobs[0].y", MISSING)) == [f"t.csv: line 2: y: {MISSING}"]
    nested = told(tmp_path, "name,y.z\na,\nb,1\n", ("jobs[0].y", MISSING))
    assert nested == [f"t.csv: line 2: y: {MISSING}"]


def test_an_unknown_column_is_said_once(tmp_path: Path) -> None:
    faults = [(f"jobs[{row}].z", UNKNOWN) for row in range(2)]
    assert told(tmp_path, "name,z\na,1\nb,2\n", *faults) == [f"t.csv: line 1: column z: {UNKNOWN}"]


def test_what_is_wrong_alike_is_said_once_with_a_count(tmp_path: Path) -> None:
    faults = [(f"jobs[{row}].x", "is 0") for row in range(3)]
    text = "name,x\na,0\nb,0\nc,0\n"
    assert told(tmp_path, text, *faults[:2]) == ["t.csv: line 2: x: is 0 (and so in 1 more line)"]
    assert told(tmp_path, text, *faults) == ["t.csv: line 2: x: is 0 (and so in 2 more lines)"]


def test_other_faults_stay(tmp_path: Path) -> None:
    """Of the document, and of lists that are in no file."""
    faults = (("resources.gpu", "is -1"), ("servers[0].x", "is 2"), ("jobs", "is bad"))
    lines = told(tmp_path, "name\na\n", *faults, more=2)
    assert lines == [
        "d: resources.gpu: is -1",
        "d: servers[0].x: is 2",
        "d: jobs: is bad",
        "… and 2 more faults",
    ]


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
    monkeypatch.setattr(module, "MAX_SMALL_ROWS", 3)
    with pytest.raises(InstanceError, match="split it"):
        TEXT.rows()


def test_names_are_paths() -> None:
    """Whole numbers from 0 without a gap are a list; others stay keys."""
    cells = [(1, ["a", "b"], 1), (2, ["c", "0"], 2), (3, ["c", "1"], 3), (4, ["d", "1"], 4)]
    assert nested_row(cells, "t") == {"a": {"b": 1}, "c": [2, 3], "d": {"1": 4}}
    assert nested_row(cells[1:3], "t", lists=False) == {"c": {"0": 2, "1": 3}}


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
