"""Supervisor of worker processes: it forks workers, gives them tasks, and survives their failures.

A task may crash, use up memory, never end, or leave threads, processes and a changed environment behind.
So it runs in a worker: a process forked from the supervisor, which has loaded what all tasks need and never
runs a solver itself. Each worker runs one task at a time. A solver of another package, and a task that is to
be timed, has a worker that is used once. The supervisor waits for answers, for the death of workers, for the
end of their time, for the growth of their memory, and for the end of the process that sent the tasks; then
it kills the workers and their child processes.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import math
import multiprocessing
import os
import signal
import sys
from contextlib import suppress
from dataclasses import replace
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import TYPE_CHECKING, Any, NoReturn

from ...formulations.common.clock import Clock
from ..exit_codes import FAILED, LIMIT_NO_PLAN
from .worker_process import GIB, Answer, Head, prepare

if TYPE_CHECKING:
    from .task import Task


MAX_TASKS, MAX_GIB = 100, 0.5
"""A worker is not used again after so many tasks, or after so much growth of its memory."""
PR_SET_PDEATHSIG = 1


class Workers:
    """Pool of worker processes: a spare one, forked while others work, and idle ones for reuse.

    A worker that answered for one of this package's own solvers may run more tasks, which saves a fork. A
    task that requires a single-use worker gets a new one, which runs no other task.

    Parameters
    ----------
    link_fd
        The supervisor's own link.
    """

    def __init__(self, link_fd: int) -> None:
        self._link_fd = link_fd
        self._spare = Worker(link_fd)
        self._again: list[Worker] = []
        self._working: list[Worker] = []
        self._dead: list[Worker] = []

    def for_task(self, task: Task) -> Worker:
        """Assign a task to an idle or the spare worker process, and return that worker."""
        used = bool(self._again) and not task.alone
        worker = self._again.pop() if used else self._spare
        worker.give(task)
        if not used:
            self._spare = Worker(self._link_fd)
        self._working.append(worker)
        while self._dead:  # while the worker works, there is time to wait for their end
            self._dead.pop().join()
        return worker

    def release(self, worker: Worker, task: Task, again: bool) -> None:
        """Return a worker to the pool if it may be reused, else kill it with its child processes."""
        self._working.remove(worker)
        if again and not task.alone and worker.tasks < MAX_TASKS and worker.grown_gib() < MAX_GIB:
            self._again.append(worker)
        else:
            worker.kill()
            self._dead.append(worker)

    def kill(self) -> None:
        """Kill every worker, and wait until all have ended."""
        everyone = [self._spare, *self._again, *self._working]
        for worker in everyone:
            worker.kill()
        for worker in (*everyone, *self._dead):
            worker.join()


class Worker:
    """A worker process, which waits for tasks and runs them.

    Parameters
    ----------
    link_fd
        The supervisor's own link. A worker closes it: an open copy would hide the supervisor's end.

    Attributes
    ----------
    tasks
        Number of tasks that it was given.
    """

    def __init__(self, link_fd: int) -> None:
        self.link, theirs = multiprocessing.Pipe()
        # A fork of a process that has one thread; elsewhere than on Linux that is not safe.
        context: Any = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")
        self.process: BaseProcess = context.Process(target=_run_worker, args=(theirs, link_fd))
        self.process.start()
        theirs.close()
        self.tasks = 0
        # A child shares the pages of the process that forks it until it writes to them.
        self._forked_gib = resident_gib(os.getpid())

    @property
    def pid(self) -> int:
        """The id of the process, and of the group of all processes that it starts."""
        assert self.process.pid
        return self.process.pid

    def give(self, task: Task) -> None:
        """Send a task to the worker process; a dead one is noticed when its answer is awaited."""
        self.tasks += 1
        with suppress(OSError):
            self.link.send(task)

    def resident_gib(self) -> float:
        """Return the worker's resident memory in GiB, shared memory included; 0 if unknown."""
        return resident_gib(self.pid)

    def grown_gib(self) -> float:
        """Return the worker's resident memory in GiB beyond that of its parent at the fork."""
        return self.resident_gib() - self._forked_gib

    def kill(self) -> None:
        """Kill the worker with its child processes, if they still run."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        self.process.kill()  # it may have died before it had a group of its own

    def join(self) -> None:
        """Wait until the killed worker process has ended, and close its pipe."""
        self.process.join()
        self.link.close()


def _run_worker(link: Connection, inherited_fd: int) -> None:
    """Run tasks from a pipe until one requires a single-use worker or the pipe closes, then exit."""
    os.setsid()  # a group of its own, so that the supervisor can kill all that the task starts
    if sys.platform == "linux":
        os.close(inherited_fd)
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    from .task import execute  # it is loaded already

    alone = False
    while not alone:
        try:
            task = link.recv()
        except EOFError:
            break
        link.send(("answer", execute(task, lambda what, content: link.send((what, content)))))
        alone = task.alone
    os._exit(0)  # clean-up of a plug-in or a library may hang, and nothing here is worth it


def resident_gib(pid: int) -> float:
    """Return the resident memory of a process in GiB, shared memory included; 0 if unknown."""
    try:
        with open(f"/proc/{pid}/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / GIB
    except (OSError, IndexError, ValueError):
        return 0.0


def cause_of_death(code: int | None, task: Task) -> str:
    """Return the cause of a process's death as text, from its exit code and the task's memory limit."""
    if code is None or code >= 0:
        return "" if code is None else f" with exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    memory = ""
    if task.memory_gib is not None and name in ("SIGABRT", "SIGKILL", "SIGSEGV"):
        memory = f"; it may have needed more than its {task.memory_gib:.3g} GiB"
    return f" of {name}{memory}"


PRELOADED = ("numpy.ma", "numpy.random", "highspy", "importlib.resources.readers")
"""Modules that most tasks would load. Libraries that start threads when they are loaded do not belong here,
nor large ones: they make each fork, and its end, slower.
"""
MEMORY_CHECK_S = 0.2
"""Seconds between two checks of a task's memory."""


