"""Engine that runs tasks on this machine, in worker processes under a supervisor."""

from __future__ import annotations

import itertools
import json
import logging
import multiprocessing
import os
import queue
import signal
import socket
import subprocess
import sys
import threading
import weakref
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING

from ...instances.common.errors import UnavailableError
from ..exit_codes import FAILED
from .worker_process import Answer

if TYPE_CHECKING:
    from .task import Ended, Task

log = logging.getLogger("clusterplan")

START = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from clusterplan.planner.batch.supervisor import main; main(int(sys.argv[2]), int(sys.argv[3]))"
)
"""The program of a supervisor; `multiprocessing` would import the caller's main module again."""
PATIENCE_S = 5.0
"""Seconds that a supervisor may take to end before it is killed."""


_ready: list[Supervisor] = []
"""At most one supervisor that was started before an engine needs it."""


def start_early() -> None:
    """Start a supervisor process early, so that it loads libraries while this process does too."""
    if os.name == "posix" and not _ready:
        _ready.append(Supervisor())


class LocalEngine:
    """Engine that runs tasks on this machine under a supervisor process, restarted if that is killed.

    Parameters
    ----------
    jobs
        How many tasks at a time.

    Raises
    ------
    UnavailableError
        Where a process cannot be given a link.
    """

    def __init__(self, jobs: int) -> None:
        if os.name != "posix":
            raise UnavailableError("batches need Linux or macOS; --engine dask can use machines that have it")
        self.jobs = jobs
        self._numbers = itertools.count()
        self._supervisor: Supervisor | None = None

    def run(self, tasks: deque[Task]) -> Iterator[Ended]:
        """Run all tasks of the queue; yield each with its answer and wall-clock seconds as it ends."""
        sent: dict[int, Task] = {}
        while tasks or sent:
            self._send(tasks, sent)
            message = self._running_supervisor().answers.get()  # blocks until a task has ended
            if message is None:
                yield from self._lost(sent)
                continue
            done, answer, seconds = message
            task = sent.pop(done)
            self._send(tasks, sent)  # no process shall wait until the caller has dealt with this answer
            yield task, answer, seconds

    def _send(self, tasks: deque[Task], sent: dict[int, Task]) -> None:
        """Move tasks from the queue to the supervisor process until `jobs` of them are in progress."""
        while tasks and len(sent) < self.jobs:
            number = next(self._numbers)
            sent[number] = tasks.popleft()
            self._running_supervisor().give(number, sent[number])

    def _running_supervisor(self) -> Supervisor:
        if self._supervisor is None:
            self._supervisor = _ready.pop() if _ready else Supervisor()
        return self._supervisor

    def _lost(self, sent: dict[int, Task]) -> Iterator[Ended]:
        """Yield a failure for each task in progress when the supervisor process died, without a retry."""
        code = self._running_supervisor().end()
        self._supervisor = None
        ended = f"the process that watched it was ended from outside, with exit code {code}"
        while sent:
            _, task = sent.popitem()
            yield task, Answer(ended=ended, code=FAILED), 0.0

    def close(self) -> None:
        """Stop the supervisor and all running tasks."""
        if self._supervisor is not None:
            self._supervisor.end()
            self._supervisor = None


class Supervisor:
    """The process that runs `supervisor.main`, and the pipe to it; it ends when the pipe closes.

    Attributes
    ----------
    answers
        Number, answer and seconds of each task that has ended; None once the process has.
    """

    def __init__(self) -> None:
        self._link, other_end = multiprocessing.Pipe()
        self.answers: queue.SimpleQueue[tuple[int, Answer, float] | None] = queue.SimpleQueue()
        arguments = [json.dumps(sys.path), str(other_end.fileno()), str(log.getEffectiveLevel())]
        self.process = subprocess.Popen(  # noqa: S603 - this interpreter, and what stands above
            [sys.executable, "-c", START, *arguments],
            stdin=subprocess.DEVNULL,
            pass_fds=[other_end.fileno()],
            start_new_session=True,  # so that Ctrl-C, which reaches all processes of a terminal, does not
        )
        other_end.close()
        # Both sides may have much to say at the same time, and would wait for each other for ever.
        threading.Thread(target=_listen, args=(self._link, self.answers), daemon=True).start()
        self._finalize = weakref.finalize(self, _end, self.process, self._link)

    def give(self, number: int, task: Task) -> None:
        """Send a task to the process; if the process has ended, the next answer in the queue is None."""
        with suppress(OSError):
            self._link.send((number, task))

    def end(self) -> int:
        """Close the pipe, so that the process kills its workers and ends; return its exit code."""
        self._finalize()
        return self.process.returncode


def _listen(link: Connection, answers: queue.SimpleQueue[tuple[int, Answer, float] | None]) -> None:
    """Move the answers from a supervisor's pipe into a queue; put None once the pipe is closed."""
    # A pipe that is closed between two looks at it has no handle: a TypeError.
    with suppress(EOFError, OSError, TypeError):
        while True:
            answers.put(link.recv())
    answers.put(None)


def _end(process: subprocess.Popen[bytes], link: Connection) -> None:
    # A close alone would not end a `recv` in another thread.
    with suppress(OSError), socket.socket(fileno=os.dup(link.fileno())) as same:
        same.shutdown(socket.SHUT_RDWR)
    link.close()
    try:
        process.wait(PATIENCE_S)
    except subprocess.TimeoutExpired:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
