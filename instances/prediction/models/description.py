"""Descriptions of models: layers of operators for a batch, a precision and a tensor-parallel degree."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

from ...common.errors import OptionError
from ..operators import PRECISION_BYTES, Operator

LARGEST = 10**7
"""No batch, sequence or group is larger."""


@dataclass(frozen=True)
class Setting:
    """How a model is run on one device.

    Parameters
    ----------
    batch
        Samples of one device at a time: the microbatch.
    sequence
        Tokens of a sample; None: the longest that the model takes. Models of pictures have none.
    precision
        Of the matrices and activations; one of `PRECISION_BYTES`.
    tensor_parallel
        Devices that share each layer (Megatron-LM; Shoeybi et al. 2019).
    training
        Whether there is a backward pass.
    compiled
        Whether chains of elementwise operators run as one kernel, as a compiler makes them.
    fused_attention
        Whether attention is one kernel that never writes its scores (FlashAttention), in a transformer of one
        stack; other models are as they are described.

    Raises
    ------
    OptionError
        If a figure is below 1, or the precision unknown.
    """

    batch: int = 1
    sequence: int | None = None
    precision: str = "fp32"
    tensor_parallel: int = 1
    training: bool = True
    compiled: bool = False
    fused_attention: bool = False

    def __post_init__(self) -> None:
        for name in ("batch", "sequence", "tensor_parallel"):
            value = getattr(self, name)
            if value is not None and not 1 <= value <= LARGEST:
                raise OptionError(f"{name} {value}: must be from 1 to {LARGEST:,}")
        if self.precision not in PRECISION_BYTES:
            known = ", ".join(PRECISION_BYTES)
            raise OptionError(f"precision {self.precision!r:.60}: unknown; there are {known}")


@dataclass(frozen=True)
class Layer:
    """A part of a model that lies on one device, or on each of those that share it.

    Parameters
    ----------
    name
        Such as ``block 3``; unique in the model.
    operators
        Of the forward pass, on one device.
    output
        Elements that go to the next layer: a whole activation also where tensors are shared.
    all_reduces
        Times in a forward pass that the devices of a tensor-parallel group add up `output` elements; as often
        again in the backward pass.
    """

    name: str
    operators: tuple[Operator, ...]
    output: int
    all_reduces: int = 0

    def at(self, precision: str) -> Layer:
        """Return the layer with all its operators in a precision."""
        operators = tuple(replace(operator, precision=precision) for operator in self.operators)
        return replace(self, operators=operators)

    @property
    def forward(self) -> tuple[Operator, ...]:
        """Operators of the forward pass, on one device."""
        return self.operators

    @property
    def backward(self) -> tuple[Operator, ...]:
        """Operators of the backward pass, on one device."""
        return tuple(chain.from_iterable(operator.backward() for operator in self.operators))

    def passes(self, training: bool) -> tuple[Operator, ...]:
        """Return the operators of a step without the optimiser's."""
        return self.forward + self.backward if training else self.forward

    @property
    def parameters(self) -> int:
        """Trained numbers on one device."""
        return sum(operator.parameters * operator.count for operator in self.operators)

    @property
    def activations(self) -> int:
        """Elements that wait for the backward pass on one device."""
        return sum(operator.activations * operator.count for operator in self.operators)


@dataclass(frozen=True)
class ModelDescription(ABC):
    """A model whose layers can be written down for any setting.

    Parameters
    ----------
    name
        What reports call it.
    source
        Where its shapes come from.
    assumptions
        What nobody said and was assumed, a sentence each.
    """

    name: str
    source: str = ""
    assumptions: tuple[str, ...] = field(default=(), kw_only=True)

    @property
    def positions(self) -> int | None:
        """Tokens of a sample unless others are asked for; None where samples have none."""
        return None

    @abstractmethod
    def layers(self, setting: Setting) -> tuple[Layer, ...]:
        """Return the layers in their order, as one device of a tensor-parallel group runs them.

        Raises
        ------
        OptionError
            If the model cannot be run so: a sequence that is too long, heads that cannot be shared evenly.
        """

    def operators(self, setting: Setting) -> tuple[Operator, ...]:
        """Return all operators of a step, equal ones as one with their count."""
        return merged([op for layer in self.layers(setting) for op in layer.passes(setting.training)])

    def parameters(self) -> int:
        """Return how many numbers are trained."""
        return sum(layer.parameters for layer in self.layers(Setting()))


def merged(operators: Sequence[Operator]) -> tuple[Operator, ...]:
    """Return each different operator once, with the sum of its counts; what it holds and saves is lost."""
    counts: dict[Operator, int] = {}
    for operator in operators:
        plain = replace(operator, count=1, parameters=0, saved=0)
        counts[plain] = counts.get(plain, 0) + operator.count
    return tuple(operator.times(count) for operator, count in counts.items())
