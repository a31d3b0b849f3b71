"""Reading of a Hugging Face ``config.json``: transformers, mixtures of experts, and styles of blocks.

Fields have one set of names here; the first of a field's names in a file is used, and errors use the names
of the file. Mixtures of experts and latent attention are those of Mixtral, Qwen, DeepSeek and Switch.
Styles give the structure of published transformers' blocks, which a ``config.json`` implies by its
`model_type`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import Field

from ...common.errors import InstanceError
from ...common.faults import validated
from ...common.fields import Model
from ...files.reading import fail, parse_yaml, read_text

ModelT = TypeVar("ModelT", bound=Model)
Size = Annotated[int, Field(ge=1, le=10**7)]
Width = Annotated[int, Field(ge=1, le=10**6)]
Number = Annotated[int, Field(ge=1, le=10**5)]
Blocks = Annotated[int, Field(ge=1, le=10_000)]
Names = Mapping[str, Sequence[str]]
"""Field → its possible names in files."""
SAYS_HEAD = ("LMHead", "ForCausalLM", "ForMaskedLM", "ForPreTraining", "ForConditionalGeneration", "MTModel")
"""Parts of the names of architectures with an output layer over the vocabulary."""


def picked(data: Mapping[str, Any], names: Names) -> dict[str, Any]:
    """Return the fields that a config file has, under the names of this module; null counts as absent."""
    fields = {}
    for field, called in names.items():
        given = next((data[name] for name in called if data.get(name) is not None), None)
        if given is not None:
            fields[field] = given
    return fields


def checked(model: type[ModelT], fields: Mapping[str, Any], names: Names, source: str) -> ModelT:
    """Return a validated model of the fields.

    Raises
    ------
    InstanceError
        If one is missing or impossible; errors use the names in files.
    """
    try:
        return validated(model, dict(fields), source)
    except InstanceError as error:
        faults = [
            replace(fault, path=" or ".join(names.get(fault.path, (fault.path,)))) for fault in error.faults
        ]
        raise InstanceError(faults) from None


TRANSFORMERS = Path(__file__).with_name("transformers.yaml")


@cache
def published() -> Mapping[str, Any]:
    """Return the kernels of activations, names of fields in files, and styles of blocks."""
    data = parse_yaml(read_text(TRANSFORMERS))
    assert isinstance(data, dict)
    return data


def names_of(what: str) -> Names:
    """Return the names in files of the fields of `one_stack`, `two_stacks`, `experts` and so on."""
    names: Names = published()["names"][what]
    return names


@cache
def styles(stacks: str) -> Mapping[str, Mapping[str, Any]]:
    """Return `model_type` → fields that follow from it, of models with `one_stack` or `two_stacks`."""
    known = {*TransformerConfig.model_fields, "multi_query", "heads_of_words"}

    def fields_of(style: Mapping[str, Any]) -> dict[str, Any]:
        own = {key: value for key, value in style.items() if key not in ("like", "types", "source")}
        assert {*own} <= known, f"{TRANSFORMERS.name}: {own} has an unknown field"
        return {**fields_of(published()["styles"][style["like"]]), **own} if "like" in style else own

    return {kind: fields_of(style) for style in published()[stacks] for kind in style["types"]}


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

    number: Number
    per_token: Number = 1
    width: Size
    shared_width: int = Field(default=0, ge=0, le=10**7)
    gated: bool = False
    router_bias: bool = False
    capacity: Size | None = None
    first_dense: int = Field(default=0, ge=0, le=10_000)
    dense_blocks: tuple[int, ...] = ()
    every: Blocks = 1
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

    query_rank: Size | None = None
    rank: Size
    plain: Width
    rotary: Width
    value: Width


def experts_of(data: Mapping[str, Any], source: str) -> Experts | None:
    """Return the mixture-of-experts configuration; None if there are no experts, or a single one.

    Raises
    ------
    InstanceError
        If a size is missing or impossible.
    """
    names = names_of("experts")
    fields = picked(data, names)
    if fields.get("number", 1) == 1:
        return None
    switch = data.get("model_type") == "switch_transformers"
    fields.setdefault("router_bias", data.get("model_type") == "gpt_oss")
    width, every = fields.get("width"), fields.get("every", 1)
    count, whole = (data.get(name) for name in names["shared_width"])
    fields.pop("shared_width", None)
    if count is not None and isinstance(width, int):
        fields["shared_width"] = count * width if isinstance(count, int) else count
    elif whole:
        fields |= {"shared_width": whole, "gated": True}
    if isinstance(every, int):
        # DeepSeek counts from 0, Qwen from 1, Switch begins with a dense block.
        start = 0 if "moe_layer_freq" in data else min(1, every - 1) if switch else every - 1
        fields["phase"] = max(start, 0)
    experts = checked(Experts, fields, names, source)
    if experts.per_token > experts.number:
        what = f"is {experts.per_token}, more than the {experts.number} experts"
        raise fail(source, what, names["per_token"][0])
    return experts


def latent_of(data: Mapping[str, Any], source: str) -> LatentAttention | None:
    """Return the configuration of latent attention; None if the model has none.

    Raises
    ------
    InstanceError
        If a size is missing or impossible.
    """
    names = names_of("latent")
    fields = picked(data, names)
    return checked(LatentAttention, fields, names, source) if "rank" in fields else None


PICTURES = ("vit", "deit")
_HEADS = ("qk_layernorm", "use_qk_norm", "qk_ln")
_NOT_KNOWN: Mapping[str, tuple[object, ...]] = {
    **dict.fromkeys((*_HEADS, "rope", "add_cross_attention"), (True,)),
    "position_embedding_type": ("relative_key", "relative_key_query"),
}
"""Field of a file → values that are not supported."""
_ATTENTION = ("full_attention", "sliding_attention", "chunked_attention")


def style_of(data: Mapping[str, Any], source: str) -> dict[str, Any]:
    """Return the configuration fields that follow from the model type and from the file's flags.

    Raises
    ------
    InstanceError
        If the type is unknown, or a switch has an unsupported value.
    """
    kind = data.get("model_type")
    known = styles("one_stack")
    if not isinstance(kind, str) or kind not in known:
        inner = data.get("text_config")
        within = isinstance(inner, Mapping) and str(inner.get("model_type")) in known
        hint = " its text_config may be given in a file of its own;" if within else ""
        raise fail(source, f"is {kind!r:.60};{hint} known are {', '.join(known)}", "model_type")
    style = known[kind]
    for name, values in _NOT_KNOWN.items():
        fits = name in _HEADS and "head_norms" in style
        if data.get(name) in values and not fits:
            raise fail(source, f"is {data[name]!r:.60}, which is not known of {kind}", name)
    layers = data.get("layer_types")
    for layer in layers if isinstance(layers, list) else []:
        if layer not in _ATTENTION:
            raise fail(source, f"has {layer!r:.60}; known are {', '.join(_ATTENTION)}", "layer_types")
    return {**style, **_biases(data, source), **_blocks(data, style, source)}


def with_attention(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a config with the fields of its nested `attn_config`, if any (MPT), at top level."""
    own = data.get("attn_config")
    return {**data, **own} if isinstance(own, Mapping) else data


