"""Computation graphs: the same operators as the same model by name, table or configuration."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Callable
from math import prod
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from forecasts import flops

from clusterplan.instances.common.errors import InstanceError, OptionError, UnavailableError
from clusterplan.instances.prediction.models import Setting, load_model
from clusterplan.instances.prediction.models.computation_graph import graph_model, module_model, onnx_model
from clusterplan.instances.prediction.models.description import merged
from clusterplan.instances.prediction.models.transformer import transformer_of
from clusterplan.instances.prediction.models.transformer_config import config_of
from clusterplan.instances.prediction.operators import Operator

REASON = "PyTorch is not installed; pip install 'clusterplan[torch]'"


@pytest.fixture(scope="module")
def torch() -> Any:
    """Return PyTorch."""
    return pytest.importorskip("torch", reason=REASON)


def _forward(operators: tuple[Operator, ...], *kinds: str) -> dict[tuple[str, tuple[int, ...]], int]:
    found: dict[tuple[str, tuple[int, ...]], int] = {}
    for operator in operators:
        if not kinds or operator.kind in kinds:
            key = (operator.kind, operator.shape)
            found[key] = found.get(key, 0) + operator.count
    return found


@pytest.mark.parametrize("library", ["torch", "onnx"])
def test_without_the_library_one_line_says_so(tmp_path: Path, library: str) -> None:
    if importlib.util.find_spec(library):
        pytest.skip(f"{library} is installed")
    file = tmp_path / "mine.onnx"
    file.write_bytes(b"x")
    read: dict[str, Callable[[], object]] = {
        "torch": lambda: module_model(object()),
        "onnx": lambda: onnx_model(file, str(file)),
    }
    with pytest.raises(UnavailableError, match=rf"pip install clusterplan\[{library}\]"):
        read[library]()


def test_the_package_does_not_import_pytorch() -> None:
    code = "import sys, clusterplan; clusterplan.module_model; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_small_network_is_that_of_its_table(torch: Any, tmp_path: Path) -> None:
    """With what waits for the backward pass, of which an operator in place adds nothing."""
    nn = torch.nn
    module = nn.Sequential(
        nn.Conv2d(3, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8), nn.ReLU(inplace=True), nn.MaxPool2d(2),
        nn.Conv2d(8, 8, 3, padding=1, groups=8), nn.SiLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Linear(8, 5),
    )  # fmt: skip
    module.train()
    file = tmp_path / "small.csv"
    file.write_text(
        "layer,kind,shape,parameters,saved\n0,conv,1x3x8x3x3x32x32x2x1x1x1,216,\n1,batch_norm,256x8,16,\n"
        "2,relu,256x8,0,0\n3,pool,1x8x16x16x2x2x0,0,\n4,conv,1x8x8x3x3x8x8x1x1x1x8,80,\n5,silu,64x8,0,\n"
        "6,pool,1x8x8x8x8x8x0,0,\n8,linear,1x8x5,45,\n"
    )
    model = module_model(module, torch.zeros(1, 3, 32, 32), name="small")
    assert model.layers(Setting(4)) == load_model(file).layers(Setting(4))
    assert model.parameters() == sum(p.numel() for p in module.parameters())
    assert all(part.training for part in module.modules())


def _gpt(torch: Any, hidden: int, heads: int, blocks: int, words: int, positions: int) -> Any:
    nn = torch.nn

    # PyTorch is imported at run time, so that its classes have no types here.
    class Block(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.before, self.between = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
            self.qkv, self.out = nn.Linear(hidden, 3 * hidden), nn.Linear(hidden, hidden)
            self.up, self.down = nn.Linear(hidden, 4 * hidden), nn.Linear(4 * hidden, hidden)

        def forward(self, x: Any) -> Any:
            batch, length, _ = x.shape
            q, k, v = self.qkv(self.before(x)).split(hidden, dim=-1)
            q, k, v = (t.view(batch, length, heads, -1).transpose(1, 2) for t in (q, k, v))
            mask = torch.ones(length, length, dtype=torch.bool).tril()
            scores = (q @ k.transpose(-2, -1) * 0.25).masked_fill(~mask, float("-inf")).softmax(-1)
            x = x + self.out((scores @ v).transpose(1, 2).reshape(batch, length, hidden))
            return x + self.down(nn.functional.gelu(self.up(self.between(x))))

    class Gpt(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.words, self.places = nn.Embedding(words, hidden), nn.Embedding(positions, hidden)
            self.blocks = nn.ModuleList(Block() for _ in range(blocks))
            self.last, self.head = nn.LayerNorm(hidden), nn.Linear(hidden, words, bias=False)
            self.head.weight = self.words.weight

        def forward(self, tokens: Any) -> Any:
            x = self.words(tokens) + self.places(torch.arange(tokens.shape[1]))
            for block in self.blocks:
                x = block(x)
            return self.head(self.last(x))

    return Gpt()


def test_a_transformer_is_that_of_its_configuration(torch: Any) -> None:
    module = _gpt(torch, hidden=32, heads=4, blocks=2, words=50, positions=16)
    model = module_model(module, torch.zeros(1, 16, dtype=torch.long), depth=2)
    data = {
        "model_type": "gpt2", "n_embd": 32, "n_head": 4, "n_layer": 2, "n_positions": 16, "vocab_size": 50,
        "activation_function": "gelu",
    }  # fmt: skip
    same = transformer_of("same", "", config_of(data, "same"))
    setting = Setting(1, training=False)
    kinds = ("linear", "bmm", "layer_norm", "softmax", "gelu", "embedding", "add")
    found, known = (_forward(one.operators(setting), *kinds) for one in (model, same))
    assert found == known
    assert model.parameters() == same.parameters() == sum(p.numel() for p in module.parameters())
    assert [layer.name for layer in model.one_sample if "block" in layer.name] == ["blocks.0", "blocks.1"]


def operators_of(module: Any, *example: Any) -> Any:
    """Return the operators of a module's forward pass, with equal ones merged."""
    return merged(
        [operator for layer in module_model(module, *example).one_sample for operator in layer.operators]
    )


