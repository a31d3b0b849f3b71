"""Configurations: the names of each family, defaults and heads.

Fields of configurations: the first name that is there, and faults in the words of the file.

Experts in configurations: the names of each family, which blocks have them, and faults in one line.

Styles of blocks: published configurations have the parameters and products of their implementations.
"""

from __future__ import annotations

from typing import Any

import pytest
from sample_documents import refused

from clusterplan.instances.common.errors import InstanceError, OptionError
from clusterplan.instances.common.fields import Model
from clusterplan.instances.prediction.models import Setting
from clusterplan.instances.prediction.models.transformer import Transformer, transformer_of
from clusterplan.instances.prediction.models.transformer_config import (
    PICTURES,
    STYLES,
    checked,
    config_of,
    experts_of,
    latent_of,
    picked,
)
from clusterplan.instances.prediction.operators import flops

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


@pytest.mark.parametrize("data", [None, [], {"model_type": ["gpt2"]}, {}])
def test_what_is_no_configuration_is_refused(data: object) -> None:
    with pytest.raises(InstanceError, match=r"is no mapping|known are"):
        config_of(data, "x")


NAMES = {"size": ("n", "size_of_it"), "other": ("o",)}


class _Two(Model):
    size: int
    other: int = 3


def test_null_counts_as_absent() -> None:
    assert picked({"n": None, "size_of_it": 4, "more": 1}, NAMES) == {"size": 4}


def test_faults_are_in_the_words_of_the_file() -> None:
    assert checked(_Two, {"size": 4}, NAMES, "x").other == 3
    with pytest.raises(InstanceError, match="x: n or size_of_it: is missing"):
        checked(_Two, {}, NAMES, "x")


EXPERTS_CONFIG_SIZES = {
    "hidden_size": 64, "num_attention_heads": 8, "num_hidden_layers": 4, "vocab_size": 99,
    "max_position_embeddings": 32, "intermediate_size": 128,
}  # fmt: skip


def test_each_family_has_its_names() -> None:
    mixtral = experts_of({**EXPERTS_CONFIG_SIZES, "num_local_experts": 8, "num_experts_per_tok": 2}, "x")
    assert mixtral is not None
    assert (mixtral.number, mixtral.per_token, mixtral.width, mixtral.shared_width) == (8, 2, 128, 0)
    qwen = experts_of(
        {
            **EXPERTS_CONFIG_SIZES,
            "num_experts": 6,
            "moe_intermediate_size": 32,
            "shared_expert_intermediate_size": 48,
        },
        "x",
    )
    assert qwen is not None
    assert (qwen.number, qwen.width, qwen.shared_width, qwen.gated) == (6, 32, 48, True)
    deepseek = experts_of(
        {**EXPERTS_CONFIG_SIZES, "n_routed_experts": 6, "moe_intermediate_size": 32, "n_shared_experts": 2},
        "x",
    )
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


