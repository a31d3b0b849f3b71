"""Files of what was timed."""

from __future__ import annotations

from pathlib import Path

import pytest

from clusterplan.instances.common.errors import InstanceError, OptionError
from clusterplan.instances.documents import load_catalogue
from clusterplan.instances.prediction.fill.measured import measured_on
from clusterplan.instances.prediction.fill.predict import CATALOGUE, Prediction, predict
from clusterplan.instances.prediction.fill.rented import rented
from clusterplan.instances.prediction.hardware import gpu_named
from clusterplan.instances.prediction.times.data_sheet import DataSheetTimes


def _timed(path: Path, times: float) -> Prediction:
    """Return the prediction with planned measurements of so many times what the data sheet says."""
    operators = predict("gpt2", "l4", batch=1, sequence=128)._plan()
    said = DataSheetTimes(gpu_named("l4")).predict(operators)
    rows = [
        f"{op.kind},{op.precision},{'x'.join(map(str, op.shape))},{one.seconds * times}"
        for op, one in zip(operators, said, strict=True)
    ]
    path.write_text("kind,precision,shape,seconds\n" + "\n".join(rows) + "\n")
    return predict("gpt2", "l4", batch=1, sequence=128, gpus=1, measurements={"l4": path})


@pytest.mark.parametrize(
    ("times", "what"),
    [(1000.0, "1,000 times what the data sheet of l4 says.*milliseconds"), (1e-3, "1/1,000 of what")],
)
def test_other_units_than_seconds_are_refused(tmp_path: Path, times: float, what: str) -> None:
    with pytest.raises(InstanceError, match=what):
        _timed(tmp_path / "l4.csv", times)


@pytest.mark.parametrize("times", [0.5, 1.0, 5.0])
def test_slower_and_faster_machines_are_believed(tmp_path: Path, times: float) -> None:
    (row,) = _timed(tmp_path / "l4.csv", times).rows()
    assert "measurements on l4" in row["basis"]
    assert row["hours_low"] < row["hours"] < row["hours_high"]


def test_measurements_of_what_is_not_rented_are_refused() -> None:
    with pytest.raises(OptionError, match="not in the hardware"):
        predict("gpt2", "l4", measurements={"h100": "nowhere.csv"})


def test_files_are_read(tmp_path: Path) -> None:
    path = tmp_path / "l4.csv"
    path.write_text("kind,precision,shape,seconds\nlinear,fp32,1024x1024x1024,0.0002\n")
    hardware = rented(["l4"], load_catalogue(CATALOGUE))
    (row,) = measured_on(hardware, {"l4": path})["l4"]
    assert row.seconds == 0.0002
