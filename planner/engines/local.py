"""Worker processes on this machine: each task has a process to itself, which may die alone."""

from __future__ import annotations

import logging
import multiprocessing
import queue
import signal
import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any

from pebble import ProcessExpired, ProcessPool

from ..exit_codes import FAILED, LIMIT_NO_PLAN
from .guard import prepare
from .task import Answer, Task, execute

log = logging.getLogger("clusterplan")


class LocalEngine:
    """A pool of processes, in which one that is killed or dies is replaced.

    Parameters
    ----------
    jobs
        How many tasks at a time.
    threads
        Of numerical libraries in each process.
    """

    def __init__(self, jobs: int, threads: int | None = None) -> None:
        current = multiprocessing.current_process()
        if current.daemon:
            current.daemon = False  # workers of Dask are, and could have no processes of their own
        self.jobs = jobs
        self._pool = ProcessPool(
            max_workers=jobs,
            initializer=prepare,
            initargs=(threads, log.getEffectiveLevel()),
            # A fork would inherit the threads of solvers that are loaded here, without their locks.
            context=multiprocessing.get_context("spawn"),
        )

    def run(self, tasks: deque[Task]) -> Iterator[tuple[Task, Answer, float]]:
        """Take tasks until there are none, and yield each with its answer and its seconds as it ends."""
        ended: queue.SimpleQueue[tuple[Task, Future[Any], float]] = queue.SimpleQueue()
        running = 0
        while tasks or running:
            while tasks and running < self.jobs:
                self._start(tasks.popleft(), ended)
                running += 1
            task, future, seconds = ended.get()
            running -= 1
            if tasks:  # no process shall wait until the caller has dealt with this answer
                self._start(tasks.popleft(), ended)
                running += 1
            yield task, _answer(task, future), seconds

    def _start(self, task: Task, ended: queue.SimpleQueue[tuple[Task, Future[Any], float]]) -> None:
        began = time.perf_counter()
        future = self._pool.schedule(execute, args=(task,), timeout=task.kill_after_s)
        future.add_done_callback(lambda done: ended.put((task, done, time.perf_counter() - began)))

    def close(self) -> None:
        """Stop at once, whatever is running."""
        self._pool.stop()
        self._pool.join()


def _answer(task: Task, future: Future[Any]) -> Answer:
    """Return what a worker answered, or how it ended."""
    error = future.exception()
    if error is None:
        answer: Answer = future.result()
        return answer
    if isinstance(error, TimeoutError):
        return Answer(
            ended=f"killed after {task.kill_after_s:.3g} s{_limit(task)}", limit="time", code=LIMIT_NO_PLAN
        )
    if isinstance(error, ProcessExpired):
        return Answer(ended=f"its process died{_cause(error.exitcode, task)}", code=FAILED)
    return Answer(fault=f"{type(error).__name__}: {error}", code=FAILED)


def _limit(task: Task) -> str:
    asked = task.options.time_limit_s
    return "" if asked is None else f", because it did not end at its time limit of {asked:.3g} s"


def _cause(code: int | None, task: Task) -> str:
    """Say why a process died, as far as its exit code tells."""
    if code is None or code >= 0:
        return f" with exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    memory = ""
    if task.memory_gib is not None and name in ("SIGABRT", "SIGKILL", "SIGSEGV"):
        memory = f"; it may have needed more than its {task.memory_gib:.3g} GiB"
    return f" of {name}{memory}"
