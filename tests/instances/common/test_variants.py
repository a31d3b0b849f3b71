"""Variants of a job."""

from __future__ import annotations

import pytest

from clusterplan.instances.common.errors import InstanceError
from clusterplan.instances.common.faults import validated
from clusterplan.instances.common.variants import Range, Variant


def test_a_range_ends_after_it_begins() -> None:
    """Or it is refused."""
    assert Range(max=4).min == 1
    with pytest.raises(InstanceError, match="max: is 4, below min 5; max must be at least min"):
        validated(Range, {"min": 5, "max": 4}, "t")


def test_a_variant_needs_the_ranges_of_its_model() -> None:
    """Ring all-reduce has workers and no parameter servers."""
    ring = {"model": "ring_allreduce", "theta": [1, 0, 0, 0], "batch": 8}
    variant = {"name": "v", "worker_demand": {"gpu": 1}, "speed": ring}
    assert validated(Variant, {**variant, "workers": {"max": 2}}, "t").ps is None
    with pytest.raises(InstanceError, match="workers: is missing"):
        validated(Variant, variant, "t")
