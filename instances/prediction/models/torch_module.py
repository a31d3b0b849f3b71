"""PyTorch modules: the operators of a module, from a run on shapes only; needs the library `torch`.

The module computes nothing: tensors are PyTorch's fake tensors, so that a model of any size takes
seconds, also one on the device ``meta``. Fused attention is decomposed into its products and its
softmax.

An operator is identified by the name of a call of PyTorch's library ATen, with shapes in place of tensors.
ONNX files use the same names.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from importlib import import_module
from math import prod
from typing import Any

from ...common.errors import OptionError, UnavailableError
from ..operators import Operator
from .description import Layer, LayerModel

PICTURE = 4
"""Number of dimensions of a batch of pictures: samples, channels, height, width."""


class Sizes(tuple[int, ...]):
    """The shape of a tensor."""

    __slots__ = ()


ELEMENTWISE: Mapping[str, str] = {
    **{"relu": "relu", "gelu": "gelu", "silu": "silu", "tanh": "tanh", "sigmoid": "tanh", "erf": "tanh"},
    **dict.fromkeys(("clamp", "clamp_min", "hardtanh", "hardswish", "leaky_relu", "elu"), "relu"),
    **dict.fromkeys(("exp", "log", "sqrt", "rsqrt", "neg", "abs", "sin", "cos", "reciprocal"), "scale"),
    **dict.fromkeys(("celu", "selu", "threshold", "_prelu_kernel", "softshrink", "hardshrink"), "relu"),
    **dict.fromkeys(("mish", "glu"), "silu"),
    **dict.fromkeys(("pow", "where", "masked_fill", "softplus", "hardsigmoid", "rsub"), "scale"),
    **dict.fromkeys(("log1p", "expm1", "atan", "sign", "floor", "round", "cumsum", "cumprod"), "scale"),
    **dict.fromkeys(("log_sigmoid_forward", "_weight_norm_interface"), "scale"),
    **dict.fromkeys(("maximum", "minimum", "addcmul", "addcdiv", "lerp"), "add"),
    **{"add": "add", "sub": "add", "mul": "mul", "div": "div"},
    **dict.fromkeys(("clone", "cat", "stack", "constant_pad_nd", "_to_copy", "copy", "repeat"), "copy"),
    **dict.fromkeys(("roll", "index_select", "gather", "index", "flip", "im2col", "col2im"), "copy"),
    **dict.fromkeys(("index_put", "index_add", "scatter", "scatter_add", "slice_scatter"), "copy"),
    **dict.fromkeys(("reflection_pad1d", "reflection_pad2d", "replication_pad2d"), "copy"),
    **dict.fromkeys(("pixel_shuffle", "pixel_unshuffle", "channel_shuffle"), "copy"),
    **dict.fromkeys((f"upsample_{way}2d" for way in ("nearest", "bilinear", "bicubic")), "copy"),
    **dict.fromkeys(("upsample_nearest1d", "upsample_linear1d", "topk", "sort"), "copy"),
    "native_dropout": "dropout",
}
"""Call → kind of elementwise operator; those of two matrices are `scale` if one is broadcast."""
ROWS: Mapping[str, str] = {
    **{"_softmax": "softmax", "_log_softmax": "softmax", "_safe_softmax": "softmax"},
    **{"native_layer_norm": "layer_norm", "native_group_norm": "layer_norm", "_fused_rms_norm": "rms_norm"},
    **dict.fromkeys(("native_batch_norm", "_native_batch_norm_legit", "cudnn_batch_norm"), "batch_norm"),
    **dict.fromkeys(("_native_batch_norm_legit_no_training", "_batch_norm_no_update"), "batch_norm"),
    "_batch_norm_with_update": "batch_norm",
}
PRODUCTS = ("linear", "addmm", "mm", "bmm", "baddbmm", "convolution")
BAGS = ("_embedding_bag", "_embedding_bag_forward_only")
POOLS = (
    *("max_pool2d_with_indices", "max_pool2d", "avg_pool2d", "_adaptive_avg_pool2d", "adaptive_max_pool2d"),
    *("mean", "sum", "amax", "amin", "max", "min", "argmax", "var", "var_mean", "std", "prod", "logsumexp"),
    *("linalg_vector_norm", "avg_pool3d"),
)
_WINDOWS = ("max_pool2d_with_indices", "max_pool2d", "avg_pool2d")
FREE = frozenset(
    [
        *("_unsafe_view", "_reshape_alias", "detach", "lift_fresh", "arange", "ones", "zeros", "full"),
        *("empty", "scalar_tensor", "ones_like", "zeros_like", "full_like", "empty_like", "new_zeros"),
        *(
            "new_ones",
            "triu",
            "tril",
            "eq",
            "ne",
            "lt",
            "le",
            "gt",
            "ge",
            "logical_not",
            "logical_and",
            "any",
        ),
        *("bitwise_not", "bitwise_and", "bitwise_or", "logical_or", "isnan", "isinf", "all"),
        # Views in place.
        *("as_strided", "transpose", "squeeze", "unsqueeze", "t"),
    ]
)
"""Calls that need no kernel: new constants, masks, views."""
KNOWN = tuple(sorted({*ELEMENTWISE, *ROWS, *PRODUCTS, "embedding", *POOLS, *BAGS}))


def operator_of(call: str, args: Sequence[Any], output: Sizes, parameters: int = 0) -> Operator | None:
    """Return the operator model of a call of ATen (PyTorch's kernels); None if it is unknown.

    Parameters
    ----------
    call
        Such as ``addmm``, without the overload after the point.
    args
        The arguments, with `Sizes` in place of tensors.
    output
        The shape of the first tensor that it returned.
    parameters
        Number of trained parameters that no earlier call has.

    Raises
    ------
    OptionError
        If its shape is impossible.
    """
    inputs = [arg for arg in args if isinstance(arg, Sizes)]
    modelled = _kind_and_shape(call, args, inputs, output)
    if modelled is None:
        return None
    kind, shape = modelled
    return placed(Operator(kind, tuple(shape), parameters=parameters), output)


def placed(operator: Operator, output: Sizes) -> Operator:
    """Return the operator with the saved elements corrected for a transposed convolution."""
    backwards = operator.kind == "conv" and operator.outputs != prod(output)
    return replace(operator, saved=prod(output)) if backwards else operator


def _kind_and_shape(
    call: str, args: Sequence[Any], inputs: Sequence[Sizes], output: Sizes
) -> tuple[str, Sequence[int]] | None:
    if call in ELEMENTWISE:
        kind = ELEMENTWISE[call]
        alike = len(inputs) > 1 and prod(inputs[0]) == prod(inputs[1]) == prod(output)
        return ("scale" if kind in ("add", "mul", "div") and not alike else kind), rows_of(output)
    if call in ROWS:
        width = _normalised(ROWS[call], args, inputs[0])
        return ROWS[call], (prod(output) // width, width)
    if call in BAGS:
        # Each row that a bag sums is looked up.
        return "embedding", (prod(inputs[1]), output[-1], inputs[0][0])
    if call in POOLS:
        return pooling(call, args, inputs[0], output)
    match call:
        case "linear" | "mm" | "addmm":
            first = inputs[1] if call == "addmm" else inputs[0]
            return "linear", (prod(first[:-1]), first[-1], output[-1])
        case "bmm" | "baddbmm":
            first = inputs[1] if call == "baddbmm" else inputs[0]
            return "bmm", (*first, output[-1])
        case "embedding":
            return "embedding", (prod(output[:-1]), output[-1], inputs[0][0])
        case "convolution":
            return convolution(args, output)
    return None


def _normalised(kind: str, args: Sequence[Any], first: Sizes) -> int:
    """Return the number of elements normalised together; of a batch normalisation, of channels."""
    if kind == "batch_norm":
        return first[1]
    if kind == "softmax":
        return first[int(args[1])]
    if isinstance(args[1], list):
        return prod(args[1])
    *_, groups, _ = args  # of a group normalisation: …, samples, channels, pixels, groups, epsilon
    return prod(first[1:]) // int(groups)


def rows_of(sizes: Sizes) -> tuple[int, int]:
    """Return rows and width of a tensor as a matrix; the width of images is their channels."""
    if len(sizes) == PICTURE:
        return prod(sizes) // sizes[1], sizes[1]
    width = sizes[-1] if sizes else 1
    return prod(sizes) // width, width


def convolution(args: Sequence[Any], output: Sizes) -> tuple[str, Sequence[int]] | None:
    """Return kind and shape of a convolution of images, or of sequences as images of height 1.

    A transposed one is the gradient of the convolution from its output to its input, with the same products.
    Strides or dilations that an operator cannot express are replaced by another size of the picture that
    gives the same output.
    """
    first, weight, _, stride, padding, dilation, transposed, _, groups = args[:9]
    if len(first) > PICTURE or (transposed and len(set(stride)) > 1):
        return None
    lacking = PICTURE - len(first)
    # A single number holds for all sides.
    padding, dilation = (
        list(sizes) * (len(first) - 2 if len(sizes) == 1 else 1) for sizes in (padding, dilation)
    )
    before, after = (output, first) if transposed else (first, output)
    size, returned = [*[1] * lacking, *before[2:]], [*[1] * lacking, *after[2:]]
    kernel, pads, step = [*[1] * lacking, *weight[2:]], [*[0] * lacking, *padding], stride[0]
    # A dilated kernel covers more; a plain one with less padding returns as much.
    spread = [*[0] * lacking, *((gap - 1) * (k - 1) for gap, k in zip(dilation, weight[2:], strict=True))]
    if len(set(stride)) > 1:
        step, pads = 1, [0, 0]
        size = [cells + k - 1 for cells, k in zip(returned, kernel, strict=True)]
    elif all(gap % 2 == 0 and gap // 2 <= pad for gap, pad in zip(spread, pads, strict=True)):
        pads = [pad - gap // 2 for pad, gap in zip(pads, spread, strict=True)]
    else:
        size = [cells + 2 * pad - gap for cells, pad, gap in zip(size, pads, spread, strict=True)]
        pads = [0, 0]
    return "conv", (first[0], before[1], after[1], *kernel, *size, step, *pads, groups)


def pooling(call: str, args: Sequence[Any], first: Sizes, output: Sizes) -> tuple[str, Sequence[int]]:
    """Return kind and shape of a pooling: by a square window, or as sums of as many elements."""
    window = _square(call, args, first, output)
    if window is not None and Operator(*window).outputs == prod(output):
        return window
    width = max(prod(output), 1)
    return "sum", (max(prod(first) // width, 1), width)


def _square(
    call: str, args: Sequence[Any], first: Sizes, output: Sizes
) -> tuple[str, tuple[int, ...]] | None:
    """Return kind and shape of a pooling by a square window; None if its window is not square."""
    if len(first) != PICTURE:
        return None
    if call in _WINDOWS:
        kernels = list(args[1])
        strides = list(args[2]) if len(args) > 2 and args[2] else kernels
        pads = list(args[3]) if len(args) > 3 and args[3] else [0]
        even = all(len(set(sizes)) == 1 for sizes in (kernels, strides, pads))
        fits = even and kernels[0] <= min(first[2:]) + 2 * pads[0]
        return ("pool", (*first, kernels[0], strides[0], pads[0])) if fits else None
    sizes = output[2:] or (1, 1)
    if prod(output) != prod(first[:2]) * prod(sizes) or first[2] * sizes[-1] != first[3] * sizes[0]:
        return None
    kernel = first[2] // sizes[0]
    return ("pool", (*first, kernel, kernel, 0)) if kernel else None


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
    record = _Record(name, depth)
    record.derived.update((id(value), value) for value in tensors)
    record.samples.update(record.derived)
    record.weights.update((id(value), (index,)) for index, value in enumerate(module.parameters()))
    record.sizes = [value.numel() for value in module.parameters()]
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
class _Record:
    """Records the operators that a run of a module calls, by submodule.

    Parameters
    ----------
    path
        Names of the running submodules, outermost first.
    derived
        Tensors that depend on the example, or hold parameters, by identity; kept, so that no other tensor
        gets the identity of one.
    samples
        Those that depend on the example, so that they scale with the batch.
    weights
        Identity of a tensor → indices of the parameters that it is a view of.
    sizes
        Number of elements of each parameter.
    calls
        Layer, operator, number of returned elements, and whether it scales with the batch.
    decided
        Whether the module read values of tensors.
    """

    name: str
    depth: int | None
    path: list[str] = field(default_factory=list)
    derived: dict[int, Any] = field(default_factory=dict)
    samples: dict[int, Any] = field(default_factory=dict)
    weights: dict[int, tuple[int, ...]] = field(default_factory=dict)
    sizes: list[int] = field(default_factory=list)
    calls: list[tuple[str, Operator, int, bool]] = field(default_factory=list)
    counted: set[int] = field(default_factory=set)
    decided: bool = False

    @property
    def layer(self) -> str:
        inner = self.path[-1] if self.path else ""
        return ".".join(inner.split(".")[: self.depth]) or self.name

    def take(
        self, call: str, is_view: bool, tensors: Sequence[Any], args: Sequence[Any], outputs: Sequence[Any]
    ) -> None:
        """Record a call; constants, which depend neither on the example nor on parameters, are left out."""
        owners = tuple(index for value in tensors for index in self.weights.get(id(value), ()))
        if not owners and not any(id(value) in self.derived for value in tensors):
            return
        self.derived.update((id(value), value) for value in outputs)
        grows = any(id(value) in self.samples for value in tensors)
        if grows:
            self.samples.update((id(value), value) for value in outputs)
        # The name of an in-place call ends with an underscore.
        in_place = call.endswith("_") and not call.endswith("__")
        call = call.removesuffix("_") if in_place else call
        if is_view or call in FREE:
            if owners:
                self.weights.update((id(value), owners) for value in outputs)
            return
        if not outputs:
            return
        new = set(owners) - self.counted
        self.counted |= new
        output = Sizes(outputs[0].shape)
        operator = operator_of(call, args, output, sum(self.sizes[index] for index in new))
        if operator is None:
            raise OptionError(
                f"{self.name}: {self.layer} calls {call}{tuple(output)}, which is not known in this form; "
                f"known are {', '.join(KNOWN)}"
            )
        # An overwritten tensor is counted already.
        operator = replace(operator, saved=0) if in_place else operator
        # Products of weights only are learned queries, repeated for each sample.
        self.calls.append((self.layer, operator, prod(output), grows or call in PRODUCTS))

    def model(self) -> LayerModel:
        """Return the model with the recorded layers; consecutive calls of a submodule form a layer."""
        groups: list[tuple[str, list[Operator]]] = []
        returned: list[int] = []
        alike = []
        for layer, operator, elements, grows in self.calls:
            if not groups or groups[-1][0] != layer:
                groups.append((layer, []))
                returned.append(elements)
            groups[-1][1].append(operator)
            returned[-1] = elements
            if not grows:
                alike.append((len(groups) - 1, len(groups[-1][1]) - 1))
        if not groups:
            raise OptionError(f"{self.name}: calls no operators")
        times: dict[str, int] = {}
        layers = []
        for (layer, operators), elements in zip(groups, returned, strict=True):
            times[layer] = times.get(layer, 0) + 1
            label = layer if times[layer] == 1 else f"{layer} ({times[layer]})"
            layers.append(Layer(label, tuple(operators), elements))
        unused = sum(self.sizes) - sum(self.sizes[index] for index in self.counted)
        notes = ["Operators are those of inference on one sample: there is no dropout."]
        notes += [f"{unused:,} parameters are not used and not counted."] if unused else []
        notes += (
            ["What is called depends on numbers; those of the example were taken."] if self.decided else []
        )
        return LayerModel(
            self.name,
            "PyTorch module",
            one_sample=tuple(layers),
            alike=frozenset(alike),
            assumptions=tuple(notes),
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
            values.follow(func, args, kwargs or {}, result)
            tensors = [value for value in leaves((args, kwargs)) if isinstance(value, torch.Tensor)]
            outputs = [value for value in leaves(result) if isinstance(value, torch.Tensor)]
            shapes = [_shaped(torch, arg) for arg in args]
            record.take(str(func._schema.name).split("::")[-1], _is_view(func), tensors, shapes, outputs)
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
        return value if plain and id(value) not in self._record.weights else None

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

    def follow(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        """Store the value of a call's result if the values of its inputs are known."""
        given = [value for value in self._tree.tree_leaves((args, kwargs)) if self._is_tensor(value)]
        in_place = any(one.alias_info is not None and one.alias_info.is_write for one in func._schema.returns)
        if in_place:
            known = id(args[0]) in self._numbers
            if not known or any(self._of(value) is None for value in given):
                self._numbers.pop(id(args[0]), None)
                return
        elif not self._is_tensor(result) or result.numel() > _MOST_NUMBERS:
            return
        if any(self._of(value) is None for value in given):
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


def _is_view(func: Any) -> bool:
    return any(one.alias_info is not None and not one.alias_info.is_write for one in func._schema.returns)


def _shaped(torch: Any, value: Any) -> Any:
    return Sizes(value.shape) if isinstance(value, torch.Tensor) else value
