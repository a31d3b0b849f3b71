"""What becomes different between two plans: who starts, moves, stops, stays and waits."""

from __future__ import annotations

from clusterplan.planner.changes import Amount, Change, Changes, changed, leading


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
    assert Changes("job", several, 1, 2, []).headline() == "2 jobs start, 1 moves, 1 stays, 2 wait"
    assert Changes("stage", [], 1_200, 0, []).headline() == "1,200 stages stay"


def test_the_answer_is_the_headline_with_the_first_total() -> None:
    found = Changes("job", [], 1, 0, [Amount("gpu in use", 62, 128, 136), Amount("cpu in use", 1, 1)])
    assert found.answer() == "1 job stays; gpu in use: 62 → 128 of 136."


def test_gpus_lead_by_any_of_their_names() -> None:
    assert leading(["cpu", "memory", "nvidia.com/gpu"]) == "nvidia.com/gpu"
    assert leading(["cpu", "nvidia.com/mig-1g.5gb"]) == "nvidia.com/mig-1g.5gb"
    assert leading(["gres/gpu", "gres/gpu:a100", "cpu"]) == "gres/gpu"
    assert leading(["cpu", "memory"]) == "cpu"


def test_an_amount_that_stays_is_said_once() -> None:
    amounts = [Amount("gpu in use", 62, 128, 136), Amount("cpu in use", 0.3, 0.1 + 0.2), Amount("USD", 1, 2)]
    assert [*Changes("job", [], 1, 0, amounts).sentences()] == [
        "gpu in use: 62 → 128 of 136",
        "cpu in use: 0.3",
        "USD: 1 → 2",
    ]
