"""Transformers as operators: the kernels of each block as PyTorch runs them, without fused attention.

The blocks are those of the families' published implementations: BERT (Devlin et al. 2019; normalisation
after the residual), GPT-2 and GPT-3 (Radford et al. 2019; before it), OPT (Zhang et al. 2022), Llama
(Touvron et al. 2023; gated, rotary positions, RMS norms; Mistral, Qwen and DeepSeek like it), and those of
two stacks, encoder and decoder (Vaswani et al. 2017): T5 (Raffel et al. 2020; a learned bias of distances in
place of positions, RMS norms), Switch (Fedus et al. 2022; T5 with experts), BART (Lewis et al. 2020) and
Marian. How the blocks of others differ is in `transformers.yaml`. Tensor parallelism is that of Megatron-LM
(Shoeybi et al. 2019): heads and the inner width of a block are divided, the residual stream is whole on
every device.

Activations for the backward pass are as in Korthikanti et al. 2023, section 4.

A mixture of experts (Shazeer et al. 2017) is a router, the experts' layers, and the sum. Tokens are assumed
to be spread evenly, which the losses of all these models enforce. Each expert gathers its tokens, and adds
its output to the stream.

The projections of multi-head latent attention are as training runs them (DeepSeek-AI 2024, section 2.1).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial

from ...common.errors import OptionError
from ..operators import Operator, linear
from .description import Layer, ModelDescription, Setting
from .transformer_config import Experts, LatentAttention, Patches, TransformerConfig, published


@dataclass(frozen=True)
class Transformer(ModelDescription):
    """A transformer: a stack of equal blocks, or an encoder and a decoder whose blocks attend to its output.

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
        """Return the embedding, the blocks and the head; of two stacks, embedding and blocks of each."""
        parts = _Parts.of(self.config, setting, self.name)
        layers = parts.stack()
        if self.config.two_stacks:
            layers += replace(parts, decodes=True).stack()
        layers += [head] if (head := parts.head()).operators else []
        return tuple(layer.at(setting.precision) for layer in layers)


def transformer_of(name: str, source: str, config: TransformerConfig) -> Transformer:
    """Return the model of a configuration, with assumptions on experts, positions and attention."""
    notes = []
    if config.two_stacks:
        notes.append("Encoder and decoder read sequences of the same length.")
    experts = config.experts or config.decoder_experts
    if experts is not None:
        taken = f", which take at most {experts.capacity} of a sample" if experts.capacity else ""
        number, each = experts.number, experts.per_token
        notes.append(f"Tokens spread evenly over the {number} experts, {each} for each{taken}.")
        notes.append("Every device holds a share of all experts; they are not put on devices of their own.")
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
    bounded = not config.two_stacks or config.places == "learned"
    if bounded and sequence > config.positions:
        raise OptionError(f"{name}: sequence {sequence}: the model has positions for {config.positions}")
    return sequence


def check_parts(config: TransformerConfig, shares: int, name: str) -> None:
    """Refuse sizes that tensor parallelism cannot divide evenly, and unknown activation functions.

    Raises
    ------
    OptionError
        If the model has one.
    """
    sizes = {"heads": config.heads}
    if config.two_stacks:
        sizes |= {"encoder width": config.width, "decoder width": config.decoder_width or 0}
    else:
        sizes["inner width"] = config.width
    if shares % config.groups:
        # With fewer heads of keys and values than devices, each is on several devices.
        sizes["key and value heads"] = config.groups
    experts = config.experts or config.decoder_experts
    if experts is not None:
        sizes |= {"width of an expert": experts.width, "width of the shared expert": experts.shared_width}
    for what, size in sizes.items():
        if size % shares:
            raise OptionError(f"{name}: tensor_parallel {shares}: does not divide the {size} {what}")
    known = published()["activations"]
    if config.activation not in known:
        what = f"activation {config.activation!r:.60}: unknown; known are {', '.join(known)}"
        raise OptionError(f"{name}: {what}")


