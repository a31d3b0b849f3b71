"""Forecasts of training a model on rented GPUs, for tests of prediction."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from clusterplan.instances.documents import load_catalogue
from clusterplan.instances.prediction import CATALOGUE
from clusterplan.instances.prediction.forecast import Forecast, forecasts, operator_times
from clusterplan.instances.prediction.hardware import Rented, rentable_hardware
from clusterplan.instances.prediction.models.description import Setting
from clusterplan.instances.prediction.models.load import load_model
from clusterplan.instances.prediction.operators import Operator


def rented(*names: str, **more: Any) -> list[Rented]:
    """Return hardware of the default price list."""
    return rentable_hardware(names, load_catalogue(CATALOGUE), **more)


def forecasts_on(model: str, hardware: list[Rented], setting: Setting) -> list[Forecast]:
    """Return the forecasts of a model on each type of hardware, from data sheets."""
    able = [(one, setting) for one in hardware]
    return forecasts(load_model(model), able, operator_times(hardware, {}), "adam")


def flops(operators: Iterable[Operator]) -> float:
    """Return the floating-point operations of all calls."""
    return sum(operator.flops * operator.count for operator in operators)