def test_fused_attention_is_taken_apart(torch: Any) -> None:
    layer = torch.nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
    found = operators_of(layer, torch.zeros(1, 8, 32))
    assert _forward(found, "bmm") == {("bmm", (4, 8, 8, 8)): 2}
    assert _forward(found, "linear") == {
        ("linear", (8, 32, 96)): 1, ("linear", (8, 32, 32)): 1, ("linear", (8, 32, 64)): 1,
        ("linear", (8, 64, 32)): 1,
    }  # fmt: skip
    assert merged(found) == found
    assert torch.backends.mha.get_fastpath_enabled()


@pytest.mark.parametrize(
    ("norm", "given", "kind", "shape"),
    [
        (("GroupNorm", 2, 8), (1, 8, 4, 4), "layer_norm", (2, 64)),
        (("LayerNorm", (4, 5)), (1, 3, 4, 5), "layer_norm", (3, 20)),
        (("Softmax", 1), (1, 6, 4, 4), "softmax", (16, 6)),
    ],
)
def test_normalisations_go_over_what_they_normalise(
    torch: Any, norm: tuple[Any, ...], given: tuple[int, ...], kind: str, shape: tuple[int, ...]
) -> None:
    name, *sizes = norm
    found = operators_of(getattr(torch.nn, name)(*sizes), torch.zeros(given))
    assert [(op.kind, op.shape) for op in found] == [(kind, shape)]


def test_parameters_that_nothing_uses_are_said(torch: Any) -> None:
    module = torch.nn.Linear(3, 4)
    module.spare = torch.nn.Linear(2, 2)
    model = module_model(module, torch.zeros(1, 3))
    assert model.parameters() == 16
    assert "6 parameters are not used and not counted." in model.assumptions


