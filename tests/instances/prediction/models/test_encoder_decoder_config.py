"""Configurations with encoder and decoder: defaults of each family, and faults in one line."""

from __future__ import annotations

import pytest

from clusterplan.instances.common.errors import InstanceError
from clusterplan.instances.prediction.models import Setting
from clusterplan.instances.prediction.models.encoder_decoder import encoder_decoder_of
from clusterplan.instances.prediction.models.encoder_decoder_config import STYLES, encoder_decoder_config_of
from clusterplan.instances.prediction.operators import flops

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
