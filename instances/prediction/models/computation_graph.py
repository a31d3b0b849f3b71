"""Computation graphs as models: PyTorch modules, by a run on shapes only, and ONNX files.

A node of a graph is a call of PyTorch's library ATen, with shapes in place of tensors, or an operator of
ONNX; `calls.yaml` says of which kind each is.

A PyTorch module (needs the library `torch`) computes nothing: tensors are PyTorch's fake tensors, so that a
model of any size takes seconds, also one on the device ``meta``. Fused attention is decomposed into its
products and its softmax. An ONNX file (needs the library `onnx`) must have known shapes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from importlib import import_module
from itertools import groupby
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from ...common.errors import OptionError, UnavailableError
from ...files.reading import checked_file, fail
from ..operators import (
    Operator,
    Sizes,
    convolution,
    known_calls,
    names_of_kernels,
    operator_of,
    placed,
    pooling,
    scaled,
)
from .description import Layer, LayerModel


def module_model(module: Any, *example: Any, name: str | None = None, depth: int | None = None) -> LayerModel:
    """Return a PyTorch module as a model; the module is not changed.

    Parameters
    ----------
    module
        A `torch.nn.Module`.
    example
        Its arguments for one sample: the first size of each tensor is 1.
    name
        By default the name of its class.
    depth
        Number of name parts of the submodules that form a layer, such as 2 for ``blocks.3``; by default each
        submodule that calls operators is a layer.

    Raises
    ------
    UnavailableError
        If `torch` is not installed.
    OptionError
        If it is no module, the batch is not 1, it cannot be run on shapes only, or calls an unknown operator.
    """
    try:
        torch: Any = import_module("torch")
    except ImportError:
        raise UnavailableError(
            "reading PyTorch modules needs the library torch: pip install clusterplan[torch]"
        ) from None
    name = name or type(module).__name__
    if not isinstance(module, torch.nn.Module):
        raise OptionError(f"{name}: is no torch.nn.Module")
    _refuse_recurrent(torch, name, module)
    leaves = import_module("torch.utils._pytree").tree_leaves(example)
    tensors = [value for value in leaves if isinstance(value, torch.Tensor)]
    if not tensors or any(value.dim() == 0 or value.shape[0] != 1 for value in tensors):
        raise OptionError(f"{name}: the example must have tensors of one sample, whose first size is 1")
    numbers = list(module.parameters())
    weights = Weights(
        {index: value.numel() for index, value in enumerate(numbers)},
        {id(value): frozenset([index]) for index, value in enumerate(numbers)},
    )
    given = {id(value): value for value in tensors}
    record = _Record(name, depth, weights, derived={**given}, samples=given)
    try:
        with (
            torch.no_grad(),
            _inference_mode(torch, module),
            _tracking_path(module, record),
            _recording(torch, record),
        ):
            module(*example)
    except OptionError:
        raise
    except Exception as error:  # noqa: BLE001 - whatever somebody's module raises
        first = (str(error).splitlines() or [""])[0]
        what = f"{type(error).__name__}: {first}"[:300]
        if type(error).__name__ in _ON_VALUES:
            what = f"what it calls depends on the values of tensors ({first})"[:300]
        raise OptionError(f"{name}: cannot be run on the shapes of the example: {what}") from None
    return record.model()


_MOST_NUMBERS = 10**6
"""Limit of the elements of tensors whose values are computed."""
_ON_VALUES = ("DataDependentOutputException", "DynamicOutputShapeException")
"""Errors of PyTorch for shapes that depend on values."""


def _refuse_recurrent(torch: Any, name: str, module: Any) -> None:
    """Refuse recurrent layers, whose kernels depend on the library that runs them.

    Raises
    ------
    OptionError
        If a submodule is one.
    """
    for path, part in module.named_modules():
        if isinstance(part, torch.nn.RNNBase | torch.nn.RNNCellBase):
            place = f"{path} is a {type(part).__name__}" if path else f"is a {type(part).__name__}"
            raise OptionError(f"{name}: {place}; recurrent layers are not known")


@dataclass
class Weights:
    """Weights of a graph: from which of them tensors are made, and which an operator counted already.

    Parameters
    ----------
    sizes
        Number of elements of each.
    owners
        Tensor → the weights that it is made from without a kernel, such as a view.
    """

    sizes: Mapping[Hashable, int]
    owners: dict[Hashable, frozenset[Hashable]]
    counted: set[Hashable] = field(default_factory=set)

    def of(self, tensors: Iterable[Hashable]) -> frozenset[Hashable]:
        """Return the weights that tensors are made from."""
        return frozenset().union(*(self.owners.get(tensor, ()) for tensor in tensors))

    def count(self, weights: Iterable[Hashable]) -> int:
        """Return the number of elements of those weights that were not counted yet, and count them."""
        new = {*weights} - self.counted
        self.counted |= new
        return sum(self.sizes[weight] for weight in new)


@dataclass
class _Record:
    """Records the operators that a run of a module calls, by submodule.

    Parameters
    ----------
    weights
        The parameters by number, and tensors by identity.
    derived
        Tensors that depend on the example, or hold parameters, by identity; kept, so that no other tensor
        gets the identity of one.
    samples
        Those that depend on the example, so that they scale with the batch.
    path
        Names of the running submodules, outermost first.
    calls
        Layer, operator, number of returned elements, and whether it scales with the batch.
    decided
        Whether the module read values of tensors.
    """

    name: str
    depth: int | None
    weights: Weights
    derived: dict[int, Any]
    samples: dict[int, Any]
    path: list[str] = field(default_factory=list)
    calls: list[tuple[str, Operator, int, bool]] = field(default_factory=list)
    decided: bool = False

    @property
    def layer(self) -> str:
        inner = self.path[-1] if self.path else ""
        return ".".join(inner.split(".")[: self.depth]) or self.name

    def take(
        self, call: str, is_view: bool, tensors: Sequence[Any], args: Sequence[Any], outputs: Sequence[Any]
    ) -> None:
        """Record a call; constants, which depend neither on the example nor on parameters, are left out."""
        owners = self.weights.of(map(id, tensors))
        if not owners and not any(id(value) in self.derived for value in tensors):
            return
        kept = {id(value): value for value in outputs}
        self.derived |= kept
        grows = any(id(value) in self.samples for value in tensors)
        self.samples |= kept if grows else {}
        # The name of an in-place call ends with an underscore.
        in_place = call.endswith("_") and not call.endswith("__")
        call = call.removesuffix("_") if in_place else call
        group, _ = known_calls("pytorch").get(call, ("", ""))
        if is_view or group == "free":
            self.weights.owners |= dict.fromkeys(kept, owners) if owners else {}
            return
        if not outputs:
            return
        output = Sizes(outputs[0].shape)
        operator = operator_of(call, args, output, self.weights.count(owners))
        if operator is None:
            raise OptionError(
                f"{self.name}: {self.layer} calls {call}{tuple(output)}, which is not known in this form; "
                f"known are {names_of_kernels('pytorch')}"
            )
        # An overwritten tensor is counted already.
        operator = replace(operator, saved=0) if in_place else operator
        # Products of weights only are learned queries, repeated for each sample.
        self.calls.append((self.layer, operator, prod(output), grows or group == "product"))

    def model(self) -> LayerModel:
        """Return the model with the recorded layers; consecutive calls of a submodule form a layer."""
        if not self.calls:
            raise OptionError(f"{self.name}: calls no operators")
        times, layers, alike = Counter[str](), list[Layer](), set[tuple[int, int]]()
        for name, group in groupby(self.calls, key=lambda call: call[0]):
            _, operators, elements, grows = zip(*group, strict=True)
            times[name] += 1
            label = name if times[name] == 1 else f"{name} ({times[name]})"
            alike |= {(len(layers), number) for number, one in enumerate(grows) if not one}
            layers.append(Layer(label, operators, elements[-1]))
        notes = ["Operators are those of inference on one sample: there is no dropout."]
        unused = self.weights.count(self.weights.sizes)
        notes += [f"{unused:,} parameters are not used and not counted."] if unused else []
        if self.decided:
            notes.append("What is called depends on numbers; those of the example were taken.")
        one_sample, assumptions = tuple(layers), tuple(notes)
        return LayerModel(
            self.name, "PyTorch module", one_sample, alike=frozenset(alike), assumptions=assumptions
        )


@contextmanager
def _inference_mode(torch: Any, module: Any) -> Iterator[None]:
    """Run a module in inference mode without fused attention, and restore its state afterwards."""
    modes = [(part, part.training) for part in module.modules()]
    fast = torch.backends.mha.get_fastpath_enabled()
    attention = import_module("torch.nn.attention")
    try:
        module.eval()
        torch.backends.mha.set_fastpath_enabled(False)
        with attention.sdpa_kernel(attention.SDPBackend.MATH):
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)
        for part, mode in modes:
            part.training = mode


@contextmanager
def _tracking_path(module: Any, record: _Record) -> Iterator[None]:
    """Record the path of the running submodules."""
    with ExitStack() as stack:
        for name, part in module.named_modules():

            def enter(_part: Any, _args: Any, name: str = name) -> None:
                record.path.append(name)

            def leave(_part: Any, _args: Any, _result: Any) -> None:
                record.path.pop()

            stack.callback(part.register_forward_pre_hook(enter).remove)
            stack.callback(part.register_forward_hook(leave).remove)
        yield


@contextmanager
def _recording(torch: Any, record: _Record) -> Iterator[None]:
    """Run the module's calls on shapes only (meta tensors), and record them."""
    fake = import_module("torch._subclasses.fake_tensor").FakeTensorMode(allow_non_fake_inputs=True)
    base: Any = import_module("torch.utils._python_dispatch").TorchDispatchMode
    leaves = import_module("torch.utils._pytree").tree_leaves
    values = _KnownValues(torch, record)

    class Recorder(base):  # type: ignore[misc]  # its base is known only where PyTorch is installed
        def __torch_dispatch__(self, func: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
            known = values.asked(func, args)
            if known is not None:
                return known
            result = func(*args, **(kwargs or {}))
            tensors, outputs = (
                [value for value in leaves(tree) if isinstance(value, torch.Tensor)]
                for tree in ((args, kwargs), result)
            )
            values.follow(func, args, kwargs or {}, tensors, result)
            shapes = [Sizes(arg.shape) if isinstance(arg, torch.Tensor) else arg for arg in args]
            is_view = False in _aliases(func)
            record.take(str(func._schema.name).split("::")[-1], is_view, tensors, shapes, outputs)
            return result

    with fake, Recorder():
        yield


class _KnownValues:
    """Values of the example and of small tensors that do not depend on parameters, such as masks.

    A module may branch on them, which shapes alone do not allow.
    """

    def __init__(self, torch: Any, record: _Record) -> None:
        self._torch, self._record = torch, record
        self._numbers: dict[int, tuple[Any, Any]] = {}
        self._fake = import_module("torch._subclasses.fake_tensor").FakeTensor
        self._tree = import_module("torch.utils._pytree")
        self._without = import_module("torch.utils._python_dispatch")._disable_current_modes

    def _of(self, value: Any) -> Any:
        """Return the values of a tensor; None if they are unknown."""
        if id(value) in self._numbers:
            return self._numbers[id(value)][1]
        plain = not isinstance(value, self._fake) and value.device.type == "cpu"
        return value if plain and id(value) not in self._record.weights.owners else None

    def asked(self, func: Any, args: Sequence[Any]) -> Any:
        """Return the number that a call reads from a tensor; None if it reads none, or an unknown one."""
        if func._schema.name != "aten::_local_scalar_dense":
            return None
        numbers = self._of(args[0])
        if numbers is None:
            return None
        self._record.decided = True
        with self._without():
            return numbers.item()

    def follow(self, func: Any, args: Any, kwargs: Any, tensors: Sequence[Any], result: Any) -> None:
        """Store the value of a call's result if the values of all tensors given to it are known."""
        known = all(self._of(value) is not None for value in tensors)
        if True in _aliases(func):
            if not known or id(args[0]) not in self._numbers:
                self._numbers.pop(id(args[0]), None)
                return
        elif not known or not self._is_tensor(result) or result.numel() > _MOST_NUMBERS:
            return
        args, kwargs = self._tree.tree_map(
            lambda value: self._of(value) if self._is_tensor(value) else value, (args, kwargs)
        )
        if kwargs.get("device") is not None:
            kwargs = {**kwargs, "device": "cpu"}
        with self._without():
            self._numbers[id(result)] = (result, func(*args, **kwargs))

    def _is_tensor(self, value: Any) -> bool:
        return isinstance(value, self._torch.Tensor)


def _aliases(func: Any) -> set[bool]:
    """Return whether what a call returns is an argument that it writes to, or a view of one; or neither."""
    infos = (one.alias_info for one in func._schema.returns)
    return {info.is_write for info in infos if info is not None}


_STATISTICS = slice(3, 5)
"""Inputs of a batch normalisation that are not trained."""
_FLOATS = (1, 10, 11, 16)
"""Types of tensors in ONNX: single, half and double precision, bfloat16."""


def onnx_model(path: Path, source: str) -> LayerModel:
    """Return the model of an ONNX file with the shapes of one sample.

    Raises
    ------
    UnavailableError
        If `onnx` is not installed.
    InstanceError
        If the file is no ONNX file, or has unknown shapes or an unknown node.
    """
    checked_file(path, source)
    try:
        import onnx
    except ImportError:
        raise UnavailableError(
            "reading ONNX files needs the library onnx: pip install clusterplan[onnx]"
        ) from None
    try:
        model = onnx.shape_inference.infer_shapes(
            onnx.load(str(path), load_external_data=False), data_prop=True
        )
    except Exception as error:  # noqa: BLE001 - whatever the parser of an untrusted file raises
        raise fail(source, f"is no ONNX file that can be read: {str(error).splitlines()[0][:200]}") from None
    return graph_model(model.graph, path.stem, source)


def graph_model(graph: Any, name: str, source: str) -> LayerModel:
    """Return the model of an ONNX graph with the shapes of one sample."""
    stored = {tensor.name: tensor for tensor in graph.initializer}
    sizes = {name: prod(one.dims) for name, one in stored.items() if one.data_type in _FLOATS}
    weights = Weights(sizes, {name: frozenset([name]) for name in sizes})
    samples = {value.name for value in graph.input if value.name not in stored}
    shapes, layers = _shapes(graph), []
    for index, node in enumerate(graph.node):
        label = node.name or f"{node.op_type} {index}"
        group, _ = known_calls("onnx").get(node.op_type, ("", ""))
        if not node.output or group == "shape":
            continue
        moves = not samples.isdisjoint(node.input)
        samples.update(node.output if moves else ())
        if group == "free" or not moves:
            weights.owners |= dict.fromkeys(node.output, weights.of(node.input))
            continue
        output = shapes.get(node.output[0])
        if output is None or any(size < 1 for size in output):
            raise fail(source, "has no shape; export it with a fixed batch of 1", label)
        operator = _operator(node, [shapes.get(tensor) for tensor in node.input], output)
        if operator is None:
            raise fail(
                source,
                f"is {node.op_type}, which is not known in this form; known are {names_of_kernels('onnx')}",
                label,
            )
        untrained = node.input[_STATISTICS] if node.op_type == "BatchNormalization" else ()
        parameters = weights.count(weights.of(node.input) - {*untrained})
        layers.append(Layer(label, (placed(*operator, parameters, output),), prod(output)))
    if not layers:
        raise fail(source, "has no layers")
    return LayerModel(name, source, one_sample=tuple(layers))


def _shapes(graph: Any) -> dict[str, Sizes]:
    shapes = {tensor.name: Sizes(tensor.dims) for tensor in graph.initializer}
    for value in (*graph.input, *graph.value_info, *graph.output):
        shapes[value.name] = Sizes(size.dim_value for size in value.type.tensor_type.shape.dim)
    return shapes


def _attribute(node: Any, name: str, default: Sequence[int]) -> list[int]:
    for attribute in node.attribute:
        if attribute.name == name:
            return list(attribute.ints) or [attribute.i]
    return list(default)


def _operator(node: Any, inputs: Sequence[Sizes | None], output: Sizes) -> tuple[str, Sequence[int]] | None:
    """Return the kind and shape of the operator of a node; None if it is unknown."""
    first, second, *_ = (*inputs, None, None)
    *outer, width = output or (1,)
    rows = prod(outer)
    group, kind = known_calls("onnx").get(node.op_type, ("", ""))
    if group in ("elementwise", "rows"):
        return scaled(kind, len(inputs) > 1 and first == second), (rows, width)
    if first is None:
        return None
    match group:
        case "window":
            kernel = _attribute(node, "kernel_shape", ())
            ends = _attribute(node, "pads", (0,) * len(kernel))
            strides = _attribute(node, "strides", (1,) * len(kernel))
            return pooling([first, kernel, strides, ends[: len(kernel)]], first, output)
        case "reduction":
            return pooling([], first, output)
        case "lookup":
            return (kind, (rows, width, first[0])) if len(first) == 2 else ("copy", (rows, width))
        case "product" if second is not None:
            return _product(node, first, second, output)
    return None


def _product(node: Any, first: Sizes, second: Sizes, output: Sizes) -> tuple[str, Sequence[int]] | None:
    """Return the kind and shape of a product of two tensors, or of a tensor and weights."""
    match node.op_type:
        case "Einsum":
            return _einsum(node, first, second) if len(node.input) == 2 else None
        case "Gemm":
            inner = first[0] if _attribute(node, "transA", (0,))[0] else first[-1]
            return "linear", (output[0], inner, output[-1])
        case "MatMul" if len(second) <= 2:
            *outer, width = output or (1,)
            return "linear", (prod(outer), first[-1], width)
        case "MatMul":
            return "bmm", (prod(output[:-2]), output[-2], first[-1], output[-1])
    return _convolution(node, first, second, output)


def _convolution(node: Any, first: Sizes, weight: Sizes, output: Sizes) -> tuple[str, Sequence[int]] | None:
    """Return kind and shape of a convolution; asymmetric padding is added to the input size."""
    axes, transposed = len(first) - 2, node.op_type == "ConvTranspose"
    strides = _attribute(node, "strides", (1,) * axes)
    dilations = _attribute(node, "dilations", (1,) * axes)
    pads = _attribute(node, "pads", (0,) * 2 * axes)
    before, after = pads[:axes], pads[axes:]
    if not transposed:
        size, kernel, returned = (np.array(sizes[2:]) for sizes in (first, weight, output))
        needed = (returned - 1) * strides + (kernel - 1) * dilations + 1
        if before != after or np.any(needed > size + 2 * np.array(before)):
            first, before = Sizes((*first[:2], *needed.tolist())), [0] * axes
    group = _attribute(node, "group", (1,))[0]
    return convolution([first, weight, None, strides, before, dilations, transposed, None, group], output)


def _einsum(node: Any, first: Sizes, second: Sizes) -> tuple[str, Sequence[int]] | None:
    """Return kind and shape of a two-tensor einsum as a batched matrix product; None if it is not one."""
    equation = next((one.s.decode() for one in node.attribute if one.name == "equation"), "").replace(" ", "")
    given, arrow, result = equation.partition("->")
    left, _, right = given.partition(",")
    if not arrow or len(left) != len(first) or len(right) != len(second):
        return None
    sizes = dict(zip(left + right, first + second, strict=True))
    batch, rows, inner, columns = (
        prod(
            sizes[letter] for letter in sizes if (letter in left, letter in right, letter in result) == where
        )
        for where in ((True, True, True), (True, False, True), (True, True, False), (False, True, True))
    )
    return "bmm", (batch, rows, inner, columns)
