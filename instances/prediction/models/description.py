"""Descriptions of models: layers of operators, tables of layers, and the memory of one device.

Layers depend on a batch, a precision and a tensor-parallel degree. A model given as a list of layers has
the operators of one sample, which are scaled by the batch. A CSV or YAML file may list them, with one row
for each operator of one sample.

The memory of one device holds parameters, gradients, optimiser and activations. ZeRO (Rajbhandari et al.
2020) divides the optimiser's states (stage 1), gradients (2) and parameters (3) among the devices of a
data-parallel group.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

from ...common.errors import OptionError
from ..operators import PRECISION_BYTES, SHAPES, Operator, check_precision

LARGEST = 10**7
"""Upper limit of batch, sequence and group sizes."""


@dataclass(frozen=True)
class Setting:
    """The setting in which a model is run on one device: batch, precision, parallelism.

    Parameters
    ----------
    batch
        Samples of one device at a time: the microbatch.
    sequence
        Tokens of a sample; None: the longest that the model supports. Models of pictures have none.
    precision
        Precision of matrices and activations; one of `PRECISION_BYTES`.
    tensor_parallel
        Devices that share each layer (Megatron-LM; Shoeybi et al. 2019).
    training
        Whether there is a backward pass.
    compiled
        Whether chains of elementwise operators run as one kernel, as after compilation.
    fused_attention
        Whether attention is one kernel that never writes its scores (FlashAttention), in a transformer of one
        stack; other models are not changed.

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
        check_precision(self.precision)


@dataclass(frozen=True)
class Layer:
    """A layer of a model on one device, or on each device of a tensor-parallel group.

    Parameters
    ----------
    name
        Such as ``block 3``; unique in the model.
    operators
        Operators of the forward pass, on one device.
    output
        Elements that are passed to the next layer; the whole activation also with tensor parallelism.
    all_reduces
        Number of all-reduces of `output` elements in the tensor-parallel group in a forward pass; the
        backward pass has as many.
    """

    name: str
    operators: tuple[Operator, ...]
    output: int
    all_reduces: int = 0

    def at(self, precision: str) -> Layer:
        """Return the layer with all its operators in a precision such as ``bf16``."""
        operators = tuple(replace(operator, precision=precision) for operator in self.operators)
        return replace(self, operators=operators)

    @property
    def backward(self) -> tuple[Operator, ...]:
        """Operators of the backward pass, on one device."""
        return tuple(chain.from_iterable(operator.backward() for operator in self.operators))

    def passes(self, training: bool) -> tuple[Operator, ...]:
        """Return the operators of the forward and, in training, of the backward pass of the layer."""
        return self.operators + self.backward if training else self.operators

    @property
    def parameters(self) -> int:
        """Number of trained parameters on one device."""
        return sum(operator.parameters * operator.count for operator in self.operators)

    @property
    def activations(self) -> int:
        """Number of activation elements on one device that are kept for the backward pass."""
        return sum(operator.activations * operator.count for operator in self.operators)


@dataclass(frozen=True)
class ModelDescription(ABC):
    """A model that returns its layers for any setting.

    Parameters
    ----------
    name
        Its name in reports.
    source
        The source of its shapes.
    assumptions
        Assumptions beyond the source, a sentence each.
    """

    name: str
    source: str = ""
    assumptions: tuple[str, ...] = field(default=(), kw_only=True)

    @property
    def positions(self) -> int | None:
        """Default number of tokens of a sample; None if samples have no tokens."""
        return None

    @abstractmethod
    def layers(self, setting: Setting) -> tuple[Layer, ...]:
        """Return the layers in their order, as one device of a tensor-parallel group runs them.

        Raises
        ------
        OptionError
            If the setting is impossible, such as a sequence that is too long or heads that cannot be divided.
        """

    def operators(self, setting: Setting) -> tuple[Operator, ...]:
        """Return all operators of a step, with equal ones merged and counted."""
        return merged([op for layer in self.layers(setting) for op in layer.passes(setting.training)])

    def tensors(self) -> Iterator[tuple[str, int]]:
        """Yield name and number of trained parameters of each tensor, such as ``block 3.2 linear``."""
        for layer in self.layers(Setting()):
            tensors = (
                (op.kind, size) for op in layer.operators for _ in range(op.count) for size in op.tensors
            )
            for number, (kind, size) in enumerate(tensors, 1):
                yield f"{layer.name}.{number} {kind}", size

    def parameters(self) -> int:
        """Return the number of trained parameters."""
        return sum(layer.parameters for layer in self.layers(Setting()))