def _switch(data: Mapping[str, Any], name: str, source: str) -> bool | None:
    """Return the value of a boolean flag of a config file; None if it is absent."""
    value = data.get(name)
    if value is not None and not isinstance(value, bool):
        raise fail(source, f"is {value!r:.60}; it must be true or false", name)
    return value


def _biases(data: Mapping[str, Any], source: str) -> dict[str, Any]:
    """Return the bias fields, if the config has one flag for all linear layers; else no fields."""
    without = _switch(data, "no_bias", source)
    if without is not None:
        return {"attention_bias": not without, "inner_bias": not without, "norm_vectors": 1 if without else 2}
    for name in ("use_bias", "bias"):
        biased = _switch(data, name, source)
        if biased is not None:
            return {"attention_bias": biased, "inner_bias": biased}
    return {}


def _blocks(data: Mapping[str, Any], style: Mapping[str, Any], source: str) -> dict[str, Any]:
    """Return the fields on heads, positions and parallel branches of a block, from the file's flags."""
    fields: dict[str, Any] = {}
    # Falcon's later models have groups of heads and two norms, regardless of the other switches.
    grouped = _switch(data, "new_decoder_architecture", source) is True
    one = _switch(data, "multi_query", source)
    if grouped:
        fields |= {"multi_query": None, "parallel": 2}
    elif one is not None:
        fields["multi_query"] = one
    if _switch(data, "do_layer_norm_before", source) is False:
        fields["norms"] = "after"
    slopes = _switch(data, "alibi", source)
    if slopes is not None:
        fields["places"] = (
            "slopes" if slopes else "learned" if style["places"] == "slopes" else style["places"]
        )
    for name in ("parallel_attn", "use_parallel_residual"):
        beside = _switch(data, name, source)
        if beside is not None and not (beside and grouped):
            fields["parallel"] = (style.get("parallel") or 1) if beside else 0
    return fields


