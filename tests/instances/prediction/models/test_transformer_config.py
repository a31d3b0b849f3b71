"""Configurations: the names of each family, defaults and heads, experts, styles of blocks, and faults."""

from __future__ import annotations

from typing import Any

import pytest
from forecasts import flops
from sample_documents import refused

from clusterplan.instances.common.errors import InstanceError, OptionError
from clusterplan.instances.prediction.models import Setting
from clusterplan.instances.prediction.models.transformer import Transformer, transformer_of
from clusterplan.instances.prediction.models.transformer_config import (
    PICTURES,
    config_of,
    experts_of,
    latent_of,
    styles,
)

SIZES = {
    "hidden_size": 64, "num_attention_heads": 8, "num_hidden_layers": 2, "vocab_size": 99,
    "max_position_embeddings": 32,
}  # fmt: skip


def test_defaults_follow_the_family() -> None:
    llama, opt, bert = (config_of({"model_type": name, **SIZES}, name) for name in ("llama", "opt", "bert"))
    assert (llama.activation, llama.tied, llama.norms) == ("silu", False, "before")
    assert (opt.activation, opt.tied) == ("relu", True)
    assert bert.norms == "after"
    assert (bert.width, bert.groups, bert.per_head) == (256, 8, 8)


def test_the_architecture_says_whether_there_is_a_head() -> None:
    for name, head in (("BertModel", False), ("BertLMHeadModel", True)):
        assert config_of({"model_type": "bert", **SIZES, "architectures": [name]}, "x").head is head


def test_key_value_heads_divide_the_heads() -> None:
    with pytest.raises(InstanceError, match="num_key_value_heads: is 3, which does not divide"):
        config_of({"model_type": "llama", **SIZES, "num_key_value_heads": 3}, "x")


@pytest.mark.parametrize("data", [{"model_type": ["gpt2"]}, {}])
def test_what_is_no_configuration_is_refused(data: dict[str, object]) -> None:
    with pytest.raises(InstanceError, match="known are"):
        config_of(data, "x")


EXPERTS_CONFIG_SIZES = {
    "hidden_size": 64, "num_attention_heads": 8, "num_hidden_layers": 4, "vocab_size": 99,
    "max_position_embeddings": 32, "intermediate_size": 128,
}  # fmt: skip


def test_each_family_has_its_names() -> None:
    mixtral = experts_of({**EXPERTS_CONFIG_SIZES, "num_local_experts": 8, "num_experts_per_tok": 2}, "x")
    assert mixtral is not None
    assert (mixtral.number, mixtral.per_token, mixtral.width, mixtral.shared_width) == (8, 2, 128, 0)
    narrow = {**EXPERTS_CONFIG_SIZES, "moe_intermediate_size": 32}
    qwen = experts_of({**narrow, "num_experts": 6, "shared_expert_intermediate_size": 48}, "x")
    assert qwen is not None
    assert (qwen.number, qwen.width, qwen.shared_width, qwen.gated) == (6, 32, 48, True)
    deepseek = experts_of({**narrow, "n_routed_experts": 6, "n_shared_experts": 2}, "x")
    assert deepseek is not None
    assert (deepseek.shared_width, deepseek.gated) == (64, False)


def test_which_blocks_have_experts() -> None:
    def blocks(**given: object) -> list[int]:
        experts = experts_of({**EXPERTS_CONFIG_SIZES, "num_experts": 4, **given}, "x")
        assert experts is not None
        return [block for block in range(6) if experts.are_in(block)]

    assert blocks() == [0, 1, 2, 3, 4, 5]
    assert blocks(decoder_sparse_step=2) == [1, 3, 5]
    assert blocks(mlp_only_layers=[0, 2]) == [1, 3, 4, 5]
    assert blocks(first_k_dense_replace=2, moe_layer_freq=1) == [2, 3, 4, 5]
    assert blocks(moe_layer_freq=3) == [0, 3]
    assert blocks(model_type="switch_transformers", decoder_sparse_step=3) == [1, 4]


def test_a_model_of_one_expert_has_none() -> None:
    assert experts_of({**EXPERTS_CONFIG_SIZES, "num_experts": 1}, "x") is None
    assert experts_of(EXPERTS_CONFIG_SIZES, "x") is None
    assert latent_of(EXPERTS_CONFIG_SIZES, "x") is None


