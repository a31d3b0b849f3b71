"""PyTorch modules: the operators of a module, from one run on shapes alone; needs the library `torch`.

The module computes nothing: tensors are PyTorch's fake tensors, so that a model of any size passes in
seconds, also one on the device ``meta``. Fused attention is taken apart into its products and its softmax.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from importlib import import_module
from math import prod
from typing import Any

from ...common.errors import OptionError, UnavailableError
from ..operators import Operator
from .description import Layer, merged
from .layer_model import LayerModel
from .torch_operators import FREE, KNOWN, PRODUCTS, Sizes, operator_of


def operators_of(module: Any, *example: Any) -> tuple[Operator, ...]:
    """Return the operators of a forward pass of a module, equal ones as one with their count.

    Arguments and errors are those of `module_model`.
    """
    model = module_model(module, *example)
    return merged([operator for layer in model.one_sample for operator in layer.operators])


def module_model(module: Any, *example: Any, name: str | None = None, depth: int | None = None) -> LayerModel:
    """Return a PyTorch module as a model; it is left as it was.

    Parameters
    ----------
    module
        A `torch.nn.Module`.
    example
        Its arguments for one sample: the first size of each tensor is 1.
    name
        By default that of its class.
    depth
        Parts of the names of submodules that make a layer, such as 2 for ``blocks.3``; by default each
        submodule that calls operators is one.

    Raises
    ------
    UnavailableError
        If `torch` is not installed.
    OptionError
        If it is no module, the batch is not 1, it cannot be run on shapes alone, or calls an operator that
        is not known.
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
        with torch.no_grad(), _as_it_was(torch, module), _watched(module, record), _recording(torch, record):
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
"""Elements of a tensor whose numbers are computed."""
_ON_VALUES = ("DataDependentOutputException", "DynamicOutputShapeException")
"""Errors of shapes that need the numbers."""


def _refuse_recurrent(torch: Any, name: str, module: Any) -> None:
    """Refuse recurrent layers, whose kernels depend on the library that runs them.

    Raises
    ------
    OptionError
        If a part is one.
    """
    for path, part in module.named_modules():
        if isinstance(part, torch.nn.RNNBase | torch.nn.RNNCellBase):
            place = f"{path} is a {type(part).__name__}" if path else f"is a {type(part).__name__}"
            raise OptionError(f"{name}: {place}; recurrent layers are not known")


@dataclass
class _Record:
    """What a run called.

    Parameters
    ----------
    path
        Names of the submodules that are running.
    derived
        Tensors that depend on the example, or hold parameters, by identity; kept, so that no other tensor
        gets the identity of one.
    samples
        Those of them that depend on the example, so that they grow with the batch.
    weights
        Identity of a tensor → indices of the parameters that it is a view of.
    sizes
        Numbers of each parameter.
    calls
        Layer, operator, the elements that came back, and whether it grows with the batch.
    decided
        Whether the module asked for numbers.
    """

    name: str
    depth: int | None
    path: list[str] = field(default_factory=list)
    derived: dict[int, Any] = field(default_factory=dict)
    samples: dict[int, Any] = field(default_factory=dict)
    weights: dict[int, tuple[int, ...]] = field(default_factory=dict)
    sizes: list[int] = field(default_factory=list)
    calls: list[tuple[str, Operator, int, bool]] = field(default_factory=list)
    held: set[int] = field(default_factory=set)
    decided: bool = False

    @property
    def layer(self) -> str:
        inner = self.path[-1] if self.path else ""
        return ".".join(inner.split(".")[: self.depth]) or self.name

    def take(
        self, call: str, is_view: bool, tensors: Sequence[Any], args: Sequence[Any], outputs: Sequence[Any]
    ) -> None:
        """Note a call; one that depends neither on the example nor on parameters makes constants."""
        owners = tuple(index for value in tensors for index in self.weights.get(id(value), ()))
        if not owners and not any(id(value) in self.derived for value in tensors):
            return
        self.derived.update((id(value), value) for value in outputs)
        grows = any(id(value) in self.samples for value in tensors)
        if grows:
            self.samples.update((id(value), value) for value in outputs)
        # The name of a call in place ends with a line below.
        in_place = call.endswith("_") and not call.endswith("__")
        call = call.removesuffix("_") if in_place else call
        if is_view or call in FREE:
            if owners:
                self.weights.update((id(value), owners) for value in outputs)
            return
        if not outputs:
            return
        new = set(owners) - self.held
        self.held |= new
        output = Sizes(outputs[0].shape)
        operator = operator_of(call, args, output, sum(self.sizes[index] for index in new))
        if operator is None:
            raise OptionError(
                f"{self.name}: {self.layer} calls {call}{tuple(output)}, which is not known in this form; "
                f"known are {', '.join(KNOWN)}"
            )
        # What is overwritten is kept already.
        operator = replace(operator, saved=0) if in_place else operator
        # What is multiplied by weights alone are learned queries, repeated for each sample.
        self.calls.append((self.layer, operator, prod(output), grows or call in PRODUCTS))

    def model(self) -> LayerModel:
        """Return the layers: calls of the same submodule one after the other."""
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
        unused = sum(self.sizes) - sum(self.sizes[index] for index in self.held)
        said = ["Operators are those of inference on one sample: there is no dropout."]
        said += [f"{unused:,} parameters are not used and not counted."] if unused else []
        said += (
            ["What is called depends on numbers; those of the example were taken."] if self.decided else []
        )
        return LayerModel(
            self.name,
            "PyTorch module",
            one_sample=tuple(layers),
            alike=frozenset(alike),
            assumptions=tuple(said),
        )


@contextmanager
def _as_it_was(torch: Any, module: Any) -> Iterator[None]:
    """Run a module as in inference, without fused attention, and leave it as it was."""
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
def _watched(module: Any, record: _Record) -> Iterator[None]:
    """Keep the path of the submodules that are running."""
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
    """Run what is called on shapes alone, and note it."""
    fake = import_module("torch._subclasses.fake_tensor").FakeTensorMode(allow_non_fake_inputs=True)
    base: Any = import_module("torch.utils._python_dispatch").TorchDispatchMode
    leaves = import_module("torch.utils._pytree").tree_leaves
    values = _Values(torch, record)

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


class _Values:
    """Numbers of the example and of small tensors that do not depend on parameters, such as masks.

    A module may ask for them to decide what to call, which shapes alone do not tell.
    """

    def __init__(self, torch: Any, record: _Record) -> None:
        self._torch, self._record = torch, record
        self._numbers: dict[int, tuple[Any, Any]] = {}
        self._fake = import_module("torch._subclasses.fake_tensor").FakeTensor
        self._tree = import_module("torch.utils._pytree")
        self._without = import_module("torch.utils._python_dispatch")._disable_current_modes

    def _of(self, value: Any) -> Any:
        """Return the numbers of a tensor; None if they are not known."""
        if id(value) in self._numbers:
            return self._numbers[id(value)][1]
        plain = not isinstance(value, self._fake) and value.device.type == "cpu"
        return value if plain and id(value) not in self._record.weights else None

    def asked(self, func: Any, args: Sequence[Any]) -> Any:
        """Return the number that a call asks for; None if it asks for none, or for one that is not known."""
        if func._schema.name != "aten::_local_scalar_dense":
            return None
        numbers = self._of(args[0])
        if numbers is None:
            return None
        self._record.decided = True
        with self._without():
            return numbers.item()

    def follow(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        """Compute a call for its numbers too, where those that it takes are known."""
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
