"""Steps on several GPUs: each part against its formula, by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from clusterplan.instances.common.errors import OptionError
from clusterplan.instances.documents import load_catalogue
from clusterplan.instances.prediction.communication.all_reduce import hierarchical_s, ring_s
from clusterplan.instances.prediction.communication.links import Link
from clusterplan.instances.prediction.fill.forecast import Forecast, forecast
from clusterplan.instances.prediction.fill.predict import CATALOGUE
from clusterplan.instances.prediction.fill.rented import LINK_LATENCY_S, rented
from clusterplan.instances.prediction.models.description import Setting
from clusterplan.instances.prediction.models.load import load_model
from clusterplan.instances.prediction.models.memory import device_memory
from clusterplan.instances.prediction.operators import Operator
from clusterplan.instances.prediction.steps.pipeline import pipeline_s
from clusterplan.instances.prediction.times.choose import times_on
from clusterplan.instances.prediction.training.parallelism import Parallelism
from clusterplan.instances.prediction.training.stages import stages_of
from clusterplan.instances.prediction.training.step import Setup

BATCHES = 4
MODEL = load_model("gpt2")


def _forecast(tensor: int = 1) -> Forecast:
    (found,) = forecast(
        MODEL, rented(["a100-40"], load_catalogue(CATALOGUE)), Setting(2, 256, tensor_parallel=tensor)
    )
    return found


def _setup(way: Parallelism) -> Setup:
    one = _forecast(way.tensor)
    server = one.rented.servers[0]
    return Setup(one, server, stages_of(one, way.pipeline, way.recompute), way, BATCHES)


def test_one_gpu_computes_and_updates() -> None:
    found = _setup(Parallelism()).forecast()
    one = _forecast()
    assert found.compute_s == pytest.approx(BATCHES * one.step.seconds)
    assert found.waiting_s == found.communication_s == 0.0
    # Adam reads and writes two numbers and the parameter, and reads the gradient: 28 bytes each.
    adds = [Operator("add", (size, 1)) for size in (10**9, 2 * 10**9)]
    small, large = times_on("a100-40").predict(adds)
    per_byte = (large.seconds - small.seconds) / (adds[1].bytes - adds[0].bytes)
    assert found.update_s == pytest.approx(per_byte * 28 * MODEL.parameters())
    assert found.samples == 2 * BATCHES
    low, high = one.factors
    assert found.step.low == pytest.approx(low * found.step.seconds)
    assert found.step.high == pytest.approx(high * found.step.seconds)


@pytest.mark.parametrize("data", [2, 8, 24])
def test_replicas_add_up_their_gradients_inside_and_over_servers(data: int) -> None:
    found = _setup(Parallelism(data=data)).forecast()
    one = _forecast()
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
    assert found.step.seconds - found.update_s == pytest.approx(pipeline_s(slots, BATCHES))


def test_tensor_parallel_groups_add_up_activations() -> None:
    found = _setup(Parallelism(tensor=4)).forecast()
    one = _forecast(4)
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


def test_tensors_are_shared_inside_a_server() -> None:
    one = _forecast(4)
    small = replace(one.rented.servers[0], gpus=2)
    with pytest.raises(OptionError, match="has 2 GPUs, and tensors are shared inside"):
        Setup(one, small, stages_of(one, 1, False), Parallelism(tensor=4), BATCHES)
