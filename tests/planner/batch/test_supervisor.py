"""One task in one worker: its answer, its death, the end of its time, and the growth of its memory.

Processes that do tasks: what they answer, how they end, and what is said of it.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from command_line import is_running
from sample_documents import STAGING

import clusterplan
from clusterplan.formulations.common.clock import Clock
from clusterplan.planner.batch.supervisor import (
    MAX_GIB,
    MAX_TASKS,
    MEMORY_CHECK_S,
    Attempt,
    Worker,
    Workers,
    cause_of_death,
)
from clusterplan.planner.batch.task import Task, execute, fill_caches
from clusterplan.planner.batch.worker_process import Answer, Head
from clusterplan.planner.exit_codes import FAILED, LIMIT_NO_PLAN
from clusterplan.solvers.common.result import SolveOptions
from clusterplan.solvers.registry import plugin_entry_points

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
    assert silent.ended == "its process died with exit code 1"


def test_the_hard_limit_kills_and_says_why() -> None:
    late = attempt(kill_after_s=1e-9, options=SolveOptions(time_limit_s=5))
    assert late.pause() == 0.0
    assert late.look([]) == Answer(ended="killed after 1e-09 s", limit="time", code=LIMIT_NO_PLAN)
    deaf = attempt(kill_after_s=1e-9, options=SolveOptions(time_limit_s=1e-10)).look([])
    assert "because it did not end at its time limit of 1e-10 s" in (deaf.ended or "")


def test_the_solvers_time_begins_when_it_sees_its_instance() -> None:
    tried = attempt(("head", HEAD), ("solving", None), kill_after_s=100.0)
    tried._clock = Clock(1.0)  # what loading has left of it
    left = tried.pause()
    assert left < 1.5
    heard(tried, 2)
    later = tried.pause()
    assert later > 99.0


def test_memory_is_looked_at_from_time_to_time() -> None:
    assert attempt().pause() is None
    assert attempt(memory_gib=1.0).pause() == MEMORY_CHECK_S
    assert attempt(memory_gib=1.0, resident=0.9).look([]) is None
    answer = attempt(memory_gib=1.0, resident=1.1).look([])
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


INSTANCE = clusterplan.parse_instance(STAGING)
READ = Task("s", INSTANCE, None, SolveOptions())
ALONE = Task("s", INSTANCE, None, SolveOptions(), alone=True)


@pytest.fixture
def workers() -> Iterator[Workers]:
    """Return processes that hold nothing of this one."""
    fill_caches()
    made = Workers(os.open(os.devnull, os.O_RDONLY))
    yield made
    made.kill()


def answer_of(worker: Worker) -> Answer:
    """Wait for the answer of a worker."""
    while True:
        assert worker.link.poll(30)
        what, told = worker.link.recv()
        if what == "answer":
            found: Answer = told
            return found


def test_a_child_answers_and_may_work_again(workers: Workers) -> None:
    first = workers.for_task(READ)
    head = answer_of(first).head
    assert head.sha256 == INSTANCE.sha256()
    workers.release(first, READ, again=True)
    again = workers.for_task(READ)
    assert again is first
    assert (answer_of(again).head, again.tasks) == (head, 2)


def test_a_task_that_is_to_be_alone_has_a_child_of_its_own(workers: Workers) -> None:
    first = workers.for_task(READ)
    answer_of(first)
    workers.release(first, READ, again=True)
    own = workers.for_task(ALONE)
    assert own is not first
    answer_of(own)
    workers.release(own, ALONE, again=True)
    assert workers.for_task(READ) is first


@pytest.mark.parametrize("worn", [True, False])
def test_a_child_that_failed_or_is_worn_out_is_killed(workers: Workers, worn: bool) -> None:
    worker = workers.for_task(READ)
    answer_of(worker)
    assert worker.resident_gib() > 0
    worker.tasks = MAX_TASKS if worn else 1
    workers.release(worker, READ, again=worn)
    worker.join()
    assert not is_running(worker.pid)
    assert worker.process.exitcode == -signal.SIGKILL


def test_the_end_of_a_child_shows_when_it_is_waited_for(workers: Workers) -> None:
    worker = workers.for_task(READ)
    answer_of(worker)
    worker.kill()
    worker.process.join()
    worker.give(READ)  # no error
    assert worker.resident_gib() == 0.0


@pytest.mark.parametrize(
    ("code", "memory_gib", "said"),
    [
        (None, None, ""),
        (3, None, " with exit code 3"),
        (-signal.SIGTERM, 1.0, " of SIGTERM"),
        (-signal.SIGKILL, None, " of SIGKILL"),
        (-signal.SIGKILL, 1.0, " of SIGKILL; it may have needed more than its 1 GiB"),
        (-99, None, " of signal 99"),
    ],
)
def test_the_cause_of_death_is_told_from_the_exit_code(code: Any, memory_gib: Any, said: str) -> None:
    assert cause_of_death(code, Task("s", "s", None, SolveOptions(), memory_gib=memory_gib)) == said


def test_what_all_tasks_need_is_found_once() -> None:
    fill_caches()
    before = plugin_entry_points()
    fill_caches()
    assert plugin_entry_points() is before
    assert execute(READ, lambda *_: None).head is not None


def test_a_child_of_a_large_process_may_work_again() -> None:
    """A child is born with the pages of its parent, which are no memory of its own."""
    ballast = bytearray(b"1") * (700 << 20)
    found = Workers(os.open(os.devnull, os.O_RDONLY))
    try:
        first = found.for_task(READ)
        answer_of(first)
        assert first.resident_gib() > MAX_GIB > first.grown_gib()
        found.release(first, READ, again=True)
        assert found.for_task(READ) is first
    finally:
        found.kill()
    assert len(ballast) == 700 << 20


def test_a_child_that_has_grown_does_not_work_again(
    workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = workers.for_task(READ)
    answer_of(first)
    monkeypatch.setattr(first, "grown_gib", lambda: MAX_GIB)
    workers.release(first, READ, again=True)
    assert workers.for_task(READ) is not first