def test_what_is_not_known_is_one_line(torch: Any) -> None:
    nn = torch.nn

    class Branching(nn.Module):  # type: ignore[misc,name-defined]  # PyTorch may be absent
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(4, 4)

        def forward(self, x: Any) -> Any:
            return x + 1 if self.inner(x).sum() > 0 else x

    branching = Branching()
    cases = [
        (
            nn.Sequential(nn.Conv3d(3, 4, 2)),
            torch.zeros(1, 3, 8, 8, 8),
            "Sequential: 0 calls convolution",
        ),
        (nn.LSTM(4, 4), torch.zeros(1, 2, 4), "LSTM: is a LSTM; recurrent layers are not known"),
        (nn.Sequential(nn.GRUCell(4, 4)), torch.zeros(1, 4), "Sequential: 0 is a GRUCell; recurrent"),
        (branching, torch.zeros(1, 4), "depends on the values of tensors"),
        (nn.Linear(3, 4), torch.zeros(1, 5), "Linear: cannot be run on the shapes of the example"),
        (nn.Linear(3, 4), torch.zeros(2, 3), "whose first size is 1"),
        (nn.Identity(), torch.zeros(1, 3), "Identity: calls no operators"),
        ("resnet", torch.zeros(1, 3), "is no torch.nn.Module"),
    ]
    for module, example, says in cases:
        with pytest.raises(OptionError, match=says) as error:
            module_model(module, example)
        assert "\n" not in str(error.value)


def _modules(torch: Any) -> dict[str, tuple[Any, Any]]:
    """Return modules with an example each, of parts that no named model has."""
    nn, picture, tokens = torch.nn, torch.zeros(1, 16, 33, 33), torch.zeros(1, 10, 64)
    layer = {"batch_first": True, "dropout": 0.0}
    return {
        "inverted bottleneck": (
            nn.Sequential(
                nn.Conv2d(16, 64, 1, bias=False), nn.BatchNorm2d(64), nn.Hardswish(),
                nn.Conv2d(64, 64, 5, 2, 2, groups=64), nn.SiLU(), nn.Conv2d(64, 24, 1),
                nn.AdaptiveAvgPool2d(7), nn.PReLU(), nn.Flatten(), nn.Linear(24 * 49, 10),
            ), picture),
        "up and down": (
            nn.Sequential(
                nn.Conv2d(16, 32, 3, (1, 2), 1), nn.Mish(), nn.ConvTranspose2d(32, 8, 4, 2, 1, groups=2),
                nn.Upsample(scale_factor=2, mode="bilinear"), nn.Conv2d(8, 16, 3, dilation=3),
                nn.PixelShuffle(2), nn.MaxPool2d((2, 1)),
            ), picture),
        "encoder": (nn.TransformerEncoder(nn.TransformerEncoderLayer(64, 4, 128, **layer), 2), tokens),
        "bags": (nn.Sequential(nn.EmbeddingBag(50, 8), nn.Linear(8, 3)), torch.zeros(1, 5, dtype=torch.long)),
    }  # fmt: skip


@pytest.mark.parametrize("name", ["inverted bottleneck", "up and down", "encoder", "bags"])
def test_operations_are_those_that_pytorch_counts(torch: Any, name: str) -> None:
    counter = importlib.import_module("torch.utils.flop_counter").FlopCounterMode(display=False)
    attention = importlib.import_module("torch.nn.attention")
    module, example = _modules(torch)[name]
    module.eval()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with torch.no_grad(), attention.sdpa_kernel(attention.SDPBackend.MATH), counter:
            returned = module(example)
    finally:
        torch.backends.mha.set_fastpath_enabled(True)
    model = module_model(module, example)
    operators = [operator for layer in model.one_sample for operator in layer.operators]
    assert flops(op for op in operators if op.kind in ("linear", "bmm", "conv")) == counter.get_total_flops()
    assert model.parameters() == sum(value.numel() for value in module.parameters())
    assert model.one_sample[-1].output == returned.numel()


def test_work_on_weights_alone_does_not_grow_with_the_batch(torch: Any) -> None:
    nn = torch.nn

    class Standardised(nn.Module):  # type: ignore[misc,name-defined]  # PyTorch may be absent
        def __init__(self) -> None:
            super().__init__()
            self.weight, self.places = nn.Parameter(torch.ones(16, 8)), nn.Embedding(5, 8)

        def forward(self, x: Any) -> Any:
            shifted = x["tokens"] + self.places(torch.arange(5))
            return torch.nn.functional.linear(shifted, torch.tanh(self.weight))

    model = module_model(Standardised(), {"tokens": torch.zeros(1, 5, 8)})
    assert model.parameters() == 16 * 8 + 5 * 8
    shapes = {op.kind: op.shape for layer in model.layers(Setting(4)) for op in layer.operators}
    assert shapes == {
        "embedding": (5, 8, 5),
        "add": (20, 8),
        "tanh": (16, 8),
        "linear": (20, 8, 16),
    }


