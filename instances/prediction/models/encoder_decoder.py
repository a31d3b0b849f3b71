"""Encoder–decoder transformers (Vaswani et al. 2017) as operators, without fused attention.

The blocks are those of the published implementations: T5 (Raffel et al. 2020; a learned bias of distances
in place of positions, RMS norms), Switch (Fedus et al. 2022; T5 with experts), BART (Lewis et al. 2020)
and Marian. Tensor parallelism is that of Megatron-LM.

The fields of a ``config.json`` are read for T5, Switch, BART, Marian, and the first Transformer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from pydantic import Field

from ...common.errors import OptionError
from ...common.fields import Model
from ...files.reading import fail
from ..operators import Operator, linear
from .description import Layer, ModelDescription, Setting
from .transformer import ACTIVATIONS, check_parts, expert_operators, spread, widths_of
from .transformer_config import SAYS_HEAD, Experts, checked, experts_of, picked

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
"""`model_type` of a file → fields with the structure of its blocks."""
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
        """Width of one attention head."""
        return self.head_width or self.hidden // self.heads


def encoder_decoder_config_of(data: Mapping[str, Any], source: str) -> EncoderDecoderConfig:
    """Return the configuration of an encoder–decoder transformer from the data of a ``config.json``.

    Raises
    ------
    InstanceError
        If the model's type is unknown, or a size is missing or impossible.
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
        # In files gated-gelu means the approximation by tanh.
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


@dataclass(frozen=True)
class EncoderDecoder(ModelDescription):
    """A transformer with an encoder and a decoder, whose blocks attend to the encoder's output.

    Parameters
    ----------
    config
        Its configuration.
    """

    config: EncoderDecoderConfig = field(kw_only=True)

    @property
    def positions(self) -> int:
        """The maximum number of tokens of a sequence."""
        return self.config.positions

    def layers(self, setting: Setting) -> tuple[Layer, ...]:
        """Return the embeddings and blocks of encoder and decoder, and the head."""
        config, parts = self.config, _Parts.of(self.config, setting, self.name)
        layers = [parts.embedding("encoder")]
        layers += [parts.block("encoder", index) for index in range(config.encoder_blocks)]
        layers.append(parts.embedding("decoder"))
        layers += [parts.block("decoder", index) for index in range(config.decoder_blocks)]
        layers += [head] if (head := parts.head()).operators else []
        return tuple(layer.at(setting.precision) for layer in layers)


def encoder_decoder_of(name: str, source: str, config: EncoderDecoderConfig) -> EncoderDecoder:
    """Return the model of a configuration, with assumptions on its sequences and experts."""
    given = [experts for experts in (config.encoder_experts, config.decoder_experts) if experts is not None]
    sentences = [
        "Encoder and decoder read sequences of the same length.",
        *(spread(given[0]) if given else ()),
    ]
    return EncoderDecoder(name, source, config=config, assumptions=tuple(sentences))


