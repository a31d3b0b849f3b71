"""Power: boards of little power sustain less than their peaks."""

from __future__ import annotations

import pytest

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
    assert powered(a100).peak("bf16") == a100.peak("bf16")


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


def test_every_board_holds_like_one_that_has_its_power_and_peaks() -> None:
    known = known_gpus()
    for gpu in known.values():
        if gpu.holds_like is not None:
            like = known[gpu.holds_like]
            assert gpu.watts
            assert like.watts
            assert like.holds_like is None
