"""Operators of models, the GPUs that run them, the links between these, and machines to rent."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import pytest
from forecasts import flops, rented
from hypothesis import given
from hypothesis import strategies as st
from sample_documents import refused

from clusterplan.instances.common.errors import OptionError
from clusterplan.instances.common.speed import ring_allreduce_step_s
from clusterplan.instances.documents import load_catalogue
from clusterplan.instances.prediction import CATALOGUE
from clusterplan.instances.prediction.hardware import (
    NETWORK_GBIT_PER_S,
    TENSOR_CORES,
    Link,
    gpu_named,
    hierarchical_s,
    known_gpus,
    powered,
    ring_s,
    ring_theta,
    sustained,
)
from clusterplan.instances.prediction.operators import (
    PRECISION_BYTES,
    SHAPES,
    Operator,
    Sizes,
    known_calls,
    linear,
    operator_of,
)

SIZE = st.integers(1, 5000)


def test_a_matrix_product_has_two_operations_for_each_pair() -> None:
    operator = linear(8, 3, 5)
    assert operator.flops == 2 * 8 * 3 * 5
    assert operator.bytes == 4 * (8 * 3 + 3 * 5 + 8 * 5)
    assert operator.parameters == 3 * 5 + 5


def test_half_precision_halves_the_bytes() -> None:
    one, other = (Operator("bmm", (4, 8, 16, 8), precision=name) for name in ("fp32", "bf16"))
    assert one.bytes == 2 * other.bytes
    assert one.flops == other.flops


@given(SIZE, SIZE, SIZE)
def test_gradients_of_a_product_cost_twice_the_product(rows: int, inputs: int, outputs: int) -> None:
    operator = linear(rows, inputs, outputs, bias=False)
    assert flops(operator.backward()) == 2 * operator.flops
    product = Operator("bmm", (3, rows, inputs, outputs))
    assert flops(product.backward()) == 2 * product.flops


def test_a_bias_has_a_gradient_too() -> None:
    assert [part.kind for part in linear(8, 3, 5).backward()] == ["linear", "linear", "sum"]


def test_a_convolution_is_as_resnets_first() -> None:
    stem = Operator("conv", (1, 3, 64, 7, 7, 224, 224, 2, 3, 3, 1))
    assert stem.output_size == (112, 112)
    assert stem.flops == 2 * 112 * 112 * 64 * 3 * 49


@pytest.mark.parametrize(
    ("kind", "shape", "says"),
    [
        ("lstm", (1, 2), "operator 'lstm': unknown; there are linear"),
        ("linear", (1, 2), "linear: has 2 sizes; it needs 3: rows, inputs, outputs"),
        ("linear", (1, 0, 2), "linear: inputs is 0; it must be from 1"),
        ("conv", (1, 3, 8, 9, 9, 4, 4, 1, 0, 0, 1), "the kernel is larger than the padded picture"),
        ("conv", (1, 3, 8, 3, 3, 9, 9, 1, 0, 0, 2), "must be multiples of groups"),
    ],
)
def test_what_cannot_be_is_one_line(kind: str, shape: tuple[int, ...], says: str) -> None:
    with refused(says, OptionError):
        Operator(kind, shape)


def test_precision_and_count_are_checked() -> None:
    with pytest.raises(OptionError, match="precision 'fp7': unknown"):
        Operator("add", (1, 2), precision="fp7")
    with pytest.raises(OptionError, match="count is 0"):
        Operator("add", (1, 2), count=0)


PICTURE = (1, 6, 8, 8)
MATRIX = (5, 7)
Shape = tuple[int, ...]


def _operator(call: str, args: Sequence[object], output: Shape, parameters: int = 0) -> Operator:
    """Return the operator of a call, with shapes for tensors."""
    sized = [Sizes(arg) if isinstance(arg, tuple) else arg for arg in args]
    found = operator_of(call, sized, Sizes(output), parameters)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("call", "args", "output", "expected"),
    [
        ("addmm", [(3,), (5, 7), (7, 3)], (5, 3), ("linear", (5, 7, 3))),
        ("bmm", [(2, 5, 7), (2, 7, 3)], (2, 5, 3), ("bmm", (2, 5, 7, 3))),
        ("embedding", [(9, 4), (1, 5)], (1, 5, 4), ("embedding", (5, 4, 9))),
        ("add", [MATRIX, MATRIX], MATRIX, ("add", (5, 7))),
        ("add", [MATRIX, (7,)], MATRIX, ("scale", (5, 7))),
        ("mul", [MATRIX, 3.0], MATRIX, ("scale", (5, 7))),
        ("relu", [PICTURE], PICTURE, ("relu", (64, 6))),
        ("mean", [PICTURE, [-1, -2]], (1, 6), ("pool", (1, 6, 8, 8, 8, 8, 0))),
        ("mean", [MATRIX, [-1]], (5, 1), ("sum", (7, 5))),
        (
            "_embedding_bag",
            [(9, 4), (5,), (2,)],
            (2, 4),
            ("embedding", (5, 4, 9)),
        ),
        ("max_pool2d_with_indices", [PICTURE, [2, 4]], (1, 6, 4, 2), ("sum", (8, 48))),
        ("adaptive_max_pool2d", [PICTURE, [4, 4]], (1, 6, 4, 4), ("pool", (1, 6, 8, 8, 2, 2, 0))),
        ("_adaptive_avg_pool2d", [PICTURE, [3, 3]], (1, 6, 3, 3), ("sum", (7, 54))),
        ("var_mean", [MATRIX, [-1]], (5, 1), ("sum", (7, 5))),
        ("avg_pool2d", [PICTURE, [2, 2]], (1, 6, 4, 4), ("pool", (1, 6, 8, 8, 2, 2, 0))),
    ],
)
def test_calls_become_operators(
    call: str, args: Sequence[object], output: Shape, expected: tuple[str, Shape]
) -> None:
    found = _operator(call, args, output, 4)
    assert (found.kind, found.shape, found.parameters) == (*expected, 4)


def _convolution(**given: object) -> list[object]:
    fields: dict[str, object] = {
        "input": PICTURE, "weight": (4, 6, 3, 3), "bias": None, "stride": [1, 1], "padding": [1, 1],
        "dilation": [1, 1], "transposed": False, "output_padding": [0, 0], "groups": 1,
    }  # fmt: skip
    return list({**fields, **given}.values())


def test_convolutions_return_as_much_as_pytorchs() -> None:
    plain = _operator("convolution", _convolution(), (1, 4, 8, 8))
    assert plain.outputs == 4 * 64
    spread = _operator("convolution", _convolution(dilation=[2, 2], padding=[2, 2]), (1, 4, 8, 8))
    assert spread == plain
    row = _convolution(input=(1, 6, 9), weight=(4, 6, 3), stride=[2], padding=[1], dilation=[1])
    found = _operator("convolution", row, (1, 4, 5))
    assert (found.outputs, found.flops) == (20, 2 * 20 * 18)


@pytest.mark.parametrize(
    ("more", "output"),
    [
        ({"dilation": [3, 3], "padding": [0, 0]}, (1, 4, 2, 2)),
        ({"weight": (4, 6, 4, 4), "dilation": [2, 2], "padding": [3, 3]}, (1, 4, 8, 8)),
        ({"stride": [1, 2]}, (1, 4, 8, 4)),
    ],
)
def test_holes_and_uneven_strides_return_as_much(more: dict[str, object], output: Shape) -> None:
    found = _operator("convolution", _convolution(**more), output)
    kernel = _convolution(**more)[1]
    assert isinstance(kernel, tuple)
    assert found.outputs == prod(output)
    assert found.flops == 2 * prod(output) * prod(kernel[1:])


def test_a_transposed_convolution_is_one_from_its_end() -> None:
    """From 8 × 8 to 16 × 16 pixels: as many products, and what it returns waits for the backward pass."""
    args = _convolution(weight=(6, 4, 4, 4), stride=[2, 2], transposed=True)
    found = _operator("convolution", args, (1, 4, 16, 16), parameters=7)
    assert (found["channels"], found["filters"], found.output_size) == (4, 6, (8, 8))
    assert found.flops == 2 * prod(PICTURE) * 4 * 16
    assert (found.activations, found.parameters) == (4 * 256, 7)


@pytest.mark.parametrize(
    ("call", "args"),
    [
        ("convolution", _convolution(transposed=True, stride=[1, 2])),
        ("convolution", _convolution(input=(1, 6, 8, 8, 8))),
        ("fft_r2c", [MATRIX]),
    ],
)
def test_what_is_not_known_gives_nothing(call: str, args: Sequence[object]) -> None:
    sized = [Sizes(arg) if isinstance(arg, tuple) else arg for arg in args]
    assert operator_of(call, sized, Sizes(PICTURE)) is None


@pytest.mark.parametrize("library", ["pytorch", "onnx"])
def test_calls_are_kinds_of_operators(library: str) -> None:
    assert {kind for _, kind in known_calls(library).values()} <= set(SHAPES)


def test_every_gpu_says_where_its_figures_come_from() -> None:
    assert len(known_gpus()) == 29
    for gpu in known_gpus().values():
        assert gpu.source
        assert gpu.peak_tflops.keys() <= PRECISION_BYTES.keys()
        assert gpu.peak("fp32") >= 1e12
        assert gpu.memory_gb >= 8


def test_names_have_aliases_and_any_case() -> None:
    assert gpu_named("A100").name == "a100-40"
    assert gpu_named("h100").peak("bf16") == pytest.approx(989.5e12)
    assert gpu_named("GH-96").name == "gh200"
    assert gpu_named("rtx-pro-server-6000").name == "rtx-pro-6000"


def test_the_precision_that_people_train_in() -> None:
    """Pascal multiplies in half precision, but not on tensor cores; Volta and Turing have no bf16."""
    taken = {name: gpu.training_precision for name, gpu in known_gpus().items()}
    single, half = ("k80", "p4", "p100"), ("t4", "v100", "v100-sxm2", "rtx-2080-ti", "titan-rtx")
    for name, precision in taken.items():
        assert precision == ("fp32" if name in single else "fp16" if name in half else "bf16"), name


def test_unknown_gpus_and_missing_peaks_are_one_line() -> None:
    with pytest.raises(OptionError, match=r"GPU 'h1000': unknown; did you mean 'h100'\? known are k80"):
        gpu_named("h1000")
    with pytest.raises(OptionError, match="t4: has no peak for bf16; it has fp32, fp16"):
        gpu_named("t4").peak("bf16")


def test_a_watt_does_as_much_as_on_the_board_that_holds_its_clock() -> None:
    t4, v100 = gpu_named("t4"), gpu_named("v100")
    assert t4.watts
    assert v100.watts
    assert powered(t4).peak("fp32") / t4.watts == pytest.approx(v100.peak("fp32") / v100.watts)
    assert powered(v100) == v100


def test_tensor_cores_reach_a_part_of_their_peak() -> None:
    a100 = gpu_named("a100")
    assert sustained(a100).peak("bf16") == pytest.approx(TENSOR_CORES * a100.peak("bf16"))
    assert sustained(a100).peak("fp32") == a100.peak("fp32")
    assert sustained(a100).peak("tf32") == pytest.approx(104e12)
    assert sustained(a100).peak("fp16") == pytest.approx(208e12)
    assert sustained(gpu_named("h100")).peak("fp8") == pytest.approx(1979e12 * 2 / 3)
    assert powered(a100).peak("bf16") == a100.peak("bf16")


def test_half_precision_without_tensor_cores_has_its_peak() -> None:
    """P100 computes two halves in place of one single; V100 and A10G have tensor cores for them."""
    p100, v100, a10g = gpu_named("p100"), gpu_named("v100"), gpu_named("a10g")
    assert sustained(p100) == p100
    assert sustained(v100).peak("fp16") == pytest.approx(TENSOR_CORES * v100.peak("fp16"))
    assert sustained(a10g).peak("fp16") == pytest.approx(TENSOR_CORES * a10g.peak("fp16"))


def test_each_precision_has_the_lesser_of_power_and_tensor_cores() -> None:
    """Never both: T4 is at its power before two thirds of its tensor cores, RTX 2080 Ti is not."""
    t4, rtx = gpu_named("t4"), gpu_named("rtx-2080-ti")
    assert sustained(t4).peak("fp16") == powered(t4).peak("fp16") == pytest.approx(112e12 * 70 / 250)
    assert sustained(rtx).peak("fp16") == pytest.approx(TENSOR_CORES * rtx.peak("fp16"))


def test_what_t4_sustains_is_near_what_others_measured() -> None:
    """NVIDIA's developer forum, topic 264462: 24 TFLOP/s in half precision, for the limit of 70 W."""
    assert 24e12 < sustained(gpu_named("t4")).peak("fp16") < 1.4 * 24e12


