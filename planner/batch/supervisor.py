"""A process that lets tasks be done, in children of its own, and outlives whatever they do.

A task may crash, eat memory, go on for ever, leave threads, children and a changed environment behind. So it
is done in a process forked from this one, which has loaded what all tasks need and never runs a solver
itself; what comes from another package, and what is to be timed, in one that is used once. The keeper waits
for answers, for the death of children, for the end of their time, for the growth of their memory, and for the
end of whoever gave the tasks; then it kills the children and all that they started.
"""

from __future__ import annotations

import gc
import importlib
import math
import time
from contextlib import suppress
from dataclasses import replace
from multiprocessing.connection import Connection, wait
from typing import TYPE_CHECKING, Any, NoReturn

from ..exit_codes import FAILED, LIMIT_NO_PLAN
from .answer import Answer, Head
from .limits import prepare
from .workers import Child, Children, cause_of_death

if TYPE_CHECKING:
    from ...solvers.common.result import Limit
    from .task import Task

PRELOADED = ("numpy.ma", "numpy.random", "highspy", "importlib.resources.readers")
"""What most tasks would load. Libraries that start threads when they are loaded do not belong here, nor large
ones: what this process holds, each fork and its end have to deal with.
"""
LOOK_S = 0.2
"""How often the memory of a task is looked at."""


def main(link_fd: int, level: int) -> None:
    """Do tasks for whoever holds the other end of a link, until that is closed.

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
    from . import preload  # here, so that children need not load it

    preload.fill_caches()
    gc.freeze()  # or the collector would write into pages that all children share
    children = Children(link_fd)
    try:
        with suppress(EOFError, ConnectionError):
            _keep(link, children)
    finally:
        children.kill()


def _keep(link: Connection, children: Children) -> NoReturn:
    """Do tasks for ever.

    Raises
    ------
    EOFError, ConnectionError
        Once whoever gives them has gone, be it while an answer is on its way.
    """
    attempts: dict[int, Attempt] = {}
    while True:
        pauses = [pause for attempt in attempts.values() if (pause := attempt.pause()) is not None]
        watched: list[Any] = [link, *(thing for attempt in attempts.values() for thing in attempt.watched())]
        ready = wait(watched, min(pauses, default=None))
        if link in ready:
            number, task = link.recv()
            attempts[number] = Attempt(task, children.for_task(task))
        for number, attempt in list(attempts.items()):
            answer = attempt.look(ready)
            if answer is None:
                continue
            del attempts[number]
            if attempt.died_warming_up(answer):
                children.release(attempt.child, attempt.task, again=False)
                task = replace(attempt.task, warm_up=False)
                attempts[number] = Attempt(task, children.for_task(task))
                continue
            link.send((number, answer, time.perf_counter() - attempt.began))
            children.release(attempt.child, attempt.task, again=answer.ended is None)


class Attempt:
    """One task in one child, and what is known of it.

    Parameters
    ----------
    task, child
        What is done, and by whom.

    Attributes
    ----------
    began
        When it was given; the solver's own time, to which the hard limit applies, begins later.
    """

    def __init__(self, task: Task, child: Child) -> None:
        self.task, self.child = task, child
        self.began = self._clock = time.perf_counter()
        self._head: Head | None = None
        self._solving = False

    def watched(self) -> list[Any]:
        """Return what may become ready."""
        return [self.child.link, self.child.process.sentinel]

    def died_warming_up(self, answer: Answer) -> bool:
        """Whether it ended before the solver saw its instance."""
        reached = self._head is not None and not self._solving
        return answer.ended is not None and self.task.warm_up and reached

    def pause(self) -> float | None:
        """Return how long to wait, so that neither the end of the time nor the memory is missed."""
        left = self._left()
        if self.task.memory_gib is None:
            return left
        return LOOK_S if left is None else min(LOOK_S, left)

    def look(self, ready: list[Any]) -> Answer | None:
        """Return the answer, or how the child ended; None if it is still at work."""
        answer = self._look(ready)
        return None if answer is None else replace(answer, head=answer.head or self._head)

    def _look(self, ready: list[Any]) -> Answer | None:
        if self.child.link in ready:
            return self._hear()
        if self.child.process.sentinel in ready:
            return self._dead()
        if self._left() == 0:
            return _answer(_killed(self.task), "time", LIMIT_NO_PLAN)
        most = self.task.memory_gib
        if most is not None and self.child.resident_gib() > most:
            return _answer(f"out of memory: it needs more than {most:.3g} GiB", "memory", LIMIT_NO_PLAN)
        return None

    def _left(self) -> float | None:
        """Return how many seconds are left to the child; None for any number."""
        if self.task.kill_after_s is None:
            return None
        return max(0.0, self._clock + self.task.kill_after_s - time.perf_counter())

    def _hear(self) -> Answer | None:
        """Take what the child says; return it if it is the answer."""
        try:
            what, told = self.child.link.recv()
        except Exception:  # noqa: BLE001 - it died while it spoke, or what it said makes no sense
            return self._dead()
        if what == "answer":
            answer: Answer = told
            return answer
        if what == "head":
            self._head = told
        else:  # its libraries are loaded; from here on it is the solver's time
            self._solving, self._clock = True, time.perf_counter()
        return None

    def _dead(self) -> Answer:
        self.child.process.join(1)
        cause = cause_of_death(self.child.process.exitcode, self.task)
        return _answer(f"its process died{cause}", "none", FAILED)


def _answer(ended: str, limit: Limit, code: int) -> Answer:
    return Answer(ended=ended, limit=limit, code=code)


def _killed(task: Task) -> str:
    asked, given = task.options.time_limit_s, task.kill_after_s or math.inf
    why = f", because it did not end at its time limit of {asked:.3g} s" if asked and given >= asked else ""
    return f"killed after {given:.3g} s{why}"
