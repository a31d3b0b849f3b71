"""Every solver on every instance, each in a worker process with hard limits."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing

from ...instances.common.base import Instance
from ...instances.common.errors import OptionError
from ...solvers.common.conclude import library_versions
from ...solvers.common.options import SolveOptions
from ...solvers.registry import solvers_for
from ..batch.answer import Head
from ..batch.journal import read_journal
from ..batch.record import Record
from ..batch.solve_many import BatchOptions, Source, check_solvers, labelled, make_engine, run, task_of
from ..batch.task import Engine
from .comparison import Comparison, compared
from .measuring import Measurer

ANOTHER_NAME = ("auto",)
"""Solvers that do what another one does; they are compared only if they are asked for."""


def compare(
    instances: Sequence[Source],
    solvers: Sequence[str] | None = None,
    options: SolveOptions | None = None,
    batch: BatchOptions | None = None,
    *,
    on_start: Callable[[int, int], None] | None = None,
    on_record: Callable[[Record], None] | None = None,
) -> Comparison:
    """Solve every instance with every solver, and measure each against the best that all of them know.

    A solver that crashes, eats memory, does not stop or returns a wrong plan is a row that says so. An
    interrupt from the keyboard ends it early, with the rows that are finished.

    Parameters
    ----------
    instances
        Files, ``example:NAME``, or instances, of any kinds.
    solvers
        Names; one that is not for an instance's kind is left out there. By default all that can be used
        here, but `auto`, which is `exact` again.
    options
        Of every solve; the time limit should be one that suits the slowest.
    batch
        How many solves at a time, hard limits, journal, and where it all runs.
    on_start, on_record
        Called with the number of pairs that are finished already and of all, and with every record.

    Raises
    ------
    OptionError
        If a solver does not exist, or nothing is left to compare.
    """
    options, batch = options or SolveOptions(), batch or BatchOptions()
    named = labelled(instances)
    if solvers is not None:
        check_solvers(solvers)
    heads: dict[str, Head] = {}
    pairs: list[tuple[str, str]] = []
    unread: list[str] = []
    left_out: list[str] = []
    records: dict[tuple[str, str], Record] = {}
    measurer = Measurer(named, batch.allow_outside)
    interrupted = False
    with closing(make_engine(batch)) as engine:
        try:
            heads = _read_heads(engine, named, options, batch, unread, left_out)
            pairs = _pairs(heads, solvers, left_out)
            if not pairs:
                why = "; ".join([*unread, *left_out]) or "no instance is given"
                raise OptionError(f"there is nothing to compare: {why}")
            for record in run(named, pairs, options, batch, on_start, engine, apart=True):
                measurer.take(record)
                records[record.source, record.solver] = record.light()
                if on_record is not None:
                    on_record(record)
        except KeyboardInterrupt:
            interrupted = True
            records |= _left_in_journal(batch, heads, set(pairs) - set(records), measurer)
    ordered = [records[pair] for pair in pairs if pair in records]
    left_out += measurer.faults
    return compared(ordered, options, unread, left_out, interrupted, library_versions(), measurer.taken)


def _left_in_journal(
    batch: BatchOptions, heads: Mapping[str, Head], missing: set[tuple[str, str]], measurer: Measurer
) -> dict[tuple[str, str], Record]:
    """Return the journal's records of pairs that the interrupted run had not reached yet."""
    found = {}
    for record in read_journal(batch.output) if batch.output is not None else ():
        pair, result = (record.source, record.solver), record.result
        if pair in missing and result and result.instance_sha256 == heads[record.source].sha256:
            measurer.take(record)
            found[pair] = record.light()
    return found


def _read_heads(
    engine: Engine,
    named: Mapping[str, str | Instance],
    options: SolveOptions,
    batch: BatchOptions,
    unread: list[str],
    left_out: list[str],
) -> dict[str, Head]:
    """Return the head of each source; note those that cannot be read, or are the same instance again."""
    tasks = deque(task_of(label, source, None, options, batch) for label, source in named.items())
    heads: dict[str, Head] = {}
    for task, answer, _ in engine.run(tasks):
        if answer.head is not None:
            heads[task.label] = answer.head
        else:
            said = answer.fault or answer.ended or ""
            unread.append(said if task.label in said else f"{task.label}: {said}")
    first: dict[str, str] = {}
    for label in [label for label in named if label in heads]:
        same = first.setdefault(heads[label].sha256, label)
        if same != label:
            left_out.append(f"{label}: is the instance of {same} again; left out")
    return {label: heads[label] for label in first.values()}


def _pairs(
    heads: Mapping[str, Head], solvers: Sequence[str] | None, left_out: list[str]
) -> list[tuple[str, str]]:
    """Return the pairs of source and solver; note solvers that are not for the kind of an instance."""
    pairs = []
    for label, head in heads.items():
        known = [solver.name for solver in solvers_for(head.kind)]
        if solvers is None:
            usable = [solver.name for solver in solvers_for(head.kind, available=True)]
            pairs += [(label, name) for name in usable if name not in ANOTHER_NAME]
            continue
        for name in dict.fromkeys("milp:highs" if name == "milp" else name for name in solvers):
            if name in known:
                pairs.append((label, name))
            else:
                left_out.append(f"{label}: {name} is not for {head.kind}; left out")
    return pairs
