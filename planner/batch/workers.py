"""Worker processes: forked by the supervisor, each does one task at a time."""

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
"""A worker does not work again after so many tasks, or if it has grown by so much memory since its fork."""
PR_SET_PDEATHSIG = 1


class Workers:
    """The pool of workers: a spare one, forked while others work, and idle ones that may work again.

    A worker that answered for one of this package's own solvers may do more tasks, which saves a fork. A task
    that is to be alone gets a worker that has done nothing before and does nothing after it.

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
        """Give a task to a worker."""
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
        """Let a worker wait for another task, or kill it with all that it has started."""
        self._working.remove(worker)
        if again and not task.alone and worker.tasks < MOST_TASKS and worker.grown_gib() < MOST_GIB:
            self._again.append(worker)
        else:
            worker.kill()
            self._dead.append(worker)

    def kill(self) -> None:
        """Kill every worker, and wait for their end."""
        everyone = [self._spare, *self._again, *self._working]
        for worker in everyone:
            worker.kill()
        for worker in (*everyone, *self._dead):
            worker.join()


class Worker:
    """A process that waits for a task and does it.

    Parameters
    ----------
    link_fd
        The supervisor's own link. A worker closes it: an open copy would hide the supervisor's end.

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
        # A child shares the pages of the process that forks it until it writes to them.
        self._forked_gib = resident_gib(os.getpid())

    @property
    def pid(self) -> int:
        """The id of the process, and of the group of all processes that it starts."""
        assert self.process.pid
        return self.process.pid

    def give(self, task: Task) -> None:
        """Give it a task; if it has died, that shows when it is waited for."""
        self.tasks += 1
        with suppress(OSError):
            self.link.send(task)

    def resident_gib(self) -> float:
        """Return its resident memory, shared memory included; 0 where the system does not tell."""
        return resident_gib(self.pid)

    def grown_gib(self) -> float:
        """Return by how much its resident memory exceeds that of the process which forked it."""
        return self.resident_gib() - self._forked_gib

    def kill(self) -> None:
        """Kill it with all that it has started, if it is still there."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        self.process.kill()  # it may have died before it had a group of its own

    def join(self) -> None:
        """Wait for its end, once it is killed."""
        self.process.join()
        self.link.close()


def _do(link: Connection, inherited_fd: int) -> None:
    """Do tasks until one is to be alone or the link closes, then leave at once."""
    os.setsid()  # a group of its own, so that the supervisor can kill all that the task starts
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
    os._exit(0)  # clean-up of a plug-in or a library may hang, and nothing here is worth it


def resident_gib(pid: int) -> float:
    """Return the resident memory of a process, shared memory included; 0 where the system does not tell."""
    try:
        with open(f"/proc/{pid}/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / GIB
    except (OSError, IndexError, ValueError):
        return 0.0


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
