"""Processes that do tasks: what they answer, how they end, and what is said of it."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest
from processes import is_running
from sample_documents import STAGING

import clusterplan
from clusterplan.planner.batch.answer import Answer
from clusterplan.planner.batch.preload import execute, fill_caches
from clusterplan.planner.batch.task import Task
from clusterplan.planner.batch.workers import MOST_GIB, MOST_TASKS, Worker, Workers, cause_of_death
from clusterplan.solvers.common.options import SolveOptions
from clusterplan.solvers.plugins import installed

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
    assert head is not None
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
    worker.tasks = MOST_TASKS if worn else 1
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
    before = installed()
    fill_caches()
    assert installed() is before
    assert execute(READ, lambda *_: None).head is not None


def test_a_child_of_a_large_process_may_work_again() -> None:
    """A child is born with the pages of its parent, which are no memory of its own."""
    ballast = bytearray(b"1") * (700 << 20)
    found = Workers(os.open(os.devnull, os.O_RDONLY))
    try:
        first = found.for_task(READ)
        answer_of(first)
        assert first.resident_gib() > MOST_GIB > first.grown_gib()
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
    monkeypatch.setattr(first, "grown_gib", lambda: MOST_GIB)
    workers.release(first, READ, again=True)
    assert workers.for_task(READ) is not first