def merged(operators: Sequence[Operator]) -> tuple[Operator, ...]:
    """Return the distinct operators with summed counts; parameters and saved activations are dropped."""
    counts: dict[Operator, int] = {}
    for operator in operators:
        plain = replace(operator, count=1, parameters=0, saved=0)
        counts[plain] = counts.get(plain, 0) + operator.count
    return tuple(operator.times(count) for operator, count in counts.items())


BATCH_SIZE_OF: Mapping[str, str] = {
    **dict.fromkeys(SHAPES, "rows"),
    **dict.fromkeys(("bmm", "conv", "pool"), "batch"),
}
"""Kind of operator → the size of its shape that is proportional to the batch."""


@dataclass(frozen=True)
class LayerModel(ModelDescription):
    """A model given as the layers of one sample; without tensor parallelism.

    Parameters
    ----------
    one_sample
        The layers for a batch of 1.
    alike
        Indices (layer, operator) of operators on weights only, which do not depend on the batch.
    """

    one_sample: tuple[Layer, ...] = ()
    alike: frozenset[tuple[int, int]] = frozenset()

    def layers(self, setting: Setting) -> tuple[Layer, ...]:
        """Return the layers for a batch."""
        if setting.tensor_parallel > 1:
            raise OptionError(
                f"{self.name}: tensor_parallel {setting.tensor_parallel}: only transformers share tensors"
            )
        if setting.sequence is not None:
            raise OptionError(f"{self.name}: has no sequence; leave it out")
        return tuple(
            replace(
                layer,
                operators=tuple(
                    replace(operator, precision=setting.precision)
                    if (index, number) in self.alike
                    else _for_batch(operator, setting)
                    for number, operator in enumerate(layer.operators)
                ),
                output=layer.output * setting.batch,
            )
            for index, layer in enumerate(self.one_sample)
        )


def _for_batch(operator: Operator, setting: Setting) -> Operator:
    index = SHAPES[operator.kind].index(BATCH_SIZE_OF[operator.kind])
    shape = list(operator.shape)
    shape[index] *= setting.batch
    saved = None if operator.saved is None else operator.saved * setting.batch
    return replace(operator, shape=tuple(shape), precision=setting.precision, saved=saved)


OPTIMISER_NUMBERS: Mapping[str, int] = {"sgd": 0, "momentum": 1, "adam": 2, "adamw": 2}
"""Optimiser → number of single-precision states for each parameter."""
MASTER_BYTES = 4
STAGES = range(4)


@dataclass(frozen=True)
class DeviceMemory:
    """Memory of one device in bytes, by use."""

    parameters: float
    gradients: float
    optimiser: float
    activations: float

    @property
    def total(self) -> float:
        """Sum of all uses in bytes; memory of the framework is not included."""
        return self.parameters + self.gradients + self.optimiser + self.activations


def device_memory(layers: Sequence[Layer], setting: Setting, optimiser: str = "adam") -> DeviceMemory:
    """Return the memory in bytes that layers need on one device which trains them alone.

    Raises
    ------
    OptionError
        If the optimiser is unknown.
    """
    width = PRECISION_BYTES[setting.precision]
    static = held_bytes(sum(layer.parameters for layer in layers), width, optimiser)
    return DeviceMemory(*static, activations=float(sum(layer.activations for layer in layers) * width))


def held_bytes(
    parameters: int, width: int, optimiser: str, zero_stage: int = 0, data_parallel: int = 1
) -> tuple[float, float, float]:
    """Return the bytes of parameters, of gradients and of optimiser states on one device.

    Parameters
    ----------
    width
        Bytes of an element of the arithmetic.

    Raises
    ------
    OptionError
        If the optimiser is unknown.
    """
    if optimiser not in OPTIMISER_NUMBERS:
        raise OptionError(f"optimiser {optimiser!r:.60}: unknown; there are {', '.join(OPTIMISER_NUMBERS)}")
    of_parameters, of_gradients, of_optimiser = (
        data_parallel if zero_stage >= stage else 1 for stage in (3, 2, 1)
    )
    # Training in half precision keeps a copy of the parameters in single precision.
    master = MASTER_BYTES if width < MASTER_BYTES else 0
    numbers = parameters * (OPTIMISER_NUMBERS[optimiser] * MASTER_BYTES + master)
    return parameters * width / of_parameters, parameters * width / of_gradients, numbers / of_optimiser
