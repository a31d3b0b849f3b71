"""Engines that run the tasks of a batch: processes of this machine under a supervisor, or a Dask cluster.

Dask moves the tasks of a lost worker to another one. On each worker a solve has a process to itself, as on
this machine, so that a crash or an endless solve costs one row and no worker.
"""

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
from dataclasses import replace
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any

from ...formulations.common.clock import Clock
from ...instances.common.errors import ClusterplanError, OptionError, UnavailableError
from ..exit_codes import FAILED, code_of_error
from .worker_process import Answer, Head, one_line

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


CONNECT_S = 15
AHEAD = 2
"""Tasks sent for each thread of the cluster, so that none waits for its next one."""
_of_thread = threading.local()
"""Each thread of a Dask worker does one task at a time, and keeps its local engine for the next."""


class DaskEngine:
    """Engine that runs tasks through a Dask scheduler.

    Instances are read here and sent, so that the workers need no common file system.

    Parameters
    ----------
    address
        Address of the scheduler, such as ``tcp://10.0.0.1:8786``.
    jobs
        Most solves at a time; None: as many as the cluster has threads.

    Raises
    ------
    UnavailableError
        If the extra `dask` is not installed.
    OptionError
        If there is no scheduler at the address.
    """

    def __init__(self, address: str, jobs: int | None) -> None:
        try:
            import distributed
        except ImportError:
            raise UnavailableError("Dask is not installed: pip install 'clusterplan[dask]'") from None
        try:
            self._client = distributed.Client(address, timeout=CONNECT_S, set_as_default=False)
        except (OSError, ValueError, TimeoutError) as error:
            what = " ".join(str(error).split())
            raise OptionError(f"--scheduler {address}: no Dask scheduler answers there: {what}") from None
        self.jobs = jobs
        self._sent: dict[Any, tuple[Task, Head]] = {}

    def run(self, tasks: deque[Task]) -> Iterator[Ended]:
        """Run all tasks of the queue; yield each with its answer and wall-clock seconds as it ends."""
        from distributed import as_completed

        ended = as_completed(loop=self._client.loop)
        while tasks or self._sent:
            while tasks and len(self._sent) < self._room():
                answered = self._send(tasks.popleft(), ended)
                if answered is not None:
                    yield answered
            if self._sent:
                future = next(ended)
                task, head = self._sent.pop(future)
                answer, seconds = _answer(future)
                yield task, replace(answer, head=head), seconds

    def _room(self) -> int:
        """Return the maximum number of tasks in progress, given the current number of threads."""
        return self.jobs or AHEAD * max(1, sum(self._client.nthreads().values()))

    def _send(self, task: Task, ended: Any) -> Ended | None:
        """Submit a task with its instance to Dask; return its answer if no solve is needed, else None."""
        clock = Clock()
        try:
            instance = task.read()
        except ClusterplanError as error:
            return task, Answer(fault=one_line(error), code=code_of_error(error)), clock.elapsed_s
        # A source that is only read, or is solved already, need not cross the network.
        head = Head(instance.name, instance.kind, instance.sha256())
        if task.solver is None or head.sha256 == task.known_sha256:
            return task, Answer(head, unchanged=task.solver is not None), clock.elapsed_s
        if self._client.status != "running":
            lost = Answer(head, ended="the connection to the Dask scheduler is lost", code=FAILED)
            return task, lost, clock.elapsed_s
        future = self._client.submit(execute_guarded, replace(task, source=instance), pure=False)
        self._sent[future] = task, head
        ended.add(future)
        return None

    def close(self) -> None:
        """Cancel all tasks and close the connection."""
        if self._client.status == "running":
            self._client.cancel(list(self._sent), force=True)
        self._client.close()


def _answer(future: Any) -> tuple[Answer, float]:
    """Return the answer and wall-clock seconds of a Dask future, or a failure if Dask lost the task."""
    try:
        answer: tuple[Answer, float] = future.result()
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # noqa: BLE001 - of Dask: many, and a cancelled task is no `Exception`
        ended = f"lost on the Dask cluster: {type(error).__name__}: {one_line(error)}"
        return Answer(ended=ended, code=FAILED), 0.0
    return answer


def execute_guarded(task: Task) -> tuple[Answer, float]:
    """Run a task in a separate process of a Dask worker; return its answer and wall-clock seconds."""
    engine = getattr(_of_thread, "engine", None)
    if engine is None:
        engine = _of_thread.engine = LocalEngine(1)
    _, answer, seconds = next(engine.run(deque([task])))
    return answer, seconds
