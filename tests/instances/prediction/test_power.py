"""Power: boards of little power sustain less than their peaks."""

from __future__ import annotations

import pytest

from clusterplan.instances.common.errors import OptionError
from clusterplan.instances.prediction.hardware import gpu_named, known_gpus
from clusterplan.instances.prediction.power import TENSOR_CORES, powered, sustained


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


def test_a_board_of_ones_own_holds_like_one_of_the_catalogue(monkeypatch: pytest.MonkeyPatch) -> None:
    """By any of its names; what holds like a board of little power holds no more than that one."""
    t4 = gpu_named("t4")
    own = t4.model_copy(update={"name": "own", "holds_like": "V100-32"})
    assert powered(own).peak_tflops == powered(t4).peak_tflops
    like_t4 = own.model_copy(update={"holds_like": "t4"})
    assert powered(like_t4).peak_tflops == powered(t4).peak_tflops
    with pytest.raises(OptionError, match=r"GPU 'v1000': unknown; did you mean 'v100'\?"):
        powered(own.model_copy(update={"holds_like": "v1000"}))
    unknown = t4.model_copy(update={"watts": None})
    monkeypatch.setattr("clusterplan.instances.prediction.power.gpu_named", lambda _: unknown)
    with pytest.raises(OptionError, match="own: holds_like t4, of which no power is known; name a board"):
        powered(own)


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
