"""Configurations: the names of each family, defaults and heads."""

from __future__ import annotations

import pytest

from clusterplan.instances.common.errors import InstanceError
from clusterplan.instances.prediction.models.transformer_config import config_of

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
