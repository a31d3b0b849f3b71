"""Encoder–decoder transformers in a ``config.json``: T5, Switch, BART, Marian, and the first Transformer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import Field

from ...common.fields import Model
from ...files.reading import fail
from .config_fields import SAYS_HEAD, checked, picked
from .experts_config import Experts, experts_of

_T5 = {
    "biased": False, "attention_biased": False, "norm_before": True, "positions_learned": False,
    "embedding_norm": False, "activation": "relu",
}  # fmt: skip
_BART = {
    "biased": True, "attention_biased": True, "norm_before": False, "positions_learned": True,
    "spare_positions": 2, "embedding_norm": True, "activation": "gelu", "buckets": 0,
}  # fmt: skip
_MBART = {**_BART, "norm_before": True}
_FIRST = {**_BART, "positions_learned": False, "embedding_norm": False, "activation": "relu"}
STYLES: Mapping[str, Mapping[str, Any]] = {
    **{name: {**_T5, "buckets": 32} for name in ("t5", "mt5", "switch_transformers")},
    "bart": _BART,
    "mbart": _MBART,
    "blenderbot": {**_MBART, "embedding_norm": False, "spare_positions": 0},
    **{name: {**_FIRST, "norm_before": True} for name in ("pegasus", "m2m_100")},
    "marian": _FIRST,
    "transformer": {**_FIRST, "attention_biased": False},
}
"""`model_type` of a file → how its blocks are made."""
_NAMES = {
    "hidden": ("d_model", "hidden_size"),
    "heads": ("num_heads", "encoder_attention_heads", "num_attention_heads"),
    "encoder_blocks": ("encoder_layers", "num_layers", "num_hidden_layers"),
    "decoder_blocks": ("decoder_layers", "num_decoder_layers", "num_layers", "num_hidden_layers"),
    "vocabulary": ("vocab_size",),
    "positions": ("max_position_embeddings", "n_positions"),
    "encoder_width": ("encoder_ffn_dim", "d_ff"),
    "decoder_width": ("decoder_ffn_dim", "d_ff"),
    "head_width": ("d_kv",),
    "activation": ("dense_act_fn", "activation_function"),
    "buckets": ("relative_attention_num_buckets",),
    "tied": ("tie_word_embeddings",),
}
_GATED = "gated-"
_ENCODER = "EncoderModel"
_Size = Field(ge=1, le=10**7)
_Blocks = Field(ge=1, le=10_000)


class EncoderDecoderConfig(Model):
    """The shape of an encoder–decoder transformer.

    Attributes
    ----------
    positions
        Tokens of a sample unless others are asked for; the most where they are learned.
    encoder_width, decoder_width
        Between the linear layers of a block.
    gated
        Whether two linear layers are multiplied there.
    biased, attention_biased
        Whether linear layers, and those of attention, have a bias. Without it, norms are RMS norms without
        one too.
    norm_before
        Whether blocks normalise before their branch.
    positions_learned
        Whether there is a table of positions for encoder and decoder.
    spare_positions
        Rows of these tables that no token uses.
    embedding_norm
        Whether embeddings are normalised.
    buckets
        Distances whose bias is learned for each head; 0: none.
    head
        Whether the last layer gives a probability of every word.
    tied
        Whether that layer has the weights of the embedding.
    encoder_experts, decoder_experts
        In place of the inner layer of some blocks.
    """

    hidden: int = _Size
    heads: int = _Size
    encoder_blocks: int = _Blocks
    decoder_blocks: int = _Blocks
    vocabulary: int = _Size
    positions: int = Field(default=512, ge=1, le=10**7)
    encoder_width: int = _Size
    decoder_width: int = _Size
    head_width: int | None = Field(default=None, ge=1, le=10**6)
    activation: str
    gated: bool = False
    biased: bool
    attention_biased: bool
    norm_before: bool
    positions_learned: bool
    spare_positions: int = Field(default=0, ge=0, le=10)
    embedding_norm: bool
    buckets: int = Field(ge=0, le=10**6)
    head: bool = True
    tied: bool = True
    encoder_experts: Experts | None = None
    decoder_experts: Experts | None = None

    @property
    def per_head(self) -> int:
        """Width of a head."""
        return self.head_width or self.hidden // self.heads


def encoder_decoder_config_of(data: Mapping[str, Any], source: str) -> EncoderDecoderConfig:
    """Return the shape of an encoder–decoder transformer from the data of a ``config.json``.

    Raises
    ------
    InstanceError
        If the model's type is not known, a size missing or impossible.
    """
    kind = data.get("model_type")
    if not isinstance(kind, str) or kind not in STYLES:
        known = ", ".join(STYLES)
        raise fail(source, f"is {kind!r:.60}; known with encoder and decoder are {known}", "model_type")
    fields = {**STYLES[kind], **picked(data, _NAMES)}
    architectures = data.get("architectures")
    name = str(architectures[0]) if isinstance(architectures, list) and architectures else ""
    if _ENCODER in name:
        raise fail(source, f"is {name:.60}, an encoder alone; known are both together", "architectures")
    if name:
        fields["head"] = any(word in name for word in SAYS_HEAD)
    inner = str(data.get("feed_forward_proj", ""))
    fields["gated"] = inner.startswith(_GATED) or data.get("is_gated_act") is True
    if "dense_act_fn" not in data and inner:
        # What files call gated-gelu is the approximation by tanh.
        fields["activation"] = "gelu_new" if inner == "gated-gelu" else inner.removeprefix(_GATED)
    if kind == "switch_transformers":
        fields["decoder_experts"] = experts_of(data, source)
        steps = {"decoder_sparse_step": data.get("encoder_sparse_step")}
        fields["encoder_experts"] = experts_of({**data, **steps}, source)
    config = checked(EncoderDecoderConfig, fields, _NAMES, source)
    if data.get("decoder_attention_heads", config.heads) != config.heads:
        raise fail(
            source, f"differs from the encoder's {config.heads}; both must agree", "decoder_attention_heads"
        )
    if config.head_width is None and config.hidden % config.heads:
        what = f"is {config.heads}, which does not divide d_model {config.hidden}"
        raise fail(source, what, " or ".join(_NAMES["heads"]))
    return config
