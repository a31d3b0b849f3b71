"""Experts in configurations: the names of each family, which blocks have them, and faults in one line."""

from __future__ import annotations

import pytest

from clusterplan.instances.common.errors import InstanceError
from clusterplan.instances.prediction.models.experts_config import experts_of, latent_of
from clusterplan.instances.prediction.models.transformer_config import config_of

SIZES = {
    "hidden_size": 64, "num_attention_heads": 8, "num_hidden_layers": 4, "vocab_size": 99,
    "max_position_embeddings": 32, "intermediate_size": 128,
}  # fmt: skip


def test_each_family_has_its_names() -> None:
    mixtral = experts_of({**SIZES, "num_local_experts": 8, "num_experts_per_tok": 2}, "x")
    assert mixtral is not None
    assert (mixtral.number, mixtral.per_token, mixtral.width, mixtral.shared_width) == (8, 2, 128, 0)
    qwen = experts_of(
        {**SIZES, "num_experts": 6, "moe_intermediate_size": 32, "shared_expert_intermediate_size": 48}, "x"
    )
    assert qwen is not None
    assert (qwen.number, qwen.width, qwen.shared_width, qwen.gated) == (6, 32, 48, True)
    deepseek = experts_of(
        {**SIZES, "n_routed_experts": 6, "moe_intermediate_size": 32, "n_shared_experts": 2}, "x"
    )
    assert deepseek is not None
    assert (deepseek.shared_width, deepseek.gated) == (64, False)


def test_which_blocks_have_experts() -> None:
    def blocks(**given: object) -> list[int]:
        experts = experts_of({**SIZES, "num_experts": 4, **given}, "x")
        assert experts is not None
        return [block for block in range(6) if experts.are_in(block)]

    assert blocks() == [0, 1, 2, 3, 4, 5]
    assert blocks(decoder_sparse_step=2) == [1, 3, 5]
    assert blocks(mlp_only_layers=[0, 2]) == [1, 3, 4, 5]
    assert blocks(first_k_dense_replace=2, moe_layer_freq=1) == [2, 3, 4, 5]
    assert blocks(moe_layer_freq=3) == [0, 3]
    assert blocks(model_type="switch_transformers", decoder_sparse_step=3) == [1, 4]


def test_a_model_of_one_expert_has_none() -> None:
    assert experts_of({**SIZES, "num_experts": 1}, "x") is None
    assert experts_of(SIZES, "x") is None
    assert latent_of(SIZES, "x") is None


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
    with pytest.raises(InstanceError) as error:
        config_of({"model_type": "mixtral", **SIZES, **given}, "x")
    assert says in str(error.value)
    assert "\n" not in str(error.value)
