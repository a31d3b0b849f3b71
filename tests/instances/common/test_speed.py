"""The four speed models, by hand."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import TypeAdapter

from clusterplan.instances.common.speed import Speed, SpeedTable

BY_HAND = [
    ({"model": "ps_sync", "theta": [1, 2, 3, 4, 5], "batch": 8}, 8 / 4 + 2 + 3 * 4 / 2 + 4 * 4 + 5 * 2),
    ({"model": "ps_async", "theta": [1, 2, 3, 4]}, (1 + 2 * 4 / 2 + 3 * 4 + 4 * 2) / 4),
    ({"model": "ring_allreduce", "theta": [1, 2, 3, 4], "batch": 8}, 8 / 4 + 2 + 3 * 3 / 4 + 4 * 3),
]


@pytest.mark.parametrize(("document", "step_s"), BY_HAND)
def test_seconds_of_a_step(document: dict[str, Any], step_s: float) -> None:
    """With two parameter servers and four workers."""
    speed = TypeAdapter[Any](Speed).validate_python(document)
    assert float(speed.step_time_s(2, 4)) == pytest.approx(step_s, rel=1e-15)


def test_measured_speeds_are_sorted_by_workers() -> None:
    """Then by parameter servers."""
    rows = [{"workers": w, "ps": p, "steps_per_s": 1} for w, p in ((2, 1), (1, 2), (1, 1))]
    table = SpeedTable.model_validate({"model": "table", "rows": rows})
    assert [(row.workers, row.ps) for row in table.sorted_rows()] == [(1, 1), (1, 2), (2, 1)]
