"""What consolidation brings to the floor of instances."""

from __future__ import annotations

from pathlib import Path

from clusterplan.instances.consolidation.kind import CONSOLIDATION
from clusterplan.instances.files.tables import read_table
from clusterplan.instances.references import Folder


def test_lists_that_are_no_tables_stay(tmp_path: Path) -> None:
    """Rows of a document go to the validation as they are; a tiny instance wants no tables."""
    data = {"servers": [{"name": "s"}], "jobs": []}
    assert CONSOLIDATION.resolved(data, "doc", Folder(tmp_path)) == data
    tiny = CONSOLIDATION.tiny()
    assert CONSOLIDATION.tables is not None
    assert not CONSOLIDATION.tables.wanted(tiny)
    references = CONSOLIDATION.tables.write(tiny, tmp_path / "x.yaml", "csv")
    assert references == {"servers": "x-servers.csv", "jobs": "x-jobs.csv"}
    assert len(read_table(tmp_path / "x-jobs.csv", "t")) == tiny.sizes()["jobs"]
