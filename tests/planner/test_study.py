"""Scenarios beside what there is: figures, differences, words, and an interruption.

Plans at the ends of intervals, and what each loses at the others.
"""

from __future__ import annotations

import json
from itertools import product
from typing import Any

import pytest
from allocation_instances import allocation, ring
from sample_documents import ALLOCATION, CONSOLIDATION, STAGING

import clusterplan
from clusterplan.planner import study as module
from clusterplan.planner.study import (
    NO_OBJECTIVE,
    SCENARIO_COLUMNS,
    Robust,
    Row,
    WhatIf,
    proven_difference,
    robust,
    what_if,
)
from clusterplan.solvers.common.result import Result

THREE_JOBS = {
    **CONSOLIDATION,
    "jobs": [{"name": name, "tasks": 3, "task_demand": {"gpu": 1}} for name in ("a", "b", "c")],
}


def compared(document: dict[str, Any], *scenarios: str) -> WhatIf:
    return what_if(clusterplan.parse_instance(document), scenarios)


def test_each_scenario_is_solved_and_proven() -> None:
    found = compared(THREE_JOBS, "drain=n-0", "add=2xn", "remove=c")
    assert [each.result.objectives[0].value for each in found.all()] == [6, 3, 9, 6]
    assert {each.result.status for each in found.all()} == {"optimal"}
    assert [row.difference for row in found.rows() if row.objective.name == "value"] == [None, -3, 3, 0]
    assert {row.proven for row in found.rows()} == {"–", "−3", "+3", "0"}
    assert found.headline() == (
        "The best scenario with the same jobs is add=2xn: value 9 instead of 6 (+50 %)."
    )


def test_a_file_will_do_and_the_answer_is_a_table() -> None:
    found = clusterplan.what_if("example:tiresias-testbed", ["add=2xempty"])
    assert str(found).startswith("add=2xempty: value 51 instead of 43")
    frame = found.to_frame()
    values = frame[frame.objective == "value"]
    assert list(values.scenario) == ["as it is", "add=2xempty"]
    assert list(values.difference.fillna(0)) == [0, 8]


def test_one_scenario_still_stands_in_a_list() -> None:
    with pytest.raises(clusterplan.OptionError, match=r"\['add=n'\]"):
        clusterplan.what_if(clusterplan.parse_instance(CONSOLIDATION), "add=n")
    with pytest.raises(clusterplan.OptionError, match="what_if takes an instance or its file, not int"):
        clusterplan.what_if(3, [])  # type: ignore[arg-type]


def test_who_is_left_out_only_there_is_said() -> None:
    lines = list(compared(THREE_JOBS, "drain=n-0", "add=n,value=a:9", "remove=c").sentences())
    assert lines[0].startswith("as it is: 2 jobs start, 1 wait")
    assert sum("drain=n-0: left out only here: " in line for line in lines) == 1
    assert sum(line.startswith("add=n,value=a:9: left out no more: ") for line in lines) == 1
    assert "remove=c: not in it: c" in lines


@pytest.mark.parametrize(
    ("document", "scenarios", "wanted"),
    [
        (THREE_JOBS, ["add=n"], "add=n: value 9 instead of 6 (+50 %)."),
        (THREE_JOBS, ["drain=n-0"], "drain=n-0: value 3 instead of 6 (−50 %)."),
        (
            THREE_JOBS,
            ["drain=n-0", "drain=n"],
            "No scenario is better than what there is; the best is drain=n-0",
        ),
        (CONSOLIDATION, ["remove=p"], "remove=p: value 2 instead of 4 (−50 %); but its jobs are others."),
        (CONSOLIDATION, ["add=n"], "add=n: value 4, as it is."),
        (STAGING, ["floor=1000"], "None of the scenarios has a plan."),
        (
            {**STAGING, "throughput_floor_samples_per_s": 1000},
            ["floor=none", "limit=A:1"],
            "As it is, there is no plan. There is one with floor=none.",
        ),
    ],
)
def test_the_first_sentence_is_the_answer(document: Any, scenarios: list[str], wanted: str) -> None:
    assert compared(document, *scenarios).headline().startswith(wanted)


def test_less_is_better_where_it_is() -> None:
    found = compared(ALLOCATION, "gpu=-2", "cpu=-8,gpu=+1", "gpu=+4")
    before, worse, _, better = (each.first.value for each in found.all())
    assert better <= before < worse
    assert "better than what there is; the best is gpu=+4" in found.headline()


def test_open_gaps_widen_the_proven_difference() -> None:
    def record(value: float, bound: float) -> Any:
        return module.ObjectiveRecord(name="v", sense="max", unit="v", value=value, bound=bound)

    least, most = proven_difference(record(10, 12), record(13, 14))
    assert (least, most) == (1, 4)
    row = Row(compared(CONSOLIDATION).baseline, record(13, 14), 3, least, most)
    assert row.proven == "+1 … +4"
    assert proven_difference(record(10, 12), NO_OBJECTIVE) == (None, None)


def test_all_of_it_is_plain_data() -> None:
    data = json.loads(compared(STAGING, "floor=+10%", "floor=9999").to_json())
    assert [each["scenario"] for each in data["scenarios"]] == ["as it is", "floor=+10%", "floor=9999"]
    assert data["scenarios"][1]["differences"]["cost"]["difference"] >= 0
    assert "no plan" in data["scenarios"][2]["answer"]
    assert Result.model_validate(data["scenarios"][1]["result"]).status == "optimal"


def test_every_row_has_every_cell() -> None:
    rows = compared(STAGING, "floor=9999").rows()
    assert [[cell(row) for _, _, cell in SCENARIO_COLUMNS][:3] for row in rows] == [
        ["as it is", "optimal", "cost [USD]"],
        ["floor=9999", "infeasible", "–"],
    ]


def test_an_interruption_keeps_the_scenarios_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    solved = module.solve
    counts: list[int] = []

    def stopped(*given: Any) -> Result:
        counts.append(1)
        limit = "interrupt" if len(counts) == 2 else "none"
        return solved(*given).model_copy(update={"limit": limit})

    monkeypatch.setattr(module, "solve", stopped)
    found = compared(CONSOLIDATION, "add=n", "add=2xn")
    assert [each.name for each in found.all()] == ["as it is", "add=n"]
    assert list(found.sentences())[-1] == "interrupted: 1 of 2 scenarios were solved"


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
    variant = ring({"gpu": 1}, [8, 0.1, 0.01, 0], 4)
    job = {"name": "one", "remaining_steps": 100, "variants": [variant]}
    figure = {"figure": "/jobs/*/variants/*/speed/theta/*", "low": 0.5, "high": 2.0, "basis": "a guess"}
    found = robust(allocation({"gpu": 4}, [job], uncertainty=[figure]))
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
