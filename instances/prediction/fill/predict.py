"""Predict: from a model's name and a list of GPUs to times, memory and cost with intervals, and instances."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...common.base import Instance
from ...common.errors import OptionError
from ...documents import load_catalogue
from ..measurement_plan import measurement_script, plan_measurements, plan_table
from ..models.description import ModelDescription, Setting
from ..models.load import load_model
from .allocation import allocation_of
from .forecast import Forecast, forecast
from .rented import rented
from .staging import staging_of
from .work import Work

if TYPE_CHECKING:
    import pandas as pd

CATALOGUE = "catalogue:aws-us-east-1"
"""The price list unless another is given."""
FILLS: Mapping[str, Callable[[ModelDescription, Sequence[Forecast], Work], Instance]] = {
    "staging": staging_of,
    "allocation": allocation_of,
}
"""Kinds of instances that predictions fill."""


@dataclass(frozen=True)
class Prediction:
    """What training a model would take on each sort of hardware.

    Parameters
    ----------
    model, setting, work
        What is trained, how on one GPU, and how much of it.
    forecasts
        One for each sort of hardware, in the order given.
    """

    model: ModelDescription
    setting: Setting
    work: Work
    forecasts: tuple[Forecast, ...]

    def instance(self, kind: str) -> Instance:
        """Return an instance whose figures carry their intervals (field `uncertainty`).

        Raises
        ------
        OptionError
            If predictions fill no such kind, a price is missing, or the model fits nowhere.
        """
        if kind not in FILLS:
            raise OptionError(f"kind {kind!r:.60}: cannot be predicted; there are {', '.join(FILLS)}")
        return FILLS[kind](self.model, self.forecasts, self.work)

    def rows(self) -> list[dict[str, Any]]:
        """Return one row for each sort of hardware, as plain data."""
        return [_row(one, self.work) for one in self.forecasts]

    def to_frame(self) -> pd.DataFrame:
        """Return the rows as a table."""
        import pandas as pd

        return pd.DataFrame(self.rows())

    def shapes_to_time(self) -> list[dict[str, str]]:
        """Return which operators, timed on a GPU, would tell most about this model."""
        return plan_table(self._plan())

    def timing_script(self) -> str:
        """Return a script that times them with PyTorch and writes a table for `measurements`."""
        return measurement_script(self._plan())

    def _plan(self) -> list[Any]:
        operators = self.model.operators(self.setting)
        return plan_measurements(operators, self.forecasts[0].rented.gpu)


def predict(
    model: str | Path | ModelDescription,
    hardware: str | Sequence[str],
    *,
    batch: int = 8,
    sequence: int | None = None,
    precision: str = "fp32",
    measurements: str | Path | Mapping[str, str | Path] | None = None,
    samples: float = 1e6,
    epochs: float = 1.0,
    within_h: float | None = None,
    microbatches: int = 8,
    prices: Mapping[str, float] | None = None,
    limits: Mapping[str, int] | None = None,
    network_gbit_per_s: float | None = None,
    catalogue: str | Path = CATALOGUE,
) -> Prediction:
    """Predict what training a model takes on hardware that one need not have.

    Parameters
    ----------
    model
        A known name, a ``config.json``, a table of layers, an ONNX file, or a description.
    hardware
        GPUs or machines of the price list; a text has commas between them.
    batch, sequence, precision
        Samples of one GPU at a time, tokens of a sample, and arithmetic.
    measurements
        What was timed on the GPU; of several, a file for each name.
    samples, epochs, within_h, microbatches
        How much is trained, in how many hours, and batches between two exchanges of gradients.
    prices, limits, network_gbit_per_s, catalogue
        USD an hour of a GPU and how many there are, by name; the network of a GPU; the price list.

    Raises
    ------
    InstanceError
        If the model or a file is not known or wrong.
    OptionError
        If a name, a figure or a combination is not possible.
    """
    names = hardware.split(",") if isinstance(hardware, str) else hardware
    given = rented(names, load_catalogue(catalogue), prices, limits, network_gbit_per_s)
    if isinstance(measurements, str | Path):
        if len(given) != 1:
            raise OptionError(f"measurements: say of which hardware they are, such as {given[0].name}=FILE")
        measurements = {given[0].name: measurements}
    described = model if isinstance(model, ModelDescription) else load_model(model)
    setting = Setting(batch, sequence, precision)
    work = Work(samples, epochs, within_h, microbatches)
    return Prediction(described, setting, work, tuple(forecast(described, given, setting, measurements)))


def _row(one: Forecast, work: Work) -> dict[str, Any]:
    hours, cost = one.gpu_hours(work.total), one.cost_usd(work.total)
    return {
        "hardware": one.rented.name,
        "gpu": one.rented.gpu.name,
        "batch": one.batch,
        "step_s": one.step.seconds,
        "step_low_s": one.step.low,
        "step_high_s": one.step.high,
        "inside": one.step.inside,
        "memory_gb": one.memory_bytes / 1e9,
        "fits": one.fits,
        "gpu_hours": hours.seconds,
        "price_usd_per_hour": one.rented.price_usd_per_hour,
        "cost_usd": None if cost is None else cost.seconds,
        "cost_low_usd": None if cost is None else cost.low,
        "cost_high_usd": None if cost is None else cost.high,
        "basis": one.step.basis,
    }
