"""Encoder–decoder transformers: published parameters, cross attention, experts, shares.

Configurations with encoder and decoder: defaults of each family, and faults in one line.
"""

from __future__ import annotations

import pytest

from clusterplan.instances.common.errors import InstanceError, OptionError
from clusterplan.instances.prediction.models import Setting, load_model
from clusterplan.instances.prediction.models.encoder_decoder import (
    STYLES,
    EncoderDecoder,
    encoder_decoder_config_of,
    encoder_decoder_of,
)
from clusterplan.instances.prediction.operators import flops

PARAMETERS = {
    "t5-small": 60_506_624,
    "t5-base": 222_903_552,
    "t5-large": 737_668_096,
    "bart-base": 139_420_416,
    "bart-large": 406_291_456,
}
"""As `sum(p.numel() for p in model.parameters())` of the published PyTorch models."""
ROUNDED = {
    "transformer-base": (65e6, 0.04),
    "transformer-big": (213e6, 0.01),
    "switch-base-128": (7.4e9, 0.01),
}
"""Vaswani et al. 2017, table 3, of whose sizes 63 and 214 million follow; Fedus et al. 2022, table 7."""
SMALL = {
    "model_type": "t5", "d_model": 16, "d_kv": 4, "num_heads": 2, "num_layers": 2, "num_decoder_layers": 3,
    "d_ff": 32, "vocab_size": 50,
}  # fmt: skip


def _small(**given: object) -> EncoderDecoder:
    data = {**SMALL, **given}
    return encoder_decoder_of("small", "", encoder_decoder_config_of(data, "small"))


@pytest.mark.parametrize("name", PARAMETERS)
def test_parameters_are_those_of_the_published_model(name: str) -> None:
    assert load_model(name).parameters() == PARAMETERS[name]


@pytest.mark.parametrize("name", ROUNDED)
def test_parameters_are_about_those_of_the_paper(name: str) -> None:
    published, error = ROUNDED[name]
    assert load_model(name).parameters() == pytest.approx(published, rel=error)


def test_operations_are_those_of_the_formula() -> None:
    """A token meets each weight once; scores and values are 4·s²·h in each of three attentions."""
    s = 256
    operators = load_model("transformer-base").operators(Setting(2, s, training=False))
    products = flops(op for op in operators if op.kind in ("linear", "bmm"))
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


def test_devices_share_heads_and_widths() -> None:
    whole, half = (_small().layers(Setting(1, 8, tensor_parallel=share)) for share in (1, 2))
    for one, other in zip(whole, half, strict=True):
        assert one.output == other.output or one.name == "head"
        if "block" in one.name:
            products = [
                flops(op for op in layer.operators if op.kind in ("linear", "bmm")) for layer in (one, other)
            ]
            assert products[0] == 2 * products[1]
            assert (one.all_reduces, other.all_reduces) == (0, 3 if one.name == "decoder block 3" else 2)


def test_what_cannot_be_is_refused() -> None:
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


SIZES = {"d_model": 16, "num_heads": 2, "num_layers": 2, "d_ff": 32, "vocab_size": 50}


@pytest.mark.parametrize("kind", STYLES)
def test_every_type_needs_only_its_sizes(kind: str) -> None:
    config = encoder_decoder_config_of({"model_type": kind, **SIZES}, "x")
    assert (config.encoder_blocks, config.decoder_blocks, config.per_head) == (2, 2, 8)
    assert (config.encoder_width, config.decoder_width) == (32, 32)
    assert not config.buckets or config.norm_before


def test_names_of_bart_and_t5() -> None:
    bart = {
        "model_type": "bart", "d_model": 16, "encoder_attention_heads": 2, "decoder_attention_heads": 2,
        "encoder_layers": 2, "decoder_layers": 4, "encoder_ffn_dim": 24, "decoder_ffn_dim": 32,
        "vocab_size": 9,
    }  # fmt: skip
    config = encoder_decoder_config_of(bart, "x")
    assert (config.encoder_blocks, config.decoder_blocks) == (2, 4)
    assert (config.encoder_width, config.decoder_width, config.activation) == (24, 32, "gelu")
    gated = {"model_type": "t5", **SIZES, "feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}
    config = encoder_decoder_config_of(gated, "x")
    assert (config.gated, config.activation, config.tied) == (True, "gelu_new", False)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"model_type": "whisper"}, "model_type: is 'whisper'; known with encoder and decoder are t5"),
        ({"model_type": ["t5"]}, "known with encoder and decoder are"),
        ({"d_ff": None}, "encoder_ffn_dim or d_ff: is missing"),
        ({"num_heads": 3}, "is 3, which does not divide d_model 16"),
        ({"num_heads": 0}, "num_heads or encoder_attention_heads or num_attention_heads: is 0"),
        ({"decoder_attention_heads": 4}, "decoder_attention_heads: differs from the encoder's 2"),
    ],
)
def test_wrong_configurations_say_where(given: dict[str, object], says: str) -> None:
    with pytest.raises(InstanceError) as error:
        encoder_decoder_config_of({"model_type": "t5", **SIZES, **given}, "x")
    assert says in str(error.value)


COUNTED = {
    ("mbart", "MBartForConditionalGeneration"): (15_496_704, 4_006_608_896),
    ("pegasus", "PegasusForConditionalGeneration"): (15_230_464, 4_006_608_896),
    ("m2m_100", "M2M100ForConditionalGeneration"): (15_230_464, 4_006_608_896),
    ("blenderbot", "BlenderbotForConditionalGeneration"): (15_492_608, 4_006_608_896),
    ("bart", "BartForConditionalGeneration"): (15_494_656, 4_006_608_896),
    ("bart", "BartModel"): (15_494_656, 3_875_536_896),
}
"""Type and architecture → trained parameters in transformers 4.57, and what `torch.utils.flop_counter` counts
of 2 × 64 tokens on both sides."""


@pytest.mark.parametrize(("kind", "architecture"), COUNTED)
def test_parameters_and_products_are_those_of_the_implementation(kind: str, architecture: str) -> None:
    data = {
        "model_type": kind, "architectures": [architecture], "d_model": 512, "encoder_layers": 3,
        "decoder_layers": 2, "encoder_attention_heads": 8, "encoder_ffn_dim": 1024, "decoder_ffn_dim": 2048,
        "max_position_embeddings": 256, "vocab_size": 1000, "activation_function": "relu",
    }  # fmt: skip
    model = encoder_decoder_of("x", "", encoder_decoder_config_of(data, "x"))
    operators = model.operators(Setting(2, 64, training=False))
    products = flops(op for op in operators if op.kind in ("linear", "bmm"))
    assert (model.parameters(), products) == COUNTED[kind, architecture]
    assert all(layer.operators for layer in model.layers(Setting()))


def test_an_encoder_alone_is_refused() -> None:
    with pytest.raises(InstanceError, match="architectures: is T5EncoderModel, an encoder alone"):
        encoder_decoder_config_of({"model_type": "t5", "architectures": ["T5EncoderModel"]}, "x")
