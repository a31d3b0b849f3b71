"""Latent attention: narrow vectors are whole on every device, heads are shared."""

from __future__ import annotations

from clusterplan.instances.prediction.models import Setting, load_model
from clusterplan.instances.prediction.models.experts_config import LatentAttention
from clusterplan.instances.prediction.models.latent_attention import latent_projections
from clusterplan.instances.prediction.operators import Operator

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
