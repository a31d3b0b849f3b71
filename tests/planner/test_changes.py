"""What becomes different between two plans: who starts, moves, stops, stays and waits.

The text of scenarios: changes, names, numbers, and what is refused.
"""

from __future__ import annotations

import pytest
from sample_documents import CONSOLIDATION

import clusterplan
from clusterplan.instances.common.errors import OptionError
from clusterplan.planner.changes import (
    Amount,
    Change,
    Changes,
    amount,
    changed_instance,
    changes_of,
    count_and_name,
    fresh_names,
    leading_resource,
    matching,
)
from clusterplan.planner.registry import KINDS


def test_entries_start_stop_change_or_stay() -> None:
    places = {"a": "x", "b": "x", "c": "x"}, {"b": "y", "c": "x", "d": "z"}
    found = changes_of("job", "move", *places, [], known=6)
    assert (found.stay, found.wait) == (1, 2)
    assert found.changes == [
        Change("a", "stop", "x", ""),
        Change("b", "move", "x", "y"),
        Change("d", "start", "", "z"),
    ]


def test_the_headline_counts_what_jobs_do() -> None:
    several = [Change("a", "start", "", "x"), Change("b", "start", "", "x"), Change("c", "move", "x", "y")]
    assert Changes("job", several, 1, 2, []).headline() == "2 jobs start, 1 moves, 1 stays, 2 wait"
    assert Changes("stage", [], 1_200, 0, []).headline() == "1,200 stages stay"


def test_the_answer_is_the_headline_with_the_first_total() -> None:
    found = Changes("job", [], 1, 0, [Amount("gpu in use", 62, 128, 136), Amount("cpu in use", 1, 1)])
    assert found.answer() == "1 job stays; gpu in use: 62 → 128 of 136."


def test_gpus_lead_by_any_of_their_names() -> None:
    assert leading_resource(["cpu", "memory", "nvidia.com/gpu"]) == "nvidia.com/gpu"
    assert leading_resource(["cpu", "nvidia.com/mig-1g.5gb"]) == "nvidia.com/mig-1g.5gb"
    assert leading_resource(["gres/gpu", "gres/gpu:a100", "cpu"]) == "gres/gpu"
    assert leading_resource(["cpu", "memory"]) == "cpu"


def test_an_amount_that_stays_is_said_once() -> None:
    amounts = [Amount("gpu in use", 62, 128, 136), Amount("cpu in use", 0.3, 0.1 + 0.2), Amount("USD", 1, 2)]
    assert [*Changes("job", [], 1, 0, amounts).sentences()] == [
        "gpu in use: 62 → 128 of 136",
        "cpu in use: 0.3",
        "USD: 1 → 2",
    ]


@pytest.mark.parametrize(
    ("text", "now", "wanted"),
    [
        ("32", 5, 32),
        ("0", None, 0),
        ("1.5", 5, 1.5),
        ("+8", 5, 13),
        ("-4", 5, 1),
        ("+10%", 50, 55),
        ("-20%", 50, 40),
        ("80%", 50, 40),
        ("none", 5, None),
        ("1e3", None, 1000),
    ],
)
def test_an_amount_is_given_or_a_difference(text: str, now: float | None, wanted: float | None) -> None:
    assert amount(text, now) == pytest.approx(wanted)


@pytest.mark.parametrize(
    ("text", "now", "wanted"),
    [
        ("much", 5, "is no amount; write 32"),
        ("--3", 5, "is no amount"),
        ("nan", 5, "is no amount"),
        ("+3", None, "there is no limit now"),
        ("50%", None, "there is no limit now"),
        ("-6", 5, "0 is the least"),
    ],
)
def test_what_is_no_amount_is_refused(text: str, now: float | None, wanted: str) -> None:
    with pytest.raises(OptionError, match=wanted):
        amount(text, now)


def test_times_and_names_are_read() -> None:
    assert count_and_name("2xh100") == count_and_name("2×h100") == (2, "h100")
    assert count_and_name("h100") == (1, "h100")
    assert count_and_name("x1-node") == (1, "x1-node")


def test_a_name_is_itself_before_it_is_a_pattern() -> None:
    assert matching("a*", ["a*", "ab"], "job") == {"a*"}
    assert matching("a?", ["a*", "ab", "b"], "job") == {"a*", "ab"}
    with pytest.raises(OptionError, match="there is no job 'c'; there are: a, b"):
        matching("c", ["a", "b"], "job")


def test_new_names_are_nobodys() -> None:
    assert fresh_names(2, "n", ["n", "n-added-2"]) == ["n-added-1", "n-added-3"]


@pytest.mark.parametrize(
    ("scenario", "wanted"),
    [
        ("drain=", "is no change"),
        ("drain=n-0,", "'' is no change"),
        ("remove=*", "makes no valid instance"),
    ],
)
def test_a_wrong_scenario_names_what_is_allowed(scenario: str, wanted: str) -> None:
    instance = clusterplan.parse_instance(CONSOLIDATION)
    with pytest.raises(OptionError, match=wanted.replace("*", r"\*")):
        changed_instance(instance, scenario, KINDS["consolidation"].what_if(instance))


def test_changes_are_made_one_after_the_other() -> None:
    instance = clusterplan.parse_instance(CONSOLIDATION)
    made = changed_instance(
        instance, "add=1xn, drain=n-added-1", KINDS["consolidation"].what_if(instance)
    ).document()
    assert [row["name"] for row in made["servers"]] == ["n", "n-added-1"]
    assert made["drain"] == ["n-added-1"]
