"""Layers whose memory differs by type: the methods agree with brute force, and the check with the table."""

from __future__ import annotations

import random

import numpy as np
import pytest
from random_instances import random_staging

import clusterplan
from clusterplan.formulations.staging.check.interval_bounds import derive_segments
from clusterplan.formulations.staging.stages import stage_table
from clusterplan.instances.staging.instance import StagingInstance


def by_type(seed: int) -> StagingInstance:
    """Return a random instance in which every layer holds another amount on each type."""
    instance, rng = random_staging(seed), random.Random(seed)
    assert isinstance(instance, StagingInstance)
    layers = [
        layer.model_copy(
            update={"memory_gib": {one.name: rng.choice([0.0, 1.0, 2.5, 4.0]) for one in instance.types}}
        )
        for layer in instance.layers
    ]
    return instance.model_copy(update={"layers": tuple(layers)})


@pytest.mark.parametrize("first", range(0, 60, 20))
def test_methods_agree_with_brute_force(first: int) -> None:
    """Status, value and certificate."""
    statuses = set()
    for seed in range(first, first + 20):
        instance = by_type(seed)
        expected = clusterplan.solve(instance, "brute-force")
        for name in ("exact", "milp:highs"):
            result = clusterplan.solve(instance, name)
            assert result.status == expected.status, (seed, name)
            if expected.objective is None:
                assert result.objective is None
            else:
                assert result.objective == pytest.approx(expected.objective, rel=1e-6), (seed, name)
            assert clusterplan.verify(instance, result).ok
        statuses.add(expected.status)
    assert statuses == {"optimal", "infeasible"}


def test_the_check_leaves_out_what_the_table_does() -> None:
    """Segment for segment."""
    for seed in range(60):
        table, derived = stage_table(by_type(seed)), derive_segments(by_type(seed))
        fits = np.isfinite(table.serial)
        stages = {tuple(one) for one in np.column_stack([table.first, table.last, table.type])[fits].tolist()}
        found = np.column_stack([derived.first, derived.last, derived.type]).tolist()
        assert {tuple(one) for one in found} == stages