def test_no_gpu_sustains_more_than_its_peaks() -> None:
    for gpu in known_gpus().values():
        most, beside = powered(gpu), sustained(gpu)
        for precision in gpu.peak_tflops:
            assert 0 < beside.peak(precision) <= most.peak(precision) <= gpu.peak(precision)


def test_a_board_of_which_no_power_is_known_keeps_its_peaks() -> None:
    own = gpu_named("t4").model_copy(update={"watts": None})
    assert powered(own) == own


def test_a_board_of_ones_own_holds_like_one_of_the_catalogue() -> None:
    """By any of its names; what holds like a board of little power holds no more than that one."""
    t4 = gpu_named("t4")
    own = t4.model_copy(update={"name": "own", "holds_like": "V100-32"})
    assert powered(own).peak_tflops == powered(t4).peak_tflops
    like_t4 = own.model_copy(update={"holds_like": "t4"})
    assert powered(like_t4).peak_tflops == powered(t4).peak_tflops
    with pytest.raises(OptionError, match=r"GPU 'v1000': unknown; did you mean 'v100'\?"):
        powered(own.model_copy(update={"holds_like": "v1000"}))


def test_a_peak_that_the_other_board_does_not_have_is_kept() -> None:
    t4 = gpu_named("t4")
    own = t4.model_copy(update={"peak_tflops": {"fp32": 8.1, "fp8": 130.0}})
    assert powered(own).peak("fp8") == pytest.approx(130e12)
    assert powered(own).peak("fp32") == powered(t4).peak("fp32")


