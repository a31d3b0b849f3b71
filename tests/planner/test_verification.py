"""Verification of results, its findings, and the registration of kinds."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_instances import RANDOM
from sample_documents import DOCUMENT, STAGING

import clusterplan
from clusterplan.formulations.common.objective import Diagnosis
from clusterplan.formulations.registry import formulate
from clusterplan.instances.common.base import Instance
from clusterplan.instances.common.errors import InstanceError
from clusterplan.planner.findings import Findings
from clusterplan.planner.kind import PlannerKind
from clusterplan.planner.registry import KINDS
from clusterplan.planner.reports.text import cells_of
from clusterplan.planner.stored_results import parse_result
from clusterplan.planner.verification import check_infeasible, verify
from clusterplan.solvers.common.conclude import library_versions
from clusterplan.solvers.common.result import Result
from clusterplan.solvers.run import diagnose

FEASIBLE = formulate(clusterplan.parse_instance(STAGING))
TOO_FAST = formulate(clusterplan.parse_instance({**STAGING, "throughput_floor_samples_per_s": 1e9}))
KNOWN = TOO_FAST.elementary_infeasibility()


def checked(formulation: Any, proven: str | None = None, **more: Any) -> Findings:
    """Return what the check finds."""
    found = Findings()
    given = {"diagnosis": None, "versions": library_versions(), **more}
    check_infeasible(found, formulation, proven, **given)
    return found


def test_what_counting_shows_is_confirmed() -> None:
    found = checked(TOO_FAST)
    assert found.confirmed == ["infeasible: " + "; ".join(KNOWN.reasons)]
    assert not found.faults
    assert not found.claimed


def test_a_plan_refutes_the_claim_unless_it_does_not_count() -> None:
    assert "finds a plan, with cost" in checked(FEASIBLE).faults[0]
    found = checked(FEASIBLE, counts=lambda _: False)
    assert (found.faults, found.claimed) == ([], ["that no plan exists"])


def test_a_certificate_proves_it_in_its_words() -> None:
    assert checked(FEASIBLE, "the prices prove it").confirmed == ["infeasible: the prices prove it"]


def test_a_diagnosis_has_to_say_what_counting_shows() -> None:
    assert KNOWN is not None
    silent = Diagnosis(reasons=("something else",))
    assert "does not say what counting shows" in checked(TOO_FAST, diagnosis=silent).faults[0]
    older = checked(TOO_FAST, diagnosis=silent, versions={"clusterplan": "0.0"})
    assert older.faults == []
    assert "version '0.0' wrote it" in older.claimed[0]


@pytest.mark.parametrize("extra", [(), ("and the moon is full",)])
def test_a_diagnosis_is_derived_again_word_for_word(extra: tuple[str, ...]) -> None:
    whole = diagnose(TOO_FAST, KNOWN)
    said = whole.model_copy(update={"reasons": (*reversed(whole.reasons), *extra)})  # in whatever order
    found = checked(TOO_FAST, diagnosis=said)
    assert ("the diagnosis, word for word" in found.confirmed) == (not extra)
    assert bool(found.faults or found.claimed) == bool(extra)


@cache
def solved(kind: str, seed: int) -> tuple[Instance, str]:
    """Return an instance that has a plan, and its result as JSON."""
    for number in range(seed * 100, seed * 100 + 100):
        instance = RANDOM[kind](number)
        result = clusterplan.solve(instance, "brute-force")
        if result.plan:
            return instance, result.to_json()
    raise AssertionError("no feasible instance among a hundred")


def rejected(instance: Instance, data: dict[str, Any]) -> bool:
    """Return whether reading or checking the stored result finds a fault."""
    try:
        return not verify(instance, parse_result(data, "result")).ok
    except InstanceError:
        return True


def leaves(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the paths of all scalars."""
    if isinstance(value, dict):
        return [p for key, item in value.items() for p in leaves(item, (*path, key))]
    if isinstance(value, list):
        return [p for key, item in enumerate(value) for p in leaves(item, (*path, key))]
    return [path]


