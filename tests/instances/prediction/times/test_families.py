"""Parts of times: what waits for the memory has no arithmetic, and launches overlap."""

from __future__ import annotations

import numpy as np
import pytest

from clusterplan.instances.prediction.hardware import gpu_named
from clusterplan.instances.prediction.operators import SHAPES, Operator
from clusterplan.instances.prediction.times.coefficients import platform
from clusterplan.instances.prediction.times.families import (
    EXPOSED,
    FAMILIES,
    FAMILY,
    HOST,
    PARTS,
    SHORT,
    USED,
    parts,
    queued,
)


def test_every_kind_has_a_family_with_coefficients() -> None:
    assert set(FAMILY) == set(SHAPES)
    assert set(platform()) == set(FAMILIES)


def test_parts_are_seconds_of_the_data_sheet() -> None:
    gpu = gpu_named("p100")
    rows = parts([Operator("linear", (130, 20, 30)), Operator("add", (10_000, 200))], gpu)
    flops, moved = 156_000 / 9.3e12, 4 * (2600 + 600 + 3900) / 732e9
    assert rows[0] == pytest.approx([flops, flops * 256 / 130, 0, 2 * 64 * 3900 / 9.3e12, moved, 0, 1.0])
    assert rows[1] == pytest.approx([0, 0, 0, 0, 24e6 / 732e9, 20e6 / 732e9, 1.0])


def test_batched_products_and_convolutions_have_tiles() -> None:
    product = parts([Operator("bmm", (8, 70, 16, 32))], gpu_named("p100"))[0]
    assert product[1] / product[0] == pytest.approx(128 / 70)
    assert product[2] / product[0] == pytest.approx(128 / 70)
    picture = Operator("conv", (2, 3, 8, 3, 3, 10, 10, 1, 1, 1, 1))
    row = parts([picture], gpu_named("p100"))[0]
    assert row[1] / row[0] == pytest.approx(256 / 200)


def test_small_kernels_multiply_less() -> None:
    sizes = {"3×3": (3, 3, 1), "3×3, steps of two": (3, 3, 2), "5×3": (5, 3, 1)}
    gpu, shares = gpu_named("a100"), {}
    for name, (high, wide, stride) in sizes.items():
        picture = Operator("conv", (2, 3, 8, high, wide, 16, 16, stride, 1, 1, 1))
        shares[name] = parts([picture], gpu)[0, 0] * gpu.peak("fp32") / picture.flops
    assert shares == pytest.approx({"3×3": SHORT, "3×3, steps of two": 1.0, "5×3": 1.0})
    half = Operator("conv", (2, 3, 8, 3, 3, 16, 16, 1, 1, 1, 1), precision="tf32")
    assert parts([half], gpu)[0, 0] * gpu.peak("tf32") == pytest.approx(half.flops)
    grouped = Operator("conv", (2, 8, 8, 3, 3, 16, 16, 1, 1, 1, 8))
    assert parts([grouped], gpu)[0, 0] * gpu.peak("fp32") == pytest.approx(grouped.flops)


def test_a_short_convolution_takes_no_less_than_its_multiplications() -> None:
    """F(2×2, 3×3) multiplies 16 times for 36; on A100 a 3 × 3 kernel counts half and a bit."""
    picture = Operator("conv", (2, 64, 64, 3, 3, 16, 16, 1, 1, 1, 1))
    row, gpu = parts([picture], gpu_named("a100"))[0], gpu_named("a100")
    assert 16 / 36 < row[0] * gpu.peak("fp32") / picture.flops < 0.6
    assert row[3] == pytest.approx(SHORT * 2 * 64 * picture.outputs / gpu.peak("fp32"))
    assert not row[2]


def test_only_what_a_family_uses_is_there() -> None:
    rows = parts([Operator("linear", (64, 64, 64)), Operator("softmax", (64, 64))], gpu_named("a100"))
    assert not rows[0, 2]
    assert not rows[0, 5]
    assert not rows[1, :4].any()
    assert {column for used in USED.values() for column in used} == set(range(len(PARTS)))


def test_a_queue_takes_its_work_or_its_launches() -> None:
    counts = np.array([3.0])
    assert queued(np.array([[2.0, 1.0, 0.5]]), counts) == pytest.approx(9.0 + 1.5 * EXPOSED)
    assert queued(np.array([[0.2, 0.1, 5.0]]), counts) == pytest.approx(15.0 * HOST)
