"""The supervisor: a process that has tasks done by workers and survives whatever they do.

A task may crash, eat memory, go on for ever, or leave threads, processes and a changed environment behind.
So a worker does it: a process forked from the supervisor, which has loaded what all tasks need and never runs
a solver itself. A solver of another package, and a task that is to be timed, has a worker that is used once.
The supervisor waits for answers, for the death of workers, for the end of their time, for the growth of their
memory, and for the end of the process that gave the tasks; then it kills the workers and all they started.
"""

from __future__ import annotations

import gc
import importlib
import math
from contextlib import suppress
from dataclasses import replace
from multiprocessing.connection import Connection, wait
from typing import TYPE_CHECKING, Any, NoReturn

from ...formulations.common.clock import Clock
from ..exit_codes import FAILED, LIMIT_NO_PLAN
from .answer import Answer, Head
from .limits import prepare
from .workers import Worker, Workers, cause_of_death

if TYPE_CHECKING:
    from .task import Task

PRELOADED = ("numpy.ma", "numpy.random", "highspy", "importlib.resources.readers")
"""What most tasks would load. Libraries that start threads when they are loaded do not belong here, nor large
ones: what this process holds, each fork and its end have to deal with.
"""
LOOK_S = 0.2
"""How often the memory of a task is looked at."""


def main(link_fd: int, level: int) -> None:
    """Supervise tasks that come through a link, until its other end is closed.

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
    from . import preload  # before any fork, so that workers need not load it

    preload.fill_caches()
    gc.freeze()  # or the collector would write into pages that all workers share
    workers = Workers(link_fd)
    try:
        with suppress(EOFError, ConnectionError):
            _supervise(link, workers)
    finally:
        workers.kill()


def _supervise(link: Connection, workers: Workers) -> NoReturn:
    """Hand out tasks and send back answers for ever.

    Raises
    ------
    EOFError, ConnectionError
        Once the process that gives them has gone, even while an answer is on its way.
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
    """One task in one worker, with the messages received so far.

    Attributes
    ----------
    given
        Runs since it was given; the solver's own time, to which the hard limit applies, begins later.
    """

    def __init__(self, task: Task, worker: Worker) -> None:
        self.task, self.worker = task, worker
        self.given = self._clock = Clock(task.kill_after_s)
        self._head: Head | None = None
        self._solving = False

    def watched(self) -> list[Any]:
        """Return the handles to wait for: messages of the worker, and its end."""
        return [self.worker.link, self.worker.process.sentinel]

    def died_warming_up(self, answer: Answer) -> bool:
        """Return whether the worker ended after it read the instance and before it solved it."""
        reached = self._head is not None and not self._solving
        return answer.ended is not None and self.task.warm_up and reached

    def pause(self) -> float | None:
        """Return how long to wait, so that neither the end of the time nor the memory is missed."""
        if self.task.memory_gib is None:
            return self._clock.remaining_s
        return self._clock.at_most(LOOK_S).limit_s

    def look(self, ready: list[Any]) -> Answer | None:
        """Return the answer, or how the worker ended; None if it is still at work."""
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
        """Receive one message of the worker; return it if it is the answer."""
        try:
            what, told = self.worker.link.recv()
        except Exception:  # noqa: BLE001 - it died while it spoke, or what it said makes no sense
            return self._dead()
        if what == "answer":
            answer: Answer = told
            return answer
        if what == "head":
            self._head = told
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
