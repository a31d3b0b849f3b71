"""Many solves: in worker processes with hard limits, remembered in a journal, continued after any stop."""

from __future__ import annotations

import logging
import math
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ...instances.common.base import Instance
from ...instances.common.errors import OptionError
from ...instances.files.reading import is_stream
from ...solvers.common.options import SolveOptions
from ...solvers.registry import all_solvers, guess, own_solvers
from .answer import Answer
from .journal import Journal
from .limits import available_cores, default_memory_gib
from .record import Record
from .task import Engine, Task, record_of

log = logging.getLogger("clusterplan")

PATIENCE = 2.0
GRACE_S = 10.0
"""A solver is killed after so many times its time limit and so many seconds more."""


@dataclass(frozen=True)
class BatchOptions:
    """How a batch is run.

    Attributes
    ----------
    jobs
        How many solves at a time. By default one on this machine, and as many as a Dask cluster has threads.
    output
        Folder of the journal; None: nothing is written.
    resume
        Continue the journal that is there: what has a plan, a proof that there is none, or met a limit is
        kept; errors are tried again.
    kill_after_s
        Seconds after which a solve is killed. By default twice the time limit and 10; 0 for never.
    memory_limit_gib
        Most memory of each worker process. By default an equal share of 80 % of the machine's.
    scheduler
        Address of a Dask scheduler, whose workers do the work; None: processes on this machine.
    allow_outside
        Whether files that an instance names may lie outside its own folder.
    changes
        Fields of the documents of all instances that are replaced.
    """

    jobs: int | None = None
    output: Path | None = None
    resume: bool = False
    kill_after_s: float | None = None
    memory_limit_gib: float | None = None
    scheduler: str | None = None
    allow_outside: bool = False
    changes: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.output is not None:
            object.__setattr__(self, "output", Path(self.output))
        if self.jobs is not None and self.jobs < 1:
            raise OptionError(f"jobs is {self.jobs}; it must be at least 1")
        if self.resume and self.output is None:
            raise OptionError("resuming needs the folder of the batch to continue: give --output DIR")
        for name, least in (("kill_after_s", 0.0), ("memory_limit_gib", 1e-3)):
            value = getattr(self, name)
            if value is not None and not least <= value < math.inf:
                raise OptionError(f"{name} is {value:g}; it must be a number from {least:g} on")

    def kill_after(self, time_limit_s: float | None) -> float | None:
        """Return the hard time limit that goes with a time limit."""
        if self.kill_after_s is not None:
            return self.kill_after_s or None  # 0 is for never
        return None if time_limit_s is None else PATIENCE * time_limit_s + GRACE_S

    def memory_of_each(self) -> float | None:
        """Return the memory of each worker process in GiB; None for no limit."""
        if self.memory_limit_gib is not None or self.scheduler is not None:
            return self.memory_limit_gib
        return default_memory_gib(self.jobs or 1)

    def with_threads(self, options: SolveOptions) -> SolveOptions:
        """Return options whose threads, where none are given, share the cores; warn if they cannot."""
        # The cores of a cluster's workers are not known here.
        if self.scheduler is not None:
            return options if options.threads else options.model_copy(update={"threads": 1})
        cores, jobs = available_cores(), self.jobs or 1
        if options.threads is None:
            return options if jobs == 1 else options.model_copy(update={"threads": max(1, cores // jobs)})
        if jobs * options.threads > cores:
            log.warning(
                "%d solves at a time with %d threads each are more than the %d cores here; they will wait "
                "for each other",
                jobs,
                options.threads,
                cores,
            )
        return options


Source = str | Path | Instance


def solve_many(
    sources: Sequence[Source],
    solver: str = "auto",
    options: SolveOptions | None = None,
    batch: BatchOptions | None = None,
) -> Iterator[Record]:
    """Solve many instances, and yield the record of each as it ends.

    Solves run in processes with hard limits: one that crashes, eats memory or does not stop is a record
    that says so, and the others go on. A process is used again only for this package's own solvers, and
    only after an answer. With `batch.output` each record is in the journal before it is yielded.

    Parameters
    ----------
    sources
        Files, ``example:NAME``, or instances; one that stands twice is solved once.

    Raises
    ------
    OptionError
        If the batch cannot be run as asked, or the solver exists for no kind of instance.
    """
    named = labelled(sources)
    check_solvers([solver])
    yield from run(
        named, [(label, solver) for label in named], options or SolveOptions(), batch or BatchOptions()
    )


def labelled(sources: Sequence[Source]) -> dict[str, str | Instance]:
    """Return the sources by label: the file, or the instance's name; with a number where two are alike."""
    named: dict[str, str | Instance] = {}
    for source in sources:
        given: str | Instance = source if isinstance(source, Instance) else str(source)
        if isinstance(given, str) and is_stream(Path(given)):
            raise OptionError(f"{given}: other processes cannot read standard input or a pipe; give a file")
        # A file name may hold bytes that are no text, which no report could be written with.
        plain = (given if isinstance(given, str) else given.name).encode("utf-8", "backslashreplace").decode()
        label, number = plain, 1
        while label in named and named[label] != given:
            number += 1
            label = f"{plain} #{number}"
        named[label] = given
    return named


def check_solvers(names: Sequence[str]) -> None:
    """Refuse names that no kind of instance has a solver of.

    Raises
    ------
    OptionError
        Naming what there is.
    """
    known = [solver.name for solver in all_solvers()] + ["milp"]
    for name in names:
        if name not in known:
            there = ", ".join(dict.fromkeys(known))
            raise OptionError(f"no solver {name!r}; {guess(name, known)}there are: {there}")


def run(
    sources: Mapping[str, str | Instance],
    pairs: Sequence[tuple[str, str]],
    options: SolveOptions,
    batch: BatchOptions,
    on_start: Callable[[int, int], None] | None = None,
    engine: Engine | None = None,
    apart: bool = False,
) -> Iterator[Record]:
    """Solve pairs of source and solver, and yield a record of each as it ends; see `solve_many`.

    Parameters
    ----------
    sources
        What the labels in `pairs` stand for.
    on_start
        Called with the number of pairs that are finished already, and of all.
    engine
        Where to do it, if there is one already; it is left open.
    apart
        Whether every solve has a process that does nothing else, warmed up, so that seconds can be compared.
        Solves of plug-ins have such a process anyway.
    """
    options = batch.with_threads(options)
    with ExitStack() as stack:
        journal = None
        if batch.output is not None:
            journal = stack.enter_context(closing(Journal(batch.output, _asked(options), batch.resume)))
        known = {pair: at.instance_sha256 for pair, at in journal.finished.items()} if journal else {}
        if on_start is not None:
            on_start(sum(pair in known for pair in pairs), len(pairs))
        if engine is None:
            engine = stack.enter_context(closing(make_engine(batch)))
        tasks = deque(
            task_of(label, sources[label], solver, options, batch, known.get((label, solver)), apart)
            for label, solver in pairs
        )
        for task, answer, seconds in _with_checks(engine, tasks):
            if answer.unchanged:
                assert journal is not None
                yield journal.read((task.label, task.solver or ""))
                continue
            record = record_of(task, answer, seconds)
            if journal is not None:
                journal.append(record, answer.result)
            yield record


def _with_checks(engine: Engine, tasks: deque[Task]) -> Iterator[tuple[Task, Answer, float]]:
    """Do tasks, and verify results of plug-ins in another process than the one that ran the plug-in."""
    solving_s: dict[tuple[str, str | None], float] = {}
    for task, answer, seconds in engine.run(tasks):
        pair = task.label, task.solver
        if answer.result is not None and pair not in solving_s and _is_foreign(pair[1]):
            solving_s[pair] = seconds
            # The plug-in may have changed the very code that would check its plan.
            tasks.append(replace(task, check=answer.result, alone=False, warm_up=False))
        else:
            yield task, answer, seconds + solving_s.get(pair, 0.0)


def _is_foreign(solver: str | None) -> bool:
    return solver not in {None, "milp", *(own.name for own in own_solvers())}


def make_engine(batch: BatchOptions) -> Engine:
    """Return where the tasks of a batch are to be done."""
    if batch.scheduler is not None:
        from .dask import DaskEngine

        return DaskEngine(batch.scheduler, batch.jobs)
    from .local import LocalEngine

    return LocalEngine(batch.jobs or 1)


def _asked(options: SolveOptions) -> dict[str, Any]:
    """Return the options that have to agree for a journal to be continued; threads and memory may differ."""
    return options.model_dump(mode="json", exclude={"threads", "memory_limit_gib"})


def task_of(
    label: str,
    source: str | Instance,
    solver: str | None,
    options: SolveOptions,
    batch: BatchOptions,
    known_sha256: str | None = None,
    apart: bool = False,
) -> Task:
    """Return a task with the limits of its batch; see `Task`, and `apart` of `run`."""
    return Task(
        label,
        source,
        solver,
        options,
        kill_after_s=batch.kill_after(options.time_limit_s),
        memory_gib=batch.memory_of_each(),
        known_sha256=known_sha256,
        alone=apart or _is_foreign(solver),
        warm_up=apart,
        allow_outside=batch.allow_outside,
        changes=batch.changes,
    )
