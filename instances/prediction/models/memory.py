"""Memory of one device: parameters, gradients, optimiser and activations.

ZeRO (Rajbhandari et al. 2020) divides the optimiser's numbers (stage 1), gradients (2) and parameters (3)
among the devices of a data-parallel group. Recomputation (Chen et al. 2016) keeps only the input of each
layer and computes the rest again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...common.errors import OptionError
from ..operators import PRECISION_BYTES
from .description import Layer, ModelDescription, Setting

OPTIMISER_NUMBERS: Mapping[str, int] = {"sgd": 0, "momentum": 1, "adam": 2, "adamw": 2}
"""Optimiser → single-precision numbers that it keeps of each parameter."""
MASTER_BYTES = 4
STAGES = range(4)


@dataclass(frozen=True)
class DeviceMemory:
    """Bytes on one device."""

    parameters: float
    gradients: float
    optimiser: float
    activations: float

    @property
    def total(self) -> float:
        """All together; what the framework itself takes is not in it."""
        return self.parameters + self.gradients + self.optimiser + self.activations


def device_memory(
    model: ModelDescription | Sequence[Layer],
    setting: Setting,
    optimiser: str = "adam",
    zero_stage: int = 0,
    data_parallel: int = 1,
    recompute: bool = False,
    microbatches: int = 1,
) -> DeviceMemory:
    """Return the bytes that layers need on one device.

    Parameters
    ----------
    model
        The whole model, or the layers of a pipeline stage for this setting.
    microbatches
        Of a pipeline whose activations wait at the same time.

    Raises
    ------
    OptionError
        If an argument is not known or below its least value.
    """
    _known(optimiser)
    if zero_stage not in STAGES:
        raise OptionError(f"zero_stage {zero_stage}: must be 0, 1, 2 or 3")
    for name, value in (("data_parallel", data_parallel), ("microbatches", microbatches)):
        if value < 1:
            raise OptionError(f"{name} {value}: must be at least 1")
    layers = model.layers(setting) if isinstance(model, ModelDescription) else model
    width = PRECISION_BYTES[setting.precision]
    numbers = sum(layer.parameters for layer in layers)
    if not setting.training:
        largest = max((op.inputs + op.outputs for layer in layers for op in layer.operators), default=0)
        shared = data_parallel if zero_stage == max(STAGES) else 1
        return DeviceMemory(numbers * width / shared, 0.0, 0.0, float(largest * width))
    held = held_bytes(numbers, width, optimiser, zero_stage, data_parallel)
    return DeviceMemory(*held, activations=float(_activations(layers, recompute, microbatches) * width))


def held_bytes(
    parameters: int, width: int, optimiser: str = "adam", zero_stage: int = 0, data_parallel: int = 1
) -> tuple[float, float, float]:
    """Return the bytes of parameters, gradients and the optimiser on one device.

    Parameters
    ----------
    width
        Bytes of an element of the arithmetic.

    Raises
    ------
    OptionError
        If the optimiser is not known.
    """
    _known(optimiser)
    of_parameters, of_gradients, of_optimiser = (
        data_parallel if zero_stage >= stage else 1 for stage in (3, 2, 1)
    )
    # Training in half precision keeps a copy of the parameters in single precision.
    master = MASTER_BYTES if width < MASTER_BYTES else 0
    numbers = parameters * (OPTIMISER_NUMBERS[optimiser] * MASTER_BYTES + master)
    return parameters * width / of_parameters, parameters * width / of_gradients, numbers / of_optimiser


def _known(optimiser: str) -> None:
    if optimiser not in OPTIMISER_NUMBERS:
        raise OptionError(f"optimiser {optimiser!r:.60}: unknown; there are {', '.join(OPTIMISER_NUMBERS)}")


def _activations(layers: Sequence[Layer], recompute: bool, microbatches: int) -> int:
    """Return the elements that wait for the backward pass."""
    if not recompute:
        return sum(layer.activations for layer in layers) * microbatches
    kept = sum(layer.output for layer in layers) * microbatches
    return kept + max((layer.activations for layer in layers), default=0)
