"""What is known of a transformer: the fields of a Hugging Face ``config.json`` under one set of names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field

from ...common.fields import Model
from ...files.reading import fail
from .config_fields import SAYS_HEAD, checked, picked
from .experts_config import Experts, LatentAttention, experts_of, latent_of
from .transformer_styles import PICTURES, style_of, with_attention

Family = Literal["bert", "gpt2", "opt", "llama"]
_NAMES = {
    "hidden": ("hidden_size", "n_embd", "d_model", "n_embed", "dim"),
    "heads": ("num_attention_heads", "n_head", "num_heads", "n_heads"),
    "blocks": ("num_hidden_layers", "n_layer", "num_layers", "n_layers"),
    "vocabulary": ("vocab_size",),
    "positions": ("max_position_embeddings", "n_positions", "n_ctx", "seq_length", "max_seq_len"),
    "intermediate": ("intermediate_size", "ffn_dim", "n_inner", "d_ff", "hidden_dim", "ffn_hidden_size"),
    "key_value_heads": ("num_key_value_heads", "num_kv_heads", "n_head_kv", "kv_n_heads"),
    "head_width": ("head_dim", "d_kv"),
    "activation": ("hidden_activation", "hidden_act", "activation_function", "dense_act_fn", "activation"),
    "token_types": ("type_vocab_size",),
    "tied": ("tie_word_embeddings",),
    "embedding_width": ("word_embed_proj_dim", "embedding_size"),
    "attention_bias": ("attention_bias", "use_qkv_bias", "qkv_bias"),
    "inner_bias": ("mlp_bias",),
    "different_blocks": ("num_hidden_groups",),
    "rotary_share": ("partial_rotary_factor", "rotary_pct"),
    "rotary_width": ("rotary_dim",),
    "scores_cap": ("attn_logit_softcapping",),
    "words_cap": ("final_logit_softcapping",),
    "window": ("sliding_window",),
    "further": ("num_nextn_predict_layers",),
}
_PATCHES = {
    "picture": ("image_size",),
    "patch": ("patch_size",),
    "channels": ("num_channels",),
    "classes": ("num_labels",),
}
_Size = Field(ge=1, le=10**7)
USUAL_POSITIONS = 2048
"""Tokens of a sample where positions need no table and the file says no number."""


class Patches(Model):
    """Pictures that are read as squares (Dosovitskiy et al. 2021), in place of words.

    Attributes
    ----------
    picture, patch
        Sides of a picture and of a square, in pixels.
    channels
        Of a picture.
    extra
        Tokens beside those of the squares.
    classes
        What the first token tells apart; 0: there is no last layer.
    """

    picture: int = Field(ge=1, le=10**5)
    patch: int = Field(ge=1, le=10**5)
    channels: int = Field(default=3, ge=1, le=10**5)
    extra: int = Field(default=1, ge=1, le=2)
    classes: int = Field(default=0, ge=0, le=10**7)

    @property
    def tokens(self) -> int:
        """Tokens of a picture."""
        return (self.picture // self.patch) ** 2 + self.extra


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
    positions, says_positions
        The longest sequence, and whether the file says it.
    head
        Whether the last layer gives a probability of every word.
    tied
        Whether that layer has the weights of the embedding.
    embedding_width
        Of the table of words, where it differs from `hidden`.
    embedding_norm, embedding_scaled
        Whether the embedding is normalised (BERT has it always), or multiplied by a number.
    pooler
        Whether a model without `head` ends with a linear layer over the first token.
    norm, norm_vectors
        Kind of the norms, and how many vectors of weights each has.
    norms
        Where they are: ``before`` a branch, ``after`` it has been added, ``branch`` (at its end, before it is
        added), or ``around``: before it and at its end.
    parallel
        Norms of blocks whose attention and inner layer read the same stream beside each other; 0: they follow
        one another.
    different_blocks
        How many different sets of weights blocks have; by default each its own.
    places
        How positions are known: from a table, by rotation of queries and keys, or by slopes added to scores.
    spare_positions
        Rows of that table beyond `positions`.
    rotary_share, rotary_width
        Which part of a head is rotated.
    attention_bias, output_bias, inner_bias, head_bias
        Whether linear layers have a bias: of queries, keys and values; after attention (by default as these);
        of the inner layer; of the head.
    fused
        Whether one linear layer makes queries, keys and values.
    gated
        Whether two linear layers are multiplied in the inner layer.
    head_norms
        What is normalised of queries and of keys.
    sinks
        Whether each head has a score of its own that no token has.
    scores_cap, words_cap
        Numbers that keep scores and the head's values small by tanh.
    window
        Tokens that attention reaches back in some blocks; None: all.
    further
        Layers that predict further tokens and are left out.
    patches
        What a model of pictures reads.
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
    says_positions: bool = True
    intermediate: int | None = Field(default=None, ge=1, le=10**7)
    key_value_heads: int | None = Field(default=None, ge=1, le=10**7)
    head_width: int | None = Field(default=None, ge=1, le=10**6)
    activation: str = "gelu"
    token_types: int = Field(default=0, ge=0, le=10**6)
    head: bool = True
    tied: bool = True
    embedding_width: int | None = Field(default=None, ge=1, le=10**7)
    embedding_norm: bool = False
    embedding_scaled: bool = False
    pooler: bool = False
    norm: Literal["layer_norm", "rms_norm"] = "layer_norm"
    norm_vectors: int = Field(default=2, ge=0, le=2)
    norms: Literal["before", "after", "around", "branch"] = "before"
    parallel: int = Field(default=0, ge=0, le=2)
    different_blocks: int | None = Field(default=None, ge=1, le=10_000)
    places: Literal["learned", "rotary", "slopes"]
    spare_positions: int = Field(default=0, ge=0, le=10)
    rotary_share: float = Field(default=1.0, gt=0, le=1)
    rotary_width: int | None = Field(default=None, ge=1, le=10**6)
    attention_bias: bool = False
    output_bias: bool | None = None
    inner_bias: bool = False
    head_bias: bool = False
    fused: bool = False
    gated: bool = False
    head_norms: Literal["none", "each head", "all heads"] = "none"
    sinks: bool = False
    scores_cap: float | None = Field(default=None, gt=0)
    words_cap: float | None = Field(default=None, gt=0)
    window: int | None = Field(default=None, ge=1, le=10**9)
    further: int = Field(default=0, ge=0, le=1000)
    patches: Patches | None = None
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

    @property
    def rotated(self) -> int:
        """Width of the part of a head that is rotated."""
        return min(self.rotary_width or max(int(self.per_head * self.rotary_share), 1), self.per_head)

    @property
    def biased_output(self) -> bool:
        """Whether the linear layer after attention has a bias."""
        return self.attention_bias if self.output_bias is None else self.output_bias

    def holds_weights(self, block: int) -> bool:
        """Return whether a block, counted from 0, is the first one with its weights."""
        sets = min(self.different_blocks or self.blocks, self.blocks)
        return block == 0 or block * sets // self.blocks != (block - 1) * sets // self.blocks


def _fields_of(data: Mapping[str, Any], style: Mapping[str, Any], source: str) -> dict[str, Any]:
    """Return what a file says, and for the rest what its style does."""
    fields = {**style, **picked(data, _NAMES)}
    one = fields.pop("multi_query", None)
    if one is not None:
        fields["key_value_heads"] = 1 if one else None
    if style["family"] not in ("bert", "opt"):
        fields.pop("embedding_width", None)
    heads = fields.pop("heads_of_words", SAYS_HEAD)
    architectures = data.get("architectures")
    if isinstance(architectures, list) and architectures:
        fields["head"] = any(word in str(architectures[0]) for word in heads)
    if data.get("use_sliding_window") is False:
        fields.pop("window", None)
    ratio, hidden = data.get("expansion_ratio"), fields.get("hidden")
    if ratio is not None and not isinstance(ratio, int):
        raise fail(source, f"is {ratio!r:.60}; it must be a whole number", "expansion_ratio")
    if ratio is not None and isinstance(hidden, int):
        fields.setdefault("intermediate", ratio * hidden)
    return {**fields, **_tokens_of(data, style, fields.get("positions"), source)}


def _tokens_of(data: Mapping[str, Any], style: Mapping[str, Any], said: Any, source: str) -> dict[str, Any]:
    """Return what follows from the positions that a file says, or from its pictures."""
    if data.get("model_type") in PICTURES:
        patches = _patches_of(data, source)
        return {"patches": patches, "positions": patches.tokens, "vocabulary": 1, "head": False}
    if style["places"] != "learned" and said is None:
        return {"positions": USUAL_POSITIONS, "says_positions": False}
    if style["family"] == "bert" and isinstance(said, int):
        # RoBERTa counts the rows of its table that no token uses.
        return {"positions": said - style.get("spare_positions", 0)}
    return {}


def _patches_of(data: Mapping[str, Any], source: str) -> Patches:
    fields = picked(data, _PATCHES)
    names = data.get("id2label")
    architecture = str(data.get("architectures"))
    fields.setdefault("classes", len(names) if isinstance(names, Mapping) else 2)
    if "ForImageClassification" not in architecture:
        fields["classes"] = 0
    fields["extra"] = 2 if data.get("model_type") == "deit" else 1
    patches = checked(Patches, fields, _PATCHES, source)
    if patches.picture < patches.patch:
        raise fail(source, f"is {patches.patch}, more than the picture of {patches.picture}", "patch_size")
    return patches


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
    fields = _fields_of(with_attention(data), style_of(data, source), source)
    fields["experts"], fields["latent"] = experts_of(data, source), latent_of(data, source)
    config = checked(TransformerConfig, fields, _NAMES, source)
    if config.head_width is None and config.hidden % config.heads:
        what = f"is {config.heads}, which does not divide hidden_size {config.hidden}"
        raise fail(source, what, _NAMES["heads"][0])
    if config.heads % config.groups:
        what = f"is {config.groups}, which does not divide num_attention_heads {config.heads}"
        raise fail(source, what, _NAMES["key_value_heads"][0])
    return config
