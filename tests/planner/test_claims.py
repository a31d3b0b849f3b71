"""Forged results: what is false is refused, and what is only claimed is called so."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pytest
from allocation_instances import measured
from device_instances import job, placement, server
from forgeries import BUSY, altered, rehashed, stored
from random_instances import RANDOM
from sample_documents import CONSOLIDATION, DOCUMENT, MIX

import clusterplan
from clusterplan.formulations.registry import formulate
from clusterplan.instances.common.base import Instance
from clusterplan.instances.common.errors import InstanceError, OptionError
from clusterplan.planner.exit_codes import CLAIMED, NOT_VERIFIED, SOLVED, code_of_verification, worst
from clusterplan.planner.findings import Verification
from clusterplan.planner.stored_results import parse_result, verify_stored
from clusterplan.planner.verification import verify
from clusterplan.solvers.common.base import Outcome
from clusterplan.solvers.common.conclude import conclude
from clusterplan.solvers.common.result import SolveOptions, parse_options
from clusterplan.solvers.registry import solvers_for

TIRESIAS = "example:tiresias-testbed"


def forged(instance: Instance, outcome: Outcome) -> dict[str, Any]:
    """Return what our own conclusion makes of an answer that somebody made up: every figure agrees."""
    result = conclude(formulate(instance), "exact", SolveOptions(), outcome, 0.1)
    data: dict[str, Any] = json.loads(result.to_json())
    return data


def checked(instance: Instance, data: Any) -> Verification:
    """Return what the check finds in stored data."""
    return verify_stored(instance, data, "r.json")


@cache
def poor() -> dict[str, Any]:
    """Return a plan of tiresias-testbed worth 27, where 43 is possible, called optimal."""
    instance = clusterplan.load(TIRESIAS)
    plan, out = clusterplan.solve(instance, "exact").plan, ("job-5-inception3", "job-13-resnet50")
    fewer = [type(e)(job=e.job, placed=False) if e.job in out else e for e in plan]  # type: ignore[attr-defined]
    formulation = formulate(instance)
    return forged(instance, Outcome(fewer, formulation.evaluate(fewer)))


# Bounds


def test_a_poor_plan_that_is_called_optimal_is_only_claimed() -> None:
    """Value 27 where 43 is possible: the plan is right, but only the file says that it is the best."""
    data = poor()
    assert (data["status"], data["objective"], data["certificate"]) == ("optimal", 10.0, None)
    assert data["objectives"][0]["value"] == data["objectives"][0]["bound"] == 27
    found = checked(clusterplan.load(TIRESIAS), data)
    assert found.ok
    assert not found.complete
    assert found.claimed[0] == "that the plan is optimal"
    assert any(line.startswith("the bound 27 on value") for line in found.claimed)
    assert code_of_verification(found) == CLAIMED == 8
    assert code_of_verification(found, accept_claimed=True) == SOLVED


def test_a_bound_on_a_later_objective_is_claimed_too() -> None:
    """The first objective certified, the second not: the status rests on a claim all the same."""
    # Two servers have as many GPUs as are asked for, and each holds but one job.
    jobs = [job(name, 1, {"gpu": 2}) for name in "abc"]
    instance = placement(["value", "servers"], [{**server(gpu=3), "count": 3}], jobs)
    result = clusterplan.solve(instance, "exact")
    found = verify(instance, result)
    assert found.complete
    assert found.claimed == ()
    assert "optimal, by the certified bounds alone" in found.confirmed
    goals = (result.certificate or {})["goals"]
    first = {"goals": [goal for goal in goals if goal["objective"] == "value"]}
    bounds = [record.bound for record in result.objectives]
    found = checked(instance, forged(instance, Outcome(result.plan, bounds, certificate=first)))
    assert found.ok
    assert found.claimed == ("that the plan is optimal", "the bound 3 on servers")


@pytest.mark.parametrize("kind", DOCUMENT)
def test_heuristics_that_claim_nothing_are_complete(kind: str) -> None:
    """No bound beyond the one derived here: nothing is left to the solver's word."""
    instance = clusterplan.parse_instance(DOCUMENT[kind])
    quick = {"reinforce-lstm": {"episodes": 20}, "reinforce-rnn": {"episodes": 20}}
    quick |= {"genetic": {"evaluations": 200}, "bayesian": {"evaluations": 5}}
    names = [solver.name for solver in solvers_for(kind, available=True) if not solver.proves]
    assert names
    for name in names:
        try:
            data = stored(instance, name, **quick.get(name, {}))
        except OptionError:
            continue  # the method does not cover such jobs
        found = checked(instance, data)
        assert found.complete, (name, found)
        assert code_of_verification(found) == SOLVED


