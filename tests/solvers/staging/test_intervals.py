"""Incumbents: what improves, and the cutoff for plans in an interval of stage times.

Tuning of the search changes no optimum.
"""

from __future__ import annotations

import math
from dataclasses import FrozenInstanceError, replace
from typing import Any

import numpy as np
import pytest
from random_instances import random_staging
from staging_instances import two_layers

import clusterplan
from clusterplan.formulations.staging.formulation import StagingFormulation
from clusterplan.formulations.staging.stages import Stage
from clusterplan.solvers.staging import search
from clusterplan.solvers.staging.intervals import (
    SETTINGS,
    Candidate,
    Cheapest,
    Fastest,
    NonDominated,
    candidate_of,
    plan_of,
)


def plan(time: float, cost: float) -> Candidate:
    return Candidate(time, cost, np.array([0]), np.array([1.0]))


def test_the_cheapest_plan_is_kept_within_the_cost_limit() -> None:
    """The cutoff is the limit at first, then just below the best cost, at every stage time."""
    incumbent = Cheapest(10.0, gap=0.0)
    assert not incumbent.update(plan(1.0, 10.1))
    assert incumbent.cutoff(0.0) == pytest.approx(10.0)
    assert [incumbent.update(plan(1.0, cost)) for cost in (9.0, 9.0, 8.0, 8.5)] == [True, False, True, False]
    assert incumbent.best.cost_usd == 8.0
    assert 8.0 * (1 - 1e-9) < incumbent.cutoff(5.0) < 8.0


def test_the_gap_lowers_the_cutoff() -> None:
    """Half of it is left to the bound, half to the rounding of plans."""
    incumbent = Cheapest(math.inf, gap=0.1)
    assert math.isinf(incumbent.cutoff(0.0))
    incumbent.update(plan(1.0, 100.0))
    assert incumbent.cutoff(0.0) == pytest.approx(95.0)


def test_the_fastest_plan_leaves_slower_intervals_out() -> None:
    """In faster ones a plan matters up to the cost limit; ties go to the cheaper plan."""
    incumbent = Fastest(10.0, gap=0.0)
    assert not incumbent.update(plan(0.1, 11.0))
    assert [incumbent.update(plan(2.0, cost)) for cost in (9.0, 8.0, 9.0)] == [True, True, False]
    assert incumbent.split_at == 2.0
    assert incumbent.cutoff(2.0) == -math.inf
    assert incumbent.cutoff(1.9) == pytest.approx(10.0)


def test_plans_that_others_beat_are_no_points() -> None:
    """A better plan drops all that it beats, and the cutoff falls with the stage time."""
    incumbent = NonDominated(math.inf, error=0.0)
    assert incumbent.update(plan(1.0, 9.0))
    assert incumbent.update(plan(3.0, 5.0))
    assert not incumbent.update(plan(3.5, 5.0))
    assert not incumbent.update(plan(1.0, 9.5))
    assert incumbent.update(plan(2.0, 6.0))
    assert [point.time_s for point in incumbent.points] == [1.0, 2.0, 3.0]
    assert incumbent.update(plan(1.5, 4.0))
    assert [point.cost_usd for point in incumbent.points] == [9.0, 4.0]
    assert math.isinf(incumbent.cutoff(0.5))
    assert incumbent.cutoff(1.2) == pytest.approx(9.0)
    assert incumbent.cutoff(7.0) == pytest.approx(4.0)


def test_plans_become_candidates_and_back() -> None:
    """With their stage time and cost."""
    formulation = StagingFormulation(two_layers())
    stages = (
        Stage(first_layer=0, last_layer=0, type="slow", units=2),
        Stage(first_layer=1, last_layer=1, type="fast", units=2),
    )
    candidate = candidate_of(formulation, stages)
    assert (candidate.time_s, candidate.cost_usd) == (3.0, pytest.approx(36.0))
    assert plan_of(formulation, candidate) == stages


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