@dataclass(frozen=True)
class _Parts:
    """Builds the layers for one setting; `rows` is the number of tokens of a batch in either stack.

    Parameters
    ----------
    decodes
        Whether layers are those of the decoder, if there are two stacks.
    """

    config: TransformerConfig
    batch: int
    sequence: int
    shares: int
    training: bool
    compiled: bool
    fused: bool
    decodes: bool = False

    @classmethod
    def of(cls, config: TransformerConfig, setting: Setting, name: str) -> _Parts:
        shares, one = setting.tensor_parallel, not config.two_stacks
        check_parts(config, shares, name)
        how = setting.training, one and setting.compiled, one and setting.fused_attention
        return cls(config, setting.batch, sequence_of(config, setting, name), shares, *how)

    @property
    def rows(self) -> int:
        return self.batch * self.sequence

    def stack(self) -> list[Layer]:
        """Return embedding and blocks of the stack."""
        count = self.config.decoder_blocks if self.decodes else self.config.blocks
        return [self.embedding(), *(self.block(index, index + 1 == count) for index in range(count or 0))]

    def _layer(self, name: str, operators: list[Operator], sums: int, *, last: bool = False) -> Layer:
        """Return a layer that passes on its stream, and in the decoder what the encoder returned.

        Parameters
        ----------
        sums
            Number of all-reduces of the stream. Three of the decoder are one and a half of both streams.
        last
            Whether no further block reads what the encoder returned.
        """
        stream = self.rows * self.config.hidden
        streams = 2 if self.decodes and not last else 1
        stack = f"{'decoder' if self.decodes else 'encoder'} " if self.config.two_stacks else ""
        all_reduces = -(-sums // streams) if self.shares > 1 else 0
        return Layer(f"{stack}{name}", tuple(operators), streams * stream, all_reduces)

    def _over(self, kind: str, width: int, count: int = 1, rows: int | None = None) -> Operator:
        return Operator(kind, (rows or self.rows, width), count)

    def _norm(self, width: int | None = None) -> Operator:
        config = self.config
        norm = self._over(config.norm, width or config.hidden)
        return replace(norm, parameters=config.norm_vectors * norm["width"])

    def _rms_norm(self, width: int, rows: int | None = None) -> Operator:
        return replace(self._over("rms_norm", width, 1, rows), parameters=width)

    def _capped(self, width: int, rows: int | None = None) -> list[Operator]:
        """Return the operators of soft-capping: c·tanh(x/c)."""
        return [self._over(kind, width, rows=rows) for kind in ("scale", "tanh", "scale")]

    def _dropout(
        self, width: int, rows: int | None = None, count: int = 1, *, keeps_output: bool = True
    ) -> list[Operator]:
        """Return the dropout in training; it keeps a one-byte mask, counted in two-byte elements."""
        if self.config.family == "llama" or not self.training:
            return []
        dropout = self._over("dropout", width, count, rows)
        elements = dropout.outputs
        return [replace(dropout, saved=elements // 2 + (elements if keeps_output else 0))]

    def _stream_dropout(self) -> list[Operator]:
        return self._dropout(self.config.hidden, keeps_output=self.config.two_stacks)

    def embedding(self) -> Layer:
        """Return the embedding layer; encoder and decoder share the parameters of one table."""
        config, rows = self.config, self.rows
        if config.patches is not None:
            return self._squares(config.patches)
        words = config.embedding_width or config.hidden
        entries = -(-config.vocabulary // self.shares)
        parameters = 0 if self.decodes else entries * words
        table = Operator("embedding", (rows, words, entries), parameters=parameters)
        # Other embeddings have the width of the table in BERT, and of the stream elsewhere.
        width = words if config.family == "bert" else config.hidden
        widened = [linear(rows, words, config.hidden, bias=config.family == "bert")]
        operators = [table, *(widened if words != width else [])]
        operators += [self._over("scale", words)] if config.embedding_scaled else []
        learned = config.positions + config.spare_positions if config.places == "learned" else 0
        # Biases of distances are added to the scores instead.
        added = [] if config.buckets else [self._over("add", width)]
        for kinds, number in ((self.sequence, learned), (rows, config.token_types)):
            if number:
                row = Operator("embedding", (kinds, width, number), parameters=number * width)
                operators += [row, *added]
        operators += added if config.places == "computed" else []
        operators += [self._norm(width)] if config.family == "bert" or config.embedding_norm else []
        operators += widened if width != config.hidden else []
        return self._layer("embedding", [*operators, *self._stream_dropout()], 1)

    def _squares(self, patches: Patches) -> Layer:
        """Return the embedding layer of a vision transformer: image patches and learned extra tokens."""
        hidden, side, picture = self.config.hidden, patches.patch, patches.picture
        shape = (self.batch, patches.channels, hidden, side, side, picture, picture, side, 0, 0, 1)
        squares = Operator("conv", shape, parameters=hidden * (patches.channels * side**2 + 1))
        joined = replace(self._over("copy", hidden), parameters=patches.extra * hidden)
        placed = replace(self._over("scale", hidden), parameters=self.sequence * hidden)
        operators = [squares, self._over("copy", hidden), joined, placed, *self._stream_dropout()]
        return self._layer("embedding", operators, 0)

    def block(self, index: int, last: bool) -> Layer:
        """Return a block, counted from 0: attention and feed-forward layer, with residual connections."""
        config = self.config
        parts = [self._attention(first=index == 0)]
        parts += [self._attention(crosses=True)] if self.decodes else []
        operators: list[Operator] = []
        for number, part in enumerate([*parts, self._inner_of(index)]):
            # Parallel branches may share their norm.
            alone = config.parallel != 1 or number == 0
            operators += [self._norm()] if config.norms in ("before", "around") and alone else []
            operators += part
            operators += [self._norm()] if config.norms in ("around", "branch") else []
            operators += [*self._stream_dropout(), self._over("add", config.hidden)]
            operators += [self._norm()] if config.norms == "after" else []
        if not config.holds_weights(index):
            operators = [replace(operator, parameters=0) for operator in operators]
        operators += [self._norm()] if config.two_stacks and last and config.norms == "before" else []
        # Parallel branches are added before the all-reduce.
        sums = 1 if config.parallel else len(parts) + 1
        return self._layer(f"block {index + 1}", operators, sums, last=last)

    def _attention(self, *, first: bool = False, crosses: bool = False) -> list[Operator]:
        """Return the operators of attention.

        Parameters
        ----------
        first
            Whether this block looks up the biases of distances, for all blocks of the stack.
        crosses
            Whether a decoder attends to what the encoder returned.
        """
        config, rows = self.config, self.rows
        heads, latent = config.heads // self.shares, config.latent
        if latent is None:
            operators, width, value = self._projections(), config.per_head, config.per_head
        else:
            operators = self._latent_projections(latent, heads)
            width, value = latent.plain + latent.rotary, latent.value
        # Queries, keys and values by head.
        operators.append(self._over("copy", heads * width))
        same = width == value
        operators += [self._over("copy", heads * width, 2 if same else 1)]
        operators += [] if same else [self._over("copy", heads * value)]
        operators += self._scored(width, value, first=first, masked=self.decodes and not crosses)
        # A bias after the all-reduce is the same on each device; one of them counts it.
        output = linear(rows, heads * value, config.hidden, bias=config.biased_output)
        return [*operators, self._over("copy", heads * value), replace(output, saved=0)]

    def _scored(self, width: int, value: int, *, first: bool, masked: bool) -> list[Operator]:
        """Return the operators of attention scores (QKᵀ), softmax, and the weighted sum of values."""
        config, sequence = self.config, self.sequence
        heads = config.heads // self.shares
        batch, sinks = self.batch * heads, heads if config.sinks else 0
        if self.fused:
            return [Operator("attention", (batch, sequence, width, value), parameters=sinks)]
        rows = batch * sequence
        scaled = config.two_stacks and not config.buckets
        scores = [self._over("scale", heads * width)] if scaled else []
        scores.append(Operator("bmm", (batch, sequence, width, sequence), saved=0))
        scores += self._capped(sequence, rows) if config.scores_cap else []
        if config.sinks:
            scores.append(replace(self._over("copy", sequence + 1, 1, rows), parameters=sinks))
        if config.buckets and first:
            shape = (sequence * sequence, heads, config.buckets)
            scores.append(Operator("embedding", shape, parameters=config.buckets * heads))
        return [*scores, *self._softmax(rows, masked), Operator("bmm", (batch, sequence, sequence, value))]

    def _softmax(self, rows: int, masked: bool) -> list[Operator]:
        """Return the operators on attention scores: scale, mask, softmax, dropout."""
        config, over = self.config, partial(self._over, width=self.sequence, rows=rows)
        added = replace(over("add"), saved=0)
        if self.compiled:
            before = []
        elif config.buckets:
            before = [added]
        elif config.two_stacks:
            before = [over("scale")] if masked else []
        elif config.family == "opt":
            # The mask of all pairs is added, which no cache keeps between heads, and results below the least
            # number are raised to it; queries were scaled.
            queries = self._over("scale", config.heads // self.shares * config.per_head)
            before = [queries, added, over("scale")]
        else:
            before = [over("scale"), over("scale")]
        dropout = [] if config.family == "opt" else self._dropout(self.sequence, rows)
        return [*before, over("softmax"), *dropout]

    def _projections(self) -> list[Operator]:
        """Return the operators of the projections to queries, keys and values, with positions."""
        config, rows = self.config, self.rows
        heads, groups = config.heads // self.shares, -(-config.groups // self.shares)
        width, project = config.per_head, partial(linear, rows, config.hidden, bias=config.attention_bias)
        query, keys = heads * width, groups * width
        operators = [project(query + 2 * keys)] if config.fused else [project(query), project(keys, count=2)]
        if config.head_norms == "all heads":
            operators += [self._rms_norm(query), self._rms_norm(keys)]
        if config.head_norms == "each head":
            operators += [self._rms_norm(width, rows * count) for count in (heads, groups)]
        return [*operators, *self._positions(query, keys)]

    def _latent_projections(self, latent: LatentAttention, heads: int) -> list[Operator]:
        """Return the layers from the residual stream to queries, keys and values (latent attention).

        The narrow vectors are computed whole on every device, heads are divided.
        """
        project, hidden, rank = partial(linear, self.rows, bias=False), self.config.hidden, latent.query_rank
        queries = heads * (latent.plain + latent.rotary)
        if rank is None:
            operators = [project(hidden, queries)]
        else:
            operators = [project(hidden, rank), self._rms_norm(rank), project(rank, queries)]
        operators += [project(hidden, latent.rank + latent.rotary), self._rms_norm(latent.rank)]
        operators.append(project(latent.rank, heads * (latent.plain + latent.value)))
        return [*operators, *self._positions(heads * latent.rotary, latent.rotary)]

    def _positions(self, query: int, keys: int) -> list[Operator]:
        """Return the operators of rotary position embedding of queries and keys (Su et al. 2021)."""
        config = self.config
        if config.places != "rotary":
            return []
        joined, parts = [self._over("copy", width) for width in (query, keys)], [query, keys]
        if self.compiled:
            return joined
        if config.latent is None and config.rotated < config.per_head:
            parts = [width // config.per_head * config.rotated for width in parts]
        else:
            joined = []
        kinds = (("copy", 1), ("scale", 2), ("add", 1))
        return joined + [self._over(kind, width, count) for width in parts for kind, count in kinds]

    def _inner_of(self, block: int) -> list[Operator]:
        """Return the operators of a block's feed-forward layer or experts; blocks count from 0."""
        config = self.config
        width, experts = config.width, config.experts
        if self.decodes:
            width, experts = config.decoder_width or 0, config.decoder_experts
        if experts is None or not experts.are_in(block):
            return self._inner(self.rows, width // self.shares, 1)
        return self._experts(experts)

    def _experts(self, experts: Experts) -> list[Operator]:
        """Return the operators of a mixture of experts; its router is whole on every device."""
        rows, hidden, number = self.rows, self.config.hidden, experts.number
        reached = min(number, rows * experts.per_token)
        tokens = -(-rows * experts.per_token // reached)
        if experts.capacity is not None:
            tokens = min(tokens, self.batch * experts.capacity)
        operators = [linear(rows, hidden, number, bias=experts.router_bias)]
        operators += [self._over("softmax", number), self._over("copy", number)]  # the largest
        layers = self._inner(tokens, experts.width // self.shares, reached)
        if reached < number:
            # Experts without tokens take memory, too.
            unused = sum(op.parameters * op.count for op in layers) // reached * (number - reached)
            operators.append(Operator("copy", (1, number), parameters=unused, saved=0))
        operators += [Operator("copy", (tokens, hidden), reached, saved=tokens * hidden), *layers]
        operators.append(Operator("scale", (tokens, hidden), reached))
        operators.append(Operator("add", (tokens, hidden), reached, saved=0))
        if not experts.shared_width:
            return operators
        operators += self._inner(rows, experts.shared_width // self.shares, 1)
        if experts.gated:
            gate = linear(rows, hidden, 1, bias=False)
            operators += [gate, self._over("tanh", 1), self._over("scale", hidden)]
        return [*operators, replace(self._over("add", hidden), saved=0)]

    def _inner(self, rows: int, width: int, count: int) -> list[Operator]:
        """Return the operators of `count` feed-forward layers of a width, each for `rows` tokens."""
        config, bias = self.config, self.config.inner_bias
        kernels = published()["activations"][config.activation]
        kernels = ["gelu"] if self.compiled and len(kernels) > 1 else kernels
        gates = 2 if config.gated else 1
        operators = [linear(rows, config.hidden, width, bias=bias, count=gates * count)]
        operators += [self._over(kind, width, count, rows) for kind in kernels]
        operators += [self._over("mul", width, count, rows)] if config.gated else []
        operators += self._dropout(width, rows, count) if config.two_stacks else []
        last = linear(rows, width, config.hidden, bias=bias, count=count)
        return [*operators, last if config.gated and not config.two_stacks else replace(last, saved=0)]

    def head(self) -> Layer:
        """Return the output layer: final normalisation and vocabulary, classes, or BERT's pooler."""
        config, rows = self.config, self.rows
        # Of two stacks, the last block of each ends with the normalisation.
        operators: list[Operator] = [] if config.norms == "after" or config.two_stacks else [self._norm()]
        if config.patches is not None and config.patches.classes:
            last = linear(self.batch, config.hidden, config.patches.classes)
            return Layer("head", (*operators, last), last.outputs)
        if not config.head:
            if not config.pooler:
                return Layer("head", tuple(operators), rows * config.hidden)
            pooler = linear(self.batch, config.hidden, config.hidden)
            operators += [pooler, Operator("tanh", (self.batch, config.hidden))]
            return Layer("head", tuple(operators), pooler.outputs)
        words = config.embedding_width or config.hidden
        if config.family == "bert":
            activation = [self._over(kind, words) for kind in published()["activations"][config.activation]]
            operators += [linear(rows, config.hidden, words), *activation, self._norm(words)]
        elif words != config.hidden:
            operators.append(linear(rows, config.hidden, words, bias=False))
        operators += [self._over("scale", words)] if config.buckets and config.tied else []
        entries = -(-config.vocabulary // self.shares)
        last = linear(rows, words, entries, bias=config.head_bias, shared=config.tied)
        if config.family == "bert":
            last = replace(last, parameters=entries)  # its bias
        operators += [last, *(self._capped(entries) if config.words_cap else [])]
        operators += [self._over("softmax", entries)] if self.training else []  # of the loss
        return Layer("head", tuple(operators), last.outputs)