def test_a_bound_without_a_plan_is_checked() -> None:
    """What a solve without a plan says of the best that is possible is a claim, or false."""
    instance = clusterplan.load("example:heterps-ctr")
    formulation = formulate(instance)
    (elementary,) = formulation.elementary_bounds()
    found = checked(instance, forged(instance, Outcome(limit="time")))
    assert found.complete
    assert "that no plan was found; a plan may exist or not" in found.stated
    data = forged(instance, Outcome(limit="time", bounds=[1e6]))
    assert data["bound"] == 1e6
    assert checked(instance, data).claimed == ("the bound 1000000 on cost",)
    data["objectives"][0]["certified_bound"] = data["certified_bound"] = 2 * elementary
    assert any("certified_bound" in fault for fault in checked(instance, data).faults)


def test_a_bound_beyond_all_floats_is_no_gap() -> None:
    """A relative gap that no float can hold is unknown, and neither solve nor check breaks on it."""
    objective = formulate(clusterplan.load(TIRESIAS)).objectives[0]
    assert objective.gap(1e-200, 1e200) is None
    instance = placement(["value"], [server(gpu=4)], [job("j", value=1e-9)])
    data = stored(instance, "best-fit")
    for place in (data, data["objectives"][0]):
        place |= {"bound": 1e308}
    assert not checked(instance, data).ok


# The gap


@pytest.mark.parametrize("gap", [1e9, 1.0, -0.1])
def test_no_gap_makes_anything_optimal(gap: float) -> None:
    """A gap of 1 or more would; it is refused when it is asked for, and in a stored result."""
    with pytest.raises(OptionError, match="gap"):
        parse_options({"gap": gap})
    instance = clusterplan.load(TIRESIAS)
    data = stored(instance, "best-fit")
    data["options"]["gap"], data["status"] = gap, "optimal"
    for record in data["objectives"]:
        record["proven"] = True
    found = checked(instance, data)
    assert code_of_verification(found) == NOT_VERIFIED
    assert any(fault.startswith("options.gap: is ") for fault in found.faults)
    result = clusterplan.solve(instance, "best-fit")
    bent = result.model_copy(update={"options": SolveOptions.model_construct(gap=gap)})
    assert any("options.gap" in fault for fault in verify(instance, bent).faults)


def test_a_wide_gap_is_said_beside_the_verdict() -> None:
    """Nobody takes `verified ... optimal` for more than what was asked for."""
    instance = clusterplan.load("example:heterps-ctr")
    greedy = clusterplan.solve(instance, "greedy")
    outcome = Outcome(greedy.plan, [greedy.bound])
    result = conclude(formulate(instance), "greedy", SolveOptions(gap=0.99), outcome, 0.1)
    assert result.status == "optimal"
    found = verify(instance, result)
    assert found.complete
    assert found.verdict.startswith("verified; optimal means a gap of at most 0.99 here, and it is 0.")
    assert found.verdict in found._repr_html_()
    assert verify(instance, clusterplan.solve(instance)).within is None


# That no plan exists


@pytest.mark.parametrize(
    ("name", "method"),
    [
        (TIRESIAS, "first-fit-decreasing"),
        ("example:heterps-ctr", "greedy"),
        ("example:opt-350-three-gpus", "greedy"),
        ("example:optimus-testbed", "marginal-gain"),
    ],
)
def test_that_no_plan_exists_is_refuted_by_a_plan(name: str, method: str) -> None:
    """A feasible instance that is called infeasible: a quick method finds a plan, and is named."""
    instance = clusterplan.load(name)
    data = forged(instance, Outcome(infeasible=True))
    assert data["status"] == "infeasible"
    found = checked(instance, data)
    assert code_of_verification(found) == NOT_VERIFIED
    assert f"{method} finds a plan" in found.faults[0]


