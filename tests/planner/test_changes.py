"""What becomes different between two plans: who starts, moves, stops, stays and waits."""

from __future__ import annotations

from clusterplan.planner.changes import Amount, Change, Changes, changed


def test_entries_start_stop_change_or_stay() -> None:
    found, stay = changed({"a": "x", "b": "x", "c": "x"}, {"b": "y", "c": "x", "d": "z"}, "move")
    assert found == [
        Change("a", "stop", "x", ""),
        Change("b", "move", "x", "y"),
        Change("d", "start", "", "z"),
    ]
    assert stay == 1


def test_the_headline_counts_what_jobs_do() -> None:
    several = [Change("a", "start", "", "x"), Change("b", "start", "", "x"), Change("c", "move", "x", "y")]
    assert Changes("job", several, 1, 2, []).headline() == "1 job moves, 2 start, 1 stays, 2 wait"
    assert Changes("stage", [], 1_200, 0, []).headline() == "1,200 stages stay"


def test_an_amount_that_stays_is_said_once() -> None:
    amounts = [Amount("gpu in use", 62, 128, 136), Amount("cpu in use", 0.3, 0.1 + 0.2), Amount("USD", 1, 2)]
    assert [*Changes("job", [], 1, 0, amounts).sentences()] == [
        "gpu in use: 62 → 128 of 136",
        "cpu in use: 0.300000",
        "USD: 1 → 2",
    ]
