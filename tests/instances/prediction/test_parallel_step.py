"""Among how many GPUs a training is divided.

Layers divided as evenly as can be: the longest stage against all divisions.

Steps on several GPUs: each part against its formula, by hand.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import pytest
from forecasts import forecasts_on, rented
from hypothesis import given
from hypothesis import strategies as st

from clusterplan.instances.common.errors import OptionError
from clusterplan.instances.prediction.forecast import (
    LINK_LATENCY_S,
    Forecast,
)
from clusterplan.instances.prediction.hardware import Link, gpu_named, hierarchical_s, ring_s
from clusterplan.instances.prediction.models.description import Setting, device_memory
from clusterplan.instances.prediction.models.load import load_model
from clusterplan.instances.prediction.operator_times import OperatorTimes
from clusterplan.instances.prediction.operators import Operator
from clusterplan.instances.prediction.parallel_step import (
    Parallelism,
    Setup,
    even_partition,
    stages_of,
)


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


def _forecast(**more: int) -> Forecast:
    (found,) = forecasts_on("gpt2", rented("h100"), Setting(2, 128, **more))  # type: ignore[arg-type]
    return found


def test_stages_hold_what_their_layers_do() -> None:
    one = _forecast(tensor_parallel=2)
    stages = stages_of(one, 3, recompute=False)
    assert sum(stage.compute_s for stage in stages) == pytest.approx(one.step.seconds)
    assert sum(stage.parameters for stage in stages) == sum(row.layer.parameters for row in one.layers)
    # Two sums in each pass of each of twelve blocks, and those of the embedding.
    assert sum(times for stage in stages for _, times in stage.reductions) == 2 * (12 * 2 + 1)


def test_recomputation_runs_forward_again_and_keeps_inputs() -> None:
    one = _forecast()
    (plain,), (again,) = stages_of(one, 1, recompute=False), stages_of(one, 1, recompute=True)
    forward = sum(row.forward_s for row in one.layers)
    assert again.compute_s == pytest.approx(plain.compute_s + forward)
    assert 0.2 < forward / plain.compute_s < 0.5
    assert again.waiting_bytes + again.working_bytes < plain.waiting_bytes


BATCHES = 4
MODEL = load_model("gpt2")


def _step_forecast(tensor: int = 1) -> Forecast:
    (found,) = forecasts_on("gpt2", rented("a100-40"), Setting(2, 256, tensor_parallel=tensor))
    return found


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
    small, large = OperatorTimes(gpu_named("a100-40")).predict(adds)
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
    expected = device_memory(
        MODEL,
        replace(setup.one.setting),
        zero_stage=way.zero_stage,
        data_parallel=way.data,
        recompute=way.recompute,
    )
    assert setup.memory().total == pytest.approx(expected.total)


def test_the_first_stages_of_a_pipeline_hold_most_batches() -> None:
    setup = _setup(Parallelism(pipeline=7))
    held = [stage.waiting_bytes * min(BATCHES, 7 - index) for index, stage in enumerate(setup.stages)]
    assert setup.memory().activations in held
    assert setup.memory().total < _setup(Parallelism()).memory().total * BATCHES