def test_that_no_plan_exists_is_only_claimed_where_no_quick_method_finds_one() -> None:
    """Neither derived nor refuted: exit code 8, and the verdict says what is claimed."""
    instance = RANDOM["staging"](3)  # a stage on one type needs more memory than its two halves
    assert clusterplan.solve(instance).plan is not None
    found = checked(instance, forged(instance, Outcome(infeasible=True)))
    assert found.ok
    assert not found.complete
    assert found.verdict == "ONLY CLAIMED: that no plan exists"


def test_jobs_that_only_fit_where_they_run_refute_it_too() -> None:
    """Largest first leaves no room where leaving everything as it is does."""
    jobs = [
        job(f"j{i}", 1, {"gpu": need}, must_place=True, current={at: 1})
        for i, (need, at) in enumerate([(5, "b"), (3, "b"), (3, "a"), (3, "a"), (3, "b")])
    ]
    instance = placement(["value"], [server("a", gpu=6), server("b", gpu=11)], jobs)
    found = checked(instance, forged(instance, Outcome(infeasible=True)))
    assert "leaving jobs where they run finds a plan" in found.faults[0]


# What follows from the plan in words


@pytest.mark.parametrize(
    ("index", "changes", "words"),
    [
        (0, {"action": "move"}, "plan[0].action is stored as 'move'; it is 'keep'"),
        (1, {"action": "keep"}, "plan[1].action is stored as 'keep'; it is 'start'"),
        (2, {"action": None}, "plan[2].action is stored as None; it is 'wait'"),
        (2, {"reason": "never fits: buy a rack"}, "plan[2].reason is stored as 'never fits: buy a rack'"),
        (2, {"reason": None}, "plan[2].reason is stored as None"),
        (1, {"reason": "waits: for nothing"}, "it is None"),
        (3, {"reason": "waits: for nothing"}, "it is 'never fits: a task of 'tasks' needs 9 cpu"),
    ],
)
def test_actions_and_reasons_are_derived_again(index: int, changes: dict[str, Any], words: str) -> None:
    """What a plan says of a job beside where it runs follows from the instance."""
    instance = clusterplan.parse_instance(BUSY)
    data = stored(instance)
    assert [entry["action"] for entry in data["plan"]] == ["keep", "start", "wait", "wait"]
    found = checked(instance, altered(data, index, **changes))
    assert code_of_verification(found) == NOT_VERIFIED
    said = [fault.replace('"', "'") for fault in found.faults]
    assert any(words in fault for fault in said), found


def test_the_order_of_jobs_and_the_times_are_part_of_a_plan() -> None:
    """A plan is stored in the order of the instance; an allocation's with the time of each job."""
    instance = clusterplan.parse_instance(BUSY)
    data = stored(instance)
    found = checked(instance, rehashed({**data, "plan": data["plan"][::-1]}))
    assert "not in the order of the instance" in found.faults[0]
    instance = clusterplan.load("example:optimus-testbed")
    found = checked(instance, altered(stored(instance), 0, completion_s=None))
    assert "plan[0].completion_s is stored as None" in found.faults[0]


def test_words_of_another_version_are_only_claimed() -> None:
    """Another version may have said it otherwise; an action is no word, and stays false."""
    instance = clusterplan.parse_instance(BUSY)
    data = stored(instance)
    data["versions"]["clusterplan"] = "0.0.9"
    assert checked(instance, data).complete
    found = checked(instance, altered(data, 2, reason="waits: so it was put then"))
    assert code_of_verification(found) == CLAIMED
    assert "version '0.0.9' wrote it" in found.claimed[0]
    assert not checked(instance, altered(data, 2, action="stop")).ok


@pytest.mark.parametrize("kind", RANDOM)
def test_nothing_depends_on_the_order_of_keys(kind: str) -> None:
    """A document whose keys stand in another order is the same instance, and what it says is derived too."""

    def turned(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: turned(item) for key, item in reversed(list(value.items()))}
        return [turned(item) for item in value] if isinstance(value, list) else value

    infeasible = 0
    for seed in (*range(4), 14, 28, 34, 50, 62):
        instance = RANDOM[kind](seed)
        other = clusterplan.parse_instance(turned(instance.document()))
        result = clusterplan.solve(instance, "exact")
        infeasible += result.status == "infeasible"
        assert verify(other, result).ok
        assert verify(instance, result).verdict == verify(other, result).verdict
    # Every trace that is valid has a schedule.
    assert infeasible > 0 or kind == "scheduling"


