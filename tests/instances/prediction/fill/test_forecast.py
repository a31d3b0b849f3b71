"""Forecasts: layers share the step, memory decides what fits."""

from __future__ import annotations

import pytest

from clusterplan.instances.documents import load_catalogue
from clusterplan.instances.prediction.fill.forecast import forecast, width
from clusterplan.instances.prediction.fill.predict import CATALOGUE
from clusterplan.instances.prediction.fill.rented import rented
from clusterplan.instances.prediction.fill.sentences import of_forecasts, of_work, pointer
from clusterplan.instances.prediction.fill.work import Work
from clusterplan.instances.prediction.models.description import Setting
from clusterplan.instances.prediction.models.load import load_model


def test_layers_share_the_time_of_the_step() -> None:
    hardware = rented(["h100", "l4"], load_catalogue(CATALOGUE))
    setting = Setting(batch=2, sequence=256)
    found = forecast(load_model("gpt2"), hardware, setting)
    for one in found:
        assert sum(layer.estimate.seconds for layer in one.layers) == pytest.approx(one.step.seconds)
        assert one.samples_per_s == pytest.approx(2 / one.step.seconds)
        assert one.fits == (one.memory_bytes <= one.rented.memory_bytes)
        assert one.layers[1].output_bytes == 2 * 256 * 768 * width(setting)
    assert sum("90 % confidence" in line for line in of_forecasts(found)) == 2
    assert len(list(of_work(Work()))) == 2


def test_names_in_pointers_are_escaped() -> None:
    assert pointer("a/b~c") == "a~1b~0c"
