"""How the blocks of published transformers are made: what a ``config.json`` leaves to its `model_type`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...files.reading import fail

Style = Mapping[str, Any]
"""Fields of `TransformerConfig` that hold unless the file says otherwise."""
_BERT: Style = {
    "family": "bert", "norms": "after", "places": "learned", "attention_bias": True, "inner_bias": True,
    "tied": True, "activation": "gelu",
}  # fmt: skip
_GPT2: Style = {**_BERT, "family": "gpt2", "norms": "before", "activation": "gelu_new", "fused": True}
_VIT: Style = {**_GPT2, "output_bias": True, "activation": "gelu", "fused": False, "pooler": True}
_OPT: Style = {**_GPT2, "family": "opt", "activation": "relu", "fused": False, "spare_positions": 2}
_LLAMA: Style = {
    "family": "llama", "norms": "before", "norm": "rms_norm", "norm_vectors": 1, "places": "rotary",
    "attention_bias": False, "inner_bias": False, "gated": True, "tied": False, "activation": "silu",
}  # fmt: skip
_QWEN2: Style = {**_LLAMA, "attention_bias": True, "output_bias": False}
_GEMMA: Style = {
    **_LLAMA,
    "tied": True,
    "activation": "gelu_pytorch_tanh",
    "embedding_scaled": True,
    "head_width": 256,
}
_GEMMA2: Style = {**_GEMMA, "norms": "around"}
_PLAIN: Style = {
    **_LLAMA, "norm": "layer_norm", "norm_vectors": 2, "gated": False, "attention_bias": True,
    "inner_bias": True, "activation": "gelu",
}  # fmt: skip
_ROBERTA: Style = {**_BERT, "pooler": True, "spare_positions": 2}
_FUSED: Style = {**_LLAMA, "fused": True}
_QWEN3: Style = {**_LLAMA, "head_norms": "each head"}
_OLMO2: Style = {**_LLAMA, "norms": "branch", "head_norms": "all heads"}
PICTURES = ("vit", "deit")
STYLES: Mapping[str, Style] = {
    "bert": {**_BERT, "pooler": True},
    # The first two rows of the table of positions are never used.
    **dict.fromkeys(("roberta", "xlm-roberta", "camembert"), _ROBERTA),
    "distilbert": _BERT,
    # Its pretraining finds out words that were replaced.
    "electra": {**_BERT, "heads_of_words": ("ForMaskedLM", "ForCausalLM")},
    "albert": {**_BERT, "pooler": True, "activation": "gelu_new", "different_blocks": 1},
    **dict.fromkeys(("gpt2", "gpt3", "megatron"), _GPT2),
    **dict.fromkeys(PICTURES, _VIT),
    "gpt_neo": {**_GPT2, "fused": False, "attention_bias": False, "output_bias": True},
    "gpt_bigcode": {**_GPT2, "activation": "gelu_pytorch_tanh", "multi_query": True},
    "opt": _OPT,
    **dict.fromkeys(("llama", "mistral", "mixtral", "granite"), _LLAMA),
    **dict.fromkeys(("deepseek", "deepseek_v2", "deepseek_v3", "kimi_k2"), _LLAMA),
    **dict.fromkeys(("phi3", "internlm2"), _FUSED),
    **dict.fromkeys(("qwen2", "qwen2_moe"), _QWEN2),
    **dict.fromkeys(("qwen3", "qwen3_moe"), _QWEN3),
    "gemma": _GEMMA,
    "gemma2": _GEMMA2,
    "gemma3_text": {**_GEMMA2, "head_norms": "each head"},
    "olmo": {**_LLAMA, "norm": "layer_norm", "norm_vectors": 0},
    "olmo2": _OLMO2,
    "olmo3": _OLMO2,
    "olmoe": {**_LLAMA, "head_norms": "all heads"},
    "gpt_oss": {**_LLAMA, "attention_bias": True, "inner_bias": True, "sinks": True},
    "cohere": {**_LLAMA, "norm": "layer_norm", "parallel": 1, "tied": True},
    "stablelm": {**_LLAMA, "norm": "layer_norm", "norm_vectors": 2, "output_bias": False},
    "starcoder2": {**_PLAIN, "tied": True, "activation": "gelu_pytorch_tanh"},
    "phi": {**_PLAIN, "parallel": 1, "head_bias": True, "activation": "gelu_new"},
    "gpt_neox": {**_PLAIN, "fused": True, "parallel": 2},
    "gptj": {**_PLAIN, "parallel": 1, "attention_bias": False, "head_bias": True, "activation": "gelu_new"},
    "falcon": {
        **_PLAIN, "fused": True, "parallel": 1, "attention_bias": False, "inner_bias": False, "tied": True,
        "multi_query": True,
    },
    "bloom": {
        **_PLAIN, "fused": True, "places": "slopes", "tied": True, "embedding_norm": True,
        "activation": "gelu_new",
    },
    "mpt": {
        **_PLAIN, "fused": True, "places": "slopes", "tied": True, "attention_bias": False,
        "inner_bias": False, "norm_vectors": 1,
    },
}  # fmt: skip
"""`model_type` of a file → its style."""
_HEADS = ("qk_layernorm", "use_qk_norm", "qk_ln")
_NOT_KNOWN: Mapping[str, tuple[object, ...]] = {
    **dict.fromkeys((*_HEADS, "rope", "add_cross_attention"), (True,)),
    "position_embedding_type": ("relative_key", "relative_key_query"),
}
"""Field of a file → values that change blocks in a way that is not known."""
_ATTENTION = ("full_attention", "sliding_attention", "chunked_attention")


def style_of(data: Mapping[str, Any], source: str) -> dict[str, Any]:
    """Return the fields that follow from the type of a model and from the switches of its file.

    Raises
    ------
    InstanceError
        If the type is not known, or a switch asks for what is not.
    """
    kind = data.get("model_type")
    if not isinstance(kind, str) or kind not in STYLES:
        inner = data.get("text_config")
        within = isinstance(inner, Mapping) and str(inner.get("model_type")) in STYLES
        hint = " its text_config may be given in a file of its own;" if within else ""
        raise fail(source, f"is {kind!r:.60};{hint} known are {', '.join(STYLES)}", "model_type")
    data = with_attention(data)
    style = STYLES[kind]
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
    """Return a file's fields with those of its attention, which MPT keeps apart."""
    own = data.get("attn_config")
    return {**data, **own} if isinstance(own, Mapping) else data