def test_every_board_holds_like_one_that_has_its_power_and_peaks() -> None:
    known = known_gpus()
    for gpu in known.values():
        if gpu.holds_like is not None:
            like = known[gpu.holds_like]
            assert gpu.watts
            assert like.watts
            assert like.holds_like is None


def test_a_network_of_100_gbit_moves_12_5_gigabytes_a_second() -> None:
    link = Link.of_network(100, latency_s=2e-6)
    assert link.message_s(12.5e9) == pytest.approx(1.0 + 2e-6)


@pytest.mark.parametrize("figures", [(-1.0, 1.0), (0.0, float("nan")), (float("inf"), 0.0)])
def test_links_that_cannot_be(figures: tuple[float, float]) -> None:
    with pytest.raises(OptionError, match="must be from 0"):
        Link(*figures)


def test_a_bandwidth_of_nothing() -> None:
    with pytest.raises(OptionError, match="greater than 0"):
        Link.of_network(0.0, 1.0)


LINK = Link(latency_s=1.0, seconds_per_byte=10.0)


def _messages_of_a_ring(devices: int, size: float) -> float:
    """Run a ring all-reduce on numbers; return its seconds on LINK, and check the sums."""
    held = [[float(d * devices + part) for part in range(devices)] for d in range(devices)]
    sums = [sum(held[d][part] for d in range(devices)) for part in range(devices)]
    seconds = 0.0
    for phase in ("reduce", "gather"):
        for round_ in range(devices - 1):
            shift = 0 if phase == "reduce" else 1
            sent = [((d - round_ + shift) % devices, d) for d in range(devices)]
            values = [held[d][part] for part, d in sent]
            for (part, d), value in zip(sent, values, strict=True):
                to = (d + 1) % devices
                held[to][part] = held[to][part] + value if phase == "reduce" else value
            seconds += LINK.message_s(size / devices)
    assert all(row == sums for row in held)
    return seconds


