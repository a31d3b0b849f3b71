"""Forecasts: layers share the step, memory decides what fits."""

from __future__ import annotations

from dataclasses import replace

import pytest

from clusterplan.instances.documents import load_catalogue
from clusterplan.instances.prediction.fill.forecast import Forecast, forecast, width
from clusterplan.instances.prediction.fill.predict import CATALOGUE
from clusterplan.instances.prediction.fill.rented import FRAMEWORK_BYTES, rented
from clusterplan.instances.prediction.fill.sentences import of_forecasts, of_launches, of_work, pointer
from clusterplan.instances.prediction.fill.work import Work
from clusterplan.instances.prediction.models.description import Setting
from clusterplan.instances.prediction.models.load import load_model
from clusterplan.instances.prediction.models.memory import device_memory


def test_layers_share_the_time_of_the_step() -> None:
    hardware = rented(["h100", "l4"], load_catalogue(CATALOGUE))
    setting = Setting(batch=2, sequence=256)
    found = forecast(load_model("gpt2"), hardware, setting)
    for one in found:
        assert sum(layer.estimate.seconds for layer in one.layers) == pytest.approx(one.step.seconds)
        assert one.samples_per_s == pytest.approx(2 / one.step.seconds)
        assert one.fits == (one.memory_bytes <= one.rented.memory_bytes)
        assert one.layers[1].output_bytes == 2 * 256 * 768 * width(setting)
    assert sum("90 % confidence" in line for line in of_forecasts(found)) == 2
    assert len(list(of_work(Work()))) == 2


@pytest.mark.parametrize(("gpu", "tensor"), [("h100", 1), ("h100", 2), ("k80", 1)])
def test_a_gpu_is_busy_from_the_least_batch_whose_work_outlasts_its_launches(gpu: str, tensor: int) -> None:
    model, hardware = load_model("gpt2"), rented([gpu], load_catalogue(CATALOGUE))

    def at(batch: int) -> Forecast:
        (one,) = forecast(model, hardware, Setting(batch, 64, "fp32", tensor_parallel=tensor))
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
    (line,) = of_launches(first)
    assert f"it is busy from {busy:,} on" in line
    assert ("that 2 GPUs share" in line) == (tensor == 2)
    assert list(of_launches(at(busy))) == []
    one = device_memory(first.model, first.setting)
    more = device_memory(first.model, replace(first.setting, batch=busy))
    assert one.activations * busy == pytest.approx(more.activations, rel=0.02)
    for room, said in ((1.05, "it is busy from"), (0.95, "on, for which its memory is too small")):
        size = (room * more.total + FRAMEWORK_BYTES) / 1e9
        small = replace(first.rented, gpu=first.rented.gpu.model_copy(update={"memory_gb": size}))
        (line,) = of_launches(replace(first, rented=small), one)
        assert said in line


def test_faster_gpus_are_busy_later_and_take_as_long_until_then() -> None:
    hardware = rented(["a100-80", "h100"], load_catalogue(CATALOGUE))
    slow, fast = forecast(load_model("gpt2"), hardware, Setting(1, 64, "bf16"))
    assert fast.step.seconds == pytest.approx(slow.step.seconds)
    assert slow.busy_batch is not None
    assert fast.busy_batch is not None
    assert slow.busy_batch < fast.busy_batch


def test_names_in_pointers_are_escaped() -> None:
    assert pointer("a/b~c") == "a~1b~0c"
