"""Plans in columns are like the tuple of their entries: hash, checks, documents, refusals."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import numpy as np
import pytest

import clusterplan
from clusterplan.formulations.allocation import configurations, formulation, plan, warm_start
from clusterplan.formulations.allocation.formulation import AllocationFormulation
from clusterplan.formulations.allocation.plan import JobAllocation, PlanTable
from clusterplan.formulations.common import column_plan
from clusterplan.instances.allocation.generate import generate_allocation
from clusterplan.planner.stored_results import parse_result, verify_stored
from clusterplan.solvers.common.result import Result, plan_hash

PLENTY = generate_allocation(12, 3, 0.9, 1.0, seed=4)
INSTANCE = PLENTY.replace(resources={name: amount // 2 for name, amount in PLENTY.resources.items()})


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plans and tables of few jobs count as large ones."""
    for module in (plan, formulation, warm_start):
        monkeypatch.setattr(module, "MANY_ENTRIES", 3)
    monkeypatch.setattr(configurations, "MANY", 1)


def solved() -> Result:
    return clusterplan.solve(INSTANCE)


def without_times(result: Result) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(result.to_json())
    return {key: value for key, value in data.items() if key not in ("runtime_s", "build_s", "trace")}


def test_a_result_in_columns_is_the_same_document(request: pytest.FixtureRequest) -> None:
    """Which is read again as columns, verified, and shown as entries."""
    usual = solved()
    request.getfixturevalue("large")
    result = solved()
    assert isinstance(result.plan, PlanTable)
    assert not isinstance(usual.plan, PlanTable)
    assert without_times(result) == without_times(usual)
    assert result.plan == usual.plan
    assert result.plan[-1] == usual.plan[-1]
    assert result.plan[2:5] == usual.plan[2:5]
    assert any(not entry.placed for entry in result.plan)
    stored = json.loads(result.to_json())
    assert isinstance(parse_result(stored, "r.json").plan, PlanTable)
    assert verify_stored(INSTANCE, stored, "r.json").complete
    assert len(result.to_frame()) == 12


ALTERED: list[tuple[str, dict[str, Any], str]] = [
    ("text for a number", {"ps": "2"}, "ps"),
    ("truth value for a number", {"workers": True}, "workers"),
    ("number for a truth value", {"placed": 1}, "placed"),
    ("negative", {"workers": -1}, "workers"),
    ("too many", {"ps": 10**10}, "ps"),
    ("not a time", {"completion_s": float("nan")}, "completion_s"),
    ("negative time", {"completion_s": -1.0}, "completion_s"),
    ("endless time", {"completion_s": float("inf")}, "completion_s"),
    ("time beyond floats", {"completion_s": 10**400}, "completion_s"),
    ("no name", {"job": ""}, "job"),
    ("list for a name", {"variant": ["a"]}, "variant"),
    ("unknown field", {"gpus": 2}, "gpus"),
    ("another job", {"job": "other"}, "other"),
    ("another variant", {"variant": "other"}, "other"),
    ("another time", {"completion_s": 1.0}, "completion time"),
]


@pytest.mark.usefixtures("large")
@pytest.mark.parametrize(("change", "named"), [row[1:] for row in ALTERED], ids=[row[0] for row in ALTERED])
def test_altered_entries_of_large_plans_are_named(change: dict[str, Any], named: str) -> None:
    stored = json.loads(solved().to_json())
    row = next(entry for entry in stored["plan"] if entry["placed"])
    row.update(change)
    found = verify_stored(INSTANCE, stored, "r.json")
    assert not found.ok
    assert any(named in fault for fault in found.faults), found.faults


@pytest.mark.usefixtures("large")
def test_missing_and_repeated_jobs_of_large_plans_are_named() -> None:
    stored = json.loads(solved().to_json())
    name = stored["plan"][0]["job"]
    stored["plan"][0] = stored["plan"][1]
    faults = verify_stored(INSTANCE, stored, "r.json").faults
    assert any(name in fault and "missing" in fault for fault in faults)
    assert any("listed twice" in fault for fault in faults)


def test_the_hash_is_that_of_the_canonical_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """In however many parts it is written."""
    entries = tuple(JobAllocation(job=f"j{i}", variant="ä", workers=i, completion_s=i / 3) for i in range(7))
    text = json.dumps([e.model_dump(mode="json") for e in entries], sort_keys=True, separators=(",", ":"))
    expected = hashlib.sha256(text.encode()).hexdigest()
    for rows in (1, 2, 3, 7, 100):
        monkeypatch.setattr(column_plan, "ROWS_AT_ONCE", rows)
        assert plan_hash(entries) == expected
        assert plan_hash(PlanTable.of(entries)) == expected
    assert plan_hash(()) == hashlib.sha256(b"[]").hexdigest()


@pytest.mark.usefixtures("large")
def test_every_method_plans_with_narrow_demands_and_columns() -> None:
    """And reaches what it reaches without."""
    instance = generate_allocation(12, 3, 0.9, seed=4)
    for name in ("exact", "lagrangian", "marginal-gain", "geometric", "milp:highs"):
        result = clusterplan.solve(instance, name)
        assert result.plan is not None, name
        assert clusterplan.verify(instance, result).ok, name


@pytest.mark.usefixtures("large")
def test_large_plans_begin_the_next_solve() -> None:
    """Jobs have ended and arrived; a plan without times is completed."""
    earlier = solved()
    later = INSTANCE.replace(jobs=(*INSTANCE.jobs[2:], INSTANCE.jobs[0].model_copy(update={"name": "new"})))
    result = clusterplan.solve(later, warm_start=earlier)
    assert clusterplan.verify(later, result).ok
    made = AllocationFormulation(later).adapted(earlier.plan)
    assert isinstance(made, PlanTable)
    assert np.isnan(made.completion_s).all()
    finished = AllocationFormulation(later).finish(made)
    assert all(entry.completion_s is not None for entry in finished)
