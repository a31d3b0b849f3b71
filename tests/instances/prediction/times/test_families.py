"""Parts of times: what waits for the memory has no arithmetic, and launches overlap."""

from __future__ import annotations

import numpy as np
import pytest

from clusterplan.instances.prediction.hardware import gpu_named
from clusterplan.instances.prediction.operators import SHAPES, Operator
from clusterplan.instances.prediction.times.coefficients import platform
from clusterplan.instances.prediction.times.families import FAMILIES, FAMILY, parts, queued


def test_every_kind_has_a_family_with_coefficients() -> None:
    assert set(FAMILY) == set(SHAPES)
    assert set(platform()) == set(FAMILIES)


def test_parts_are_seconds_of_the_data_sheet() -> None:
    gpu = gpu_named("p100")
    rows = parts([Operator("linear", (10, 20, 30)), Operator("add", (10, 20))], gpu)
    assert rows[0] == pytest.approx([12000 / 9.3e12, 4 * 1100 / 732e9, 1.0])
    assert rows[1] == pytest.approx([0.0, 4 * 600 / 732e9, 1.0])


def test_a_queue_takes_its_work_or_its_launches() -> None:
    design, counts = np.array([[1.0, 1.0, 1.0]]), np.array([3.0])
    assert queued(design, np.array([[2.0, 1.0, 0.5]]), counts) == 9.0
    assert queued(design, np.array([[0.2, 0.1, 5.0]]), counts) == 15.0
