"""Transformers: parameters and products of published models, shares as the literature counts them.

Mixtures of experts: all parameters are held, a few are used, and tokens are spread evenly.

Latent attention: narrow vectors are whole on every device, heads are shared.

Encoder and decoder: cross attention, biases of distances, shares.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import yaml
from forecasts import flops

from clusterplan.instances.common.errors import OptionError
from clusterplan.instances.prediction.models import Setting, load_model
from clusterplan.instances.prediction.models.description import device_memory
from clusterplan.instances.prediction.models.load import named
from clusterplan.instances.prediction.models.transformer import Transformer, transformer_of
from clusterplan.instances.prediction.models.transformer_config import config_of, published
from clusterplan.instances.prediction.operators import Operator

PUBLISHED = yaml.safe_load(Path(__file__).with_name("published.yaml").read_text())
STACKS = PUBLISHED["two_stacks"]
COUNTED = PUBLISHED["configured"] | {
    name: {**one, "config": named()[name]} for name, one in PUBLISHED["bundled"].items() if "products" in one
}
BLOCKS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")


def _model(data: dict[str, Any]) -> Transformer:
    return transformer_of("small", "", config_of(data, "small"))


def _counted(model: Transformer) -> float:
    """Return the operations of products of 2 × 64 tokens."""
    return _work(model.operators(Setting(2, 64, training=False)))


@pytest.mark.parametrize("name", PUBLISHED["bundled"])
def test_parameters_are_those_of_the_published_model(name: str) -> None:
    assert load_model(name).parameters() == PUBLISHED["bundled"][name]["parameters"]


@pytest.mark.parametrize("name", PUBLISHED["rounded"])
def test_parameters_are_about_those_of_the_paper(name: str) -> None:
    paper = PUBLISHED["rounded"][name]
    assert load_model(name).parameters() == pytest.approx(paper["parameters"], rel=paper["error"])


@pytest.mark.parametrize("name", COUNTED)
def test_parameters_and_products_are_those_of_the_implementation(name: str) -> None:
    one, data = COUNTED[name], COUNTED[name]["config"]
    assert _model(data).parameters() == one["parameters"]
    short = {**data, "vocab_size": 1000, **dict.fromkeys([key for key in BLOCKS if key in data], 2)}
    # The counter's few more are of the table of angles.
    assert _counted(_model(short)) == pytest.approx(one["products"], rel=1e-5)


@pytest.mark.parametrize("architecture", STACKS["models"])
def test_two_stacks_are_those_of_the_implementation(architecture: str) -> None:
    one = STACKS["models"][architecture]
    sizes = {"model_type": one["model_type"], "architectures": [architecture], **STACKS["sizes"]}
    model = _model(sizes)
    assert (model.parameters(), _counted(model)) == (one["parameters"], one["products"])
    assert all(layer.operators for layer in model.layers(Setting()))


def _work(operators: Iterable[Operator], *kinds: str) -> float:
    """Return the operations of products, or of operators of some kinds."""
    return flops(op for op in operators if op.kind in (kinds or ("linear", "bmm")))


def _products(name: str, setting: Setting) -> float:
    return _work(load_model(name).operators(setting))


def test_operations_are_those_of_the_formula() -> None:
    """96·B·s·l·h²·(1 + s/6h + V/16lh) with recomputation, of which a step without it makes three quarters.

    Narayanan et al. 2021, appendix; the head has a width of its own.
    """
    batch, s, layers, h, words = 2, 1024, 36, 1280, 50257
    exact = 72 * batch * s * layers * h**2 * (1 + s / (6 * h) + words / (12 * layers * h))
    assert _products("gpt2-large", Setting(batch)) == pytest.approx(exact, rel=1e-3)


def test_fused_attention_has_the_same_products_forward_and_keeps_no_scores() -> None:
    """Of 4·B·s²·h operations a block; going back the scores are computed again: five products for two."""
    model, scores = load_model("llama-2-7b"), 32 * 2048**2 * 2
    forward = [Setting(2, 2048, training=False, fused_attention=fused) for fused in (False, True)]
    plain, same = (_work(model.operators(how), "linear", "bmm", "attention") for how in forward)
    assert same == pytest.approx(plain)
    how = [Setting(2, 2048, precision="bf16", fused_attention=fused) for fused in (False, True)]
    assert _work(model.operators(how[1]), "attention") == pytest.approx(32 * 3.5 * 4 * 2 * 2048**2 * 4096)
    layers = [model.layers(setting) for setting in how]
    saved, left = (ones[1].activations for ones in layers)
    assert saved - left >= scores
    held, less = (device_memory(*ones).total for ones in zip(layers, how, strict=True))
    assert held - less >= 32 * 2 * scores  # bytes of all blocks


def test_activations_are_those_of_the_formula() -> None:
    """s·b·h·(34 + 5·a·s/h) bytes a block in half precision; Korthikanti et al. 2023, equation 2."""
    batch, s, h, heads = 4, 1024, 1280, 20
    layers = load_model("gpt2-large").layers(Setting(batch, precision="fp16", compiled=True))
    block = next(layer for layer in layers if layer.name == "block 1")
    assert 2 * block.activations == pytest.approx(s * batch * h * (34 + 5 * heads * s / h), rel=0.03)


def test_shares_divide_the_products_and_not_the_stream() -> None:
    whole, half = (load_model("llama-3-8b").layers(Setting(1, 512, tensor_parallel=t))[1] for t in (1, 2))
    products = [_work(layer.operators) for layer in (whole, half)]
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
    for name in published()["activations"]:
        assert _model({**data, "activation_function": name}).operators(Setting())


def test_more_devices_than_heads_of_keys_each_hold_one() -> None:
    """As in Megatron-LM and vLLM: heads of keys and values are copied where they are too few."""
    data = {
        "model_type": "gemma", "hidden_size": 64, "num_attention_heads": 8, "num_key_value_heads": 2,
        "num_hidden_layers": 1, "vocab_size": 64, "max_position_embeddings": 8, "head_dim": 8,
        "intermediate_size": 64,
    }  # fmt: skip
    model = _model(data)
    held = {shares: model.layers(Setting(tensor_parallel=shares))[1].parameters for shares in (1, 2, 8)}
    norms, keys = 2 * 64, 64 * 8
    assert held[2] - norms == (held[1] - norms) / 2
    assert held[8] - norms == (held[1] - norms - 4 * keys) / 8 + 2 * keys
    three = _model({**data, "num_key_value_heads": 4})
    with pytest.raises(OptionError, match="tensor_parallel 3: does not divide the 8 heads"):
        three.layers(Setting(tensor_parallel=3))


USED = {"mixtral-8x7b": 12.9e9, "qwen1.5-moe-a2.7b": 2.7e9, "deepseek-v2-lite": 2.66e9, "deepseek-v3": 37.5e9}
"""Parameters that a token goes through: Jiang et al. 2024, Qwen team 2024, DeepSeek-AI 2024 (2.4e9 and 37e9
without the embedding). DeepSeek-V3 is without the 14,848 numbers that balance its router, and without the
layers of a second token."""


@pytest.mark.parametrize("name", USED)
def test_a_token_goes_through_few_experts(name: str) -> None:
    model, tokens = load_model(name), 4096
    operators = model.operators(Setting(1, tokens, training=False))
    products = flops(op for op in operators if op.kind == "linear") / 2 / tokens
    embedding = model.layers(Setting(1, 16))[0].parameters
    assert products + embedding == pytest.approx(USED[name], rel=0.02)


def test_memory_holds_all_experts_however_few_tokens_there_are() -> None:
    model = load_model("deepseek-v2-lite")
    settings = [Setting(1, tokens, training=False) for tokens in (1, 4, 4096)]
    held = [device_memory(model.layers(setting), setting).parameters for setting in settings]
    assert held == [4 * 15_706_484_224] * 3


EXPERTS = {
    "model_type": "mixtral", "hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 1,
    "vocab_size": 9, "max_position_embeddings": 512, "moe_intermediate_size": 16,
    "num_experts": 4, "num_experts_per_tok": 2,
}  # fmt: skip


def _block(setting: Setting, **given: object) -> list[Operator]:
    """Return the operators of the forward pass of a block with experts."""
    return [*_model({**EXPERTS, **given}).layers(setting)[1].operators]


def _shapes(operators: list[Operator]) -> list[tuple[tuple[int, ...], int]]:
    """Return shapes and counts of linear layers after those of attention."""
    return [(op.shape, op.count) for op in operators if op.kind == "linear"][3:]


def _held(operators: list[Operator]) -> int:
    return sum(op.parameters * op.count for op in operators)


def test_tokens_are_spread_over_the_experts() -> None:
    many, few = _block(Setting(2, 6)), _block(Setting(1, 1))
    assert _shapes(many) == [((12, 8, 4), 1), ((6, 8, 16), 8), ((6, 16, 8), 4)]
    assert _shapes(few)[1] == ((1, 8, 16), 4)
    assert _held(few) == _held(many)


def test_a_capacity_bounds_the_tokens_of_an_expert() -> None:
    assert _shapes(_block(Setting(3, 100), expert_capacity=2))[1] == ((6, 8, 16), 8)


def test_every_token_goes_through_what_is_shared() -> None:
    plain, shared = _block(Setting(1, 8)), _block(Setting(1, 8), n_shared_experts=2)
    assert _held(shared) - _held(plain) == 3 * 8 * 32
    gated = _block(Setting(1, 8), shared_expert_intermediate_size=32)
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
    spread, held = load_model("mixtral-8x7b").assumptions
    assert spread == "Tokens spread evenly over the 8 experts, 2 for each."
    assert held == "Every device holds a share of all experts; they are not put on devices of their own."
    assert "at most 5 of a sample" in _model({**EXPERTS, "expert_capacity": 5}).assumptions[0]
    assert load_model("gpt2").assumptions == ()


LATENT = {"q_lora_rank": 6, "kv_lora_rank": 4, "qk_nope_head_dim": 8, "qk_rope_head_dim": 2, "v_head_dim": 5}


def test_projections_go_through_narrow_vectors() -> None:
    for rank, queries in ((6, [(3, 8, 6), (3, 6, 20)]), (None, [(3, 8, 20)])):
        found = _block(Setting(1, 3), **{**LATENT, "q_lora_rank": rank})
        shapes = [op.shape for op in found if op.kind == "linear"]
        assert shapes[: len(queries) + 3] == [*queries, (3, 8, 6), (3, 4, 26), (3, 10, 8)]


def test_keys_and_values_may_differ_in_width() -> None:
    block = load_model("deepseek-v3").layers(Setting(1, 32, tensor_parallel=4))[1]
    products = [op.shape for op in block.operators if op.kind == "bmm"]
    assert products == [(32, 32, 192, 32), (32, 32, 32, 128)]
    assert Operator("linear", (32, 32 * 128, 7168), parameters=32 * 128 * 7168, saved=0) in block.operators


SMALL = {
    "model_type": "t5", "d_model": 16, "d_kv": 4, "num_heads": 2, "num_layers": 2, "num_decoder_layers": 3,
    "d_ff": 32, "vocab_size": 50,
}  # fmt: skip


def _small(**given: object) -> Transformer:
    return _model({**SMALL, **given})


def test_operations_of_two_stacks_are_those_of_the_formula() -> None:
    """A token meets each weight once; scores and values are 4·s²·h in each of three attentions."""
    s = 256
    operators = load_model("transformer-base").operators(Setting(2, s, training=False))
    products = _work(operators)
    weights = 6 * (4 + 8) * 512**2 + 6 * (8 + 8) * 512**2 + 37000 * 512
    assert products == 2 * (2 * s * weights + 18 * 4 * s**2 * 512)


def test_the_decoder_reads_the_encoder() -> None:
    layers = {layer.name: layer for layer in _small().layers(Setting(1, 8))}
    assert len(layers) == 1 + 2 + 1 + 3 + 1
    encoder, decoder = layers["encoder block 1"], layers["decoder block 1"]
    products = [sum(op.count for op in one.operators if op.kind == "bmm") for one in (encoder, decoder)]
    assert products == [2, 4]
    # A stage of decoder blocks passes on what the encoder returned.
    assert (encoder.output, decoder.output, layers["decoder block 3"].output) == (8 * 16, 2 * 8 * 16, 8 * 16)
    assert layers["decoder embedding"].parameters == 0


def test_the_bias_of_distances_is_looked_up_once_a_stack() -> None:
    layers = _small().layers(Setting(1, 8))
    tables = [op for layer in layers for op in layer.operators if op.kind == "embedding" and op["width"] == 2]
    assert [(op.shape, op.parameters) for op in tables] == [((64, 2, 32), 64)] * 2


def test_untied_and_gated_layers_have_more_weights() -> None:
    plain = _small().parameters()
    assert _small(tie_word_embeddings=False).parameters() == plain + 50 * 16
    gated = _small(feed_forward_proj="gated-gelu")
    assert gated.parameters() == plain + 5 * 16 * 32
    assert "tanh" in {op.kind for op in gated.operators(Setting(1, 8))}


def test_experts_stand_in_every_second_block() -> None:
    model = _small(
        model_type="switch_transformers", num_experts=4, decoder_sparse_step=2, encoder_sparse_step=2
    )
    assert any("4 experts" in sentence for sentence in model.assumptions)
    routers = [
        layer.name
        for layer in model.layers(Setting(1, 8))
        for op in layer.operators
        if op.kind == "linear" and op["outputs"] == 4
    ]
    assert routers == ["encoder block 2", "decoder block 2"]
    assert model.parameters() == _small().parameters() + 2 * (3 * 2 * 16 * 32 + 16 * 4)


def test_devices_share_heads_and_widths_of_both_stacks() -> None:
    whole, half = (_small().layers(Setting(1, 8, tensor_parallel=share)) for share in (1, 2))
    for one, other in zip(whole, half, strict=True):
        assert one.output == other.output or one.name == "head"
        if "block" in one.name:
            products = [_work(layer.operators) for layer in (one, other)]
            assert products[0] == 2 * products[1]
            assert (one.all_reduces, other.all_reduces) == (0, 3 if one.name == "decoder block 3" else 2)


def test_shares_of_two_stacks_that_cannot_be_are_refused() -> None:
    with pytest.raises(OptionError, match="tensor_parallel 4: does not divide the 2 heads"):
        _small().layers(Setting(tensor_parallel=4))
    odd = {"model_type": "switch_transformers", "num_experts": 4, "moe_intermediate_size": 31}
    with pytest.raises(OptionError, match="tensor_parallel 2: does not divide the 31 width of an expert"):
        _small(**odd).layers(Setting(tensor_parallel=2))
    with pytest.raises(OptionError, match="activation 'mish': unknown; known are"):
        _small(dense_act_fn="mish").layers(Setting())
    with pytest.raises(OptionError, match="sequence 1025: the model has positions for 1024"):
        load_model("bart-base").layers(Setting(sequence=1025))
    assert load_model("t5-small").layers(Setting(sequence=1025))
