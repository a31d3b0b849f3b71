"""What allocation brings to the floor of instances."""

from __future__ import annotations

from pathlib import Path

import pytest

from clusterplan.instances.allocation.kind import ALLOCATION
from clusterplan.instances.common.errors import OptionError
from clusterplan.instances.files import tables


def test_many_jobs_want_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """From the threshold on, and only where every resource can be a column."""
    tiny = ALLOCATION.tiny()
    assert ALLOCATION.tables is not None
    assert isinstance(tiny, ALLOCATION.model)
    assert not ALLOCATION.tables.wanted(tiny)
    monkeypatch.setattr("clusterplan.instances.allocation.kind.MANY_ROWS", 2)
    assert ALLOCATION.tables.wanted(tiny)
    dotted = tiny.model_copy(update={"resources": {"a.b": 1.0}})
    assert not ALLOCATION.tables.wanted(dotted)
    with pytest.raises(OptionError, match="dot"):
        ALLOCATION.tables.write(dotted, Path("x.yaml"), "csv")


def test_the_table_lies_beside_the_document(tmp_path: Path) -> None:
    """What refers to it is a name without a folder."""
    assert ALLOCATION.tables is not None
    references = ALLOCATION.tables.write(ALLOCATION.tiny(), tmp_path / "x.yaml", "csv")
    assert references == {"jobs": "x-jobs.csv"}
    assert len(tables.read_table(tmp_path / "x-jobs.csv", "t")) == 2