def _switch(data: Mapping[str, Any], name: str, source: str) -> bool | None:
    """Return what a switch of a file says; None if it is not there."""
    said = data.get(name)
    if said is not None and not isinstance(said, bool):
        raise fail(source, f"is {said!r:.60}; it must be true or false", name)
    return said


def _biases(data: Mapping[str, Any], source: str) -> dict[str, Any]:
    """Return where biases are, if the file says it of all linear layers."""
    without = _switch(data, "no_bias", source)
    if without is not None:
        return {"attention_bias": not without, "inner_bias": not without, "norm_vectors": 1 if without else 2}
    for name in ("use_bias", "bias"):
        said = _switch(data, name, source)
        if said is not None:
            return {"attention_bias": said, "inner_bias": said}
    return {}


def _blocks(data: Mapping[str, Any], style: Style, source: str) -> dict[str, Any]:
    """Return what the switches of a file say of heads, positions and branches of a block."""
    found: dict[str, Any] = {}
    # Falcon's later models have groups of heads and two norms, whatever the other switches say.
    grouped = _switch(data, "new_decoder_architecture", source) is True
    one = _switch(data, "multi_query", source)
    if grouped:
        found |= {"multi_query": None, "parallel": 2}
    elif one is not None:
        found["multi_query"] = one
    if _switch(data, "do_layer_norm_before", source) is False:
        found["norms"] = "after"
    slopes = _switch(data, "alibi", source)
    if slopes is not None:
        found["places"] = (
            "slopes" if slopes else "learned" if style["places"] == "slopes" else style["places"]
        )
    for name in ("parallel_attn", "use_parallel_residual"):
        beside = _switch(data, name, source)
        if beside is not None and not (beside and grouped):
            found["parallel"] = (style.get("parallel") or 1) if beside else 0
    return found
