"""Transformers: operations, activations and shares as the literature counts them.

Mixtures of experts: all parameters are held, a few are used, and tokens are spread evenly.

Latent attention: narrow vectors are whole on every device, heads are shared.
"""

from __future__ import annotations

import pytest

from clusterplan.instances.common.errors import OptionError
from clusterplan.instances.prediction.models import Setting, load_model
from clusterplan.instances.prediction.models.description import device_memory
from clusterplan.instances.prediction.models.transformer import (
    ACTIVATIONS,
    Transformer,
    expert_operators,
    latent_projections,
    spread,
)
from clusterplan.instances.prediction.models.transformer_config import Experts, LatentAttention, config_of
from clusterplan.instances.prediction.operators import Operator, flops, linear


def _products(name: str, setting: Setting) -> float:
    operators = load_model(name).operators(setting)
    return flops(op for op in operators if op.kind in ("linear", "bmm"))


def test_operations_are_those_of_the_formula() -> None:
    """96·B·s·l·h²·(1 + s/6h + V/16lh) with recomputation, of which a step without it makes three quarters.

    Narayanan et al. 2021, appendix; the head has a width of its own.
    """
    batch, s, layers, h, words = 2, 1024, 36, 1280, 50257
    exact = 72 * batch * s * layers * h**2 * (1 + s / (6 * h) + words / (12 * layers * h))
    assert _products("gpt2-large", Setting(batch)) == pytest.approx(exact, rel=1e-3)


def test_fused_attention_has_the_same_products_forward_and_keeps_no_scores() -> None:
    """Of 4·B·s²·h operations a block; going back the scores are computed again: five products for two."""
    forward = {fused: Setting(2, 2048, training=False, fused_attention=fused) for fused in (False, True)}
    model = load_model("llama-2-7b")
    counted = {
        fused: flops(op for op in model.operators(how) if op.kind in ("linear", "bmm", "attention"))
        for fused, how in forward.items()
    }
    assert counted[True] == pytest.approx(counted[False])
    fused, plain = (Setting(2, 2048, precision="bf16", fused_attention=fused) for fused in (True, False))
    own = flops(op for op in model.operators(fused) if op.kind == "attention")
    assert own == pytest.approx(32 * 3.5 * 4 * 2 * 2048**2 * 4096)
    scores = 32 * 2048**2 * 2
    saved = [
        sum(op.activations * op.count for op in model.layers(how)[1].operators) for how in (plain, fused)
    ]
    assert saved[0] - saved[1] >= scores
    long = [device_memory(model.layers(how), how).total for how in (plain, fused)]
    assert long[0] - long[1] >= 32 * 2 * scores  # bytes of all blocks


def test_activations_are_those_of_the_formula() -> None:
    """s·b·h·(34 + 5·a·s/h) bytes a block in half precision; Korthikanti et al. 2023, equation 2."""
    batch, s, h, heads = 4, 1024, 1280, 20
    layers = load_model("gpt2-large").layers(Setting(batch, precision="fp16", compiled=True))
    block = next(layer for layer in layers if layer.name == "block 1")
    assert 2 * block.activations == pytest.approx(s * batch * h * (34 + 5 * heads * s / h), rel=0.03)


def test_shares_divide_the_products_and_not_the_stream() -> None:
    whole, half = (load_model("llama-3-8b").layers(Setting(1, 512, tensor_parallel=t))[1] for t in (1, 2))
    products = [flops(op for op in layer.forward if op.kind in ("linear", "bmm")) for layer in (whole, half)]
    assert products[0] == 2 * products[1]
    assert whole.output == half.output
    assert (whole.all_reduces, half.all_reduces) == (0, 2)


def test_compiling_leaves_fewer_kernels_and_the_same_products() -> None:
    eager, compiled = (Setting(1, compiled=flag) for flag in (False, True))
    assert _products("gpt2", eager) == _products("gpt2", compiled)
    counts = [sum(op.count for op in load_model("gpt2").operators(setting)) for setting in (eager, compiled)]
    assert counts[1] < 0.75 * counts[0]


def test_every_activation_is_made_of_known_kernels() -> None:
    data = {"model_type": "gpt2", "n_embd": 8, "n_head": 2, "n_layer": 1, "n_positions": 8, "vocab_size": 9}
    for name in ACTIVATIONS:
        config = config_of({**data, "activation_function": name}, "test")
        assert Transformer("test", config=config).operators(Setting())


def test_more_devices_than_heads_of_keys_each_hold_one() -> None:
    """As in Megatron-LM and vLLM: heads of keys and values are copied where they are too few."""
    data = {
        "model_type": "gemma", "hidden_size": 64, "num_attention_heads": 8, "num_key_value_heads": 2,
        "num_hidden_layers": 1, "vocab_size": 64, "max_position_embeddings": 8, "head_dim": 8,
        "intermediate_size": 64,
    }  # fmt: skip
    model = Transformer("test", config=config_of(data, "test"))
    held = {shares: model.layers(Setting(tensor_parallel=shares))[1].parameters for shares in (1, 2, 8)}
    norms, keys = 2 * 64, 64 * 8
    assert held[2] - norms == (held[1] - norms) / 2
    assert held[8] - norms == (held[1] - norms - 4 * keys) / 8 + 2 * keys
    three = Transformer("test", config=config_of({**data, "head_dim": 8, "num_key_value_heads": 4}, "test"))
    with pytest.raises(OptionError, match="tensor_parallel 3: does not divide the 8 heads"):
        three.layers(Setting(tensor_parallel=3))


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


LATENT = LatentAttention(query_rank=6, rank=4, plain=8, rotary=2, value=5)


def test_projections_go_through_narrow_vectors() -> None:
    found = latent_projections(LATENT, 3, 16, 2)
    assert [op.shape for op in found if op.kind == "linear"] == [
        (3, 16, 6), (3, 6, 20), (3, 16, 6), (3, 4, 26),
    ]  # fmt: skip
    straight = latent_projections(LATENT.model_copy(update={"query_rank": None}), 3, 16, 2)
    assert straight[0].shape == (3, 16, 20)


def test_keys_and_values_may_differ_in_width() -> None:
    block = load_model("deepseek-v3").layers(Setting(1, 32, tensor_parallel=4))[1]
    products = [op.shape for op in block.operators if op.kind == "bmm"]
    assert products == [(32, 32, 192, 32), (32, 32, 32, 128)]
    assert Operator("linear", (32, 32 * 128, 7168), parameters=32 * 128 * 7168, saved=0) in block.operators