MASKED = {"max_position_embeddings": 512, "type_vocab_size": 2, "architectures": ["XForMaskedLM"]}
PUBLISHED: dict[str, tuple[dict[str, Any], int, int]] = {
    "albert-base-v2": (
        {"model_type": "albert", "embedding_size": 128, "num_hidden_groups": 1, "hidden_act": "gelu_new",
         **_sizes(768, 12, 12, 30000, 3072, **MASKED)}, 11_221_680, 3_757_309_952),
    "distilbert-base-uncased": (
        {"model_type": "distilbert", "activation": "gelu", "dim": 768, "hidden_dim": 3072, "n_heads": 12,
         "n_layers": 6, "max_position_embeddings": 512, "vocab_size": 30522,
         "architectures": ["DistilBertForMaskedLM"]}, 66_985_530, 4_021_813_248),
    "roberta-base": (
        {"model_type": "roberta",
         **_sizes(768, 12, 12, 50265, 3072, **{**MASKED, "max_position_embeddings": 514}),
         "type_vocab_size": 1},
        124_697_433, 4_021_813_248),
    "gpt-neo-125m": (
        {"model_type": "gpt_neo", "num_heads": 12, "num_layers": 12, "intermediate_size": None,
         "max_position_embeddings": 2048, "hidden_size": 768, "vocab_size": 50257},
        125_198_592, 3_870_818_304),
    "starcoder": (
        {"model_type": "gpt_bigcode", "n_embd": 6144, "n_head": 48, "n_inner": 24576, "n_layer": 40,
         "n_positions": 8192, "multi_query": True, "vocab_size": 49152}, 15_517_456_384, 196_054_351_872),
    "gemma-2b": (
        {"model_type": "gemma", "head_dim": 256, "num_key_value_heads": 1, "hidden_act": "gelu",
         **_sizes(2048, 8, 18, 256000, 16384)}, 2_506_172_416, 57_029_967_872),
    "gemma-2-9b": (
        {"model_type": "gemma2", "head_dim": 256, "num_key_value_heads": 8, "final_logit_softcapping": 30.0,
         "attn_logit_softcapping": 50.0, **_sizes(3584, 16, 42, 256000, 14336)},
        9_241_705_984, 102_654_558_208),
    "gemma-3-1b": (
        {"model_type": "gemma3_text", "head_dim": 256, "num_key_value_heads": 1,
         **_sizes(1152, 4, 26, 262144, 6912)}, 999_885_952, 14_102_593_536),
    "olmo-1b": (
        {"model_type": "olmo", "tie_word_embeddings": True, **_sizes(2048, 16, 16, 50304, 8192)},
        1_176_764_416, 35_018_252_288),
    "olmo2-13b": (
        {"model_type": "olmo2", **_sizes(5120, 40, 40, 100352, 13824)}, 13_716_198_400, 164_049_723_392),
    "aya-23-8b": (
        {"model_type": "cohere", "num_key_value_heads": 8, "use_qk_norm": False,
         **_sizes(4096, 32, 32, 256000, 14336)}, 8_028_033_024, 112_986_169_344),
    "starcoder2-3b": (
        {"model_type": "starcoder2", "num_key_value_heads": 2, "use_bias": True,
         **_sizes(3072, 24, 30, 49152, 12288)}, 3_030_371_328, 50_111_455_232),
    "stablelm-2-1.6b": (
        {"model_type": "stablelm", "use_qkv_bias": True, "partial_rotary_factor": 0.25,
         **_sizes(2048, 32, 24, 100352, 5632)}, 1_644_515_328, 26_965_181_440),
    "phi-2": (
        {"model_type": "phi", "hidden_act": "gelu_new", "qk_layernorm": False, "partial_rotary_factor": 0.4,
         **_sizes(2560, 32, 32, 51200, 10240)}, 2_779_683_840, 41_088_452_608),
    "pythia-160m": (
        {"model_type": "gpt_neox", "rotary_pct": 0.25, "use_parallel_residual": True,
         **_sizes(768, 12, 12, 50304, 3072)}, 162_322_944, 3_870_819_328),
    "gpt-j-6b": (
        {"model_type": "gptj", "n_embd": 4096, "n_head": 16, "n_layer": 28, "n_positions": 2048,
         "n_inner": None, "rotary_dim": 64, "vocab_size": 50400}, 6_050_882_784, 104_396_226_560),
    "falcon-7b": (
        {"model_type": "falcon", "hidden_size": 4544, "num_attention_heads": 71, "num_hidden_layers": 32,
         "alibi": False, "bias": False, "multi_query": True, "parallel_attn": True, "vocab_size": 65024,
         "new_decoder_architecture": False}, 6_921_720_704, 107_476_291_584),
    "falcon-40b": (
        {"model_type": "falcon", "hidden_size": 8192, "num_attention_heads": 128, "num_hidden_layers": 60,
         "alibi": False, "bias": False, "multi_query": True, "parallel_attn": True, "vocab_size": 65024,
         "new_decoder_architecture": True, "num_kv_heads": 8}, 41_303_293_952, 350_526_377_984),
    "falcon-rw-1b": (
        {"model_type": "falcon", "hidden_size": 2048, "num_attention_heads": 32, "num_hidden_layers": 24,
         "alibi": True, "bias": True, "multi_query": False, "parallel_attn": False, "vocab_size": 50304},
        1_311_625_216, 26_428_313_600),
    "bloom-560m": (
        {"model_type": "bloom", "n_embed": 1024, "n_layer": 24, "num_attention_heads": 16, "seq_length": 2048,
         "vocab_size": 250880}, 559_214_592, 6_771_703_808),
    "mpt-7b": (
        {"model_type": "mpt", "d_model": 4096, "n_heads": 32, "n_layers": 32, "max_seq_len": 2048,
         "expansion_ratio": 4, "no_bias": True, "attn_config": {"alibi": True}, "vocab_size": 50432},
        6_649_286_656, 104_396_226_560),
}  # fmt: skip
"""A published config.json → `sum(p.numel() for p in model.parameters())` of its implementation (transformers
4.57), and what `torch.utils.flop_counter` counts of 2 × 64 tokens through two blocks and 1000 words of it."""
BLOCKS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")


