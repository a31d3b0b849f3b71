"""Batches of solves in worker processes with hard limits, which a journal lets continue after any stop.

The journal has one line of JSON for each finished solve. An incomplete last line is dropped when the journal
is opened again, and a line whose checksum does not match is ignored. The first line holds the options of the
batch, so that no other batch continues its journal.
"""

from __future__ import annotations

import json
import logging
import math
import os
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any, NamedTuple

from ...instances.common.base import Instance
from ...instances.common.errors import OptionError
from ...instances.common.faults import suggestion_text
from ...instances.common.fields import Fields
from ...instances.files.reading import fail, is_stream
from ...solvers.common.result import SolveOptions
from ...solvers.registry import all_solvers, builtin_solvers
from ..exit_codes import SEVERITY
from ..stored_results import Line, journal_line_error, journal_lines, parse_result, sealed
from .engines import DaskEngine, LocalEngine
from .task import Ended, Engine, Pair, Record, Task, record_of
from .worker_process import available_cores, default_memory_gib

log = logging.getLogger("clusterplan")

NAME = "journal.jsonl"
VERSION = 2
"""Version of the journal's format; version 1 had no checksums."""


class _JournalEntry(NamedTuple):
    """Byte offset of a finished solve's line in a journal, and the hash of its instance."""

    offset: int
    instance_sha256: str


class Journal:
    """The journal file of a batch of solves, open for appending and locked against other processes.

    Parameters
    ----------
    folder
        Its folder; created if missing.
    asked
        Options of the batch as plain data.
    resume
        Whether to continue an existing journal.

    Attributes
    ----------
    finished
        Finished solves of earlier runs, by source and solver, without errors and altered lines.

    Raises
    ------
    OptionError
        If there is a journal and it is not to be continued, or it is of another batch, or another process
        writes it, or the folder cannot be written.
    InstanceError
        If it does not begin as a journal does, or its first line was altered.
    """

    def __init__(self, folder: Path, asked: Fields, resume: bool) -> None:
        self.path = folder / NAME
        self.finished: dict[Pair, _JournalEntry] = {}
        if folder.exists() and not folder.is_dir():
            raise OptionError(f"{folder}: is a file; a batch writes a folder, so give another --output")
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._file: IO[bytes] = self.path.open("a+b", buffering=0)
        except OSError as error:
            raise self._fault(error) from None
        try:
            self._lock()
            self._continue(asked, resume)
        except BaseException:
            self._file.close()
            raise

    def _fault(self, error: OSError) -> OptionError:
        return OptionError(f"{self.path}: cannot be written: {error.strerror or error}")

    def _lock(self) -> None:
        try:
            import fcntl
        except ImportError:
            return  # where there are no such locks, the user must take care
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            what = "another batch is writing it; wait, or give another --output"
            raise OptionError(f"{self.path}: {what}") from None

    def _continue(self, asked: Fields, resume: bool) -> None:
        """Read an earlier journal, truncate an incomplete last line, and check that options agree."""
        before, end = None, 0
        altered: list[Line] = []
        with self.path.open("rb") as file:
            for line in journal_lines(file):
                end = line.offset + len(line.text)
                if line.number == 1:
                    before = _head(line, self.path)
                elif line.intact:
                    self._take(line)
                else:
                    altered.append(line)
        if before is not None and not resume:
            what = f"there is a journal of {len(self.finished)} finished solves"
            raise OptionError(f"{self.path}: {what}; continue it with --resume, or give another --output")
        self._file.truncate(end)  # a line without its end was being written when the batch stopped
        if before is None:
            self._write(json.dumps({"journal": VERSION, "asked": asked}))
        elif what := _difference(before.get("asked"), asked):
            raise OptionError(f"{self.path}: is of another batch: {what}")
        # An altered line needs no word if a later intact one has the same pair.
        for line in altered:
            if line.data is None or line.pair not in self.finished:
                what = "was altered since it was written: its checksum does not match. It does not count"
                log.warning("%s: %s %s; what is missing is solved again", self.path, line.shown(), what)

    def _take(self, line: Line) -> None:
        """Register the line of a finished solve; it replaces an earlier one, and an error removes it."""
        if line.data is None or "journal" in line.data:
            raise journal_line_error(f"{self.path}: line {line.number}")
        result = line.data.get("result")
        if isinstance(result, dict) and result.get("status") != "error":
            self.finished[line.pair] = _JournalEntry(line.offset, str(result.get("instance_sha256")))
        else:
            self.finished.pop(line.pair, None)

    def read(self, pair: Pair) -> Record:
        """Return the record of a solve, given as (source, solver), that an earlier run finished."""
        with self.path.open("rb") as file:
            file.seek(self.finished[pair].offset)
            line = next(journal_lines(file), None)
        if line is None or not line.intact:
            raise fail(str(self.path), f"the line of {pair[0]} was altered while the batch ran")
        return _record(line, self.path)

    def append(self, record: Record, result: str | None) -> None:
        """Append the record of a solve to the journal, and flush it to the disk.

        Parameters
        ----------
        result
            The record's result as JSON, if it is available.
        """
        head: Fields = {"source": record.source, "solver": record.solver, "seconds": record.seconds}
        if record.result is None:
            self._write(json.dumps(head | {"fault": record.fault, "code": record.code}))
        else:
            self._write(f'{json.dumps(head)[:-1]}, "result": {result or record.result.to_json()}}}')

    def _write(self, line: str) -> None:
        left = memoryview(sealed(line))
        try:
            while left:  # an unbuffered write may take only a part
                left = left[self._file.write(left) :]
            os.fsync(self._file.fileno())
        except OSError as error:
            raise self._fault(error) from None

    def close(self) -> None:
        """Close the journal and release its lock."""
        self._file.close()


