"""Layers divided as evenly as can be: the longest stage against all divisions."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterplan.instances.common.errors import OptionError
from clusterplan.instances.documents import load_catalogue
from clusterplan.instances.prediction.fill.forecast import Forecast, forecast
from clusterplan.instances.prediction.fill.predict import CATALOGUE
from clusterplan.instances.prediction.fill.rented import rented
from clusterplan.instances.prediction.models.description import Setting
from clusterplan.instances.prediction.models.load import load_model
from clusterplan.instances.prediction.training.stages import evenly, stages_of


@given(st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=8), st.data())
def test_no_division_has_a_shorter_longest_part(times: list[float], data: st.DataObject) -> None:
    parts = data.draw(st.integers(1, len(times)))
    found = evenly(times, parts)
    assert [index for part in found for index in range(part.start, part.stop)] == list(range(len(times)))
    assert len(found) == parts
    assert all(part.start < part.stop for part in found)
    best = min(
        max(sum(times[a:b]) for a, b in zip([0, *cuts], [*cuts, len(times)], strict=True))
        for cuts in combinations(range(1, len(times)), parts - 1)
    )
    assert max(sum(times[part]) for part in found) == pytest.approx(best)


@pytest.mark.parametrize("parts", [0, 4])
def test_each_stage_needs_a_layer(parts: int) -> None:
    with pytest.raises(OptionError, match="has 3 layers"):
        evenly([1.0, 2.0, 3.0], parts)


def _forecast(**more: int) -> Forecast:
    hardware = rented(["h100"], load_catalogue(CATALOGUE))
    (found,) = forecast(load_model("gpt2"), hardware, Setting(2, 128, **more))  # type: ignore[arg-type]
    return found


def test_stages_hold_what_their_layers_do() -> None:
    one = _forecast(tensor_parallel=2)
    stages = stages_of(one, 3, recompute=False)
    assert sum(stage.compute_s for stage in stages) == pytest.approx(one.step.seconds)
    assert sum(stage.parameters for stage in stages) == sum(row.layer.parameters for row in one.layers)
    # Two sums in each pass of each of twelve blocks, and those of the embedding.
    assert sum(times for stage in stages for _, times in stage.reductions) == 2 * (12 * 2 + 1)


def test_recomputation_runs_forward_again_and_keeps_inputs() -> None:
    one = _forecast()
    (plain,), (again,) = stages_of(one, 1, recompute=False), stages_of(one, 1, recompute=True)
    forward = sum(row.forward_s for row in one.layers)
    assert again.compute_s == pytest.approx(plain.compute_s + forward)
    assert 0.2 < forward / plain.compute_s < 0.5
    assert again.waiting_bytes + again.working_bytes < plain.waiting_bytes
