"""What is known of a transformer: the fields of a Hugging Face ``config.json`` under one set of names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field

from ...common.fields import Model
from ...files.reading import fail
from .config_fields import checked, picked
from .experts_config import Experts, LatentAttention, experts_of, latent_of

Family = Literal["bert", "gpt2", "opt", "llama"]
FAMILIES: Mapping[str, Family] = {
    **dict.fromkeys(("bert", "roberta"), "bert"),
    **dict.fromkeys(("gpt2", "gpt3", "megatron"), "gpt2"),
    "opt": "opt",
    **dict.fromkeys(("llama", "mistral", "mixtral", "qwen2", "qwen2_moe", "qwen3", "qwen3_moe"), "llama"),
    **dict.fromkeys(("deepseek", "deepseek_v2", "deepseek_v3"), "llama"),
}
"""`model_type` of a file → the family whose blocks it has."""
_NAMES = {
    "hidden": ("hidden_size", "n_embd", "d_model"),
    "heads": ("num_attention_heads", "n_head", "num_heads"),
    "blocks": ("num_hidden_layers", "n_layer", "num_layers"),
    "vocabulary": ("vocab_size",),
    "positions": ("max_position_embeddings", "n_positions", "n_ctx"),
    "intermediate": ("intermediate_size", "ffn_dim", "n_inner", "d_ff"),
    "key_value_heads": ("num_key_value_heads",),
    "head_width": ("head_dim", "d_kv"),
    "activation": ("hidden_act", "activation_function", "dense_act_fn"),
    "token_types": ("type_vocab_size",),
    "tied": ("tie_word_embeddings",),
    "embedding_width": ("word_embed_proj_dim",),
    "attention_bias": ("attention_bias",),
    "norm_before": ("do_layer_norm_before",),
}
_Size = Field(ge=1, le=10**7)
SAYS_HEAD = ("LMHead", "ForCausalLM", "ForMaskedLM", "ForPreTraining", "ForConditionalGeneration")
"""Parts of the names of architectures that give a probability of every word."""


class TransformerConfig(Model):
    """The shape of a transformer.

    Attributes
    ----------
    intermediate
        Width between the two linear layers of a block; by default four times `hidden`.
    key_value_heads
        Heads of keys and values (Ainslie et al. 2023); by default as many as `heads`.
    head_width
        By default `hidden` / `heads`.
    positions
        The longest sequence.
    head
        Whether the last layer gives a probability of every word.
    tied
        Whether that layer has the weights of the embedding.
    norm_before
        Whether blocks normalise before their branch, as all but BERT and OPT-350M do.
    head_norms
        Whether each head of queries and keys is normalised, as in Qwen 3.
    experts
        In place of the inner layer of some blocks.
    latent
        In place of heads of keys and values.
    """

    family: Family
    hidden: int = _Size
    heads: int = _Size
    blocks: int = Field(ge=1, le=10_000)
    vocabulary: int = _Size
    positions: int = _Size
    intermediate: int | None = Field(default=None, ge=1, le=10**7)
    key_value_heads: int | None = Field(default=None, ge=1, le=10**7)
    head_width: int | None = Field(default=None, ge=1, le=10**6)
    activation: str = "gelu"
    token_types: int = Field(default=0, ge=0, le=10**6)
    head: bool = True
    tied: bool = True
    embedding_width: int | None = Field(default=None, ge=1, le=10**7)
    attention_bias: bool = False
    norm_before: bool = True
    head_norms: bool = False
    experts: Experts | None = None
    latent: LatentAttention | None = None

    @property
    def width(self) -> int:
        """Width between the two linear layers of a block."""
        return self.intermediate or 4 * self.hidden

    @property
    def groups(self) -> int:
        """Heads of keys and values."""
        return self.key_value_heads or self.heads

    @property
    def per_head(self) -> int:
        """Width of a head."""
        return self.head_width or self.hidden // self.heads


def config_of(data: Any, source: str) -> TransformerConfig:
    """Return the shape of a transformer from the data of a ``config.json``.

    Keys that say nothing of it are left out.

    Raises
    ------
    InstanceError
        If the model's type is not known, a size missing or impossible.
    """
    if not isinstance(data, Mapping):
        raise fail(source, "is no mapping; a model's config.json is one")
    kind = data.get("model_type")
    if not isinstance(kind, str) or kind not in FAMILIES:
        raise fail(source, f"is {kind!r:.60}; known are {', '.join(FAMILIES)}", "model_type")
    family = FAMILIES[kind]
    fields: dict[str, Any] = {"family": family, **picked(data, _NAMES)}
    architectures = data.get("architectures")
    if isinstance(architectures, list) and architectures:
        fields["head"] = any(word in str(architectures[0]) for word in SAYS_HEAD)
    fields.setdefault("activation", {"llama": "silu", "opt": "relu", "gpt2": "gelu_new"}.get(family, "gelu"))
    fields.setdefault("tied", family != "llama")
    fields.setdefault("norm_before", family != "bert")
    fields.setdefault("attention_bias", kind in ("qwen2", "qwen2_moe"))
    fields["head_norms"] = kind in ("qwen3", "qwen3_moe")
    fields["experts"], fields["latent"] = experts_of(data, source), latent_of(data, source)
    config = checked(TransformerConfig, fields, _NAMES, source)
    if config.head_width is None and config.hidden % config.heads:
        what = f"is {config.heads}, which does not divide hidden_size {config.hidden}"
        raise fail(source, what, _NAMES["heads"][0])
    if config.heads % config.groups:
        what = f"is {config.groups}, which does not divide num_attention_heads {config.heads}"
        raise fail(source, what, _NAMES["key_value_heads"][0])
    return config