Family = Literal["bert", "gpt2", "opt", "llama", "encoder-decoder"]
_GATED = "gated-"
_ENCODER = "EncoderModel"
USUAL_POSITIONS = 2048
"""Default number of tokens of a sample, if positions need no table and the file gives none."""


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

    picture: Number
    patch: Number
    channels: Number = 3
    extra: int = Field(default=1, ge=1, le=2)
    classes: int = Field(default=0, ge=0, le=10**7)

    @property
    def tokens(self) -> int:
        """Number of tokens of an image: its patches and the learned extra tokens."""
        return (self.picture // self.patch) ** 2 + self.extra


class TransformerConfig(Model):
    """The shape of a transformer.

    Attributes
    ----------
    blocks, decoder_blocks
        Blocks of the stack, or of the encoder; and of the decoder, if there is one.
    intermediate, decoder_width
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
        How positions are known: from a table, by rotation of queries and keys, by slopes added to scores, or
        computed: as sines added to the embedding, or as biases of distances if there are any.
    buckets
        Distances whose bias is learned for each head; 0: none.
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
    experts, decoder_experts
        In place of the inner layer of some blocks.
    latent
        In place of heads of keys and values.
    """

    family: Family
    hidden: Size
    heads: Size
    blocks: Blocks
    decoder_blocks: int | None = None
    vocabulary: Size
    positions: Size
    says_positions: bool = True
    intermediate: Size | None = None
    decoder_width: int | None = None
    key_value_heads: Size | None = None
    head_width: Width | None = None
    activation: str = "gelu"
    token_types: int = Field(default=0, ge=0, le=10**6)
    head: bool = True
    tied: bool = True
    embedding_width: Size | None = None
    embedding_norm: bool = False
    embedding_scaled: bool = False
    pooler: bool = False
    norm: Literal["layer_norm", "rms_norm"] = "layer_norm"
    norm_vectors: int = Field(default=2, ge=0, le=2)
    norms: Literal["before", "after", "around", "branch"] = "before"
    parallel: int = Field(default=0, ge=0, le=2)
    different_blocks: Blocks | None = None
    places: Literal["learned", "rotary", "slopes", "computed"]
    buckets: int = Field(default=0, ge=0, le=10**6)
    spare_positions: int = Field(default=0, ge=0, le=10)
    rotary_share: float = Field(default=1.0, gt=0, le=1)
    rotary_width: Width | None = None
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
    decoder_experts: Experts | None = None
    latent: LatentAttention | None = None

    @property
    def two_stacks(self) -> bool:
        """Whether there are an encoder and a decoder."""
        return self.decoder_blocks is not None

    @property
    def width(self) -> int:
        """Width of the feed-forward layer of a block."""
        return self.intermediate or 4 * self.hidden

    @property
    def groups(self) -> int:
        """Number of key-value heads (grouped-query attention)."""
        return self.key_value_heads or self.heads

    @property
    def per_head(self) -> int:
        """Width of one attention head."""
        return self.head_width or self.hidden // self.heads

    @property
    def rotated(self) -> int:
        """Number of dimensions of a head with rotary position embedding (RoPE)."""
        return min(self.rotary_width or max(int(self.per_head * self.rotary_share), 1), self.per_head)

    @property
    def biased_output(self) -> bool:
        """Whether the output projection of attention has a bias."""
        return self.attention_bias if self.output_bias is None else self.output_bias

    def holds_weights(self, block: int) -> bool:
        """Return whether block number `block` is the first with its set of shared weights."""
        sets = min(self.different_blocks or self.blocks, self.blocks)
        return block == 0 or block * sets // self.blocks != (block - 1) * sets // self.blocks


class EncoderDecoderConfig(TransformerConfig):
    """The shape of a transformer with encoder and decoder, whose widths follow from nothing else."""

    intermediate: Size
    decoder_blocks: Blocks
    decoder_width: Size


def _architecture(data: Mapping[str, Any], words: Sequence[str]) -> dict[str, Any]:
    """Return whether the file's architecture, if it names one, gives a probability of every word."""
    named = data.get("architectures")
    return {"head": any(word in str(named[0]) for word in words)} if isinstance(named, list) and named else {}


def _fields_of(data: Mapping[str, Any], source: str) -> dict[str, Any]:
    """Return the fields of a model with one stack, completed by the defaults of its model type."""
    data = with_attention(data)
    style = style_of(data, source)
    fields = {**style, **picked(data, names_of("one_stack"))}
    one = fields.pop("multi_query", None)
    if one is not None:
        fields["key_value_heads"] = 1 if one else None
    if style["family"] not in ("bert", "opt"):
        fields.pop("embedding_width", None)
    fields |= _architecture(data, fields.pop("heads_of_words", SAYS_HEAD))
    if data.get("use_sliding_window") is False:
        fields.pop("window", None)
    ratio, hidden = data.get("expansion_ratio"), fields.get("hidden")
    if ratio is not None and not isinstance(ratio, int):
        raise fail(source, f"is {ratio!r:.60}; it must be a whole number", "expansion_ratio")
    if ratio is not None and isinstance(hidden, int):
        fields.setdefault("intermediate", ratio * hidden)
    fields |= _tokens_of(data, style, fields.get("positions"), source)
    return {**fields, "experts": experts_of(data, source), "latent": latent_of(data, source)}


def _encoder_decoder_fields_of(data: Mapping[str, Any], source: str) -> dict[str, Any]:
    """Return the fields of a model with encoder and decoder, completed by the defaults of its type."""
    kind, known = str(data.get("model_type")), styles("two_stacks")
    if kind not in known:
        what = f"is {kind!r:.60}; known with encoder and decoder are {', '.join(known)}"
        raise fail(source, what, "model_type")
    fields = {**known[kind], **picked(data, names_of("two_stacks")), **_architecture(data, SAYS_HEAD)}
    name = str([*(data.get("architectures") or ()), ""][0])
    if _ENCODER in name:
        raise fail(source, f"is {name:.60}, an encoder alone; known are both together", "architectures")
    inner = str(data.get("feed_forward_proj", ""))
    fields["gated"] = inner.startswith(_GATED) or data.get("is_gated_act") is True
    if "dense_act_fn" not in data and inner:
        # In files gated-gelu means the approximation by tanh.
        fields["activation"] = "gelu_new" if inner == "gated-gelu" else inner.removeprefix(_GATED)
    if kind == "switch_transformers":
        fields["decoder_experts"] = experts_of(data, source)
        steps = {"decoder_sparse_step": data.get("encoder_sparse_step")}
        fields["experts"] = experts_of({**data, **steps}, source)
    return fields


def _tokens_of(data: Mapping[str, Any], style: Mapping[str, Any], number: Any, source: str) -> dict[str, Any]:
    """Return the fields on positions: from the number in the file, or from the patches of images."""
    if data.get("model_type") in PICTURES:
        patches = _patches_of(data, source)
        return {"patches": patches, "positions": patches.tokens, "vocabulary": 1, "head": False}
    if style["places"] != "learned" and number is None:
        return {"positions": USUAL_POSITIONS, "says_positions": False}
    if style["family"] == "bert" and isinstance(number, int):
        # RoBERTa counts the rows of its table that no token uses.
        return {"positions": number - style.get("spare_positions", 0)}
    return {}


def _patches_of(data: Mapping[str, Any], source: str) -> Patches:
    fields, names = picked(data, names_of("patches")), data.get("id2label")
    architecture = str(data.get("architectures"))
    fields.setdefault("classes", len(names) if isinstance(names, Mapping) else 2)
    if "ForImageClassification" not in architecture:
        fields["classes"] = 0
    fields["extra"] = 2 if data.get("model_type") == "deit" else 1
    patches = checked(Patches, fields, names_of("patches"), source)
    if patches.picture < patches.patch:
        raise fail(source, f"is {patches.patch}, more than the picture of {patches.picture}", "patch_size")
    return patches


def config_of(data: Mapping[str, Any], source: str) -> TransformerConfig:
    """Return the configuration of a transformer from the data of a ``config.json``.

    Other keys are ignored.

    Raises
    ------
    InstanceError
        If the model's type is unknown, or a size is missing or impossible.
    """
    kind = data.get("model_type")
    both = isinstance(kind, str) and (kind in styles("two_stacks") or data.get("is_encoder_decoder") is True)
    names = names_of("two_stacks" if both else "one_stack")
    model = EncoderDecoderConfig if both else TransformerConfig
    fields = (_encoder_decoder_fields_of if both else _fields_of)(data, source)
    config = checked(model, fields, names, source)
    if both and data.get("decoder_attention_heads", config.heads) != config.heads:
        what = f"differs from the encoder's {config.heads}; both must agree"
        raise fail(source, what, "decoder_attention_heads")
    if config.head_width is None and config.hidden % config.heads:
        what = f"is {config.heads}, which does not divide {names['hidden'][0]} {config.hidden}"
        raise fail(source, what, " or ".join(names["heads"]) if both else names["heads"][0])
    if config.heads % config.groups:
        what = f"is {config.groups}, which does not divide num_attention_heads {config.heads}"
        raise fail(source, what, names["key_value_heads"][0])
    return config
