"""The processes that a keeper forks, one for each task at a time."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
import sys
from contextlib import suppress
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import TYPE_CHECKING, Any

from .limits import GIB

if TYPE_CHECKING:
    from .task import Task

MOST_TASKS, MOST_GIB = 100, 0.5
"""A child does not work again after so many tasks, or if it holds so much memory."""
PR_SET_PDEATHSIG = 1


class Children:
    """Processes for tasks: a spare one, forked while others work, and some that may work again.

    A child that answered for one of this package's own solvers may do more tasks, which saves the time of a
    fork. A task that is to be alone gets a child that has done nothing yet and will do nothing after it.

    Parameters
    ----------
    link_fd
        The keeper's own link.
    """

    def __init__(self, link_fd: int) -> None:
        self._link_fd = link_fd
        self._spare = Child(link_fd)
        self._again: list[Child] = []
        self._working: list[Child] = []
        self._dead: list[Child] = []

    def for_task(self, task: Task) -> Child:
        """Give a task to a child."""
        if self._again and not task.alone:
            child = self._again.pop()
            child.give(task)
        else:
            child = self._spare
            child.give(task)
            self._spare = Child(self._link_fd)
        self._working.append(child)
        while self._dead:  # while the child works, there is time to wait for their end
            self._dead.pop().bury()
        return child

    def release(self, child: Child, task: Task, again: bool) -> None:
        """Let a child wait for another task, or kill it with all that it has started."""
        self._working.remove(child)
        if again and not task.alone and child.tasks < MOST_TASKS and child.resident_gib() < MOST_GIB:
            self._again.append(child)
        else:
            child.kill()
            self._dead.append(child)

    def kill(self) -> None:
        """Kill every child, and wait for their end."""
        everyone = [self._spare, *self._again, *self._working]
        for child in everyone:
            child.kill()
        for child in (*everyone, *self._dead):
            child.bury()


class Child:
    """A process that waits for a task and does it.

    Parameters
    ----------
    link_fd
        The keeper's own link, which a child must not hold: it would hide the keeper's end.

    Attributes
    ----------
    tasks
        How many it was given.
    """

    def __init__(self, link_fd: int) -> None:
        self.link, theirs = multiprocessing.Pipe()
        # A fork of a process that has one thread; elsewhere than on Linux that is not safe.
        context: Any = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")
        self.process: BaseProcess = context.Process(target=_do, args=(theirs, link_fd))
        self.process.start()
        theirs.close()
        self.tasks = 0

    @property
    def pid(self) -> int:
        """Of the process, and of the group of all that it starts."""
        assert self.process.pid
        return self.process.pid

    def give(self, task: Task) -> None:
        """Give it a task; if it has died, that shows when it is waited for."""
        self.tasks += 1
        with suppress(OSError):
            self.link.send(task)

    def resident_gib(self) -> float:
        """Return the memory that it holds, shared memory included; 0 where that cannot be seen."""
        try:
            with open(f"/proc/{self.pid}/statm", encoding="ascii") as file:
                return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / GIB
        except (OSError, IndexError, ValueError):
            return 0.0

    def kill(self) -> None:
        """Kill it with all that it has started, if it is still there."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        self.process.kill()  # it may have died before it had a group of its own

    def bury(self) -> None:
        """Wait for its end, once it is killed."""
        self.process.join()
        self.link.close()


def _do(link: Connection, inherited_fd: int) -> None:
    """Do tasks in a process of their own; after that nothing is of use, not even leaving in good order."""
    os.setsid()
    if sys.platform == "linux":
        os.close(inherited_fd)
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    from .preload import execute  # it is loaded already

    alone = False
    while not alone:
        try:
            task = link.recv()
        except EOFError:
            break
        link.send(("answer", execute(task, lambda what, told: link.send((what, told)))))
        alone = task.alone
    os._exit(0)


def cause_of_death(code: int | None, task: Task) -> str:
    """Say why a process died, as far as its exit code tells."""
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