def read_journal(folder: Path | None) -> Iterator[Record]:
    """Yield the records in the intact lines of a folder's journal, in the order written.

    The last record of a pair of source and solver counts.

    Raises
    ------
    InstanceError
        If the file is not a journal.
    """
    if folder is None or not (folder / NAME).exists():
        return
    path = folder / NAME
    with path.open("rb") as file:
        for line in journal_lines(file):
            if line.number > 1 and line.intact:
                yield _record(line, path)


def _head(line: Line, path: Path) -> Fields:
    """Return the first line of a journal as data: its version, and the options requested.

    Raises
    ------
    InstanceError
        If the line is not of a journal, or was altered.
    """
    if line.data is None or "journal" not in line.data:
        raise journal_line_error(f"{path}: line 1")
    if not line.intact:
        what = "was altered since it was written, or by an older version: its checksum does not match"
        raise fail(f"{path}: line 1", f"{what}, so what was asked is uncertain; give another --output")
    return line.data


def _record(line: Line, path: Path) -> Record:
    place, data = f"{path}: line {line.number}", line.data or {}
    try:
        source, solver, seconds = str(data["source"]), str(data["solver"]), float(data["seconds"])
        if "result" in data:
            return Record.of(source, solver, parse_result(data["result"], place), seconds)
        code = data["code"]
        if code not in SEVERITY:
            raise ValueError(f"there is no exit code {code!r}")
        return Record(source, solver, None, str(data["fault"]), code, seconds)
    except (KeyError, TypeError, ValueError) as error:
        raise journal_line_error(place, str(error)) from None


def _difference(before: Any, asked: Fields) -> str:
    """Return a text on how the options of a journal differ from the requested ones; empty if they do not."""
    if not isinstance(before, dict):
        return "it does not say what was asked"
    parts = [
        f"{key} was {before.get(key)!r}, now {asked.get(key)!r}"
        for key in sorted(set(before) | set(asked))
        if before.get(key) != asked.get(key)
    ]
    return "; ".join([*parts, "ask for the same, or give another --output"]) if parts else ""


KILL_FACTOR = 2.0
GRACE_S = 10.0
"""A solver is killed after its time limit times `PATIENCE`, plus this many seconds."""


