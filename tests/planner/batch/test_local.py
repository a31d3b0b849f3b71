"""Tasks on this machine: every one is answered, whatever becomes of the process that watches them."""

from __future__ import annotations

import os
import signal
from collections import deque
from contextlib import closing

import pytest
from command_line import all_end, descendants, is_running
from sample_documents import STAGING

import clusterplan
from clusterplan.planner.batch import local
from clusterplan.planner.batch.local import LocalEngine, start_early
from clusterplan.planner.batch.task import Task
from clusterplan.planner.exit_codes import FAILED
from clusterplan.solvers.common.result import SolveOptions

INSTANCE = clusterplan.parse_instance(STAGING)


def tasks(*labels: str) -> deque[Task]:
    """Return tasks that only read the instance."""
    return deque(Task(label, INSTANCE, None, SolveOptions()) for label in labels)


def test_every_task_is_answered_and_nothing_is_left_running() -> None:
    with closing(LocalEngine(2)) as engine:
        done = list(engine.run(tasks("a", "b", "c")))
        supervisor = engine._running_supervisor().process.pid
        started = descendants(supervisor)
        assert started
    assert sorted(task.label for task, _, _ in done) == ["a", "b", "c"]
    assert {answer.head and answer.head.sha256 for _, answer, _ in done} == {INSTANCE.sha256()}
    assert all(seconds > 0 for _, _, seconds in done)
    assert all_end({supervisor, *started})


def test_tasks_of_a_watcher_that_is_killed_are_failures_and_the_next_has_another() -> None:
    with closing(LocalEngine(1)) as engine:
        first = engine._running_supervisor()
        os.kill(first.process.pid, signal.SIGKILL)
        first.process.wait()
        ((_, answer, _),) = engine.run(tasks("a"))
        assert answer.code == FAILED
        assert answer.ended == "the process that watched it was ended from outside, with exit code -9"
        ((_, answer, _),) = engine.run(tasks("a"))
        assert answer.head is not None


def test_a_watcher_that_was_started_early_is_the_one_that_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    ready: list[local.Supervisor] = []
    monkeypatch.setattr(local, "_ready", ready)
    start_early()
    start_early()
    (supervisor,) = ready
    with closing(LocalEngine(1)) as engine:
        assert engine._running_supervisor() is supervisor
    assert not ready
    assert not is_running(supervisor.process.pid)
