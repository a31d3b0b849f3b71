"""Engine that runs tasks on the workers of a Dask cluster.

Dask moves the tasks of a lost worker to another one. On each worker a solve has a process to itself, as on
this machine, so that a crash or an endless solve costs one row and no worker.
"""

from __future__ import annotations

import threading
from asyncio import CancelledError
from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from ...formulations.common.clock import Clock
from ...instances.common.errors import ClusterplanError, OptionError, UnavailableError
from ..exit_codes import FAILED, code_of_error
from .local import LocalEngine
from .task import Ended, Task, one_line, read
from .worker_process import Answer, Head

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
            instance = read(task)
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
    except (Exception, CancelledError) as error:  # noqa: BLE001 - of Dask, whose errors are many
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