def _model(data: dict[str, Any]) -> Transformer:
    return transformer_of("x", "", config_of(data, "x"))


@pytest.mark.parametrize("name", PUBLISHED)
def test_parameters_are_those_of_the_published_weights(name: str) -> None:
    data, parameters, _ = PUBLISHED[name]
    assert _model(data).parameters() == parameters


@pytest.mark.parametrize("name", PUBLISHED)
def test_products_are_those_of_the_implementation(name: str) -> None:
    data, _, counted = PUBLISHED[name]
    short = {**data, "vocab_size": 1000, **dict.fromkeys([key for key in BLOCKS if key in data], 2)}
    operators = _model(short).operators(Setting(2, 64, training=False))
    # The counter's few more are of the table of angles.
    assert flops(op for op in operators if op.kind in ("linear", "bmm")) == pytest.approx(counted, rel=1e-5)


def test_experts_with_biases_and_sinks_are_those_of_gpt_oss() -> None:
    """As openai/gpt-oss-20b: biases in experts and router, and a score of its own for each head."""
    experts = {"num_local_experts": 32, "num_experts_per_tok": 4, "sliding_window": 128}
    sizes = _sizes(2880, 64, 24, 201088, 2880, max_position_embeddings=131072, head_dim=64)
    data = {"model_type": "gpt_oss", **sizes, "num_key_value_heads": 8, "attention_bias": True, **experts}
    model = _model(data)
    assert model.parameters() == 20_914_757_184
    assert "beyond its window of 128" in " ".join(model.assumptions)


def test_biases_of_a_llama_are_counted() -> None:
    sizes = _sizes(512, 8, 3, 1000, 1536, num_key_value_heads=2)
    plain, both = (
        _model({"model_type": "llama", **sizes, "attention_bias": on, "mlp_bias": on}) for on in (False, True)
    )
    assert both.parameters() - plain.parameters() == 3 * (512 + 2 * 128 + 512 + 2 * 1536 + 512)


def test_a_part_of_a_head_is_rotated() -> None:
    data, *_ = PUBLISHED["gpt-j-6b"]
    assert config_of(data, "x").rotated == 64
    data, *_ = PUBLISHED["pythia-160m"]
    assert config_of(data, "x").rotated == 16


def test_tokens_beyond_a_table_are_not_taken() -> None:
    """Of RoBERTa's 514 positions no token uses the first two."""
    data, *_ = PUBLISHED["roberta-base"]
    assert config_of(data, "x").positions == 512


def test_what_the_file_leaves_open_is_said() -> None:
    falcon = _model(PUBLISHED["falcon-7b"][0])
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


@pytest.mark.parametrize("kind", sorted({*STYLES} - {*PICTURES}))
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
