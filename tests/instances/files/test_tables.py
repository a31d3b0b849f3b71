"""Tables as files."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from clusterplan.instances.common.errors import InstanceError, OptionError
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