NUMBER = "num_local_experts or n_routed_experts or num_experts"
EVERY = "decoder_sparse_step or moe_layer_freq"


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"num_experts": 8, "num_experts_per_tok": 9}, "num_experts_per_tok: is 9, more than the 8 experts"),
        ({"num_experts": 0}, f"{NUMBER}: is 0, but must be at least 1"),
        ({"num_local_experts": "many"}, f"{NUMBER}: "),
        ({"num_experts": 4, "decoder_sparse_step": 0}, f"{EVERY}: is 0, but must be at least 1"),
        ({"num_experts": 4, "n_shared_experts": "x"}, "n_shared_experts or shared_expert_intermediate_size"),
        ({"kv_lora_rank": 8, "qk_nope_head_dim": 4, "qk_rope_head_dim": 2}, "v_head_dim: is missing"),
    ],
)
def test_wrong_experts_are_one_line_each(given: dict[str, object], says: str) -> None:
    with refused(says):
        config_of({"model_type": "mixtral", **EXPERTS_CONFIG_SIZES, **given}, "x")


def _sizes(hidden: int, heads: int, blocks: int, words: int, inner: int, **more: Any) -> dict[str, Any]:
    sizes = {"hidden_size": hidden, "num_attention_heads": heads, "num_hidden_layers": blocks}
    return {"vocab_size": words, "intermediate_size": inner, "max_position_embeddings": 2048, **sizes, **more}


def _model(data: dict[str, Any]) -> Transformer:
    return transformer_of("x", "", config_of(data, "x"))


def test_biases_of_a_llama_are_counted() -> None:
    sizes = _sizes(512, 8, 3, 1000, 1536, num_key_value_heads=2)
    plain, both = (
        _model({"model_type": "llama", **sizes, "attention_bias": on, "mlp_bias": on}) for on in (False, True)
    )
    assert both.parameters() - plain.parameters() == 3 * (512 + 2 * 128 + 512 + 2 * 1536 + 512)


def test_a_part_of_a_head_is_rotated() -> None:
    for kind, more in (("gptj", {"rotary_dim": 16}), ("gpt_neox", {"rotary_pct": 0.25})):
        assert config_of({"model_type": kind, **_sizes(256, 4, 2, 99, 256), **more}, "x").rotated == 16


def test_tokens_beyond_a_table_are_not_taken() -> None:
    """Of RoBERTa's 514 positions no token uses the first two."""
    sizes = _sizes(64, 8, 2, 99, 256, max_position_embeddings=514)
    assert config_of({"model_type": "roberta", **sizes}, "x").positions == 512


def test_what_the_file_leaves_open_is_said() -> None:
    falcon = _model({"model_type": "falcon", **_sizes(64, 8, 2, 99, 256, max_position_embeddings=None)})
    assert falcon.assumptions == ("Sequences of 2,048 tokens, for the file says no longest one.",)
    further = {"model_type": "deepseek_v3", "num_nextn_predict_layers": 1, **_sizes(64, 8, 2, 99, 256)}
    assert "predict further tokens (1), are left out" in _model(further).assumptions[0]
    mistral = {"model_type": "mistral", "sliding_window": 1024, **_sizes(64, 8, 2, 99, 256)}
    assert "beyond its window of 1,024" in _model(mistral).assumptions[0]
    assert not _model({**mistral, "use_sliding_window": False}).assumptions


def test_pretraining_of_electra_has_no_words() -> None:
    data = {"model_type": "electra", **_sizes(64, 4, 2, 99, 256), "architectures": ["ElectraForPreTraining"]}
    assert not config_of(data, "x").head
    assert all(layer.operators for layer in _model(data).layers(Setting()))


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"model_type": "stablelm", "qk_layernorm": True}, "qk_layernorm: is True, which is"),
        ({"model_type": "llava", "text_config": {"model_type": "llama"}}, "; its text_config may be"),
        ({"model_type": "llava", "text_config": {"model_type": []}}, "is 'llava'; known are bert"),
        ({"model_type": "cohere", "use_qk_norm": True}, "use_qk_norm: is True"),
        ({"model_type": "llama", "layer_types": ["mamba"]}, "layer_types: has 'mamba'; known"),
        ({"model_type": "falcon", "parallel_attn": "yes"}, "parallel_attn: is 'yes'; it must"),
        ({"model_type": "bert", "position_embedding_type": "relative_key"}, "position_embedding_type: is"),
        ({"model_type": "opt", "do_layer_norm_before": "no"}, "do_layer_norm_before: is 'no'"),
        ({"model_type": "mpt", "intermediate_size": None, "expansion_ratio": "4"}, "whole number"),
        ({"model_type": "gpt_neox", "rotary_pct": 2}, "partial_rotary_factor or rotary_pct"),
    ],
)  # fmt: skip
def test_what_is_not_known_is_refused_in_one_line(more: dict[str, Any], says: str) -> None:
    with refused(says):
        config_of({**_sizes(64, 8, 2, 99, 256), **more}, "x")


