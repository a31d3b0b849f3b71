"""Transformers as operators: the kernels of each block as PyTorch runs them, without fused attention.

The blocks are those of the families' published implementations: BERT (Devlin et al. 2019; normalisation
after the residual), GPT-2 and GPT-3 (Radford et al. 2019; before it), OPT (Zhang et al. 2022), Llama
(Touvron et al. 2023; gated, rotary positions, RMS norms; Mistral, Qwen and DeepSeek like it). How the
blocks of others differ is in `transformer_config`. Tensor parallelism is that of Megatron-LM
(Shoeybi et al. 2019): heads and the inner width of a block are divided, the residual stream is whole on
every device.

Activations for the backward pass are as in Korthikanti et al. 2023, section 4.

A mixture of experts (Shazeer et al. 2017) is a router, the experts' layers, and the sum. Tokens are assumed
to be spread evenly, which the losses of all these models enforce. Each expert gathers its tokens, and adds
its output to the stream.

The projections of multi-head latent attention are as training runs them (DeepSeek-AI 2024, section 2.1).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from ...common.errors import OptionError
from ..operators import Operator, linear
from .description import Layer, ModelDescription, Setting
from .transformer_config import Experts, LatentAttention, Patches, TransformerConfig

Inner = Callable[[int, int, int], list[Operator]]
"""Function of rows, inner width and count that returns the operators of an inner layer."""


def expert_operators(
    experts: Experts, batch: int, sequence: int, hidden: int, inner: Inner, shares: int
) -> list[Operator]:
    """Return the operators of a mixture-of-experts layer on one device, with its router.

    Parameters
    ----------
    batch, sequence
        Samples, and tokens of each.
    hidden
        Width of the residual stream.
    inner
        Returns the operators of one expert's layers.
    shares
        Number of devices that divide the width of each expert; the router is whole on every device.
    """
    rows = batch * sequence
    number = experts.number
    router = linear(rows, hidden, number, bias=experts.router_bias)
    operators = [router, Operator("softmax", (rows, number)), Operator("copy", (rows, number))]  # the largest
    reached, tokens = _load(experts, batch, sequence)
    layers = inner(tokens, experts.width // shares, reached)
    parameters = sum(op.parameters * op.count for op in layers) // reached
    gather = Operator("copy", (tokens, hidden), reached, saved=tokens * hidden)
    if reached < number:
        # Experts without tokens take memory, too.
        operators.append(Operator("copy", (1, number), parameters=parameters * (number - reached), saved=0))
    operators += [gather, *layers, Operator("scale", (tokens, hidden), reached)]
    operators.append(Operator("add", (tokens, hidden), reached, saved=0))
    if not experts.shared_width:
        return operators
    shared = inner(rows, experts.shared_width // shares, 1)
    gate = [
        linear(rows, hidden, 1, bias=False),
        Operator("tanh", (rows, 1)),
        Operator("scale", (rows, hidden)),
    ]
    return [*operators, *shared, *(gate if experts.gated else []), Operator("add", (rows, hidden), saved=0)]


def _load(experts: Experts, batch: int, sequence: int) -> tuple[int, int]:
    """Return the number of experts that receive tokens, and the number of tokens of each of them."""
    calls = batch * sequence * experts.per_token
    reached = min(experts.number, calls)
    tokens = -(-calls // reached)
    if experts.capacity is not None:
        tokens = min(tokens, batch * experts.capacity)
    return reached, tokens


def spread(experts: Experts) -> tuple[str, ...]:
    """Return the assumptions on how tokens and devices are spread over experts, a sentence each."""
    taken = "" if experts.capacity is None else f", which take at most {experts.capacity} of a sample"
    return (
        f"Tokens spread evenly over the {experts.number} experts, {experts.per_token} for each{taken}.",
        "Every device holds a share of all experts; they are not put on devices of their own.",
    )


def latent_projections(latent: LatentAttention, rows: int, hidden: int, heads: int) -> list[Operator]:
    """Return the linear layers from the residual stream to queries, keys and values (latent attention).

    The narrow vectors are computed whole on every device, heads are divided.
    """
    queries = heads * (latent.plain + latent.rotary)
    operators = _through(rows, hidden, latent.query_rank, queries)
    narrow = linear(rows, hidden, latent.rank + latent.rotary, bias=False)
    both = linear(rows, latent.rank, heads * (latent.plain + latent.value), bias=False)
    return [*operators, narrow, _norm(rows, latent.rank), both]


def _through(rows: int, inputs: int, rank: int | None, outputs: int) -> list[Operator]:
    if rank is None:
        return [linear(rows, inputs, outputs, bias=False)]
    down, up = linear(rows, inputs, rank, bias=False), linear(rows, rank, outputs, bias=False)
    return [down, _norm(rows, rank), up]


def _norm(rows: int, width: int) -> Operator:
    return Operator("rms_norm", (rows, width), parameters=width)


ACTIVATIONS: dict[str, tuple[str, ...]] = {
    "gelu": ("gelu",),
    "relu": ("relu",),
    "silu": ("silu",),
    "swish": ("silu",),
    # A compiled kernel of the same approximation.
    "gelu_pytorch_tanh": ("gelu",),
    "quick_gelu": ("scale", "tanh", "mul"),
    "relu2": ("relu", "mul"),
    # ½x(1 + tanh(√(2/π)(x + 0.044715x³))), a kernel for each step
    "gelu_new": ("scale", "scale", "scale", "add", "scale", "tanh", "scale", "mul"),
    "gelu_fast": ("scale", "scale", "scale", "add", "scale", "tanh", "scale", "mul"),
}
"""Kernels of each activation function without compilation."""


@dataclass(frozen=True)
class Transformer(ModelDescription):
    """A transformer with a single stack of equal blocks.

    Parameters
    ----------
    config
        Its configuration.
    """

    config: TransformerConfig = field(kw_only=True)

    @property
    def positions(self) -> int:
        """The maximum number of tokens of a sequence."""
        return self.config.positions

    def layers(self, setting: Setting) -> tuple[Layer, ...]:
        """Return the embedding, the blocks and the head."""
        parts = _Parts.of(self.config, setting, self.name)
        layers = [parts.embedding(), *(parts.block(index + 1) for index in range(self.config.blocks))]
        layers += [head] if (head := parts.head()).operators else []
        return tuple(layer.at(setting.precision) for layer in layers)


def transformer_of(name: str, source: str, config: TransformerConfig) -> Transformer:
    """Return the model of a configuration, with assumptions on experts, positions and attention."""
    notes = [] if config.experts is None else [*spread(config.experts)]
    if not config.says_positions:
        notes.append(f"Sequences of {config.positions:,} tokens, for the file says no longest one.")
    if config.window is not None and config.window < config.positions:
        notes.append(f"Attention is computed for all tokens, also beyond its window of {config.window:,}.")
    if config.further:
        notes.append(f"The last layers, which predict further tokens ({config.further}), are left out.")
    return Transformer(name, source, config=config, assumptions=tuple(notes))


def sequence_of(config: TransformerConfig, setting: Setting, name: str) -> int:
    """Return the number of tokens of a sample: the requested one, else the default of the model.

    Raises
    ------
    OptionError
        If there are more than the model has positions for.
    """
    if config.patches is not None and setting.sequence is not None:
        raise OptionError(f"{name}: has no sequence; leave it out")
    sequence = setting.sequence or config.positions
    if sequence > config.positions:
        raise OptionError(f"{name}: sequence {sequence}: the model has positions for {config.positions}")
    return sequence


def widths_of(experts: Experts | None) -> dict[str, int]:
    """Return description → feed-forward width of experts, which tensor parallelism must divide."""
    if experts is None:
        return {}
    return {"width of an expert": experts.width, "width of the shared expert": experts.shared_width}


def check_parts(name: str, shares: int, sizes: Mapping[str, int], activation: str) -> None:
    """Refuse sizes that tensor parallelism cannot divide evenly, and unknown activation functions.

    Raises
    ------
    OptionError
        If the model has one.
    """
    for what, size in sizes.items():
        if size % shares:
            raise OptionError(f"{name}: tensor_parallel {shares}: does not divide the {size} {what}")
    if activation not in ACTIVATIONS:
        known = ", ".join(ACTIVATIONS)
        raise OptionError(f"{name}: activation {activation!r:.60}: unknown; known are {known}")


@dataclass(frozen=True)
class _Parts:
    """Builds the layers for one setting; `rows` is the number of tokens of a batch."""

    config: TransformerConfig
    batch: int
    sequence: int
    shares: int
    training: bool
    compiled: bool
    fused: bool

    @classmethod
    def of(cls, config: TransformerConfig, setting: Setting, name: str) -> _Parts:
        shares = setting.tensor_parallel
        sizes = {"heads": config.heads, "inner width": config.width}
        if shares % config.groups:
            # With fewer heads of keys and values than devices, each is on several devices.
            sizes["key and value heads"] = config.groups
        check_parts(name, shares, {**sizes, **widths_of(config.experts)}, config.activation)
        sequence = sequence_of(config, setting, name)
        how = setting.training, setting.compiled, setting.fused_attention
        return cls(config, setting.batch, sequence, shares, *how)

    @property
    def rows(self) -> int:
        return self.batch * self.sequence

    @property
    def _output(self) -> int:
        return self.rows * self.config.hidden

    def _over(self, kind: str, width: int, count: int = 1, rows: int | None = None) -> Operator:
        return Operator(kind, (rows or self.rows, width), count)

    def _norm(self, width: int | None = None) -> Operator:
        config = self.config
        norm = self._over(config.norm, width or config.hidden)
        return replace(norm, parameters=config.norm_vectors * norm["width"])

    def _capped(self, width: int, rows: int | None = None) -> list[Operator]:
        """Return the operators of soft-capping: c·tanh(x/c)."""
        return [self._over(kind, width, rows=rows) for kind in ("scale", "tanh", "scale")]

    def _dropout(self) -> list[Operator]:
        if self.config.family == "llama" or not self.training:
            return []
        dropout = self._over("dropout", self.config.hidden)
        return [replace(dropout, saved=self._mask(dropout.outputs))]

    @staticmethod
    def _mask(elements: int) -> int:
        """Return the memory of a boolean (one-byte) mask, counted in two-byte elements."""
        return elements // 2

    def _residual(self) -> list[Operator]:
        """Return the operators of a residual connection, with dropout before it."""
        return [*self._dropout(), self._over("add", self.config.hidden)]

    def embedding(self) -> Layer:
        config, rows = self.config, self.rows
        if config.patches is not None:
            return self._squares(config.patches)
        words = config.embedding_width or config.hidden
        entries = -(-config.vocabulary // self.shares)
        table = Operator("embedding", (rows, words, entries), parameters=entries * words)
        # Other embeddings have the width of the table in BERT, and of the stream elsewhere.
        width = words if config.family == "bert" else config.hidden
        widened = [linear(rows, words, config.hidden, bias=config.family == "bert")]
        operators = [table, *(widened if words != width else [])]
        operators += [self._over("scale", words)] if config.embedding_scaled else []
        for kinds, number in ((self.sequence, self._table), (rows, config.token_types)):
            if number:
                row = Operator("embedding", (kinds, width, number), parameters=number * width)
                operators += [row, self._over("add", width)]
        operators += [self._norm(width)] if config.family == "bert" or config.embedding_norm else []
        operators += widened if width != config.hidden else []
        operators += self._dropout()
        return Layer("embedding", tuple(operators), self._output, all_reduces=int(self.shares > 1))

    def _squares(self, patches: Patches) -> Layer:
        """Return the embedding layer of a vision transformer: image patches and learned extra tokens."""
        hidden, side, picture = self.config.hidden, patches.patch, patches.picture
        shape = (self.batch, patches.channels, hidden, side, side, picture, picture, side, 0, 0, 1)
        squares = Operator("conv", shape, parameters=hidden * (patches.channels * side**2 + 1))
        joined = replace(self._over("copy", hidden), parameters=patches.extra * hidden)
        placed = replace(self._over("scale", hidden), parameters=self.sequence * hidden)
        operators = (squares, self._over("copy", hidden), joined, placed, *self._dropout())
        return Layer("embedding", operators, self._output)

    @property
    def _table(self) -> int:
        """Rows of the table of learned position embeddings; 0 if positions are not learned."""
        learned = self.config.places == "learned"
        return self.config.positions + self.config.spare_positions if learned else 0

    def block(self, index: int) -> Layer:
        """Return a transformer block: attention and feed-forward layer, with residual connections."""
        config = self.config
        parts = (self._attention(), self._inner_of(index - 1))
        operators: list[Operator] = []
        for number, part in enumerate(parts):
            # Parallel branches may share their norm.
            alone = config.parallel != 1 or number == 0
            operators += [self._norm()] if config.norms in ("before", "around") and alone else []
            operators += part
            operators += [self._norm()] if config.norms in ("around", "branch") else []
            operators += self._residual()
            operators += [self._norm()] if config.norms == "after" else []
        if not config.holds_weights(index - 1):
            operators = [replace(operator, parameters=0) for operator in operators]
        # Parallel branches are added before the all-reduce.
        sums = 1 if config.parallel else 2
        return Layer(f"block {index}", tuple(operators), self._output, sums if self.shares > 1 else 0)

    def _attention(self) -> list[Operator]:
        config, rows = self.config, self.rows
        heads, latent = config.heads // self.shares, config.latent
        if latent is None:
            operators, width, value = self._projections(), config.per_head, config.per_head
        else:
            operators = latent_projections(latent, rows, config.hidden, heads)
            operators += self._positions(heads * latent.rotary, latent.rotary)
            width, value = latent.plain + latent.rotary, latent.value
        operators += [
            self._over("copy", heads * width),
            *self._copies_of_keys(heads * width, heads * value),
        ]  # queries, keys, values by head
        operators += [*self._scored(self.batch * heads, width, value), self._over("copy", heads * value)]
        # A bias after the all-reduce is the same on each device; one of them counts it.
        output = linear(rows, heads * value, config.hidden, bias=config.biased_output)
        return [*operators, replace(output, saved=0)]

    def _scored(self, batch: int, width: int, value: int) -> list[Operator]:
        """Return the operators of attention scores (QKᵀ), softmax, and the weighted sum of values."""
        config, sequence = self.config, self.sequence
        sinks = config.heads // self.shares if config.sinks else 0
        if self.fused:
            return [Operator("attention", (batch, sequence, width, value), parameters=sinks)]
        scores = [Operator("bmm", (batch, sequence, width, sequence), saved=0)]
        scores += self._capped(sequence, batch * sequence) if config.scores_cap else []
        if config.sinks:
            scores.append(replace(self._over("copy", sequence + 1, 1, batch * sequence), parameters=sinks))
        values = Operator("bmm", (batch, sequence, sequence, value))
        return [*scores, *self._softmax(batch * sequence), values]

    def _copies_of_keys(self, keys: int, values: int) -> list[Operator]:
        if keys == values:
            return [self._over("copy", keys, 2)]
        return [self._over("copy", keys), self._over("copy", values)]

    def _projections(self) -> list[Operator]:
        """Return the operators of the projections to queries, keys and values, with positions."""
        config, rows = self.config, self.rows
        heads, groups = config.heads // self.shares, -(-config.groups // self.shares)
        width = config.per_head
        bias, query, keys = config.attention_bias, heads * width, groups * width
        if config.fused:
            operators = [linear(rows, config.hidden, query + 2 * keys, bias=bias)]
        else:
            operators = [
                linear(rows, config.hidden, query, bias=bias),
                linear(rows, config.hidden, keys, bias=bias, count=2),
            ]
        if config.head_norms == "all heads":
            operators += [replace(self._over("rms_norm", all_), parameters=all_) for all_ in (query, keys)]
        if config.head_norms == "each head":
            operators += [
                replace(self._over("rms_norm", width, 1, rows * count), parameters=width)
                for count in (heads, groups)
            ]
        return [*operators, *self._positions(query, keys)]

    def _positions(self, query: int, keys: int) -> list[Operator]:
        """Return the operators of rotary position embedding of queries and keys (Su et al. 2021)."""
        config = self.config
        if config.places != "rotary":
            return []
        if self.compiled:
            return [self._over("copy", query), self._over("copy", keys)]
        if config.latent is None and config.rotated < config.per_head:
            parts = [width // config.per_head * config.rotated for width in (query, keys)]
            joined = [self._over("copy", width) for width in (query, keys)]
        else:
            parts, joined = [query, keys], []
        return joined + [
            self._over(kind, width, count)
            for width in parts
            for kind, count in (("copy", 1), ("scale", 2), ("add", 1))
        ]

    def _softmax(self, rows: int) -> list[Operator]:
        """Return the operators on attention scores: scale, mask, softmax, dropout."""
        softmax = self._over("softmax", self.sequence, 1, rows)
        scale = self._over("scale", self.sequence, 1, rows)
        elements = rows * self.sequence
        dropout = replace(
            self._over("dropout", self.sequence, 1, rows), saved=elements + self._mask(elements)
        )
        dropouts = [dropout] if self.training else []
        if self.config.family in ("llama", "opt"):
            dropouts = []
        if self.compiled:
            return [softmax, *dropouts]
        if self.config.family == "opt":
            # The mask of all pairs is added, which no cache keeps between heads, and results below the least
            # number are raised to it; queries were scaled.
            queries = self._over("scale", self.config.heads // self.shares * self.config.per_head)
            mask = self._over("add", self.sequence, 1, rows)
            return [queries, replace(mask, saved=0), scale, softmax, *dropouts]
        return [scale, scale, softmax, *dropouts]

    def _inner_of(self, block: int) -> list[Operator]:
        """Return the operators of a block's feed-forward layer or experts; blocks count from 0."""
        config, experts = self.config, self.config.experts
        if experts is None or not experts.are_in(block):
            return self._inner(self.rows, config.width // self.shares, 1)
        return expert_operators(experts, self.batch, self.sequence, config.hidden, self._inner, self.shares)

    def _inner(self, rows: int, width: int, count: int) -> list[Operator]:
        """Return the operators of `count` feed-forward layers of a width, each for `rows` tokens."""
        config = self.config
        kernels = ACTIVATIONS[config.activation]
        if self.compiled and len(kernels) > 1:
            kernels = ("gelu",)
        activation = [self._over(kind, width, count, rows) for kind in kernels]
        bias = config.inner_bias
        last = linear(rows, width, config.hidden, bias=bias, count=count)
        if config.gated:
            gate = linear(rows, config.hidden, width, bias=bias, count=2 * count)
            return [gate, *activation, self._over("mul", width, count, rows), last]
        first = linear(rows, config.hidden, width, bias=bias, count=count)
        return [first, *activation, replace(last, saved=0)]

    def head(self) -> Layer:
        """Return the output layer: final normalisation and vocabulary, classes, or BERT's pooler."""
        config, rows = self.config, self.rows
        operators: list[Operator] = [] if config.norms == "after" else [self._norm()]
        if config.patches is not None and config.patches.classes:
            classes = config.patches.classes
            return Layer(
                "head", (*operators, linear(self.batch, config.hidden, classes)), self.batch * classes
            )
        if not config.head:
            if not config.pooler:
                return Layer("head", tuple(operators), self._output)
            pooler = linear(self.batch, config.hidden, config.hidden)
            operators += [pooler, Operator("tanh", (self.batch, config.hidden))]
            return Layer("head", tuple(operators), self.batch * config.hidden)
        words = config.embedding_width or config.hidden
        if config.family == "bert":
            activation = [self._over(kind, words) for kind in ACTIVATIONS[config.activation]]
            operators += [linear(rows, config.hidden, words), *activation, self._norm(words)]
        elif words != config.hidden:
            operators.append(linear(rows, config.hidden, words, bias=False))
        entries = -(-config.vocabulary // self.shares)
        last = linear(rows, words, entries, bias=config.head_bias, shared=config.tied)
        if config.family == "bert":
            last = replace(last, parameters=entries)  # its bias
        operators += [last, *(self._capped(entries) if config.words_cap else [])]
        if self.training:
            operators.append(self._over("softmax", entries))  # of the loss
        return Layer("head", tuple(operators), rows * entries)