def main(link_fd: int, level: int) -> None:
    """Supervise the tasks that come through a pipe, until its other end is closed.

    Parameters
    ----------
    link_fd
        File descriptor of the link. Through it come pairs of a number and a task, at any time, and go back
        triples of the number, the answer and its seconds.
    level
        Of the log, which goes to stderr.
    """
    prepare(level)
    link = Connection(link_fd)
    for name in PRELOADED:
        importlib.import_module(name)
    from .task import fill_caches  # before any fork, so that workers need not load it

    fill_caches()
    gc.freeze()  # or the collector would write into pages that all workers share
    workers = Workers(link_fd)
    try:
        with suppress(EOFError, ConnectionError):
            _supervise(link, workers)
    finally:
        workers.kill()


def _supervise(link: Connection, workers: Workers) -> NoReturn:
    """Assign tasks to workers, enforce their limits, and send back answers until the pipe closes.

    Raises
    ------
    EOFError, ConnectionError
        Once the process that sends tasks has ended, even while an answer is on its way.
    """
    attempts: dict[int, Attempt] = {}
    while True:
        pauses = [pause for attempt in attempts.values() if (pause := attempt.pause()) is not None]
        watched: list[Any] = [link, *(thing for attempt in attempts.values() for thing in attempt.watched())]
        # Nothing is polled while all tasks are quiet, except for memory and deadlines.
        ready = wait(watched, min(pauses, default=None))
        if link in ready:
            number, task = link.recv()
            attempts[number] = Attempt(task, workers.for_task(task))
        for number, attempt in list(attempts.items()):
            answer = attempt.look(ready)
            if answer is None:
                continue
            del attempts[number]
            if attempt.died_warming_up(answer):  # the tiny instance is to blame, not the one to be solved
                workers.release(attempt.worker, attempt.task, again=False)
                task = replace(attempt.task, warm_up=False)
                attempts[number] = Attempt(task, workers.for_task(task))
                continue
            link.send((number, answer, attempt.given.elapsed_s))
            workers.release(attempt.worker, attempt.task, again=answer.ended is None)


class Attempt:
    """One run of a task in a worker process, with the messages received so far.

    Attributes
    ----------
    given
        Clock since the task was given; a new clock for the hard limit starts with the solver.
    """

    def __init__(self, task: Task, worker: Worker) -> None:
        self.task, self.worker = task, worker
        self.given = self._clock = Clock(task.kill_after_s)
        self._head: Head | None = None
        self._solving = False

    def watched(self) -> list[Any]:
        """Return the handles to wait for: the worker's pipe, and the sentinel of its process."""
        return [self.worker.link, self.worker.process.sentinel]

    def died_warming_up(self, answer: Answer) -> bool:
        """Return whether the worker died while warming up, after it read the instance."""
        reached = self._head is not None and not self._solving
        return answer.ended is not None and self.task.warm_up and reached

    def pause(self) -> float | None:
        """Return the seconds until the time limit or the next memory check; None without limits."""
        if self.task.memory_gib is None:
            return self._clock.remaining_s
        return self._clock.at_most(MEMORY_CHECK_S).limit_s

    def look(self, ready: list[Any]) -> Answer | None:
        """Return the worker's answer, or how it died or was killed; None while it still runs."""
        answer = self._look(ready)
        return None if answer is None else replace(answer, head=answer.head or self._head)

    def _look(self, ready: list[Any]) -> Answer | None:
        if self.worker.link in ready:  # before its end: it may have answered and died since
            return self._hear()
        if self.worker.process.sentinel in ready:
            return self._dead()
        if self._clock.expired:
            return Answer(ended=_killed(self.task), limit="time", code=LIMIT_NO_PLAN)
        most = self.task.memory_gib
        if most is not None and self.worker.resident_gib() > most:
            ended = f"out of memory: it needs more than {most:.3g} GiB"
            return Answer(ended=ended, limit="memory", code=LIMIT_NO_PLAN)
        return None

    def _hear(self) -> Answer | None:
        """Receive one message of the worker; return it if it is the answer, else None."""
        try:
            what, content = self.worker.link.recv()
        except Exception:  # noqa: BLE001 - it died while it spoke, or what it said makes no sense
            return self._dead()
        if what == "answer":
            answer: Answer = content
            return answer
        if what == "head":
            self._head = content
        else:  # its libraries are loaded; from here on it is the solver's time
            self._solving, self._clock = True, Clock(self.task.kill_after_s)
        return None

    def _dead(self) -> Answer:
        self.worker.process.join(1)
        cause = cause_of_death(self.worker.process.exitcode, self.task)
        return Answer(ended=f"its process died{cause}", code=FAILED)


def _killed(task: Task) -> str:
    asked, given = task.options.time_limit_s, task.kill_after_s or math.inf
    why = f", because it did not end at its time limit of {asked:.3g} s" if asked and given >= asked else ""
    return f"killed after {given:.3g} s{why}"