@pytest.mark.parametrize("kind", sorted({*styles("one_stack")} - {*PICTURES}))
def test_every_type_has_layers(kind: str) -> None:
    model = _model({"model_type": kind, **_sizes(64, 8, 2, 99, 256)})
    assert model.operators(Setting(2, 16))
    assert model.operators(Setting(2, 16, compiled=True))


def _pictures(kind: str, architecture: str, **more: Any) -> dict[str, Any]:
    sizes = _sizes(768, 12, 12, 1, 3072, image_size=224, patch_size=16, num_channels=3, qkv_bias=True)
    names = {str(index): "" for index in range(1000)}
    return {"model_type": kind, "architectures": [architecture], "id2label": names, **sizes, **more}


@pytest.mark.parametrize(
    ("kind", "architecture", "parameters", "counted"),
    [
        ("vit", "ViTForImageClassification", 86_567_656, 70_255_312_896),
        ("vit", "ViTModel", 86_389_248, 70_254_600_192),
        ("deit", "DeiTForImageClassification", 86_569_192, 70_624_174_080),
    ],
)
def test_pictures_are_read_as_squares(kind: str, architecture: str, parameters: int, counted: int) -> None:
    """As transformers 4.57 and `torch.utils.flop_counter` count them, of two pictures."""
    model = _model(_pictures(kind, architecture))
    operators = model.operators(Setting(2, training=False))
    assert model.parameters() == parameters
    products = flops(op for op in operators if op.kind in ("linear", "bmm", "conv"))
    assert products == pytest.approx(counted, rel=1e-4)


def test_pictures_have_no_sequence_and_hold_a_square() -> None:
    with pytest.raises(OptionError, match="x: has no sequence; leave it out"):
        _model(_pictures("vit", "ViTModel")).layers(Setting(sequence=5))
    with pytest.raises(InstanceError, match="patch_size: is 300, more than the picture of 224"):
        config_of(_pictures("vit", "ViTModel", patch_size=300), "x")
    with pytest.raises(InstanceError, match="image_size: is missing"):
        config_of(_pictures("vit", "ViTModel", image_size=None), "x")


STACKS = {"d_model": 16, "num_heads": 2, "num_layers": 2, "d_ff": 32, "vocab_size": 50}


@pytest.mark.parametrize("kind", styles("two_stacks"))
def test_every_type_of_two_stacks_needs_only_its_sizes(kind: str) -> None:
    config = config_of({"model_type": kind, **STACKS}, "x")
    assert (config.blocks, config.decoder_blocks, config.per_head) == (2, 2, 8)
    assert (config.intermediate, config.decoder_width) == (32, 32)
    assert not config.buckets or config.norms == "before"


def test_names_of_bart_and_t5() -> None:
    bart = {
        "model_type": "bart", "d_model": 16, "encoder_attention_heads": 2, "decoder_attention_heads": 2,
        "encoder_layers": 2, "decoder_layers": 4, "encoder_ffn_dim": 24, "decoder_ffn_dim": 32,
        "vocab_size": 9,
    }  # fmt: skip
    config = config_of(bart, "x")
    assert (config.blocks, config.decoder_blocks) == (2, 4)
    assert (config.intermediate, config.decoder_width, config.activation) == (24, 32, "gelu")
    gated = {"model_type": "t5", **STACKS, "feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}
    config = config_of(gated, "x")
    assert (config.gated, config.activation, config.tied) == (True, "gelu_new", False)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (
            {"model_type": "whisper", "is_encoder_decoder": True},
            "model_type: is 'whisper'; known with encoder and decoder are t5",
        ),
        ({"architectures": ["T5EncoderModel"]}, "architectures: is T5EncoderModel, an encoder alone"),
        ({"d_ff": None, "decoder_ffn_dim": 8}, "encoder_ffn_dim or d_ff: is missing"),
        ({"num_heads": 3}, "is 3, which does not divide d_model 16"),
        ({"num_heads": 0}, "num_heads or encoder_attention_heads or num_attention_heads: is 0"),
        ({"decoder_attention_heads": 4}, "decoder_attention_heads: differs from the encoder's 2"),
    ],
)
def test_wrong_configurations_of_two_stacks_say_where(given: dict[str, object], says: str) -> None:
    with refused(says):
        config_of({"model_type": "t5", **STACKS, **given}, "x")
