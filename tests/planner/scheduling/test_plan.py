"""A schedule as a table, as plain data, in a sentence, and beside another one."""

from __future__ import annotations

import pytest

from clusterplan.formulations.scheduling.plan import Segment
from clusterplan.instances.common.errors import OptionError
from clusterplan.instances.scheduling.instance import SchedulingInstance
from clusterplan.planner.changes import Amount, Change
from clusterplan.planner.scheduling.changes import answer, changes
from clusterplan.planner.scheduling.plan import as_data, columns

INSTANCE = SchedulingInstance.model_validate(
    {
        "name": "t",
        "resources": {"gpu": 2},
        "jobs": [
            {"name": "wide", "demand": {"gpu": 2}, "duration_s": 4},
            {"name": "thin", "demand": {"gpu": 1}, "duration_s": 3, "arrival_s": 1},
        ],
    }
)


def plan(*segments: tuple[str, float, float]) -> list[Segment]:
    """Return segments."""
    return [Segment(job=job, start_s=start, end_s=end) for job, start, end in segments]


IN_TURN = plan(("wide", 0, 4), ("thin", 4, 7))
STOPPED = plan(("wide", 0, 1), ("thin", 1, 4), ("wide", 4, 7))


def test_columns_name_servers_only_where_there_are_any() -> None:
    """Start and end are numbers."""
    assert [title for title, *_ in columns(IN_TURN)] == ["job", "starts at s", "ends at s"]
    placed = Segment(job="wide", start_s=0, end_s=4, servers={"s": 2})
    assert [cell(placed) for *_, cell in columns([placed])] == ["wide", "0", "4", "2×s"]


def test_plain_data_hold_segments_and_figures() -> None:
    """As export-plan writes them."""
    data = as_data(INSTANCE, IN_TURN)
    assert data["metrics"]["mean_s"] == 5
    assert data["segments"][1] == {
        "job": "thin",
        "start_s": 4,
        "end_s": 7,
        "configuration": "",
        "servers": {},
    }


def test_the_answer_says_how_long_jobs_take_and_wait() -> None:
    """In one sentence."""
    sentence = answer(INSTANCE, IN_TURN)
    assert sentence.startswith("2 jobs take 5")
    assert "of which they wait 1.5" in sentence


def test_two_schedules_are_compared() -> None:
    """Both jobs run at other times, and the mean is the same."""
    found = changes(INSTANCE, IN_TURN, STOPPED)
    assert found.changes == [
        Change("wide", "move", "0–4 s", "0–7 s in 2 parts"),
        Change("thin", "move", "4–7 s", "1–4 s"),
    ]
    assert found.amounts[0] == Amount("mean completion time [s]", 5, 5)
    assert found.amounts[-1] == Amount("preemptions", 0, 1)


def test_nothing_says_what_runs_now() -> None:
    """So a plan alone changes nothing that is known."""
    with pytest.raises(OptionError, match="give two results"):
        changes(INSTANCE, None, IN_TURN)
