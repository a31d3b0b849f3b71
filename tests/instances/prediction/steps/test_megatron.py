"""The formula of a step: what must follow from each of its terms."""

from __future__ import annotations

import pytest

from clusterplan.instances.prediction.steps.megatron import (
    A100_SERVER,
    COEFFICIENTS,
    VOCABULARY,
    step_seconds,
)
from clusterplan.instances.prediction.steps.runs import Runs

ROW = {
    **{"batch": 64, "microbatch": 2, "hidden": 1024, "heads": 16, "layers": 24, "sequence": 1024},
    **{"tensor": 1, "data": 1, "pipeline": 1},
}
NONE = dict.fromkeys(COEFFICIENTS, 0.0)


def _seconds(change: dict[str, int], **values: float) -> float:
    return float(step_seconds(NONE | values, Runs.of([ROW | change]))[0])


def test_matrices_take_six_operations_a_parameter_and_token_and_those_of_attention() -> None:
    tokens = 64 * 1024
    flops = 3 * 24 * tokens * (24 * 1024**2 + 4 * 1024 * 1024)
    assert _seconds({}, matrices=1.0) == pytest.approx(flops / A100_SERVER.flops_per_s)
    assert _seconds({"tensor": 4}, matrices=1.0) == pytest.approx(flops / A100_SERVER.flops_per_s / 4)


def test_a_pipeline_of_four_stages_and_thirty_two_microbatches_has_its_bubble() -> None:
    alone = _seconds({}, matrices=1.0)
    assert _seconds({"pipeline": 4}, matrices=1.0) == pytest.approx(alone * 35 / 32 / 4)


def test_replicas_add_their_gradients_up_in_a_ring() -> None:
    size = 2 * (24 * 12 * 1024**2 + 1024 * VOCABULARY)
    inside = _seconds({"data": 4}, data_link=1.0)
    assert inside == pytest.approx(2 * 3 / 4 * size / A100_SERVER.inside_bytes_per_s)
    outside = _seconds({"data": 16}, network=1.0)
    assert outside == pytest.approx(2 * 15 / 16 * size / A100_SERVER.network_bytes_per_s)
    assert _seconds({"data": 1}, data_link=1.0, network=1.0) == 0.0


def test_launches_hide_behind_the_work_of_the_gpu() -> None:
    work = _seconds({}, matrices=1.0)
    assert _seconds({}, matrices=1.0, launch_s=1e-6) == pytest.approx(work)
    assert _seconds({}, launch_s=1e-3) == pytest.approx(32 * 24 * 1e-3)


def test_every_coefficient_counts_somewhere() -> None:
    wide = {"tensor": 16, "data": 2, "pipeline": 2}
    for name in COEFFICIENTS:
        found = _seconds(wide, **{name: 1.0}) + _seconds({"data": 2}, **{name: 1.0})
        assert found > 0, name
