"""Plans at the ends of intervals, and what each loses at the others."""

from __future__ import annotations

import json
from itertools import product
from typing import Any

import pytest

import clusterplan
from clusterplan.planner.robust import Robust, robust

TWO_TYPES: dict[str, Any] = {
    **{"schema_version": 1, "kind": "staging", "name": "two", "objective": "cost"},
    **{"training": {"samples": 3600}, "probe_batch": 1},
    "types": [
        {"name": "known", "price_usd_per_hour": 1.0},
        {"name": "guessed", "price_usd_per_hour": 1.0},
    ],
    "layers": [
        {"name": "only", "compute_s": {"known": 1.0, "guessed": 0.9}, "compute_parallel": 0.0},
    ],
    "uncertainty": [{"figure": "/layers/*/compute_s/guessed", "low": 0.5, "high": 2.0, "basis": "a guess"}],
}


def _robust(**changes: Any) -> Robust:
    return robust(clusterplan.parse_instance({**TWO_TYPES, **changes}))


def test_regrets_by_hand() -> None:
    # One unit of `known` costs 1 USD; `guessed` costs 0.45, 0.9 or 1.8.
    found = _robust()
    values = {(one.plan, one.end): one.value for one in found.regrets}
    guessed = {"low": 0.45, "middle": 0.9, "high": 1.8}
    for plan, end in product(guessed, guessed):
        assert values[plan, end] == pytest.approx(1.0 if plan == "high" else guessed[end])
    regrets = {(one.plan, one.end): one.most for one in found.regrets}
    assert regrets["high", "low"] == pytest.approx(0.55)
    assert regrets["middle", "high"] == pytest.approx(0.8)
    assert regrets["middle", "low"] == pytest.approx(0.0)
    assert found.best() == "middle"
    assert found.worst("middle") == pytest.approx(0.8)
    assert found.headline().startswith("The plan of the middle end is the safest: ")
    assert found.headline().endswith("80.00 %. It says: 1 stage on 1 × guessed.")
    assert "1 intervals, 1 of them outside what was measured" in found.sentences()
    assert {end.result.status for end in found.ends} == {"optimal"}


def test_a_plan_that_breaks_a_limit_at_an_end_is_not_allowed_there() -> None:
    found = _robust(throughput_floor_samples_per_s=1.0)
    broken = {(one.plan, one.end) for one in found.regrets if one.broken}
    assert ("middle", "high") in broken
    assert ("high", "low") not in broken
    assert found.best() == "high"
    assert any("is not allowed at the high end" in line for line in found.sentences())


def test_times_that_a_plan_states_are_those_of_its_own_end() -> None:
    speed = {"model": "ring_allreduce", "theta": [1.0, 0.1, 0.01, 0.0], "batch": 8}
    variant = {"name": "v", "worker_demand": {"gpu": 1}, "workers": {"max": 4}, "speed": speed}
    job = {"name": "one", "remaining_steps": 100, "variants": [variant]}
    figure = {"figure": "/jobs/*/variants/*/speed/theta/*", "low": 0.5, "high": 2.0, "basis": "a guess"}
    document = {"schema_version": 1, "kind": "allocation", "name": "a", "resources": {"gpu": 4}}
    found = robust(clusterplan.parse_instance({**document, "jobs": [job], "uncertainty": [figure]}))
    assert not any(one.broken for one in found.regrets)
    assert found.headline() == "One plan is best at every end: the uncertainty does not matter here."
    values = {one.end: one.value or 0.0 for one in found.regrets if one.plan == "middle"}
    assert values["high"] == pytest.approx(4 * values["low"])


def test_one_plan_for_all_ends() -> None:
    found = _robust(uncertainty=[{"figure": "/layers/0/compute_s/*", "low": 0.9, "high": 1.1}])
    assert found.headline() == "One plan is best at every end: the uncertainty does not matter here."
    data = json.loads(found.to_json())
    assert len(data["regrets"]) == 9
    assert {regret["regret_most"] for regret in data["regrets"]} == {0.0}


def test_no_plan_anywhere() -> None:
    assert _robust(cost_limit_usd=0.01).headline() == "There is no plan at any end."


def test_plans_that_are_kept_back_by_their_own_limits() -> None:
    found = _robust(cost_limit_usd=0.95)
    assert [end.result.plan is None for end in found.ends] == [False, False, True]
    assert found.headline().startswith("No plan is allowed at every end")