@dataclass(frozen=True)
class _Parts:
    """Builds the layers for one setting; `rows` is the number of tokens of a batch in either stack."""

    config: EncoderDecoderConfig
    batch: int
    sequence: int
    shares: int
    training: bool

    @classmethod
    def of(cls, config: EncoderDecoderConfig, setting: Setting, name: str) -> _Parts:
        shares = setting.tensor_parallel
        sizes = {
            "heads": config.heads,
            "encoder width": config.encoder_width,
            "decoder width": config.decoder_width,
            **widths_of(config.encoder_experts or config.decoder_experts),
        }
        check_parts(name, shares, sizes, config.activation)
        sequence = setting.sequence or config.positions
        if config.positions_learned and sequence > config.positions:
            raise OptionError(f"{name}: sequence {sequence}: the model has positions for {config.positions}")
        return cls(config, setting.batch, sequence, shares, setting.training)

    @property
    def rows(self) -> int:
        return self.batch * self.sequence

    @property
    def _stream(self) -> int:
        return self.rows * self.config.hidden

    def _over(self, kind: str, width: int, rows: int | None = None, count: int = 1) -> Operator:
        return Operator(kind, (rows or self.rows, width), count)

    def _norm(self) -> Operator:
        kind, numbers = ("layer_norm", 2) if self.config.biased else ("rms_norm", 1)
        return replace(self._over(kind, self.config.hidden), parameters=numbers * self.config.hidden)

    def _dropout(self, width: int, rows: int | None = None) -> list[Operator]:
        """Return the dropout operator, if training; it keeps its output and a one-byte mask."""
        if not self.training:
            return []
        dropout = self._over("dropout", width, rows)
        return [replace(dropout, saved=dropout.outputs + dropout.outputs // 2)]

    def embedding(self, stack: str) -> Layer:
        """Return the embedding layer of encoder or decoder; both share the parameters of one table."""
        config = self.config
        entries = -(-config.vocabulary // self.shares)
        parameters = entries * config.hidden if stack == "encoder" else 0
        operators = [Operator("embedding", (self.rows, config.hidden, entries), parameters=parameters)]
        if config.positions_learned:
            learned = config.positions + config.spare_positions
            positions = Operator("embedding", (self.sequence, config.hidden, learned))
            operators.append(replace(positions, parameters=learned * config.hidden))
        if not config.buckets:
            operators.append(self._over("add", config.hidden))
        operators += [self._norm()] if config.embedding_norm else []
        operators += self._dropout(config.hidden)
        return Layer(f"{stack} embedding", tuple(operators), self._output(stack), int(self.shares > 1))

    def _output(self, stack: str) -> int:
        """Return the elements passed on by a layer; in the decoder including the encoder's output."""
        return self._stream * (1 if stack == "encoder" else 2)

    def block(self, stack: str, index: int) -> Layer:
        """Return a transformer block, counted from 0; each sublayer has a residual connection."""
        config, decodes = self.config, stack == "decoder"
        experts = config.decoder_experts if decodes else config.encoder_experts
        width = (config.decoder_width if decodes else config.encoder_width) // self.shares
        parts = [self._attention(biases=index == 0, masked=decodes)]
        parts += [self._attention(biases=None, masked=False)] if decodes else []
        parts.append(self._inner_or_experts(width, experts if experts and experts.are_in(index) else None))
        operators: list[Operator] = []
        for part in parts:
            operators += [self._norm()] if config.norm_before else []
            operators += [*part, *self._dropout(config.hidden), self._over("add", config.hidden)]
            operators += [] if config.norm_before else [self._norm()]
        last = config.decoder_blocks if decodes else config.encoder_blocks
        if index == last - 1 and config.norm_before:
            operators.append(self._norm())
        output = self._stream if decodes and index == last - 1 else self._output(stack)
        # Three all-reduces of the decoder's stream are one and a half of an output of two streams.
        sums = -(-len(parts) * self._stream // output)
        return Layer(f"{stack} block {index + 1}", tuple(operators), output, sums if self.shares > 1 else 0)

    def _attention(self, biases: bool | None, masked: bool) -> list[Operator]:
        """Return the operators of self-attention or, with `biases` None, of cross-attention.

        Parameters
        ----------
        biases
            Whether this block looks up the biases of distances, for all blocks of the stack.
        masked
            Whether tokens attend only to earlier ones.
        """
        config, rows = self.config, self.rows
        heads = config.heads // self.shares
        inner, biased = heads * config.per_head, config.attention_biased
        batch, sequence = self.batch * heads, self.sequence
        scores = partial(self._over, width=sequence, rows=batch * sequence)
        operators = [
            linear(rows, config.hidden, inner, bias=biased),
            linear(rows, config.hidden, inner, bias=biased, count=2),
        ]
        operators.append(self._over("copy", inner, count=3))
        if not config.buckets:
            operators.append(self._over("scale", inner))
        operators.append(Operator("bmm", (batch, sequence, config.per_head, sequence), saved=0))
        if config.buckets and biases:
            looked_up = Operator("embedding", (sequence * sequence, heads, config.buckets))
            operators.append(replace(looked_up, parameters=config.buckets * heads))
        if config.buckets:
            operators.append(replace(scores("add"), saved=0))
        elif masked:
            operators.append(scores("scale"))
        operators += [scores("softmax"), *self._dropout(sequence, batch * sequence)]
        operators.append(Operator("bmm", (batch, sequence, sequence, config.per_head)))
        operators.append(self._over("copy", inner))
        return [*operators, replace(linear(rows, inner, config.hidden, bias=biased), saved=0)]

    def _inner_or_experts(self, width: int, experts: Experts | None) -> list[Operator]:
        if experts is None:
            return self._inner(self.rows, width, 1)
        return expert_operators(
            experts, self.batch, self.sequence, self.config.hidden, self._inner, self.shares
        )

    def _inner(self, rows: int, width: int, count: int) -> list[Operator]:
        """Return the operators of `count` feed-forward layers of a width, each for `rows` tokens."""
        config, gates = self.config, 2 if self.config.gated else 1
        operators = [linear(rows, config.hidden, width, bias=config.biased, count=gates * count)]
        operators += [self._over(kind, width, rows, count) for kind in ACTIVATIONS[config.activation]]
        operators += [self._over("mul", width, rows, count)] if config.gated else []
        operators += [op.times(count) for op in self._dropout(width, rows)]
        last = linear(rows, width, config.hidden, bias=config.biased, count=count)
        return [*operators, replace(last, saved=0)]

    def head(self) -> Layer:
        """Return the output layer: the projection to the vocabulary and, in training, its softmax."""
        config = self.config
        if not config.head:
            return Layer("head", (), self._stream)
        entries = -(-config.vocabulary // self.shares)
        operators = [self._over("scale", config.hidden)] if config.buckets and config.tied else []
        operators.append(linear(self.rows, config.hidden, entries, bias=False, shared=config.tied))
        operators += [self._over("softmax", entries)] if self.training else []  # of the loss
        return Layer("head", tuple(operators), self.rows * entries)
