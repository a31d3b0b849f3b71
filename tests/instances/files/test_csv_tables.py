"""The reader of CSV tables: pyarrow and Python find the same cells.

Faults in the rows of CSV files, told by line and column.
"""

from __future__ import annotations

import csv
import random
from pathlib import Path

import pytest
from pydantic import create_model

from clusterplan.instances.common.errors import Fault, InstanceError
from clusterplan.instances.common.fields import Model
from clusterplan.instances.files import csv_tables
from clusterplan.instances.files.csv_tables import (
    CsvColumns,
    TableFile,
    by_lines,
    model_rows,
    numbered_rows,
    parse_table,
)


def test_rows_have_the_number_of_their_last_line() -> None:
    """Blank lines are passed over; a quoted cell may have several lines."""
    header, rows = numbered_rows('a, b\n1,2\n\n"x\ny",\n', "t")
    assert header == ["a", "b"]
    assert rows == [(2, {"a": "1", "b": "2"}), (5, {"a": "x\ny"})]


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


def test_names_of_columns_lead_into_fields() -> None:
    """A dot leads down, a number into a list."""
    assert parse_table("a.b,c.0,c.1\n1,2,3\n4,5,6\n", "t") == [
        {"a": {"b": "1"}, "c": ["2", "3"]},
        {"a": {"b": "4"}, "c": ["5", "6"]},
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a,b\n1\n", "line 2: has 1 cells; the header has 2"),
        ("a,a\n1,2\n", "two of the same name"),
        ("a\n", "has a header but no rows"),
        ("a,a.b\n1,2\n", "column 2 clashes"),
        ('a\n"1\n', "is not valid CSV"),
    ],
)
def test_what_is_no_table(text: str, words: str) -> None:
    """The line and what is wrong there."""
    with pytest.raises(InstanceError, match=words):
        parse_table(text, "t")


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
