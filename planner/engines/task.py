"""One unit of work: read an instance, solve it with one solver, and answer in plain data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

from ...instances.base import Instance, Kind
from ...instances.document import load
from ...instances.errors import ClusterplanError
from ...solvers.options import SolveOptions
from ...solvers.result import Limit, Result, Status
from ...solvers.run import library_versions
from ..api import solve
from ..exit_codes import FAILED, code_of_error
from .guard import limited_memory


class Head(NamedTuple):
    """What is known of an instance once it is read."""

    instance: str
    kind: Kind
    sha256: str


@dataclass(frozen=True)
class Task:
    """What a worker is asked to do.

    Attributes
    ----------
    source
        A file, `example:NAME`, or the instance itself.
    solver
        Its name; None: only read the instance.
    options
        Of the solve.
    kill_after_s
        Seconds after which the worker is killed, however busy; None: never.
    memory_gib
        Most memory that the worker may take; None: no limit.
    known_sha256
        Hash of an instance that is solved already; if it is still the same, nothing is done.
    """

    source: str | Instance
    solver: str | None
    options: SolveOptions = SolveOptions()
    kill_after_s: float | None = None
    memory_gib: float | None = None
    known_sha256: str | None = None

    @property
    def label(self) -> str:
        """What to call the source."""
        return self.source if isinstance(self.source, str) else self.source.name


@dataclass(frozen=True)
class Answer:
    """What comes back of a task, whether or not its worker survived it.

    Attributes
    ----------
    head
        Of the instance, as far as it was read.
    result
        The result as JSON; a string, because a journal takes it as it is.
    fault, code
        Why there is no result, in words and as an exit code.
    unchanged
        The instance is the one that is solved already.
    ended
        How the worker ended that was killed or died, in words; None if it lives.
    limit
        The hard limit that it was killed for.
    """

    head: Head | None = None
    result: str | None = None
    fault: str | None = None
    code: int = 0
    unchanged: bool = False
    ended: str | None = None
    limit: Limit = "none"


class Engine(Protocol):
    """Where tasks are done."""

    def run(self, tasks: list[Task]) -> Answers:
        """Do tasks, and yield each with its answer and its seconds as it ends."""

    def close(self) -> None:
        """Stop at once, whatever is running."""


class Answers(Protocol):
    """Tasks with their answers, in the order in which they end."""

    def __iter__(self) -> Answers: ...

    def __next__(self) -> tuple[Task, Answer, float]: ...


def execute(task: Task) -> Answer:
    """Do a task in this process; every failure that Python can catch becomes an answer."""
    head = None
    try:
        with limited_memory(task.memory_gib):
            instance = load(task.source) if isinstance(task.source, str) else task.source
            head = Head(instance.name, instance.kind, instance.sha256())
            if task.solver is None or head.sha256 == task.known_sha256:
                return Answer(head, unchanged=task.solver is not None)
            return Answer(head, solve(instance, task.solver, task.options).to_json())
    except ClusterplanError as error:
        return Answer(head, fault=str(error), code=code_of_error(error))
    except MemoryError:
        return Answer(head, ended=f"out of memory{_of(task.memory_gib)}", limit="memory", code=FAILED)
    except Exception as error:  # noqa: BLE001 - a plug-in may raise anything, and the others must go on
        fault = f"{task.solver or 'reading'} failed with {type(error).__name__}: {error}"
        return Answer(head, fault=fault, code=FAILED)


def _of(memory_gib: float | None) -> str:
    return "" if memory_gib is None else f": more than {memory_gib:.3g} GiB"


def failure(head: Head, task: Task, answer: Answer, seconds: float) -> Result:
    """Return the result that stands for a solve that gave none."""
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
        options=task.options,
        versions=library_versions(),
        message=answer.ended or answer.fault,
    )
