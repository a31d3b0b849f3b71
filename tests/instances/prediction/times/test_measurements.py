"""The table of measurements: what the script writes is read, and what is wrong is named by its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from clusterplan.instances.common.errors import InstanceError, OptionError
from clusterplan.instances.prediction.times.choose import times_on
from clusterplan.instances.prediction.times.measurements import read_measurements

HEADER = "kind,precision,shape,seconds\n"


def test_a_table_is_read_and_used(tmp_path: Path) -> None:
    file = tmp_path / "mine.csv"
    file.write_text(HEADER + "".join(f"linear,fp32,{n}x64x64,{n * 1e-6}\n" for n in (8, 16, 32, 64)))
    rows = read_measurements(file)
    assert [row.operator.shape[0] for row in rows] == [8, 16, 32, 64]
    estimate = times_on("l4", file).predict([rows[0].operator])[0]
    assert estimate.basis == "4 measurements of linear on l4"
    assert estimate.low <= estimate.seconds <= estimate.high


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ("lstm,fp32,1x2,1", "line 2: operator 'lstm': unknown"),
        ("linear,fp32,1x2,1", "line 2: linear: has 2 sizes"),
        ("linear,fp32,1xax3,1", "line 2: shape is '1xax3'; it must be whole numbers"),
        ("linear,fp32,1x2x3,fast", "line 2: seconds is 'fast', which is not a number"),
        ("linear,fp32,1x2x3,-1", "line 2: seconds is -1; it must be greater than 0"),
        ("linear,fp32,1x2x3,nan", "line 2: seconds is nan; it must be greater than 0"),
        ("linear,fp7,1x2x3,1", "line 2: precision 'fp7': unknown"),
        ("linear,fp32,,1", "line 2: shape is ''"),
    ],
)
def test_wrong_rows_are_one_line(tmp_path: Path, row: str, says: str) -> None:
    file = tmp_path / "mine.csv"
    file.write_text(HEADER + row + "\n")
    with pytest.raises(InstanceError) as error:
        read_measurements(file)
    assert says in str(error.value)
    assert "\n" not in str(error.value)


def test_columns_and_gpus_are_checked(tmp_path: Path) -> None:
    file = tmp_path / "mine.csv"
    file.write_text("kind,shape\nlinear,1x2x3\n")
    with pytest.raises(InstanceError, match="has no column precision, seconds"):
        read_measurements(file)
    with pytest.raises(OptionError, match="GPU 'b1000': unknown"):
        times_on("b1000")
