"""Forecasts: seconds, memory and cost of training a model on hardware that could be rented."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TypeVar

from ..estimate import Estimate
from ..models.description import LARGEST, Layer, ModelDescription, Setting
from ..models.memory import device_memory
from ..operators import PRECISION_BYTES, Operator
from ..times.choose import times_on
from ..times.measurements import Measurement
from ..times.operator_times import OperatorTimes
from .rented import Rented

FoundT = TypeVar("FoundT")
HOUR_S = 3600.0


@dataclass(frozen=True)
class LayerForecast:
    """A layer on one GPU: its share of the step of forward and backward pass for the batch.

    Parameters
    ----------
    forward_s
        Seconds of the forward pass, which are a part of the step.
    memory_bytes
        Parameters, gradients, optimiser and activations.
    output_bytes, weight_bytes
        Of the activations that the next layer receives, and of the gradients.
    activation_bytes
        Of what waits for the backward pass.
    """

    layer: Layer
    estimate: Estimate
    forward_s: float
    memory_bytes: float
    output_bytes: float
    weight_bytes: float
    activation_bytes: float


@dataclass(frozen=True)
class Forecast:
    """A model on one GPU, or on each GPU of a group that shares its layers.

    Parameters
    ----------
    setting
        Batch, sequence, precision and the size of the group.
    step
        Forward and backward pass of the batch, with the interval of whole steps.
    model, times
        Of which it is the forecast, and the times that it is made of.
    """

    rented: Rented
    setting: Setting
    step: Estimate
    layers: tuple[LayerForecast, ...]
    memory_bytes: float
    model: ModelDescription = field(repr=False)
    times: OperatorTimes = field(repr=False, compare=False)

    @property
    def batch(self) -> int:
        """Samples at a time."""
        return self.setting.batch

    @property
    def fits(self) -> bool:
        """Whether one GPU has memory for the whole model and the batch."""
        return self.memory_bytes <= self.rented.memory_bytes

    @property
    def samples_per_s(self) -> float:
        """Samples that one GPU trains in a second."""
        return self.batch / self.step.seconds

    def gpu_hours(self, samples: float) -> Estimate:
        """Return the GPU-hours (in the field `seconds`) of so many samples, without communication."""
        return self.step.times(samples / self.batch / HOUR_S)

    def cost_usd(self, samples: float) -> Estimate | None:
        """Return the USD of so many samples (in `seconds`); None without a price."""
        price = self.rented.price_usd_per_hour
        return None if price is None else self.gpu_hours(samples).times(price)

    @cached_property
    def launch_bound(self) -> bool:
        """Whether the host takes longer to launch the kernels of a batch than the GPU to run them."""
        return self._waits(self.batch)

    @cached_property
    def busy_batch(self) -> int | None:
        """Least batch with which the GPU takes longer; None if it does already, or does with none."""
        if not self.launch_bound:
            return None
        waits, busy = self.batch, 2 * self.batch
        while busy <= LARGEST and self._waits(busy):
            waits, busy = busy, 2 * busy
        if busy > LARGEST:
            return None
        return bisect_left(range(busy), True, waits + 1, key=lambda batch: not self._waits(batch))

    def _waits(self, batch: int) -> bool:
        return self.times.launch_bound(self.model.operators(replace(self.setting, batch=batch)))

    @property
    def factors(self) -> tuple[float, float]:
        """Ends of the interval of a step, as factors."""
        return self.step.low / self.step.seconds, self.step.high / self.step.seconds


def forecast(
    model: ModelDescription,
    hardware: Sequence[Rented],
    setting: Setting,
    measurements: Mapping[str, Sequence[Measurement]] | None = None,
    optimiser: str = "adam",
) -> list[Forecast]:
    """Return what each sort of hardware would take.

    Parameters
    ----------
    setting
        Batch of one GPU, sequence, precision; training.
    measurements
        Name of hardware → what was timed on its GPU.

    Raises
    ------
    OptionError
        If the model cannot be run so, or a GPU lacks the precision.
    """
    given = measurements or {}
    layers = model.layers(setting)
    memory = _once(layers, lambda layer: device_memory([layer], setting, optimiser).total)
    whole = device_memory(layers, setting, optimiser).total
    step_operators = model.operators(setting)
    found = []
    for one in hardware:
        times = times_on(one.gpu, given.get(one.name))
        step = times.total(step_operators)
        alone = _once(layers, _step_of(times, setting.training))
        forward = _once(layers, _forward_of(times))
        # Launches of one layer hide behind the work of another: layers share the time of the whole step.
        scale = step.seconds / sum(part.seconds for part in alone)
        rows = [
            LayerForecast(
                layer,
                part.times(scale),
                min(ahead, part.seconds) * scale,
                held,
                layer.output * width(setting),
                layer.parameters * width(setting),
                layer.activations * width(setting),
            )
            for layer, part, ahead, held in zip(layers, alone, forward, memory, strict=True)
        ]
        found.append(Forecast(one, setting, step, tuple(rows), whole, model, times))
    return found


def _step_of(times: OperatorTimes, training: bool) -> Callable[[Layer], Estimate]:
    return lambda layer: times.total(layer.passes(training))


def _forward_of(times: OperatorTimes) -> Callable[[Layer], float]:
    return lambda layer: times.total(layer.forward).seconds


def _once(layers: Sequence[Layer], make: Callable[[Layer], FoundT]) -> list[FoundT]:
    """Return what is made of each layer; equal ones, such as the blocks of a transformer, are asked once."""
    known: dict[tuple[Operator, ...], FoundT] = {}
    return [
        known[layer.operators] if layer.operators in known else known.setdefault(layer.operators, make(layer))
        for layer in layers
    ]


def width(setting: Setting) -> int:
    """Return the bytes of an element."""
    return PRECISION_BYTES[setting.precision]
