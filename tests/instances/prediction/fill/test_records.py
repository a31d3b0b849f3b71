"""Records of epochs at other batch sizes."""

from __future__ import annotations

from pathlib import Path

import pytest

from clusterplan.instances.common.errors import InstanceError
from clusterplan.instances.prediction.epochs import EpochRecord
from clusterplan.instances.prediction.fill.records import read_records


def test_an_empty_cell_never_met_the_target(tmp_path: Path) -> None:
    path = tmp_path / "records.csv"
    path.write_text("batch,epochs,seed\n16,3,1\n32,,1\n")
    assert read_records(path) == (EpochRecord(16, 3), EpochRecord(32, None))


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("batch\n16\n", "has no column epochs"),
        ("batch,epochs\n", "but no rows"),
        ("batch,epochs\n16,three\n", "line 2"),
        ("batch,epochs\n-1,3\n", "line 2"),
        ("batch,epochs\n,3\n", "line 2"),
        ("batch,epochs\nnan,3\n", "line 2"),
    ],
)
def test_faults_name_the_line(tmp_path: Path, text: str, what: str) -> None:
    path = tmp_path / "records.csv"
    path.write_text(text)
    with pytest.raises(InstanceError, match=what):
        read_records(path)