def altered(value: Any, data: st.DataObject) -> Any:
    """Return another value of the same sort."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        factor = data.draw(st.sampled_from([-1, 0, 0.5, 1.001, 2]))
        changed = (
            value * factor if value * factor != value else value + data.draw(st.sampled_from([1, -1, 2]))
        )
        return int(changed) if isinstance(value, int) and int(changed) != value else changed
    return data.draw(
        st.sampled_from(["n0", "n1", "n2", "t0", "t1", "a", "b", "job-0", "other"]).filter(
            lambda v: v != value
        )
    )


def alter_plan(plan: Any, data: st.DataObject) -> None:
    """Change one scalar of a plan in place; the reason why a job waits is only told, so it is left."""
    path = data.draw(st.sampled_from([p for p in leaves(plan) if p[-1] != "reason"]))
    for step in path[:-1]:
        plan = plan[step]
    plan[path[-1]] = altered(plan[path[-1]], data)


@pytest.mark.parametrize("kind", RANDOM)
def test_untouched_results_pass(kind: str) -> None:
    """A result that nobody altered is verified after a round trip through JSON."""
    for seed in range(40):
        instance, text = solved(kind, seed)
        check = verify(instance, parse_result(json.loads(text), "result"))
        assert check.ok, check.faults
        assert Result.model_validate_json(text).to_json() == text


@pytest.mark.parametrize("kind", RANDOM)
@settings(max_examples=300, deadline=None)
@given(seed=st.integers(0, 39), data=st.data())
def test_altered_plans_are_rejected(kind: str, seed: int, data: st.DataObject) -> None:
    """Any single change of the plan breaks a constraint or disagrees with a stored figure."""
    instance, text = solved(kind, seed)
    stored = json.loads(text)
    alter_plan(stored["plan"], data)
    assert rejected(instance, stored)


@pytest.mark.parametrize("kind", RANDOM)
@settings(max_examples=200, deadline=None)
@given(seed=st.integers(0, 39), data=st.data())
def test_plans_altered_together_with_their_hash_are_still_judged_by_their_worth(
    kind: str, seed: int, data: st.DataObject
) -> None:
    """With a forged hash a changed plan passes only if it is feasible and worth exactly what is stored."""
    from clusterplan.formulations.registry import formulate
    from clusterplan.solvers.common.result import plan_hash

    instance, text = solved(kind, seed)
    stored = json.loads(text)
    alter_plan(stored["plan"], data)
    try:
        result = parse_result(stored, "result")
    except InstanceError:
        return
    assert result.plan is not None
    result = result.model_copy(update={"plan_sha256": plan_hash(result.plan)})
    formulation = formulate(instance)
    worth = [record.value for record in result.objectives]
    same = not formulation.violations(result.plan) and list(
        formulation.evaluate(result.plan)
    ) == pytest.approx(worth)
    assert verify(instance, result).ok == same


FIGURES = ("objective", "bound", "gap", "certified_bound", "certified_gap")


@pytest.mark.parametrize("kind", RANDOM)
@pytest.mark.parametrize("field", FIGURES)
def test_altered_figures_are_named(kind: str, field: str) -> None:
    """A stored figure that was altered, at the top or in a record, is named."""
    instance, text = solved(kind, 1)
    for record in (False, True):
        stored = json.loads(text)
        target = stored["objectives"][0] if record else stored
        name = "value" if record and field == "objective" else field
        target[name] = (target[name] or 0) * 1.01 + 0.5
        check = verify(instance, parse_result(stored, "result"))
        assert not check.ok
        assert any(name in fault for fault in check.faults), check.faults


def test_an_unproven_plan_may_not_be_called_optimal() -> None:
    """A heuristic's plan with a gap is not optimal, whatever the file says."""
    instance = clusterplan.parse_instance(
        {
            "schema_version": 1,
            "kind": "consolidation",
            "name": "x",
            "objectives": ["servers"],
            # Two servers have as many GPUs as are asked for, and each holds but one job.
            "servers": [{"name": "n", "capacity": {"gpu": 3}, "count": 3}],
            "jobs": [
                {"name": name, "tasks": 1, "task_demand": {"gpu": 2}, "must_place": True} for name in "abc"
            ],
        }
    )
    result = clusterplan.solve(instance, "best-fit")
    assert result.status == "feasible"
    check = verify(instance, result.model_copy(update={"status": "optimal"}))
    assert any("status" in fault for fault in check.faults)


def test_a_result_of_another_instance_is_refused() -> None:
    """The hash of the resolved document tells instances apart."""
    (a, text), (b, _) = solved("staging", 1), solved("staging", 2)
    assert a.sha256() != b.sha256()
    assert any("instance_sha256" in f for f in verify(b, parse_result(json.loads(text), "result")).faults)


@pytest.mark.parametrize("kind", list(RANDOM))
def test_a_solve_that_had_no_time_for_a_bound_claims_nothing(kind: str) -> None:
    """Without a plan a bound may be unknown, though counting gives one; one that is too good is false."""
    instance, text = solved(kind, 3)
    result = Result.model_validate_json(text)
    unknown = {"value": None, "bound": None, "gap": None, "proven": False}
    nothing = unknown | {"certified_bound": None, "certified_gap": None}
    without: dict[str, Any] = {
        "status": "unknown",
        "limit": "time",
        "plan": None,
        "plan_sha256": None,
        "certificate": None,
        "objective": None,
        "bound": None,
        "gap": None,
        "certified_bound": None,
        "certified_gap": None,
        "prices": None,
    }
    records = tuple(record.model_copy(update=nothing) for record in result.objectives)
    assert verify(instance, result.model_copy(update=without | {"objectives": records})).ok
    better = -1e9 if result.objectives[0].sense == "max" else 1e9
    forged = (records[0].model_copy(update={"certified_bound": better, "bound": better}), *records[1:])
    headline = {"certified_bound": better, "bound": better}
    assert not verify(instance, result.model_copy(update=without | {"objectives": forged} | headline)).ok


@pytest.mark.parametrize("name", KINDS)
def test_every_column_has_a_cell_for_every_entry(name: str) -> None:
    kind, instance = KINDS[name], clusterplan.parse_instance(DOCUMENT[name])
    plan = clusterplan.solve(instance).plan
    assert plan
    rows = cells_of(kind.columns(instance, plan), plan)
    assert len(rows) == len(plan)
    assert all(row[0] for row in rows)


@pytest.mark.parametrize("name", KINDS)
def test_a_plan_has_at_most_as_many_entries_as_the_list_it_names(name: str) -> None:
    instance = clusterplan.parse_instance(DOCUMENT[name])
    plan = clusterplan.solve(instance).plan
    kind = KINDS[name]
    assert len(plan) <= instance.sizes()[kind.rows_of_plan] * kind.entries_of_row


def test_a_kind_that_says_nothing_else_leaves_nothing_out_and_has_no_trade_off() -> None:
    kind = PlannerKind(
        title="t",
        columns=lambda *_: (),
        as_data=lambda *_: {},
        page=lambda *_: {},
        template="t.html",
        rows_of_plan="items",
    )
    assert list(kind.notes(None, 9)) == list(kind.left_out(None, [])) == list(kind.actions(None, [])) == []
    assert kind.to_carry_out((1, 2), False) == [1, 2]
    assert (kind.frontier, kind.formats) == (None, {})
