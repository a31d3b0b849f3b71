"""Tasks of a batch, each one instance and one solver; their execution, and records of their outcomes.

The supervisor loads this module once, before it forks workers, so that they share what every task needs.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from ...instances.common.base import Instance, ProblemKind
from ...instances.common.errors import ClusterplanError
from ...instances.documents import load
from ...instances.registry import KINDS
from ...solvers.common.conclude import library_versions
from ...solvers.common.result import Result, SolveOptions, Status
from ...solvers.registry import builtin_solvers, plugin_entry_points
from ..api import solve
from ..exit_codes import FAILED, LIMIT_NO_PLAN, code_of_error, code_of_result
from ..verification import verify
from .worker_process import MAX_TEXT, Answer, Head, limited_memory, one_line


@dataclass(frozen=True)
class Record:
    """The outcome of one solve of a batch: the result, or why there is none.

    Attributes
    ----------
    source
        File, `example:NAME`, or the name of an instance that was given as such.
    solver
        The requested name.
    result
        None if the instance could not be read or the solver could not be run at all; a solve that
        crashed or was killed has a result that says so.
    fault
        Why there is no result.
    code
        The exit code of the outcome.
    seconds
        From start to end, with reading and checking.
    """

    source: str
    solver: str
    result: Result | None = None
    fault: str | None = None
    code: int = 0
    seconds: float = field(default=0.0, compare=False)

    def light(self) -> Record:
        """Return the record without plan, certificate and trace, since many records are kept."""
        if self.result is None:
            return self
        plan = None if self.result.plan is None else ()
        small = self.result.model_copy(update={"plan": plan, "certificate": None, "cuts": None, "trace": ()})
        return replace(self, result=small)

    @classmethod
    def of(cls, source: str, solver: str, result: Result, seconds: float) -> Record:
        """Return the record of a solve that has a result, with its exit code."""
        return cls(source, solver, result, None, code_of_result(result), seconds)


log = logging.getLogger("clusterplan")

WARM_UP_S = 2.0


@dataclass(frozen=True)
class Task:
    """One unit of work for a worker process: an instance, and the solver to run on it.

    Attributes
    ----------
    label
        Name of the source in records.
    source
        A file, `example:NAME`, or the instance itself.
    solver
        Its name; None: only read the instance.
    kill_after_s
        Seconds of solving after which the process is killed, however busy; None: never. Reading and
        warming up may take as long again.
    memory_gib
        Most memory that the worker may take; None: no limit.
    known_sha256
        Hash of an instance that is solved already; if it is still the same, nothing is done.
    alone
        Whether the process does nothing else, before or after: for solvers of other packages.
    warm_up
        Whether the process first solves something tiny with the solver, so that the result's seconds do
        not count the loading of libraries.
    allow_outside
        Whether files that the source names may lie outside its own folder.
    changes
        Fields of the source's document that are replaced.
    check
        A result as JSON, which is verified instead of solving: a solver of another package may have changed
        anything in the process that it ran in, the check of its plan too.
    """

    label: str
    source: str | Instance
    solver: str | None
    options: SolveOptions
    kill_after_s: float | None = None
    memory_gib: float | None = None
    known_sha256: str | None = None
    alone: bool = False
    warm_up: bool = False
    allow_outside: bool = False
    changes: Mapping[str, Any] = field(default_factory=dict)
    check: str | None = None

    def read(self) -> Instance:
        """Return the instance, loaded from the source if that is a file.

        Raises
        ------
        InstanceError
            If it cannot be read.
        """
        if isinstance(self.source, Instance):
            return self.source
        return load(self.source, self.allow_outside, self.changes)


Ended = tuple[Task, Answer, float]
"""A task that has ended, its answer, and its wall-clock seconds."""
Pair = tuple[str, str]
"""A source, by its label, and a solver."""


class Engine(Protocol):
    """Interface of the engines that run tasks (solves) in other processes."""

    def run(self, tasks: deque[Task]) -> Iterator[Ended]:
        """Run all tasks of the queue; yield each with its answer and wall-clock seconds as it ends.

        More tasks may be added while it runs.
        """

    def close(self) -> None:
        """Stop all running tasks."""


def execute(task: Task, report: Callable[[str, Head | None], None]) -> Answer:
    """Run a task in this process and return its answer; an exception becomes an answer with a fault.

    Parameters
    ----------
    report
        Called with `head` once the instance is read, and with `solving` when the solver's time begins.
    """
    head = None
    try:
        with limited_memory(task.memory_gib):
            instance = task.read()
            head = Head(instance.name, instance.kind, instance.sha256())
            report("head", head)
            if task.solver is None:
                return Answer(head)
            if head.sha256 == task.known_sha256:
                return Answer(head, unchanged=True)
            if task.check is not None:
                return _checked(head, instance, task.check)
            if task.warm_up:
                warm_up(task.solver, head.kind)
            report("solving", None)
            return Answer(head, _as_json(solve(instance, task.solver, task.options)))
    except ClusterplanError as error:
        return Answer(head, fault=one_line(error), code=code_of_error(error))
    except MemoryError:
        most = "" if task.memory_gib is None else f": it needs more than {task.memory_gib:.3g} GiB"
        return Answer(head, ended=f"out of memory{most}", limit="memory", code=LIMIT_NO_PLAN)
    except BaseException as error:  # noqa: BLE001 - a plug-in may raise anything, even an exit
        fault = f"{task.solver or 'reading'} failed with {type(error).__name__}: {one_line(error)}"
        return Answer(head, fault=fault, code=FAILED)


def _checked(head: Head, instance: Instance, text: str) -> Answer:
    """Verify a result given as JSON; return it as the answer, or an answer with its first fault."""
    verification = verify(instance, Result.model_validate_json(text))
    if verification.ok:
        return Answer(head, text)
    return Answer(head, fault=f"its result fails verification: {verification.faults[0]}", code=FAILED)


def _as_json(result: Result) -> str:
    """Return a result as JSON that can be parsed again, with a long message shortened.

    Raises
    ------
    ValidationError
        If a solver put something into it that no result can hold.
    """
    if result.message and len(result.message) > MAX_TEXT:
        result = result.model_copy(update={"message": result.message[:MAX_TEXT] + " …"})
    text = result.to_json()
    Result.model_validate_json(text)  # a plug-in's values may be written but not read again
    return text


def warm_up(solver: str, kind: ProblemKind) -> None:
    """Solve a tiny instance with a solver, so that its libraries are loaded."""
    try:
        solve(KINDS[kind].tiny(), solver, SolveOptions(time_limit_s=WARM_UP_S, threads=1))
    except Exception as error:  # noqa: BLE001 - whatever is wrong will show in the solve that is timed
        log.debug("%s: warming up failed with %s: %s", solver, type(error).__name__, one_line(error))


def record_of(task: Task, answer: Answer, seconds: float) -> Record:
    """Convert an answer to a record; a crash after reading the instance becomes a result."""
    solver = task.solver or ""
    if answer.result is not None:
        return Record.of(task.label, solver, Result.model_validate_json(answer.result), seconds)
    reason = answer.ended or " ".join((answer.fault or "").split())
    if answer.head is None:
        return Record(task.label, solver, None, reason, answer.code or FAILED, seconds)
    return Record(
        task.label, solver, _failure(answer.head, task, answer, seconds), reason, answer.code, seconds
    )


def _failure(head: Head, task: Task, answer: Answer, seconds: float) -> Result:
    """Return a result without a plan for a solve that crashed, raised an error or hit a hard limit."""
    status: Status = "error" if answer.limit == "none" else "unknown"
    return Result(
        instance=head.instance,
        kind=head.kind,
        instance_sha256=head.sha256,
        solver=task.solver or "",
        status=status,
        limit=answer.limit,
        runtime_s=seconds,
        seed=task.options.seed,
        options=task.options.recorded,
        versions=library_versions(),
        message=answer.ended or answer.fault,
    )


def fill_caches() -> None:
    """Fill the caches that every task reads, so that forked workers share them."""
    builtin_solvers()
    plugin_entry_points()
    library_versions()
