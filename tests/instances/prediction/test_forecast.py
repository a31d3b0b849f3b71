"""Names of hardware: GPUs, machines, prices, and names that nobody knows.

Files of what was timed.

Forecasts: layers share the step, memory decides what fits.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from forecasts import forecasts_on, rented

from clusterplan.instances.common.errors import InstanceError, OptionError
from clusterplan.instances.documents import load_catalogue
from clusterplan.instances.prediction.epochs import Work
from clusterplan.instances.prediction.forecast import (
    FRAMEWORK_BYTES,
    NETWORK_GBIT_PER_S,
    Forecast,
)
from clusterplan.instances.prediction.hardware import gpu_named
from clusterplan.instances.prediction.models.description import Setting, device_memory
from clusterplan.instances.prediction.operator_times import OperatorTimes
from clusterplan.instances.prediction.provisioning import CATALOGUE, Prediction, predict
from clusterplan.instances.prediction.report import (
    forecast_notes,
    launch_notes,
    pointer,
    work_assumptions,
)


def test_a_gpu_is_as_cheap_as_its_cheapest_machine() -> None:
    small, large = rented("a100-40", " A100-80 ")
    assert small.price_usd_per_hour == pytest.approx(21.957642 / 8)
    assert large.price_usd_per_hour == pytest.approx(27.44705 / 8)
    assert small.network_gbit_per_s == 400 / 8
    assert large.gpu.memory_gb == 80


def test_a_machine_of_the_price_list() -> None:
    (one,) = rented("g6.xlarge")
    assert (one.gpu.name, one.price_usd_per_hour) == ("l4", 0.8048)
    assert any("g6.xlarge" in sentence for sentence in one.notes)


def test_every_machine_that_has_the_gpu_is_known() -> None:
    (one,) = rented("l4")
    assert [server.gpus for server in one.servers] == [1, 1, 4, 8]
    assert all(server.sold == server.gpus for server in one.servers)
    (given,) = rented("l4", prices={"l4": 0.5})
    assert {(server.price_usd_per_hour, server.sold) for server in given.servers} == {(0.5, 1)}
    (unlisted,) = rented("k80")
    assert [(server.gpus, server.sold) for server in unlisted.servers] == [(8, 1)]


def test_the_gpu_of_every_machine_of_the_price_list_is_known() -> None:
    names = [machine.name for machine in load_catalogue(CATALOGUE).types if machine.gpus]
    known = {one.name: one.gpu.name for one in rented(*names)}
    assert known["p6-b200.48xlarge"] == "b200"
    assert known["p6-b300.48xlarge"] == "b300"
    assert known["g7e.2xlarge"] == "rtx-pro-6000"


def test_what_is_given_wins() -> None:
    (one,) = rented("l4", prices={"l4": 0.5}, limits={"l4": 3}, network_gbit_per_s=8)
    assert (one.price_usd_per_hour, one.limit) == (0.5, 3)
    assert one.network.seconds_per_byte == pytest.approx(1e-9)
    (same,) = rented("L4", prices={"L4": 0.5}, limits={" l4": 3}, network_gbit_per_s=8)
    assert same == one


def test_hardware_that_the_list_lacks_has_no_price() -> None:
    (one,) = rented("k80")
    assert one.price_usd_per_hour is None
    assert one.network_gbit_per_s == NETWORK_GBIT_PER_S


@pytest.mark.parametrize(
    ("names", "more", "what"),
    [
        (["h1000"], {}, "unknown"),
        ([" "], {}, "names none"),
        (["l4", "L4"], {}, "stands twice"),
        (["l4"], {"prices": {"h100": 1.0}}, "price 'h100': is not in the hardware"),
        (["l4"], {"limits": {"t4": 1}}, "limit 't4'"),
    ],
)
def test_what_is_not_known(names: list[str], more: dict[str, object], what: str) -> None:
    with pytest.raises(OptionError, match=what):
        rented(*names, **more)


def _timed(path: Path, times: float) -> Prediction:
    """Return the prediction with planned measurements of so many times what the data sheet says."""
    operators = predict("gpt2", "l4", batch=1, sequence=128)._plan()
    said = OperatorTimes(gpu_named("l4")).predict(operators)
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


def test_layers_share_the_time_of_the_step() -> None:
    found = forecasts_on("gpt2", rented("h100", "l4"), Setting(batch=2, sequence=256))
    for one in found:
        assert sum(layer.seconds for layer in one.layers) == pytest.approx(one.step.seconds)
        assert one.fits == (one.memory_bytes <= one.rented.memory_bytes)
        assert one.layers[1].output_bytes == 2 * 256 * 768 * one.element_bytes
    assert sum("90 % confidence" in line for line in forecast_notes(found)) == 2
    assert len(list(work_assumptions(Work()))) == 2


@pytest.mark.parametrize(("gpu", "tensor"), [("h100", 1), ("h100", 2), ("k80", 1)])
def test_a_gpu_is_busy_from_the_least_batch_whose_work_outlasts_its_launches(gpu: str, tensor: int) -> None:
    def at(batch: int) -> Forecast:
        (one,) = forecasts_on("gpt2", rented(gpu), Setting(batch, 64, "fp32", tensor_parallel=tensor))
        return one

    first = at(1)
    busy = first.busy_batch
    assert first.launch_bound
    assert busy is not None
    assert [at(batch).launch_bound for batch in (busy - 1, busy, 2 * busy)] == [True, False, False]
    # While it waits, a batch takes as long as another; once it is busy, larger ones take longer.
    assert at(busy - 1).step.seconds == pytest.approx(first.step.seconds)
    assert at(2 * busy).step.seconds > 1.5 * first.step.seconds
    assert [at(batch).busy_batch for batch in (busy - 1, busy)] == [busy, None]
    (line,) = launch_notes(first)
    assert f"it is busy from {busy:,} on" in line
    assert ("that 2 GPUs share" in line) == (tensor == 2)
    assert list(launch_notes(at(busy))) == []
    one = device_memory(first.model, first.setting)
    more = device_memory(first.model, replace(first.setting, batch=busy))
    assert one.activations * busy == pytest.approx(more.activations, rel=0.02)
    for room, said in ((1.05, "it is busy from"), (0.95, "on, for which its memory is too small")):
        size = (room * more.total + FRAMEWORK_BYTES) / 1e9
        small = replace(first.rented, gpu=first.rented.gpu.model_copy(update={"memory_gb": size}))
        (line,) = launch_notes(replace(first, rented=small), one)
        assert said in line


def test_faster_gpus_are_busy_later_and_take_as_long_until_then() -> None:
    slow, fast = forecasts_on("gpt2", rented("a100-80", "h100"), Setting(1, 64, "bf16"))
    assert fast.step.seconds == pytest.approx(slow.step.seconds)
    assert slow.busy_batch is not None
    assert fast.busy_batch is not None
    assert slow.busy_batch < fast.busy_batch


def test_names_in_pointers_are_escaped() -> None:
    assert pointer("a/b~c") == "a~1b~0c"
