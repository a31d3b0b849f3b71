"""What a plan of staging changes against another one."""

from __future__ import annotations

import pytest

from clusterplan.formulations.staging.plan import Stage, stage_of
from clusterplan.instances.common.errors import OptionError
from clusterplan.instances.staging.generate import generate_staging
from clusterplan.planner.changes import Amount, Change
from clusterplan.planner.staging.changes import changes


def test_stages_and_units_of_two_plans_are_compared() -> None:
    instance = generate_staging(4, 2, seed=1)
    one, other = (kind.name for kind in instance.types)
    before = [Stage(first_layer=0, last_layer=3, type=one, units=2)]
    after = [Stage(first_layer=0, last_layer=0, type=one, units=2), stage_of([1, 3], other, 1)]
    found = changes(instance, before, after)
    assert found.changes == [
        Change("stage 0", "change", f"layers 0–3 on 2 × {one}", f"layer 0 on 2 × {one}"),
        Change("stage 1", "start", "", f"2 layers from 1 to 3 on 1 × {other}"),
    ]
    limits = [kind.limit for kind in instance.types]
    assert found.amounts == [
        Amount(f"units of {one}", 2, 2, limits[0]),
        Amount(f"units of {other}", 0, 1, limits[1]),
    ]


def test_nothing_says_what_runs_now() -> None:
    with pytest.raises(OptionError, match="give two results"):
        changes(generate_staging(4, 2, seed=1), None, [])
