"""Mixtures of experts and latent attention in a ``config.json``: Mixtral, Qwen, DeepSeek, Switch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import Field

from ...common.fields import Model
from ...files.reading import fail
from .config_fields import checked, picked

_EXPERTS = {
    "number": ("num_local_experts", "n_routed_experts", "num_experts"),
    "per_token": ("num_experts_per_tok", "num_experts_per_token"),
    "width": ("moe_intermediate_size", "intermediate_size", "d_ff", "ffn_dim"),
    "capacity": ("expert_capacity",),
    "router_bias": ("router_bias",),
    "first_dense": ("first_k_dense_replace",),
    "dense_blocks": ("mlp_only_layers",),
}
_LATENT = {
    "query_rank": ("q_lora_rank",),
    "rank": ("kv_lora_rank",),
    "plain": ("qk_nope_head_dim",),
    "rotary": ("qk_rope_head_dim",),
    "value": ("v_head_dim",),
}
_EVERY = ("decoder_sparse_step", "moe_layer_freq")
_SHARED = ("n_shared_experts", "shared_expert_intermediate_size")


class Experts(Model):
    """Experts of a block: inner layers of which a router gives each token a few.

    Attributes
    ----------
    number
        Experts of a block.
    per_token
        Experts that a token goes through.
    width
        Inner width of an expert.
    shared_width
        Inner width of what every token goes through beside its experts; 0: nothing.
    gated
        Whether a gate of its own weighs the shared part.
    router_bias
        Whether the router has a bias.
    capacity
        Tokens of a sample that an expert takes at most; others pass it by.
    first_dense, dense_blocks
        The first blocks, and further ones (from 0), that have a dense inner layer instead.
    every, phase
        Blocks with experts have an index (from 0) of `phase` modulo `every`.
    """

    number: int = Field(ge=1, le=10**5)
    per_token: int = Field(default=1, ge=1, le=10**5)
    width: int = Field(ge=1, le=10**7)
    shared_width: int = Field(default=0, ge=0, le=10**7)
    gated: bool = False
    router_bias: bool = False
    capacity: int | None = Field(default=None, ge=1, le=10**7)
    first_dense: int = Field(default=0, ge=0, le=10_000)
    dense_blocks: tuple[int, ...] = ()
    every: int = Field(default=1, ge=1, le=10_000)
    phase: int = 0

    def are_in(self, block: int) -> bool:
        """Return whether a block, counted from 0, has experts."""
        dense = block < self.first_dense or block in self.dense_blocks
        return not dense and block % self.every == self.phase


class LatentAttention(Model):
    """Attention whose keys and values come from one narrow vector a token (DeepSeek-AI 2024, section 2.1).

    Attributes
    ----------
    query_rank
        Width of the vector that queries come from; None: they come from the residual stream.
    rank
        Width of the vector that keys and values come from.
    plain, rotary
        Widths of a head of queries and keys without positions, and with them; all heads share the latter
        part of the keys.
    value
        Width of a head of values.
    """

    query_rank: int | None = Field(default=None, ge=1, le=10**7)
    rank: int = Field(ge=1, le=10**7)
    plain: int = Field(ge=1, le=10**6)
    rotary: int = Field(ge=1, le=10**6)
    value: int = Field(ge=1, le=10**6)


def experts_of(data: Mapping[str, Any], source: str) -> Experts | None:
    """Return the experts of a configuration; None if it has none, or a single one.

    Raises
    ------
    InstanceError
        If a size is missing or impossible.
    """
    fields = picked(data, _EXPERTS)
    if fields.get("number", 1) == 1:
        return None
    switch = data.get("model_type") == "switch_transformers"
    fields.setdefault("router_bias", data.get("model_type") == "gpt_oss")
    every = next((data[name] for name in _EVERY if data.get(name) is not None), 1)
    width = fields.get("width")
    number = data.get(_SHARED[0])
    if number is not None and isinstance(width, int):
        fields["shared_width"] = number * width if isinstance(number, int) else number
    elif data.get(_SHARED[1]):
        fields |= {"shared_width": data[_SHARED[1]], "gated": True}
    if isinstance(every, int):
        # DeepSeek counts from 0, Qwen from 1, Switch begins with a dense block.
        start = 0 if "moe_layer_freq" in data else min(1, every - 1) if switch else every - 1
        fields["phase"] = max(start, 0)
    names = {**_EXPERTS, "every": _EVERY, "shared_width": _SHARED}
    experts = checked(Experts, {**fields, "every": every}, names, source)
    if experts.per_token > experts.number:
        what = f"is {experts.per_token}, more than the {experts.number} experts"
        raise fail(source, what, _EXPERTS["per_token"][0])
    return experts


def latent_of(data: Mapping[str, Any], source: str) -> LatentAttention | None:
    """Return the latent attention of a configuration; None if it has none.

    Raises
    ------
    InstanceError
        If a size is missing or impossible.
    """
    fields = picked(data, _LATENT)
    return checked(LatentAttention, fields, _LATENT, source) if "rank" in fields else None
