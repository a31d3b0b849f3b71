"""Transformers: operations, activations and shares as the literature counts them."""

from __future__ import annotations

import pytest

from clusterplan.instances.common.errors import OptionError
from clusterplan.instances.prediction.models import Setting, load_model
from clusterplan.instances.prediction.models.memory import device_memory
from clusterplan.instances.prediction.models.transformer import ACTIVATIONS, Transformer
from clusterplan.instances.prediction.models.transformer_config import config_of
from clusterplan.instances.prediction.operators import flops


def _products(name: str, setting: Setting) -> float:
    operators = load_model(name).operators(setting)
    return flops(op for op in operators if op.kind in ("linear", "bmm"))


def test_operations_are_those_of_the_formula() -> None:
    """96·B·s·l·h²·(1 + s/6h + V/16lh) with recomputation, of which a step without it makes three quarters.

    Narayanan et al. 2021, appendix; the head has a width of its own.
    """
    batch, s, layers, h, words = 2, 1024, 36, 1280, 50257
    exact = 72 * batch * s * layers * h**2 * (1 + s / (6 * h) + words / (12 * layers * h))
    assert _products("gpt2-large", Setting(batch)) == pytest.approx(exact, rel=1e-3)


def test_fused_attention_has_the_same_products_forward_and_keeps_no_scores() -> None:
    """Of 4·B·s²·h operations a block; going back the scores are computed again: five products for two."""
    forward = {fused: Setting(2, 2048, training=False, fused_attention=fused) for fused in (False, True)}
    model = load_model("llama-2-7b")
    counted = {
        fused: flops(op for op in model.operators(how) if op.kind in ("linear", "bmm", "attention"))
        for fused, how in forward.items()
    }
    assert counted[True] == pytest.approx(counted[False])
    fused, plain = (Setting(2, 2048, precision="bf16", fused_attention=fused) for fused in (True, False))
    own = flops(op for op in model.operators(fused) if op.kind == "attention")
    assert own == pytest.approx(32 * 3.5 * 4 * 2 * 2048**2 * 4096)
    scores = 32 * 2048**2 * 2
    saved = [
        sum(op.activations * op.count for op in model.layers(how)[1].operators) for how in (plain, fused)
    ]
    assert saved[0] - saved[1] >= scores
    long = [device_memory(model.layers(how), how).total for how in (plain, fused)]
    assert long[0] - long[1] >= 32 * 2 * scores  # bytes of all blocks


def test_activations_are_those_of_the_formula() -> None:
    """s·b·h·(34 + 5·a·s/h) bytes a block in half precision; Korthikanti et al. 2023, equation 2."""
    batch, s, h, heads = 4, 1024, 1280, 20
    layers = load_model("gpt2-large").layers(Setting(batch, precision="fp16", compiled=True))
    block = next(layer for layer in layers if layer.name == "block 1")
    assert 2 * block.activations == pytest.approx(s * batch * h * (34 + 5 * heads * s / h), rel=0.03)


def test_shares_divide_the_products_and_not_the_stream() -> None:
    whole, half = (load_model("llama-3-8b").layers(Setting(1, 512, tensor_parallel=t))[1] for t in (1, 2))
    products = [flops(op for op in layer.forward if op.kind in ("linear", "bmm")) for layer in (whole, half)]
    assert products[0] == 2 * products[1]
    assert whole.output == half.output
    assert (whole.all_reduces, half.all_reduces) == (0, 2)


def test_compiling_leaves_fewer_kernels_and_the_same_products() -> None:
    eager, compiled = (Setting(1, compiled=flag) for flag in (False, True))
    assert _products("gpt2", eager) == _products("gpt2", compiled)
    counts = [sum(op.count for op in load_model("gpt2").operators(setting)) for setting in (eager, compiled)]
    assert counts[1] < 0.75 * counts[0]


def test_every_activation_is_made_of_known_kernels() -> None:
    data = {"model_type": "gpt2", "n_embd": 8, "n_head": 2, "n_layer": 1, "n_positions": 8, "vocab_size": 9}
    for name in ACTIVATIONS:
        config = config_of({**data, "activation_function": name}, "test")
        assert Transformer("test", config=config).operators(Setting())


def test_more_devices_than_heads_of_keys_each_hold_one() -> None:
    """As in Megatron-LM and vLLM: heads of keys and values are copied where they are too few."""
    data = {
        "model_type": "gemma", "hidden_size": 64, "num_attention_heads": 8, "num_key_value_heads": 2,
        "num_hidden_layers": 1, "vocab_size": 64, "max_position_embeddings": 8, "head_dim": 8,
        "intermediate_size": 64,
    }  # fmt: skip
    model = Transformer("test", config=config_of(data, "test"))
    held = {shares: model.layers(Setting(tensor_parallel=shares))[1].parameters for shares in (1, 2, 8)}
    norms, keys = 2 * 64, 64 * 8
    assert held[2] - norms == (held[1] - norms) / 2
    assert held[8] - norms == (held[1] - norms - 4 * keys) / 8 + 2 * keys
    three = Transformer("test", config=config_of({**data, "head_dim": 8, "num_key_value_heads": 4}, "test"))
    with pytest.raises(OptionError, match="tensor_parallel 3: does not divide the 8 heads"):
        three.layers(Setting(tensor_parallel=3))
