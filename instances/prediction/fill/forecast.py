"""Forecasts: seconds, memory and cost of training a model on hardware that could be rented."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ...common.errors import OptionError
from ..estimate import Estimate
from ..models.description import Layer, ModelDescription, Setting
from ..models.memory import device_memory
from ..operators import PRECISION_BYTES
from ..times.choose import times_on
from .rented import Rented

HOUR_S = 3600.0


@dataclass(frozen=True)
class LayerForecast:
    """A layer on one GPU: its share of the step of forward and backward pass for the batch.

    Parameters
    ----------
    memory_bytes
        Parameters, gradients, optimiser and activations.
    output_bytes, weight_bytes
        Of the activations that the next layer receives, and of the gradients.
    """

    layer: Layer
    estimate: Estimate
    memory_bytes: float
    output_bytes: float
    weight_bytes: float


@dataclass(frozen=True)
class Forecast:
    """A model on one GPU.

    Parameters
    ----------
    step
        Forward and backward pass of the batch, with the interval of whole steps.
    """

    rented: Rented
    batch: int
    step: Estimate
    layers: tuple[LayerForecast, ...]
    memory_bytes: float

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

    @property
    def factors(self) -> tuple[float, float]:
        """Ends of the interval of a step, as factors."""
        return self.step.low / self.step.seconds, self.step.high / self.step.seconds


def forecast(
    model: ModelDescription,
    hardware: Sequence[Rented],
    setting: Setting,
    measurements: Mapping[str, str | Path] | None = None,
    optimiser: str = "adam",
) -> list[Forecast]:
    """Return what each sort of hardware would take.

    Parameters
    ----------
    setting
        Batch of one GPU, sequence, precision; training.
    measurements
        Name of hardware → file of what was timed on its GPU.

    Raises
    ------
    OptionError
        If the model cannot be run so, a GPU lacks the precision, or measurements are of no hardware.
    InstanceError
        If a file of measurements is wrong.
    """
    given = dict(measurements or {})
    names = [one.name for one in hardware]
    for name in given:
        if name not in names:
            known = ", ".join(names)
            raise OptionError(f"measurements of {name!r:.60}: not in the hardware; there are {known}")
    layers = model.layers(setting)
    memory = [device_memory([layer], setting, optimiser).total for layer in layers]
    whole = device_memory(layers, setting, optimiser).total
    found = []
    for one in hardware:
        times = times_on(one.gpu, given.get(one.name))
        step = times.total(model.operators(setting))
        alone = [times.total(layer.passes(setting.training)) for layer in layers]
        # Launches of one layer hide behind the work of another: layers share the time of the whole step.
        scale = step.seconds / sum(part.seconds for part in alone)
        parts = [part.times(scale) for part in alone]
        rows = [
            LayerForecast(
                layer, estimate, held, layer.output * width(setting), layer.parameters * width(setting)
            )
            for layer, estimate, held in zip(layers, parts, memory, strict=True)
        ]
        found.append(Forecast(one, setting.batch, step, tuple(rows), whole))
    return found


def width(setting: Setting) -> int:
    """Return the bytes of an element."""
    return PRECISION_BYTES[setting.precision]
