"""Plans of a mix as tables, data and sentences; what scenarios change; what two plans have different."""

from __future__ import annotations

from typing import Any

import pytest
from mix_instances import serving, sharing

import clusterplan
from clusterplan.formulations.mix.plan import Copies
from clusterplan.instances.common.errors import OptionError
from clusterplan.planner.changes import changed_instance
from clusterplan.planner.mix.kind import MIX
from clusterplan.planner.mix.plan import (
    answer,
    as_data,
    changes,
    columns,
    left_out,
    measures,
    remarks,
    what_if,
)
from clusterplan.planner.reports.text import cells_of
from clusterplan.planner.study import what_if as study

PAIRS = [Copies(configuration="a + b on v100", count=2), Copies(configuration="wide on 12 v100", count=1)]
REPLICAS = [
    Copies(configuration="h100 tp2 b32", count=3, requests_per_s={"chat": 7.1, "long": 2}),
    Copies(configuration="l40s tp1", count=7, requests_per_s={"chat": 4.9}),
]


def test_the_table_says_who_is_in_it_or_what_it_serves() -> None:
    assert cells_of(columns(sharing(), PAIRS), PAIRS) == [
        ["a + b on v100", "2", "v100", "2", "a 80 %, b 70 %"],
        ["wide on 12 v100", "1", "v100", "12", "wide 100 %"],
    ]
    assert cells_of(columns(serving(), REPLICAS), REPLICAS) == [
        ["h100 tp2 b32", "3", "h100", "6", "41.28", "chat 7.1, long 2", "99.40 %"],
        ["l40s tp1", "7", "l40s", "7", "13.3", "chat 4.9", "100.00 %"],
    ]


def test_named_jobs_are_handed_out_group_by_group() -> None:
    """A type without names is only counted."""
    data = as_data(sharing(), PAIRS)
    assert [row.get("names") for row in data["configurations"]] == [[["a1"], ["a2"]], None]
    assert (data["waiting"], data["waiting_names"]) == ({"a": 1, "wide": 1}, {"a": ["a3"]})
    assert dict(left_out(sharing(), PAIRS)) == {"a": "1 × a", "wide": "1 × wide"}
    (row, _) = as_data(serving(), REPLICAS)["configurations"]
    assert (row["copies"], row["devices"], row["requests_per_s"]) == (3, 2, {"chat": 7.1, "long": 2})
    assert row["busy"] == pytest.approx((7.1 / 6.1 + 2 / 1.1) / 3)


def test_a_plan_in_one_sentence() -> None:
    assert answer(sharing(), PAIRS) == (
        "2 × (a + b on v100), 1 × (wide on 12 v100); 4 of 5 jobs share a device, 2 wait."
    )
    said = "7 × l40s tp1, 3 × h100 tp2 b32: 54.58 USD/h, serves 14 requests/s."
    assert answer(serving(), REPLICAS) == said
    assert answer(sharing(), []) == "nothing; 0 of 0 jobs share a device, 7 wait."


def test_the_limits_of_the_data_are_said() -> None:
    lines = [*remarks(sharing(assumptions=["x"]), PAIRS)]
    assert lines[0] == "2 of 7 jobs wait: 1 × a, 1 × wide"
    assert lines[1].startswith("the least progress of a job that runs is 70 %")
    assert lines[2] == "1 assumption: see `assumptions` in the instance"
    assert "0.8 is 80 %" in [*remarks(sharing(least_progress=80), ())][1]
    assert ["latency under mixed batches" in line for line in remarks(serving(), REPLICAS)] == [True]
    assert [*remarks(serving(), REPLICAS[1:])] == []


def test_measures_of_a_comparison() -> None:
    found = {one.name: one.value for one in measures(sharing(), PAIRS).figures}
    assert found == {
        "progress, in jobs": 4.0,
        "devices": 14,
        "jobs that run": 5 / 7,
        "jobs that share a device": 4 / 7,
    }
    found = {one.name: one.value for one in measures(serving(), REPLICAS).figures}
    assert (found["USD/h"], found["devices"], round(found["busy"] or 0, 4)) == (54.58, 13, 0.9982)
    assert MIX.measures is not None


@pytest.mark.parametrize(
    ("instance", "scenario", "field", "wanted"),
    [
        (sharing(), "limit=v100:+2", lambda made: made.hardware[0].limit, 16),
        (sharing(), "count=a:4,weight=b:2", lambda made: (made.types[0].count, made.types[1].weight), (4, 2)),
        (sharing(), "devices=2,least-progress=0.9", lambda m: (m.devices, m.least_progress), (2, 0.9)),
        (serving(), "price=h100:-50%", lambda made: made.hardware[0].price_usd_per_hour, 3.44),
        (
            serving(),
            "rate=*:2,budget=60",
            lambda m: (m.types[0].requests_per_s, m.budget_usd_per_hour),
            (2, 60),
        ),
    ],
)
def test_scenarios_change_the_instance(instance: Any, scenario: str, field: Any, wanted: Any) -> None:
    assert field(changed_instance(instance, scenario, what_if(instance))) == wanted


def test_who_waits_in_a_scenario_is_said() -> None:
    lines = [*study(sharing(), ["limit=v100:2", "count=wide:1"]).sentences()]
    assert "limit=v100:2: left out only here: " not in "\n".join(lines)
    assert "count=wide:1: left out no more: wide" in lines


@pytest.mark.parametrize(
    ("instance", "scenarios", "said"),
    [
        (sharing(), ["weight=a:9"], "; but its types are others."),
        (
            sharing(),
            ["weight=*:2", "limit=v100:15"],
            "The best scenario with the same types is limit=v100:15",
        ),
        (serving(), ["rate=chat:0", "price=l40s:1"], "The best scenario with the same types is price=l40s:1"),
    ],
)
def test_other_weights_and_rates_do_not_compare(instance: Any, scenarios: list[str], said: str) -> None:
    assert said in study(instance, scenarios).headline()


def test_what_two_plans_have_different() -> None:
    found = changes(serving(), REPLICAS, REPLICAS[:1])
    assert found.headline() == "1 configuration stops, 1 stays"
    assert [*found.sentences()][:2] == ["USD per hour: 54.58 → 41.28", "devices of h100: 6"]
    with pytest.raises(OptionError, match="give two results to compare"):
        changes(serving(), None, REPLICAS)


def test_a_solved_plan_shows_the_same() -> None:
    """Columns, sentence and data are of the plan of a result, too."""
    result = clusterplan.solve(serving())
    assert result.plan
    assert answer(serving(), result.plan).startswith("7 × l40s tp1, 3 × h100 tp2 b32")
