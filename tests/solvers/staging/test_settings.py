"""Tuning of the search changes no optimum."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, replace
from typing import Any

import pytest
from random_instances import random_staging

import clusterplan
from clusterplan.solvers.staging import search
from clusterplan.solvers.staging.settings import SETTINGS


@pytest.mark.parametrize(
    "changed",
    [
        {"few_segments": 0, "most_kept_share": 1.0},
        {"most_at_once": 1, "segments_at_once": 1},
        {"halved_above_ratio": 1.0, "core_at_any_width": 0},
    ],
)
def test_tuning_changes_no_optimum(monkeypatch: pytest.MonkeyPatch, changed: dict[str, Any]) -> None:
    """Segments are dropped, intervals taken one by one, cores tried late: the answers stay."""
    instances = [random_staging(seed) for seed in range(12)]
    before = [clusterplan.solve(instance, "exact").objective for instance in instances]
    with pytest.raises(FrozenInstanceError):
        SETTINGS.most_at_once = 1  # type: ignore[misc]
    monkeypatch.setattr(search, "SETTINGS", replace(SETTINGS, **changed))
    assert [clusterplan.solve(instance, "exact").objective for instance in instances] == [
        None if value is None else pytest.approx(value, rel=1e-9) for value in before
    ]
