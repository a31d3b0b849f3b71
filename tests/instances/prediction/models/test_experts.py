"""Mixtures of experts: all parameters are held, a few are used, and tokens are spread evenly."""

from __future__ import annotations

import pytest

from clusterplan.instances.common.errors import OptionError
from clusterplan.instances.prediction.models import Setting, load_model
from clusterplan.instances.prediction.models.experts import expert_operators, spread
from clusterplan.instances.prediction.models.experts_config import Experts
from clusterplan.instances.prediction.models.memory import device_memory
from clusterplan.instances.prediction.operators import Operator, flops, linear

PARAMETERS = {
    "mixtral-8x7b": (46_702_792_704, 12.9e9),
    "qwen1.5-moe-a2.7b": (14_315_784_192, 2.7e9),
    "deepseek-v2-lite": (15_706_484_224, 2.66e9),
    "deepseek-v3": (671_026_404_352, 37.5e9),
}
"""As the published weights have (DeepSeek-V3 without the 14,848 numbers that balance its router, and without
the layers of a second token), and those that a token goes through: Jiang et al. 2024, Qwen team 2024,
DeepSeek-AI 2024 (2.4e9 and 37e9 without the embedding)."""


@pytest.mark.parametrize("name", PARAMETERS)
def test_parameters_are_those_of_the_published_model(name: str) -> None:
    model, (held, used) = load_model(name), PARAMETERS[name]
    assert model.parameters() == held
    tokens = 4096
    operators = model.operators(Setting(1, tokens, training=False))
    products = flops(op for op in operators if op.kind == "linear") / 2 / tokens
    embedding = model.layers(Setting(1, 16))[0].parameters
    assert products + embedding == pytest.approx(used, rel=0.02)


def test_memory_holds_all_experts_however_few_tokens_there_are() -> None:
    model = load_model("deepseek-v2-lite")
    held = [device_memory(model, Setting(1, tokens, training=False)).parameters for tokens in (1, 4, 4096)]
    assert held == [4 * 15_706_484_224] * 3


def _inner(rows: int, width: int, count: int) -> list[Operator]:
    return [linear(rows, 8, width, bias=False, count=count), linear(rows, width, 8, bias=False, count=count)]


def _experts(**given: object) -> Experts:
    return Experts.model_validate({"number": 4, "per_token": 2, "width": 16, **given})


def test_tokens_are_spread_over_the_experts() -> None:
    found = expert_operators(_experts(), 2, 6, 8, _inner, 1)
    first = [op for op in found if op.kind == "linear"]
    assert [(op.shape, op.count) for op in first] == [((12, 8, 4), 1), ((6, 8, 16), 4), ((6, 16, 8), 4)]
    few = expert_operators(_experts(), 1, 1, 8, _inner, 1)
    assert [(op.shape, op.count) for op in few if op.kind == "linear"][1] == ((1, 8, 16), 2)
    assert sum(op.parameters * op.count for op in few) == sum(op.parameters * op.count for op in found)


def test_a_capacity_bounds_the_tokens_of_an_expert() -> None:
    found = expert_operators(_experts(capacity=2), 3, 100, 8, _inner, 1)
    assert max(op["rows"] for op in found if op.kind == "linear" and op["inputs"] == 16) == 6


def test_every_token_goes_through_what_is_shared() -> None:
    plain, shared = (expert_operators(_experts(shared_width=w), 1, 8, 8, _inner, 1) for w in (0, 32))
    assert sum(op.parameters * op.count for op in shared) - sum(op.parameters * op.count for op in plain) == (
        2 * 8 * 32
    )
    gated = expert_operators(_experts(shared_width=32, gated=True), 1, 8, 8, _inner, 1)
    assert Operator("linear", (8, 8, 1), parameters=8) in gated


def test_devices_divide_each_expert() -> None:
    whole, half = (
        load_model("mixtral-8x7b").layers(Setting(1, 512, tensor_parallel=share))[1] for share in (1, 2)
    )
    router = 4096 * 8
    norms = 2 * 4096
    assert whole.parameters - router - norms == 2 * (half.parameters - router - norms)
    with pytest.raises(OptionError, match="tensor_parallel 64: does not divide the 32 heads"):
        load_model("mixtral-8x7b").layers(Setting(1, 512, tensor_parallel=64))


def test_what_is_assumed_is_said() -> None:
    assert load_model("mixtral-8x7b").assumptions == spread(_experts(number=8))
    assert "at most 5 of a sample" in spread(_experts(capacity=5))[0]
    assert load_model("gpt2").assumptions == ()