def test_numbers_of_the_example_and_of_masks_decide(torch: Any) -> None:
    """As models of words look for padding, or leave out a mask of ones."""
    nn = torch.nn

    class Padded(nn.Module):  # type: ignore[misc,name-defined]  # PyTorch may be absent
        def __init__(self) -> None:
            super().__init__()
            self.table, self.last = nn.Embedding(9, 4), nn.Linear(4, 2)

        def forward(self, words: Any) -> Any:
            mask = torch.ones(1, words.shape[1]).tril_()
            read = self.table(words)
            if not mask[:, 0].all():
                read = read * mask
            return self.last(read) if 0 in words[:, [-1, 0]] else read

    padded, full = torch.zeros(1, 5, dtype=torch.long), torch.ones(1, 5, dtype=torch.long)
    kinds = {op.kind for layer in module_model(Padded(), padded).one_sample for op in layer.operators}
    assert kinds == {"embedding", "linear", "copy"}  # what is looked for is copied
    model = module_model(Padded(), full)
    assert model.parameters() == 9 * 4
    assert "those of the example were taken" in model.assumptions[-1]


def _written(
    file: Path, nodes: list[Any], output: list[int], picture: list[int], **weights: list[int]
) -> None:
    """Write an ONNX file with the input x, weights of zeros, and the output y."""
    onnx = pytest.importorskip("onnx")
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    stored = [
        onnx.TensorProto(name=name, dims=dims, data_type=kind, raw_data=bytes(4 * prod(dims)))
        for name, dims in weights.items()
    ]
    ends = [helper.make_tensor_value_info(name, kind, dims) for name, dims in (("x", picture), ("y", output))]
    made = [helper.make_node(*args, **how) for args, how in nodes]
    graph = helper.make_graph(made, "g", ends[:1], ends[1:], stored)
    onnx.save(helper.make_model(graph), str(file))


def test_a_graph_becomes_operators(tmp_path: Path) -> None:
    file = tmp_path / "mine.onnx"
    nodes = [
        (("Conv", ["x", "w"], ["c"]), {"name": "first", "pads": [1, 1, 1, 1], "strides": [2, 2]}),
        (("Relu", ["c"], ["r"]), {"name": "active"}),
        (("Flatten", ["r"], ["f"]), {}),
        (("Gemm", ["f", "m", "b"], ["y"]), {"name": "last"}),
    ]
    _written(file, nodes, [1, 10], [1, 3, 8, 8], w=[4, 3, 3, 3], m=[64, 10], b=[10])
    model = onnx_model(file, str(file))
    layers = model.layers(Setting(5))
    assert [layer.operators[0].kind for layer in layers] == ["conv", "relu", "linear"]
    assert model.parameters() == 108 + 640 + 10
    assert layers[2].operators[0].shape == (5, 64, 10)


def test_a_node_that_is_not_known_is_one_line(tmp_path: Path) -> None:
    file = tmp_path / "mine.onnx"
    _written(file, [(("Det", ["x"], ["y"]), {"name": "odd"})], [1], [1, 2, 2])
    with pytest.raises(InstanceError, match="odd: is Det, which is not known in this form; known are Abs"):
        onnx_model(file, str(file))
    file.write_bytes(b"\xff\xff")
    with pytest.raises(InstanceError, match="is no ONNX file"):
        onnx_model(file, str(file))


def _value(name: str, shape: tuple[int, ...]) -> SimpleNamespace:
    dims = SimpleNamespace(dim=[SimpleNamespace(dim_value=size) for size in shape])
    return SimpleNamespace(name=name, type=SimpleNamespace(tensor_type=SimpleNamespace(shape=dims)))


def _node(kind: str, inputs: str, output: str, **attributes: Any) -> SimpleNamespace:
    fields = []
    for name, value in attributes.items():
        given: dict[str, Any] = {"ints": [], "i": 0, "s": b""}
        key = "ints" if isinstance(value, list) else "s" if isinstance(value, bytes) else "i"
        fields.append(SimpleNamespace(name=name, **{**given, key: value}))
    return SimpleNamespace(op_type=kind, name="", input=inputs.split(), output=[output], attribute=fields)


