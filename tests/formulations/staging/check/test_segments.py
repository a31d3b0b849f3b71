"""The check's own stage times: by hand, and equal to the table that the methods use."""

from __future__ import annotations

import math

import numpy as np
import pytest
from random_instances import random_staging

from clusterplan.formulations.staging.check.segments import derive_segments
from clusterplan.formulations.staging.stage_table import stage_table
from clusterplan.formulations.staging.stage_times import stage_time_s
from clusterplan.instances.common.errors import TooLargeError
from clusterplan.instances.staging.generate import generate_staging
from clusterplan.instances.staging.instance import StagingInstance


def made(seed: int) -> StagingInstance:
    """Return a random instance: tiny with every feature, or larger with memory and transfers."""
    if seed % 2:
        return generate_staging(3 + seed % 11, 1 + seed % 5, "tight", seed % 3 == 0, seed % 4 < 2, seed)
    instance = random_staging(seed)
    assert isinstance(instance, StagingInstance)
    return instance


@pytest.mark.parametrize("first", range(0, 200, 50))
def test_segments_are_those_of_the_methods_table(first: int) -> None:
    """The same segments with the same parts, to the last bit, on 200 instances."""
    for seed in range(first, first + 50):
        instance = made(seed)
        table, derived = stage_table(instance), derive_segments(instance)
        able = np.isfinite(table.serial)
        assert derived.layers == table.layers
        for name in ("first", "last", "type", "serial", "parallel", "comm_serial", "comm_parallel"):
            assert (getattr(derived, name) == getattr(table, name)[able]).all(), (seed, name)
        assert (derived.price == table.price).all()
        assert (derived.limit == np.minimum(table.limit, 1e9)).all()


@pytest.mark.parametrize("seed", range(10))
def test_times_are_those_of_single_stages(seed: int) -> None:
    """ET of each segment is that by which plans are evaluated."""
    instance = made(seed)
    segments = derive_segments(instance)
    for units in (1, 3):
        times = segments.time_s(np.full(len(segments.first), float(units)))
        for place, time in enumerate(times.tolist()):
            first, last = int(segments.first[place]), int(segments.last[place])
            name = instance.types[segments.type[place]].name
            assert time == stage_time_s(instance, first, last, name, units)


def test_memory_and_missing_times_leave_segments_out() -> None:
    """A segment that exceeds a unit's memory, or holds a layer without a time on the type, is none."""
    instance = generate_staging(3, 2, "loose", seed=1)
    memory = (1.0, 1.0, 2.0)
    layers = tuple(
        layer.model_copy(update={"memory_gib": held})
        for layer, held in zip(instance.layers, memory, strict=True)
    )
    only = layers[0].model_copy(update={"compute_s": {instance.types[0].name: 1.0}})
    types = tuple(one.model_copy(update={"memory_gib": 2.0}) for one in instance.types)
    segments = derive_segments(instance.model_copy(update={"layers": (only, *layers[1:]), "types": types}))
    found = set(zip(segments.first.tolist(), segments.last.tolist(), segments.type.tolist(), strict=True))
    assert found == {(0, 0, 0), (0, 1, 0), (1, 1, 0), (1, 1, 1), (2, 2, 0), (2, 2, 1)}
    assert not any(math.isinf(value) for value in segments.serial.tolist())


def test_too_many_segments_are_refused() -> None:
    """Before any array is made."""
    instance = generate_staging(3, 2, "loose", seed=1)
    many = instance.model_copy(update={"layers": instance.layers * 660, "types": instance.types * 10})
    with pytest.raises(TooLargeError, match="possible stages"):
        derive_segments(many)
