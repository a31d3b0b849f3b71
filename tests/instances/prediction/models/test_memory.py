"""Memory of a device: sixteen bytes a parameter with Adam, less with ZeRO and recomputation."""

from __future__ import annotations

import pytest

from clusterplan.instances.common.errors import OptionError
from clusterplan.instances.prediction.models import Setting, load_model
from clusterplan.instances.prediction.models.memory import device_memory

HALF = Setting(1, 128, precision="fp16")


def test_mixed_precision_with_adam_takes_sixteen_bytes_a_parameter() -> None:
    """Rajbhandari et al. 2020, section 3.1."""
    model = load_model("gpt2")
    memory = device_memory(model, HALF)
    assert memory.parameters + memory.gradients + memory.optimiser == 16 * model.parameters()


@pytest.mark.parametrize(("stage", "bytes_each"), [(0, 16), (1, 4 + 12 / 8), (2, 2 + 14 / 8), (3, 16 / 8)])
def test_zero_divides_what_its_stage_says(stage: int, bytes_each: float) -> None:
    """Figure 1 of the same."""
    model = load_model("gpt2")
    memory = device_memory(model, HALF, zero_stage=stage, data_parallel=8)
    assert memory.total - memory.activations == pytest.approx(bytes_each * model.parameters())


def test_recomputation_saves_and_inference_needs_least() -> None:
    model = load_model("gpt2-large")
    full, recomputed = (device_memory(model, Setting(8), recompute=flag) for flag in (False, True))
    inference = device_memory(model, Setting(8, training=False))
    assert inference.total < recomputed.total < 0.4 * full.total


def test_what_is_not_known_is_one_line() -> None:
    for change, says in (
        ({"optimiser": "lamb"}, "optimiser 'lamb': unknown; there are sgd"),
        ({"zero_stage": 4}, "zero_stage 4: must be 0, 1, 2 or 3"),
        ({"data_parallel": 0}, "data_parallel 0: must be at least 1"),
    ):
        with pytest.raises(OptionError, match=says):
            device_memory(load_model("gpt2"), HALF, **change)  # type: ignore[arg-type]
