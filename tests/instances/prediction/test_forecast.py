"""Forecasts: files of what was timed; layers share the step, and memory decides what fits.

Steps on several GPUs: layers divided as evenly as can be, and each part against its formula, by hand.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from pathlib import Path

import pytest
from forecasts import forecasts_on, rented
from hypothesis import given
from hypothesis import strategies as st
from single_operators import SingleOperatorTimes

from clusterplan.instances.common.errors import InstanceError, OptionError
from clusterplan.instances.prediction.epochs import Work
from clusterplan.instances.prediction.forecast import Forecast, Parallelism, Setup, even_partition, stages_of
from clusterplan.instances.prediction.hardware import (
    FRAMEWORK_BYTES,
    LINK_LATENCY_S,
    Link,
    gpu_named,
    hierarchical_s,
    ring_s,
)
from clusterplan.instances.prediction.models.description import Setting, device_memory, held_bytes
from clusterplan.instances.prediction.models.load import load_model
from clusterplan.instances.prediction.operators import Operator
from clusterplan.instances.prediction.provisioning import Prediction, predict
from clusterplan.instances.prediction.report import forecast_notes, launch_notes, pointer, work_assumptions


def _timed(path: Path, times: float) -> Prediction:
    """Return the prediction with planned measurements of so many times what the data sheet says."""
    operators = predict("gpt2", "l4", batch=1, sequence=128)._plan()
    said = SingleOperatorTimes(gpu_named("l4")).predict(operators)
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
    one, more = (
        device_memory(first.model.layers(setting), setting)
        for setting in (first.setting, replace(first.setting, batch=busy))
    )
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


def test_words_and_product() -> None:
    way = Parallelism(2, 4, 8, zero_stage=1, recompute=True)
    assert way.gpus == 64
    assert str(way) == "tensor 2 × pipeline 4 × data 8, ZeRO 1, recomputed"
    assert str(Parallelism()) == "alone"


@pytest.mark.parametrize("wrong", [{"tensor": 0}, {"data": 10**7}, {"pipeline": -1}, {"zero_stage": 4}])
def test_what_cannot_be(wrong: dict[str, int]) -> None:
    with pytest.raises(OptionError, match="must be"):
        Parallelism(**wrong)


@given(st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=8), st.data())
def test_no_division_has_a_shorter_longest_part(times: list[float], data: st.DataObject) -> None:
    parts = data.draw(st.integers(1, len(times)))
    found = even_partition(times, parts)
    assert [index for part in found for index in range(part.start, part.stop)] == list(range(len(times)))
    assert len(found) == parts
    assert all(part.start < part.stop for part in found)
    best = min(
        max(sum(times[a:b]) for a, b in zip([0, *cuts], [*cuts, len(times)], strict=True))
        for cuts in combinations(range(1, len(times)), parts - 1)
    )
    assert max(sum(times[part]) for part in found) == pytest.approx(best)


@pytest.mark.parametrize("parts", [0, 4])
def test_each_stage_needs_a_layer(parts: int) -> None:
    with pytest.raises(OptionError, match="has 3 layers"):
        even_partition([1.0, 2.0, 3.0], parts)


BATCHES = 4
MODEL = load_model("gpt2")


def _step_forecast(tensor: int = 1) -> Forecast:
    (found,) = forecasts_on("gpt2", rented("a100-40"), Setting(2, 256, tensor_parallel=tensor))
    return found


def test_stages_hold_what_their_layers_do() -> None:
    one = _step_forecast(2)
    stages = stages_of(one, 3, recompute=False)
    assert sum(stage.compute_s for stage in stages) == pytest.approx(one.step.seconds)
    assert sum(stage.parameters for stage in stages) == sum(row.layer.parameters for row in one.layers)
    # Two sums in each pass of each of twelve blocks, and those of the embedding.
    assert sum(times for stage in stages for _, times in stage.reductions) == 2 * (12 * 2 + 1)


def test_recomputation_runs_forward_again_and_keeps_inputs() -> None:
    one = _step_forecast()
    (plain,), (again,) = stages_of(one, 1, recompute=False), stages_of(one, 1, recompute=True)
    forward = sum(row.forward_s for row in one.layers)
    assert again.compute_s == pytest.approx(plain.compute_s + forward)
    assert 0.2 < forward / plain.compute_s < 0.5
    assert again.waiting_bytes + again.working_bytes < plain.waiting_bytes


def _setup(way: Parallelism) -> Setup:
    one = _step_forecast(way.tensor)
    server = one.rented.servers[0]
    return Setup(one, server, stages_of(one, way.pipeline, way.recompute), way, BATCHES)


def test_one_gpu_computes_and_updates() -> None:
    found = _setup(Parallelism()).forecast()
    one = _step_forecast()
    assert found.compute_s == pytest.approx(BATCHES * one.step.seconds)
    assert found.waiting_s == found.communication_s == 0.0
    # Adam reads and writes two numbers and the parameter, and reads the gradient: 28 bytes each.
    adds = [Operator("add", (size, 1)) for size in (10**9, 2 * 10**9)]
    small, large = SingleOperatorTimes(gpu_named("a100-40")).predict(adds)
    per_byte = (large.seconds - small.seconds) / (adds[1].bytes - adds[0].bytes)
    assert found.update_s == pytest.approx(per_byte * 28 * MODEL.parameters())
    assert found.samples == 2 * BATCHES
    low, high = one.factors
    assert found.step.low == pytest.approx(low * found.step.seconds)
    assert found.step.high == pytest.approx(high * found.step.seconds)


@pytest.mark.parametrize("data", [2, 8, 24])
def test_replicas_add_up_their_gradients_inside_and_over_servers(data: int) -> None:
    found = _setup(Parallelism(data=data)).forecast()
    one = _step_forecast()
    size = 4.0 * MODEL.parameters()
    if data <= 8:
        expected = ring_s(one.rented.inside, data, size)
    else:
        network = Link.of_network(400, LINK_LATENCY_S)
        expected = hierarchical_s(one.rented.inside, network, [8, 8, 8], size)
    assert found.communication_s == pytest.approx(expected)
    assert found.samples == 2 * BATCHES * data


@pytest.mark.parametrize(("stage", "halves"), [(0, 2), (1, 2), (2, BATCHES + 1), (3, 3 * BATCHES)])
def test_zero_exchanges_more_in_its_later_stages(stage: int, halves: int) -> None:
    """With one batch a step: twice the parameters up to stage 2, three times in stage 3."""
    plain = _setup(Parallelism(data=4)).forecast()
    found = _setup(Parallelism(data=4, zero_stage=stage)).forecast()
    assert found.communication_s == pytest.approx(plain.communication_s * halves / 2)
    assert found.update_s == pytest.approx(plain.update_s / (4 if stage else 1))


def test_a_pipeline_waits_at_its_ends_and_sends_activations() -> None:
    way = Parallelism(pipeline=4)
    setup = _setup(way)
    found = setup.forecast()
    link = setup.one.rented.inside
    sent = [2 * link.message_s(stage.output_bytes) for stage in setup.stages[:-1]] + [0.0]
    slots = [stage.compute_s + other for stage, other in zip(setup.stages, sent, strict=True)]
    expected = (BATCHES - 1) * max(slots) + sum(slots)
    assert found.step.seconds - found.update_s == pytest.approx(expected)


def test_tensor_parallel_groups_add_up_activations() -> None:
    found = _setup(Parallelism(tensor=4)).forecast()
    one = _step_forecast(4)
    size = 2 * 256 * 768 * 4.0
    assert found.communication_s == pytest.approx(BATCHES * 50 * ring_s(one.rented.inside, 4, size))


@pytest.mark.parametrize(
    "way",
    [
        Parallelism(),
        Parallelism(data=8, zero_stage=3),
        Parallelism(tensor=2, data=2, zero_stage=1, recompute=True),
    ],
)
def test_memory_is_that_of_a_device(way: Parallelism) -> None:
    setup = _setup(way)
    layers = MODEL.layers(setup.one.setting)
    kept = [layer.activations for layer in layers]
    numbers = sum(layer.output for layer in layers) + max(kept) if way.recompute else sum(kept)
    held = held_bytes(sum(layer.parameters for layer in layers), 4, "adam", way.zero_stage, way.data)
    assert setup.memory.total == pytest.approx(sum(held) + 4 * numbers)
    assert not way.recompute or numbers < 0.4 * sum(kept)


def test_the_first_stages_of_a_pipeline_hold_most_batches() -> None:
    setup = _setup(Parallelism(pipeline=7))
    held = [stage.waiting_bytes * min(BATCHES, 7 - index) for index, stage in enumerate(setup.stages)]
    assert setup.memory.activations in held
    assert setup.memory.total < _setup(Parallelism()).memory.total * BATCHES
