"""Faults in the rows of CSV files, told by line and column."""

from __future__ import annotations

from pathlib import Path

from clusterplan.instances.common.errors import Fault, InstanceError
from clusterplan.instances.files.table_faults import TableFile, by_lines

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