@dataclass(frozen=True)
class BatchOptions:
    """Options of a batch of solves.

    Attributes
    ----------
    jobs
        How many solves at a time. By default one on this machine, and as many as a Dask cluster has threads.
    output
        Folder of the journal; None: nothing is written.
    resume
        Continue an existing journal: plans, proofs of infeasibility and solves that met a limit are kept;
        errors are tried again.
    kill_after_s
        Seconds after which a solve is killed. By default twice the time limit and 10; 0 for never.
    memory_limit_gib
        Most memory of each worker process. By default an equal share of 80 % of the machine's.
    scheduler
        Address of a Dask scheduler, whose workers run the tasks; None: processes on this machine.
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
        """Return the seconds of solving after which a process is killed; None for never."""
        if self.kill_after_s is not None:
            return self.kill_after_s or None  # 0 is for never
        return None if time_limit_s is None else KILL_FACTOR * time_limit_s + GRACE_S

    def memory_of_each(self) -> float | None:
        """Return the memory limit of each worker process in GiB; None for no limit."""
        if self.memory_limit_gib is not None or self.scheduler is not None:
            return self.memory_limit_gib
        return default_memory_gib(self.jobs or 1)

    def with_threads(self, options: SolveOptions) -> SolveOptions:
        """Return options with the cores shared out as threads, if none are given; warn if too many are."""
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
Sources = Mapping[str, str | Instance]
"""Files and instances by their labels."""


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
        Files, ``example:NAME``, or instances; duplicates are solved once.

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
    """Return the sources by unique label: the file name or the instance's name, with a number if needed."""
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
    """Raise an error if a name is not that of a solver of any problem kind.

    Raises
    ------
    OptionError
        With the names of the solvers.
    """
    known = [solver.name for solver in all_solvers()] + ["milp"]
    for name in names:
        if name not in known:
            available = ", ".join(dict.fromkeys(known))
            raise OptionError(f"no solver {name!r}; {suggestion_text(name, known)}there are: {available}")


def run(
    sources: Sources,
    pairs: Sequence[Pair],
    options: SolveOptions,
    batch: BatchOptions,
    on_start: Callable[[int, int], None] | None = None,
    engine: Engine | None = None,
    apart: bool = False,
) -> Iterator[Record]:
    """Solve pairs of source and solver, and yield the record of each as it ends; see `solve_many`.

    Parameters
    ----------
    sources
        The sources of the labels in `pairs`.
    on_start
        Called with the number of pairs that are already finished, and of all pairs.
    engine
        An existing engine, which is left open; by default a new one.
    apart
        Whether every solve has a process that does nothing else, warmed up, so that seconds can be compared.
        Solves of plug-ins have such a process anyway.
    """
    options = batch.with_threads(options)
    with ExitStack() as stack:
        journal = None
        if batch.output is not None:
            # A batch may be resumed with other threads and another limit of memory.
            asked = options.recorded.model_dump(mode="json", exclude={"threads", "memory_limit_gib"})
            journal = stack.enter_context(closing(Journal(batch.output, asked, batch.resume)))
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


def _with_checks(engine: Engine, tasks: deque[Task]) -> Iterator[Ended]:
    """Run tasks, and verify the results of plug-ins in another process; yield (task, answer, seconds)."""
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
    return solver not in {None, "milp", *(own.name for own in builtin_solvers())}


def make_engine(batch: BatchOptions) -> Engine:
    """Return the engine that runs a batch's tasks: Dask or local processes."""
    if batch.scheduler is not None:
        return DaskEngine(batch.scheduler, batch.jobs)
    return LocalEngine(batch.jobs or 1)


def task_of(
    label: str,
    source: str | Instance,
    solver: str | None,
    options: SolveOptions,
    batch: BatchOptions,
    known_sha256: str | None = None,
    apart: bool = False,
) -> Task:
    """Return the task to solve a source (or only to read it), with the limits of its batch.

    `apart` is as for `run`.
    """
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