@pytest.mark.parametrize("devices", [1, 2, 3, 5, 8])
def test_a_ring_takes_as_long_as_its_messages(devices: int) -> None:
    assert ring_s(LINK, devices, 24.0) == pytest.approx(_messages_of_a_ring(devices, 24.0))


def test_a_hierarchy_by_hand() -> None:
    # Inside: 2 x 1 round of 4 bytes at 1 s + 0.5 s a byte; between 3 servers: 4 rounds of 8/3 bytes.
    fast, slow = Link(1.0, 0.5), Link(2.0, 3.0)
    assert hierarchical_s(fast, slow, [2, 2, 2], 8.0) == pytest.approx(2 * 3.0 + 4 * (2 + 8.0))
    for devices in (1, 3, 8):
        assert hierarchical_s(fast, slow, [devices], 8.0) == ring_s(fast, devices, 8.0)
        assert hierarchical_s(fast, slow, [1] * devices, 8.0) == ring_s(slow, devices, 8.0)


@pytest.mark.parametrize("workers", [1, 2, 7, 64])
def test_theta_of_a_ring_is_the_ring(workers: int) -> None:
    link = Link(2e-5, 1e-9)
    theta = ring_theta(link, 4e8, per_sample_s=0.01)
    expected = 0.01 * 256 / workers + ring_s(link, workers, 4e8)
    assert ring_allreduce_step_s(theta, 256, 0, workers) == pytest.approx(expected)


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