def _graph(
    nodes: list[SimpleNamespace], weights: dict[str, tuple[int, ...]], **tensors: tuple[int, ...]
) -> SimpleNamespace:
    """Return a graph as ONNX has it, with weights of single precision, and `x` as its input."""
    values = [_value(name, shape) for name, shape in tensors.items()]
    stored = [SimpleNamespace(name=name, dims=dims, data_type=1) for name, dims in weights.items()]
    return SimpleNamespace(node=nodes, initializer=stored, input=values[:1], value_info=values[1:], output=[])


def _one(kind: str, weight: tuple[int, ...], x: tuple[int, ...], y: tuple[int, ...], **more: Any) -> Operator:
    graph = _graph([_node(kind, "x w", "y", **more)], {"w": weight}, x=x, y=y)
    ((operator,),) = (layer.operators for layer in graph_model(graph, "mine", "here").one_sample)
    return operator


@pytest.mark.parametrize(
    ("more", "y"),
    [
        ({"dilations": [2, 2], "pads": [2, 2, 2, 2]}, (1, 4, 8, 8)),
        ({"dilations": [3, 3]}, (1, 4, 2, 2)),
        ({"strides": [1, 2], "pads": [1, 1, 1, 1]}, (1, 4, 8, 4)),
        ({"pads": [0, 0, 2, 2]}, (1, 4, 8, 8)),
        ({"auto_pad": b"SAME_UPPER"}, (1, 4, 8, 8)),
    ],
)
def test_convolutions_return_as_much_as_the_file_says(more: dict[str, Any], y: tuple[int, ...]) -> None:
    found = _one("Conv", (4, 6, 3, 3), (1, 6, 8, 8), y, **more)
    assert found.outputs == prod(y)
    assert found.flops == 2 * prod(y) * 6 * 9


def test_convolutions_of_sequences_and_transposed_ones() -> None:
    row = _one("Conv", (4, 6, 3), (1, 6, 9), (1, 4, 5), strides=[2], pads=[1, 1])
    assert (row.outputs, row.flops) == (20, 2 * 20 * 18)
    up = _one("ConvTranspose", (6, 4, 2, 2), (1, 6, 8, 8), (1, 4, 16, 16), strides=[2, 2])
    assert (up.flops, up.activations, up.parameters) == (2 * 6 * 64 * 16, 4 * 256, 96)


def test_products_by_their_letters() -> None:
    found = _one("Einsum", (4, 16, 32), (1, 7, 4, 16), (1, 4, 7, 32), equation=b"bthd,hde->bhte")
    assert (found.kind, found.shape, found.parameters) == ("bmm", (4, 7, 16, 32), 2048)


def test_rectangles_are_pooled_as_sums() -> None:
    graph = _graph(
        [_node("MaxPool", "x", "y", kernel_shape=[2, 1], strides=[2, 1])], {}, x=(1, 3, 8, 8), y=(1, 3, 4, 8)
    )
    assert graph_model(graph, "mine", "here").one_sample[0].operators[0].shape == (2, 96)


def test_weights_are_counted_once_and_where_they_are_used() -> None:
    """A table tied to the last layer, a weight that is reshaped, and statistics, which are not trained."""
    nodes = [
        _node("Gather", "w x", "a"),
        _node("Reshape", "g to", "h"),
        _node("Mul", "a h", "b"),
        _node("BatchNormalization", "b s t mean var", "c"),
        _node("Transpose", "w", "v"),
        _node("MatMul", "c v", "y"),
    ]
    weights = {"w": (50, 8), "g": (2, 4), "s": (8,), "t": (8,), "mean": (8,), "var": (8,)}
    shapes = {"a": (1, 5, 8), "h": (8,), "b": (1, 5, 8), "c": (1, 5, 8), "v": (8, 50), "y": (1, 5, 50)}
    model = graph_model(_graph(nodes, weights, x=(1, 5), **shapes), "mine", "here")
    assert [layer.operators[0].parameters for layer in model.one_sample] == [400, 8, 16, 0]


def test_what_depends_on_no_input_is_no_layer() -> None:
    nodes = [_node("Shape", "x", "n"), _node("Mod", "n n", "m"), _node("Relu", "x", "y")]
    model = graph_model(_graph(nodes, {}, x=(1, 5), y=(1, 5)), "mine", "here")
    assert [layer.name for layer in model.one_sample] == ["Relu 2"]
