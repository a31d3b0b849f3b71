"""Transformers: the kernels of each block as PyTorch runs them one by one, without fused attention.

The blocks are those of the families' published implementations: BERT (Devlin et al. 2019; normalisation
after the residual), GPT-2 and GPT-3 (Radford et al. 2019; before it), OPT (Zhang et al. 2022), Llama (Touvron
et al. 2023; gated, rotary positions, RMS norms; Mistral, Qwen and DeepSeek like it). Tensors are shared as in
Megatron-LM (Shoeybi et al. 2019): heads and the inner width of a block are divided, the residual stream is
whole on every device.

What waits for the backward pass is as in Korthikanti et al. 2023, section 4.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ...common.errors import OptionError
from ..operators import Operator, linear
from .description import Layer, ModelDescription, Setting
from .experts import expert_operators, spread
from .experts_config import Experts
from .latent_attention import latent_projections
from .transformer_config import TransformerConfig

ACTIVATIONS: dict[str, tuple[str, ...]] = {
    "gelu": ("gelu",),
    "relu": ("relu",),
    "silu": ("silu",),
    "swish": ("silu",),
    # ½x(1 + tanh(√(2/π)(x + 0.044715x³))), a kernel for each step
    "gelu_new": ("scale", "scale", "scale", "add", "scale", "tanh", "scale", "mul"),
    "gelu_fast": ("scale", "scale", "scale", "add", "scale", "tanh", "scale", "mul"),
}
"""Kernels of each activation function where nothing is compiled."""


@dataclass(frozen=True)
class Transformer(ModelDescription):
    """A transformer of one stack of equal blocks.

    Parameters
    ----------
    config
        Its shape.
    """

    config: TransformerConfig = field(kw_only=True)

    @property
    def positions(self) -> int:
        """The most tokens that it has positions for."""
        return self.config.positions

    def layers(self, setting: Setting) -> tuple[Layer, ...]:
        """Return the embedding, the blocks and the head."""
        parts = _Parts.of(self.config, setting, self.name)
        layers = [parts.embedding(), *(parts.block(index + 1) for index in range(self.config.blocks))]
        layers.append(parts.head())
        return tuple(layer.at(setting.precision) for layer in layers)


def transformer_of(name: str, source: str, config: TransformerConfig) -> Transformer:
    """Return the model of a configuration, with what is assumed of its experts."""
    assumptions = () if config.experts is None else spread(config.experts)
    return Transformer(name, source, config=config, assumptions=assumptions)


def sequence_of(config: TransformerConfig, setting: Setting, name: str) -> int:
    """Return the tokens of a sample.

    Raises
    ------
    OptionError
        If there are more than the model has positions for.
    """
    sequence = setting.sequence or config.positions
    if sequence > config.positions:
        raise OptionError(f"{name}: sequence {sequence}: the model has positions for {config.positions}")
    return sequence


def widths_of(experts: Experts | None) -> dict[str, int]:
    """Return the inner widths of experts, which devices share."""
    if experts is None:
        return {}
    return {"width of an expert": experts.width, "width of the shared expert": experts.shared_width}


def check_parts(name: str, shares: int, sizes: Mapping[str, int], activation: str) -> None:
    """Refuse sizes that devices cannot share, and activations without known kernels.

    Raises
    ------
    OptionError
        If a model has one.
    """
    for what, size in sizes.items():
        if size % shares:
            raise OptionError(f"{name}: tensor_parallel {shares}: does not divide the {size} {what}")
    if activation not in ACTIVATIONS:
        known = ", ".join(ACTIVATIONS)
        raise OptionError(f"{name}: activation {activation!r:.60}: unknown; known are {known}")


@dataclass(frozen=True)
class _Parts:
    """The layers for one setting; `rows` tokens pass at a time."""

    config: TransformerConfig
    batch: int
    sequence: int
    shares: int
    training: bool
    compiled: bool

    @classmethod
    def of(cls, config: TransformerConfig, setting: Setting, name: str) -> _Parts:
        shares = setting.tensor_parallel
        sizes = {"heads": config.heads, "key and value heads": config.groups, "inner width": config.width}
        check_parts(name, shares, {**sizes, **widths_of(config.experts)}, config.activation)
        sequence = sequence_of(config, setting, name)
        return cls(config, setting.batch, sequence, shares, setting.training, setting.compiled)

    @property
    def rows(self) -> int:
        return self.batch * self.sequence

    @property
    def _output(self) -> int:
        return self.rows * self.config.hidden

    def _over(self, kind: str, width: int, count: int = 1, rows: int | None = None) -> Operator:
        return Operator(kind, (rows or self.rows, width), count)

    def _norm(self) -> Operator:
        hidden = self.config.hidden
        if self.config.family == "llama":
            return replace(self._over("rms_norm", hidden), parameters=hidden)
        return replace(self._over("layer_norm", hidden), parameters=2 * hidden)

    def _dropout(self) -> list[Operator]:
        if self.config.family == "llama" or not self.training:
            return []
        dropout = self._over("dropout", self.config.hidden)
        return [replace(dropout, saved=self._mask(dropout.outputs))]

    @staticmethod
    def _mask(elements: int) -> int:
        """Return the elements of two bytes that a mask of one byte takes."""
        return elements // 2

    def _residual(self) -> list[Operator]:
        """Add the block's branch to the stream; a gradient of both comes back and is added too."""
        return [*self._dropout(), self._over("add", self.config.hidden)]

    def embedding(self) -> Layer:
        config, rows = self.config, self.rows
        words = config.embedding_width or config.hidden
        entries = -(-config.vocabulary // self.shares)
        table = Operator("embedding", (rows, words, entries), parameters=entries * words)
        operators = [table]
        if words != config.hidden:
            operators.append(linear(rows, words, config.hidden, bias=False))
        if config.family != "llama":
            learned = config.positions + (2 if config.family == "opt" else 0)
            positions = Operator("embedding", (self.sequence, config.hidden, learned))
            operators += [
                replace(positions, parameters=learned * config.hidden),
                self._over("add", config.hidden),
            ]
        if config.token_types:
            kinds = Operator("embedding", (rows, config.hidden, config.token_types))
            operators += [
                replace(kinds, parameters=config.token_types * config.hidden),
                self._over("add", config.hidden),
            ]
        if config.family == "bert":
            operators.append(self._norm())
        operators += self._dropout()
        return Layer("embedding", tuple(operators), self._output, all_reduces=int(self.shares > 1))

    def block(self, index: int) -> Layer:
        """Return a block: attention and two or three linear layers, each beside the residual stream."""
        before = self.config.norm_before
        operators: list[Operator] = []
        for part in (self._attention(), self._inner_of(index - 1)):
            operators += [self._norm()] if before else []
            operators += [*part, *self._residual()]
            operators += [] if before else [self._norm()]
        return Layer(
            f"block {index}", tuple(operators), self._output, all_reduces=2 if self.shares > 1 else 0
        )

    def _attention(self) -> list[Operator]:
        config, rows = self.config, self.rows
        heads, latent = config.heads // self.shares, config.latent
        if latent is None:
            operators, width, value = self._projections(), config.per_head, config.per_head
        else:
            operators = latent_projections(latent, rows, config.hidden, heads)
            operators += self._positions(heads * latent.rotary, latent.rotary)
            width, value = latent.plain + latent.rotary, latent.value
        batch, sequence = self.batch * heads, self.sequence
        scores = Operator("bmm", (batch, sequence, width, sequence), saved=0)
        values = Operator("bmm", (batch, sequence, sequence, value))
        operators += [
            self._over("copy", heads * width),
            *self._copies_of_keys(heads * width, heads * value),
        ]  # queries, keys, values by head
        operators += [scores, *self._softmax(batch * sequence), values, self._over("copy", heads * value)]
        # What devices compute of a bias after their sums is the same on each; one of them holds it.
        output = linear(rows, heads * value, config.hidden, bias=config.family != "llama")
        return [*operators, replace(output, saved=0)]

    def _copies_of_keys(self, keys: int, values: int) -> list[Operator]:
        if keys == values:
            return [self._over("copy", keys, 2)]
        return [self._over("copy", keys), self._over("copy", values)]

    def _projections(self) -> list[Operator]:
        """Return the linear layers of queries, keys and values, and their positions."""
        config, rows = self.config, self.rows
        heads, groups, width = config.heads // self.shares, config.groups // self.shares, config.per_head
        bias = config.family != "llama" or config.attention_bias
        query, keys = heads * width, groups * width
        if config.family == "gpt2":
            return [linear(rows, config.hidden, query + 2 * keys, bias=bias)]
        operators = [
            linear(rows, config.hidden, query, bias=bias),
            linear(rows, config.hidden, keys, bias=bias, count=2),
        ]
        if config.head_norms:
            operators += [
                replace(self._over("rms_norm", width, 1, rows * count), parameters=width)
                for count in (heads, groups)
            ]
        return [*operators, *self._positions(query, keys)]

    def _positions(self, query: int, keys: int) -> list[Operator]:
        """Return rotary positions (Su et al. 2021): x·cos + rotated(x)·sin of queries and keys."""
        if self.config.family != "llama":
            return []
        if self.compiled:
            return [self._over("copy", query), self._over("copy", keys)]
        return [
            self._over(kind, width, count)
            for width in (query, keys)
            for kind, count in (("copy", 1), ("scale", 2), ("add", 1))
        ]

    def _softmax(self, rows: int) -> list[Operator]:
        """Return what is done to the scores: scale, mask, softmax."""
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
            # The mask of all pairs is added, which no cache keeps from head to head, and what became less
            # than the least number is raised; queries were scaled.
            queries = self._over("scale", self.config.heads // self.shares * self.config.per_head)
            mask = self._over("add", self.sequence, 1, rows)
            return [queries, replace(mask, saved=0), scale, softmax, *dropouts]
        return [scale, scale, softmax, *dropouts]

    def _inner_of(self, block: int) -> list[Operator]:
        """Return the inner layer of a block, counted from 0, or its experts."""
        config, experts = self.config, self.config.experts
        if experts is None or not experts.are_in(block):
            return self._inner(self.rows, config.width // self.shares, 1)
        return expert_operators(experts, self.batch, self.sequence, config.hidden, self._inner, self.shares)

    def _inner(self, rows: int, width: int, count: int) -> list[Operator]:
        """Return an inner layer of a width that `rows` tokens go through, `count` times."""
        config = self.config
        kernels = ACTIVATIONS[config.activation]
        if self.compiled and len(kernels) > 1:
            kernels = ("gelu",)
        activation = [self._over(kind, width, count, rows) for kind in kernels]
        if config.family == "llama":
            gate = linear(rows, config.hidden, width, bias=False, count=2 * count)
            return [
                gate,
                *activation,
                self._over("mul", width, count, rows),
                linear(rows, width, config.hidden, bias=False, count=count),
            ]
        return [
            linear(rows, config.hidden, width, count=count),
            *activation,
            replace(linear(rows, width, config.hidden, count=count), saved=0),
        ]

    def head(self) -> Layer:
        """Return the last normalisation and the probabilities of words, or BERT's pooler."""
        config, rows = self.config, self.rows
        operators: list[Operator] = [self._norm()] if config.norm_before else []
        if config.family == "bert" and not config.head:
            pooler = linear(self.batch, config.hidden, config.hidden)
            operators += [pooler, Operator("tanh", (self.batch, config.hidden))]
            return Layer("head", tuple(operators), self.batch * config.hidden)
        if not config.head:
            return Layer("head", tuple(operators), self._output)
        if config.family == "bert":
            activation = [self._over(kind, config.hidden) for kind in ACTIVATIONS[config.activation]]
            operators += [linear(rows, config.hidden, config.hidden), *activation, self._norm()]
        words = config.embedding_width or config.hidden
        if words != config.hidden:
            operators.append(linear(rows, config.hidden, words, bias=False))
        entries = -(-config.vocabulary // self.shares)
        operators.append(linear(rows, words, entries, bias=False, shared=config.tied))
        if config.family == "bert":
            operators[-1] = replace(operators[-1], parameters=entries)  # its bias
        if self.training:
            operators.append(self._over("softmax", entries))  # of the loss
        return Layer("head", tuple(operators), rows * entries)