# Prices, and what to buy next


def test_prices_that_are_not_derived_make_a_result_incomplete() -> None:
    """Money is spent by prices: those that the certificate does not give are a claim."""
    instance = clusterplan.load("example:optimus-testbed")
    data = stored(instance)
    assert "the prices" in checked(instance, data).confirmed
    first = next(iter(data["prices"]))
    for prices in ({**data["prices"], first: 12345.0}, {first: 1.0}, {}):
        found = checked(instance, {**data, "prices": prices})
        assert found.claimed == ("the prices",)
    found = checked(instance, {**data, "message": "buy tape next"})
    assert "message does not say what follows from the prices: " in found.faults[0]


# Why there is no plan

NOT_ALWAYS_FEASIBLE = [kind for kind in RANDOM if kind != "scheduling"]
"""Every trace that is valid has a schedule."""
TOGETHER = {
    "allocation": {
        **DOCUMENT["allocation"],
        "resources": {"gpu": 2, "cpu": 2},
        "jobs": [measured(name, (1, {"gpu": 1, "cpu": 2}), (1, {"gpu": 2, "cpu": 1})) for name in "ab"],
    },
    "consolidation": {
        **CONSOLIDATION,
        "objectives": ["value"],
        "servers": [{"name": "n", "count": 2, "capacity": {"gpu": 3}}],
        "jobs": [job(name, 1, {"gpu": 2}, must_place=True) for name in "abc"],
    },
    "mix": {
        **MIX,
        "types": [{"name": name, "requests_per_s": 6} for name in "ab"],
        "hardware": [{"name": "g", "limit": 1, "price_usd_per_hour": 1}],
        "configurations": [{"hardware": "g", "requests_per_s": {"a": 10, "b": 10}}],
    },
}
"""Documents without a plan, which counting alone does not show."""


def infeasible(kind: str, counting: bool) -> tuple[Instance, dict[str, Any]]:
    """Return an instance that has no plan, which counting alone proves or does not, and its result."""
    if not counting and kind != "staging":
        instance = clusterplan.parse_instance(TOGETHER[kind])
        return instance, stored(instance)
    for seed in range(400):
        instance = RANDOM[kind](seed)
        if (formulate(instance).elementary_infeasibility() is not None) == counting:
            result = clusterplan.solve(instance, "exact")
            if result.plan is None and result.diagnosis is not None and len(result.diagnosis.remedies):
                return instance, json.loads(result.to_json())
    raise AssertionError("no infeasible instance among four hundred")


@pytest.mark.parametrize("kind", NOT_ALWAYS_FEASIBLE)
@pytest.mark.parametrize("part", ["reasons", "remedies"])
def test_what_counting_shows_is_derived_again(kind: str, part: str) -> None:
    """An altered reason or remedy is false; in another version's words it is claimed."""
    instance, data = infeasible(kind, counting=True)
    assert "the diagnosis, word for word" in checked(instance, data).confirmed
    data["diagnosis"][part][0 if part == "reasons" else -1] = "buy nothing"
    assert "diagnosis does not say what counting shows" in checked(instance, data).faults[0]
    data["versions"] = {}
    assert code_of_verification(checked(instance, data)) == CLAIMED


@pytest.mark.parametrize("kind", NOT_ALWAYS_FEASIBLE)
def test_a_diagnosis_that_rests_on_a_search_is_derived_or_claimed(kind: str) -> None:
    """What a short search says again is confirmed, and an altered line is not."""
    instance, data = infeasible(kind, counting=False)
    assert checked(instance, data).complete
    data["diagnosis"]["remedies"][0] = "buy nothing"
    found = checked(instance, data)
    assert code_of_verification(found) == CLAIMED
    assert "the diagnosis" in found.claimed[0]


# Malformed


