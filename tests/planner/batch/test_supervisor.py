"""One task in one worker: its answer, its death, the end of its time, and the growth of its memory."""

from __future__ import annotations

import signal
from types import SimpleNamespace
from typing import Any

import pytest

from clusterplan.formulations.common.clock import Clock
from clusterplan.planner.batch.answer import Answer, Head
from clusterplan.planner.batch.supervisor import LOOK_S, Attempt
from clusterplan.planner.batch.task import Task
from clusterplan.planner.exit_codes import FAILED, LIMIT_NO_PLAN
from clusterplan.solvers.common.options import SolveOptions

HEAD = Head("s", "staging", "0" * 64)
ANSWER = Answer(HEAD, "{}")


class Link:
    """What a worker says, one thing after the other."""

    def __init__(self, *told: Any) -> None:
        self.told = list(told)

    def recv(self) -> Any:
        """Say the next thing, or end."""
        if not self.told:
            raise EOFError
        return self.told.pop(0)


def attempt(*told: Any, resident: float = 0.0, exitcode: int | None = None, **task: Any) -> Attempt:
    """Return a task that is done by a worker that says these things."""
    process = SimpleNamespace(sentinel="end", exitcode=exitcode, join=lambda _: None)
    worker: Any = SimpleNamespace(link=Link(*told), process=process, resident_gib=lambda: resident)
    return Attempt(Task("s", "s", "exact", **{"options": SolveOptions(), **task}), worker)


def heard(tried: Attempt, times: int) -> Answer | None:
    """Listen so many times, and return what came of the last."""
    return [tried.look([tried.worker.link]) for _ in range(times)][-1]


def test_the_answer_comes_after_what_is_told_on_the_way() -> None:
    tried = attempt(("head", HEAD), ("solving", None), ("answer", ANSWER))
    assert heard(tried, 2) is None
    assert heard(tried, 1) == ANSWER
    assert tried.watched() == [tried.worker.link, "end"]


def test_a_dead_child_has_a_cause_and_keeps_what_is_known() -> None:
    tried = attempt(("head", HEAD), exitcode=-signal.SIGSEGV)
    assert heard(tried, 1) is None
    answer = tried.look(["end"])
    assert answer == Answer(HEAD, ended="its process died of SIGSEGV", code=FAILED)
    silent = heard(attempt(exitcode=1), 1)
    assert silent is not None
    assert silent.ended == "its process died with exit code 1"


def test_the_hard_limit_kills_and_says_why() -> None:
    late = attempt(kill_after_s=1e-9, options=SolveOptions(time_limit_s=5))
    assert late.pause() == 0.0
    assert late.look([]) == Answer(ended="killed after 1e-09 s", limit="time", code=LIMIT_NO_PLAN)
    deaf = attempt(kill_after_s=1e-9, options=SolveOptions(time_limit_s=1e-10)).look([])
    assert deaf is not None
    assert "because it did not end at its time limit of 1e-10 s" in (deaf.ended or "")


def test_the_solvers_time_begins_when_it_sees_its_instance() -> None:
    tried = attempt(("head", HEAD), ("solving", None), kill_after_s=100.0)
    tried._clock = Clock(1.0)  # what loading has left of it
    left = tried.pause()
    assert left is not None
    assert left < 1.5
    heard(tried, 2)
    later = tried.pause()
    assert later is not None
    assert later > 99.0


def test_memory_is_looked_at_from_time_to_time() -> None:
    assert attempt().pause() is None
    assert attempt(memory_gib=1.0).pause() == LOOK_S
    assert attempt(memory_gib=1.0, resident=0.9).look([]) is None
    answer = attempt(memory_gib=1.0, resident=1.1).look([])
    assert answer is not None
    assert (answer.limit, answer.code) == ("memory", LIMIT_NO_PLAN)
    assert "more than 1 GiB" in (answer.ended or "")


@pytest.mark.parametrize(("told", "again"), [(1, True), (2, False), (0, False)])
def test_only_a_death_while_warming_up_is_worth_another_try(told: int, again: bool) -> None:
    tried = attempt(*[("head", HEAD), ("solving", None)][:told], warm_up=True, exitcode=1)
    for _ in range(told):
        heard(tried, 1)
    answer = tried.look(["end"])
    assert answer is not None
    assert tried.died_warming_up(answer) == again
    assert not tried.died_warming_up(ANSWER)