def changed(data: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """Return data with another value at a path such as `options.gap`; `...` takes the key out."""
    copy = json.loads(json.dumps(data))
    here, *steps = copy, *path.split(".")
    for step in steps[:-1]:
        here = here[int(step) if step.isdigit() else step]
    last = int(steps[-1]) if steps[-1].isdigit() else steps[-1]
    if value is ...:
        del here[last]
    else:
        here[last] = value
    return copy


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("kind", ..., "kind: is missing; allowed: allocation, staging, consolidation"),
        ("kind", None, "kind: is None; allowed"),
        ("kind", ["consolidation"], "kind: is ['consolidation']; allowed"),
        ("kind", "staging", "the result is of kind staging; the instance is of kind consolidation"),
        ("instance_sha256", ..., "instance_sha256: is missing"),
        ("plan", 5, "plan: is not a list"),
        ("plan.0", None, "plan[0]: is None"),
        ("plan.0.action", "sleep", "plan[0].action: is 'sleep'"),
        ("objectives", None, "objectives: "),
        ("objectives.0.value", float("inf"), "objectives[0].value: is inf"),
        ("certificate", [], "certificate: "),
        ("certificate.goals", {}, "certificate: goals"),
        ("certificate.goals.0.prices", [[1e300]], "certificate: goals"),
        ("options", None, "options: "),
        ("options.gap", None, "options.gap: "),
        ("options.gap", "0.5", "options.gap: is '0.5', which is not a number"),
        ("seed", 7, "seed is stored as 7; options.seed is None"),
        ("points", [], "status: is 'optimal'; allowed"),
        ("diagnosis", {"reasons": []}, "diagnosis says why there is no plan; the status is optimal"),
        ("message", "\x1b[2J", None),
    ],
)
def test_a_malformed_result_is_a_fault(path: str, value: Any, words: str | None) -> None:
    """Whatever is stored, the check answers, and says where it is wrong."""
    instance = clusterplan.load(TIRESIAS)
    found = checked(instance, changed(stored(instance), path, value))
    assert not found.ok
    assert any((words or "message") in fault for fault in found.faults), found.faults


@pytest.mark.parametrize("data", [None, 5, "text", [], [{}], {}, {"points": []}, {"kind": {}}, True])
def test_anything_but_a_result_is_a_fault(data: Any) -> None:
    """The check never raises, whatever it is given; reading names what is wrong."""
    for kind in DOCUMENT:
        assert not checked(clusterplan.parse_instance(DOCUMENT[kind]), data).ok
    with pytest.raises(InstanceError, match=r"kind|not a mapping"):
        parse_result(data, "r.json")


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("objectives", [{"name": "cost", "sense": "min", "unit": "USD"}], "although no plan exists"),
        ("plan_sha256", "0" * 64, "plan_sha256 is given, without a plan"),
        ("status", "optimal", "without a plan"),
        ("status", "unknown", "diagnosis says why"),
        ("bound", 1.0, "bound is stored as 1"),
    ],
)
def test_a_result_without_a_plan_says_no_more(path: str, value: Any, words: str) -> None:
    """Figures of a plan that does not exist are false."""
    instance, data = infeasible("staging", counting=True)
    found = checked(instance, changed(data, path, value))
    assert any(words in fault for fault in found.faults), found


def test_the_worst_of_several_answers_counts() -> None:
    """8 is graver than all but 7, errors and interrupts."""
    assert worst([SOLVED, CLAIMED]) == CLAIMED
    assert worst([CLAIMED, NOT_VERIFIED, SOLVED]) == NOT_VERIFIED
    assert all(worst([code, CLAIMED]) == CLAIMED for code in range(2, 7))
    assert all(worst([code, CLAIMED]) == code for code in (1, 7, 130))


def test_the_three_answers_are_told_apart_at_a_glance() -> None:
    """In words, in JSON and on a notebook's card."""
    instance = clusterplan.load(TIRESIAS)
    good = checked(instance, stored(instance))
    claimed = checked(instance, poor())
    false = checked(instance, {**stored(instance), "status": "feasible"})
    assert good.verdict == "verified"
    assert claimed.verdict.startswith("plan verified, ONLY CLAIMED: that the plan is optimal; the bound 27")
    assert false.verdict == "VERIFICATION FAILED"
    answers = [json.loads(found.model_dump_json()) for found in (good, claimed, false)]
    assert [(a["ok"], a["complete"]) for a in answers] == [(True, True), (True, False), (False, False)]
    for found in (good, claimed, false):
        assert f"{instance.name}: {found.verdict}" in found._repr_html_()
    assert "ONLY CLAIMED: that the plan is optimal" in claimed._repr_html_()
