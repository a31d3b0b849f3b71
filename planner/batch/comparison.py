"""Comparison of solvers on the same instances: each plan against the best bound and the best plan.

Every solver runs on every instance, each time in a worker process with hard limits. For an instance, the
*best plan* is the first in the lexicographic order of the objectives, and the *best bound* on an
objective the tightest that any solver proved. A plan is judged at the first objective at which it misses:
against the best plan where it first differs from it, against the best bounds where it first does not
reach them. Both gaps are |objective − reference| / |objective|, as everywhere. Measures of plans are
taken as their solves end, since plans are too large to be kept.
"""

from __future__ import annotations

import math
from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any

from ...formulations.common.objective import Objective, agree
from ...formulations.registry import formulate
from ...instances.common.base import Instance, card, percent
from ...instances.common.errors import ClusterplanError, OptionError
from ...instances.common.fields import Model
from ...instances.documents import load
from ...solvers.common.conclude import CONTRADICTION_TOLERANCE, excess, library_versions
from ...solvers.common.result import ObjectiveRecord, Result, SolveOptions
from ...solvers.registry import solvers_for
from ..output import grouped
from ..registry import KINDS
from .comparison_rows import ComparisonRow, Measures, Profile, SolverSummary, performance_profile, summarise
from .solve_many import (
    BatchOptions,
    Source,
    Sources,
    check_solvers,
    labelled,
    make_engine,
    read_journal,
    run,
    task_of,
)
from .task import Engine, Pair, Record
from .worker_process import Head

if TYPE_CHECKING:
    import pandas as pd


class Comparison(Model):
    """Every solver on every instance; JSON and back without loss.

    Attributes
    ----------
    rows
        By instance, then by solver, in the order in which they were given.
    unread
        What could not be read, each in a sentence.
    left_out
        Pairs that were left out or could not be solved at all, each in a sentence.
    interrupted
        Whether some pairs are missing because somebody stopped it.
    advice
        Which solver to use, a text for each instance of which its kind can say that.
    """

    rows: tuple[ComparisonRow, ...] = ()
    unread: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    interrupted: bool = False
    advice: tuple[str, ...] = ()
    options: SolveOptions = SolveOptions()
    versions: dict[str, str] = {}

    @property
    def faults(self) -> tuple[str, ...]:
        """The messages on unreadable instances, and on pairs of instance and solver without a row."""
        return (*self.unread, *self.left_out)

    @property
    def instances(self) -> tuple[str, ...]:
        """The names of the instances, in order."""
        return tuple(dict.fromkeys(row.instance for row in self.rows))

    @property
    def solvers(self) -> tuple[str, ...]:
        """The names of the solvers, in order."""
        return tuple(dict.fromkeys(row.solver for row in self.rows))

    def by_objective(self) -> dict[str, tuple[ComparisonRow, ...]]:
        """Return the rows grouped by the objective of their instance, titled `name [unit]`."""
        of = {row.instance: row.objective_title for row in reversed(self.rows) if row.objective_title}
        groups = grouped((of.get(row.instance, "no objective"), row) for row in self.rows)
        return {title: tuple(rows) for title, rows in groups.items()}

    def to_json(self) -> str:
        """Return the comparison as one line of JSON."""
        return self.model_dump_json()

    def _repr_html_(self) -> str:
        """Return the HTML summary shown in notebooks."""
        rows = [
            (
                summary.solver,
                f"{summary.optimal - summary.only_claimed} of {summary.instances}",
                str(summary.wins),
                percent(summary.mean_gap_to_best_bound),
                f"{summary.mean_runtime_s:.3g}",
            )
            for summary in self.summary()
        ]
        title = f"{len(self.solvers)} solvers on {len(self.instances)} instances"
        titles = ("solver", "proven optimal", "best plan", "mean gap to best bound", "mean seconds")
        return card(title, self.faults[:3], titles, rows)

    def to_frame(self) -> pd.DataFrame:
        """Return a data frame with one row for each solver on each instance."""
        import pandas as pd

        titles, rows = self.as_table()
        return pd.DataFrame(rows, columns=titles)

    def as_table(self) -> tuple[list[str], list[list[Any]]]:
        """Return titles and rows of a table: the fields of each row, then the measures of its plan."""
        fields = [name for name in ComparisonRow.model_fields if name != "measures"]
        of_plans = [
            {one.name: one for one in row.measures.figures} if row.measures else {} for row in self.rows
        ]
        figures = {name: one for own in of_plans for name, one in own.items()}
        titles = [f"{name} [s]" if one.unit == "s" else name for name, one in figures.items()]
        rows = [
            [getattr(row, name) for name in fields]
            + [own[name].value if name in own else None for name in figures]
            for row, own in zip(self.rows, of_plans, strict=True)
        ]
        return fields + titles, rows

    def summary(self) -> tuple[SolverSummary, ...]:
        """Return the aggregate results of each solver over all instances."""
        return summarise(self.rows, self.options.time_limit_s)

    def profile(self, within: float = 1e-3) -> Profile:
        """Return the performance profile of the solvers' runtimes (Dolan and Moré, 2002).

        Parameters
        ----------
        within
            A solver has done an instance if its plan is at most this much worse than the best known.
        """
        return performance_profile(self.rows, within)


def comparison_of(
    records: Sequence[Record],
    options: SolveOptions,
    measures: Mapping[Pair, Measures] | None = None,
    left_out: Sequence[str] = (),
    **more: Any,
) -> Comparison:
    """Build the comparison of solvers from records of solves; those without a result are left out.

    Parameters
    ----------
    measures
        Measures of plans, by source and solver.
    more
        Further fields.
    """
    by_instance: dict[str, list[Record]] = defaultdict(list)
    missing = list(left_out)
    for record in records:
        if record.result is None:
            missing.append(f"{record.source}: {record.solver}: {record.fault}")
        else:
            by_instance[record.result.instance_sha256].append(record)
    names = _names(by_instance)
    groups = [_rows(group, names[sha256], measures or {}) for sha256, group in by_instance.items()]
    return Comparison(
        rows=tuple(row for own in groups for row in own),
        left_out=tuple(missing),
        advice=_advice(groups),
        options=options,
        **more,
    )


def _advice(grouped: Sequence[Sequence[ComparisonRow]]) -> tuple[str, ...]:
    """Return the advice on which solver to use for each instance whose problem kind gives some."""
    texts = []
    for rows in grouped:
        if text := KINDS[rows[0].kind].advice(rows):
            texts.append(f"{rows[0].instance}: {text}" if len(grouped) > 1 else text)
    return tuple(texts)


def _names(by_instance: dict[str, list[Record]]) -> dict[str, str]:
    """Return the label of each instance by hash: its name, with its file if several share the name."""
    plain = {sha256: group[0].result.instance for sha256, group in by_instance.items() if group[0].result}
    # By hash and not by name: two files may hold different instances of one name.
    often = [name for name in set(plain.values()) if list(plain.values()).count(name) > 1]
    return {
        sha256: f"{name} ({by_instance[sha256][0].source})" if name in often else name
        for sha256, name in plain.items()
    }


def _objective(record: ObjectiveRecord) -> Objective:
    return Objective(record.name, record.sense, record.unit)


def _precedes(a: Sequence[ObjectiveRecord], b: Sequence[ObjectiveRecord]) -> bool:
    """Return whether plan `a` is strictly better than `b` in the lexicographic order of objectives."""
    for x, y in zip(a, b, strict=True):
        assert x.value is not None
        assert y.value is not None
        if not agree(x.value, y.value):
            return _objective(x).better(x.value, y.value)
    return False


def _rows(group: Sequence[Record], name: str, measures: Mapping[Pair, Measures]) -> list[ComparisonRow]:
    """Return the comparison rows of one instance, one for each solver that has a result."""
    results = [record.result for record in group if record.result is not None]
    plans = [result.objectives for result in results if result.plan is not None]
    best = plans[0] if plans else ()
    for objectives in plans:
        if _precedes(objectives, best):
            best = objectives
    # A wrong bound would make every other solver look bad, so it does not count as the best.
    refuted = {id(result): _refuted(result, best) for result in results}
    bounds = _best_bounds([result for result in results if refuted[id(result)] is None], best)
    shown = _first_difference(plans)
    return [
        _row(record.source, result, name, best, bounds, refuted[id(result)], shown).model_copy(
            update={"measures": measures.get((record.source, record.solver))}
        )
        for record, result in zip(group, results, strict=True)
    ]


def _first_difference(plans: Sequence[Sequence[ObjectiveRecord]]) -> int:
    """Return the index of the first objective whose values differ, else of the last; 0 without plans."""
    for index, values in enumerate(zip(*plans, strict=True)):
        known = [record.value for record in values if record.value is not None]
        if len(known) < len(plans) or not all(agree(value, known[0]) for value in known):
            return index
    return max(len(plans[0]) - 1, 0) if plans else 0


def _refuted(result: Result, best: Sequence[ObjectiveRecord]) -> str | None:
    """Return a message if another solver's plan refutes this result's bound or infeasibility, else None."""
    if result.status == "infeasible" and best:
        return "says that no plan exists, but another solver found one"
    for own, other in zip(result.objectives, best, strict=False):
        if own.bound is None or other.value is None:
            return None
        if excess(_objective(own), other.value, own.bound) > CONTRADICTION_TOLERANCE:
            return f"its bound of {own.bound:.10g} is wrong: another solver found {other.value:.10g}"
        # A bound on what follows holds for plans that are no worse than its own on what came before.
        worse = own.value is not None and _objective(own).better(own.value, other.value)
        if not own.proven or worse:
            return None
    return None


def _best_bounds(results: Sequence[Result], best: Sequence[ObjectiveRecord]) -> list[float | None]:
    """Return the tightest bound on each objective over all results; None where none is known.

    A bound on a later objective was proven for plans that are no worse on the earlier ones than the plan it
    came with. So it counts if that one is as good there as the best plan, and is compared only with plans
    that reach the best bounds on all earlier objectives.
    """
    most = max((len(result.objectives) for result in results), default=0)
    bounds: list[float | None] = [None] * most
    for result in results:
        for index, record in enumerate(result.objectives):
            bounds[index] = _objective(record).tighter(bounds[index], record.bound)
            known = best[index].value if index < len(best) else None
            if record.value is None or known is None or not agree(record.value, known):
                break  # its bounds on later objectives hold for worse plans only
    return bounds


def _row(
    source: str,
    result: Result,
    name: str,
    best: Sequence[ObjectiveRecord],
    bounds: Sequence[float | None],
    wrong: str | None,
    shown: int,
) -> ComparisonRow:
    figures: dict[str, Any] = {}
    if result.objectives:
        record = result.objectives[shown]
        figures = {"objective_name": record.name, "unit": record.unit, "objective": record.value}
        figures |= {} if wrong else {"bound": record.bound, "gap": record.gap}
    has_plan = result.plan is not None
    own = result.objectives if has_plan else ()
    to_plan = _gap(own, [record.value for record in best], 0.0) if has_plan else None
    return ComparisonRow(
        instance=name,
        file=source,
        kind=result.kind,
        solver=result.solver,
        status="error" if wrong else result.status,
        limit=result.limit,
        **figures,
        gap_to_best_bound=_gap(own, bounds, result.options.gap) if has_plan else None,
        gap_to_best_plan=to_plan,
        best=has_plan and wrong is None and to_plan is not None and to_plan <= result.options.gap,
        runtime_s=result.runtime_s,
        message=wrong or result.message,
        only_claimed=result.only_claimed and not wrong,
    )


def _gap(own: Sequence[ObjectiveRecord], reference: Sequence[float | None], close: float) -> float | None:
    """Return the relative gap to the reference at the first objective where it exceeds `close`.

    Infinite gaps, where the plan's own value is 0, are unknown.
    """
    gap: float | None = None
    for record, known in zip(own, reference, strict=True):
        if record.value is None:
            return None
        if known is not None and not _objective(record).better(known, record.value):
            gap = 0.0  # as good as the reference: the next objective decides
            continue
        gap = _objective(record).gap(record.value, known)
        if gap is None or math.isinf(gap) or gap > close:
            return gap
    return gap


class Measurer:
    """Computes measures of plans, such as percentiles, for the problem kinds that define some.

    Parameters
    ----------
    named
        The sources by their labels.
    allow_outside
        Whether files that a source names may lie outside its own folder.

    Attributes
    ----------
    taken
        The measures of plans by source and solver.
    faults
        Messages on measures that could not be computed.
    """

    def __init__(self, named: Sources, allow_outside: bool) -> None:
        self._named, self._allow_outside = named, allow_outside
        self._read: tuple[str, Instance] | None = None
        self.taken: dict[Pair, Measures] = {}
        self.faults: list[str] = []

    def take(self, record: Record) -> None:
        """Compute and store the measures of a record's plan, if its problem kind defines any."""
        result = record.result
        if result is None or not result.plan:
            return
        measures = KINDS[result.kind].measures
        if measures is None:
            return
        try:
            instance = self._instance(record.source)
        except ClusterplanError as error:
            self._fault(record, f"could not be read again: {error}")
            return
        if instance.sha256() != result.instance_sha256:
            self._fault(record, "has changed since it was solved")
        elif formulate(instance).violations(result.plan):  # a journal may hold anything
            self._fault(record, f"the plan of {record.solver} breaks its constraints")
        else:
            self.taken[record.source, record.solver] = measures(instance, result.plan)

    def _instance(self, source: str) -> Instance:
        """Return the instance of a source's label; the last one is cached, as its solves follow."""
        given = self._named[source]
        if isinstance(given, Instance):
            return given
        if self._read is None or self._read[0] != source:
            self._read = source, load(given, self._allow_outside)
        return self._read[1]

    def _fault(self, record: Record, why: str) -> None:
        fault = f"{record.source}: {why}; its plans have no measures"
        if fault not in self.faults:
            self.faults.append(fault)


ALIASES = ("auto",)
"""Aliases of other solvers, which are compared only if they are named."""


def compare(
    instances: Sequence[Source],
    solvers: Sequence[str] | None = None,
    options: SolveOptions | None = None,
    batch: BatchOptions | None = None,
    *,
    on_start: Callable[[int, int], None] | None = None,
    on_record: Callable[[Record], None] | None = None,
) -> Comparison:
    """Solve every instance with every solver, and compare the plans with the best plan and bounds.

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
    pairs: list[Pair] = []
    unread: list[str] = []
    left_out: list[str] = []
    records: dict[Pair, Record] = {}
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
    return comparison_of(
        ordered,
        options,
        measurer.taken,
        left_out + measurer.faults,
        unread=tuple(unread),
        interrupted=interrupted,
        versions=library_versions(),
    )


def _left_in_journal(
    batch: BatchOptions, heads: Mapping[str, Head], missing: set[Pair], measurer: Measurer
) -> dict[Pair, Record]:
    """Return the records by (source, solver) in the journal that the interrupted run did not yield."""
    records = {}
    for record in read_journal(batch.output):
        pair, result = (record.source, record.solver), record.result
        if pair in missing and result and result.instance_sha256 == heads[record.source].sha256:
            measurer.take(record)
            records[pair] = record.light()
    return records


def _read_heads(
    engine: Engine,
    named: Sources,
    options: SolveOptions,
    batch: BatchOptions,
    unread: list[str],
    left_out: list[str],
) -> dict[str, Head]:
    """Return name, kind and hash of each readable, distinct source; append messages on the others."""
    tasks = deque(task_of(label, source, None, options, batch) for label, source in named.items())
    heads: dict[str, Head] = {}
    for task, answer, _ in engine.run(tasks):
        if answer.head is not None:
            heads[task.label] = answer.head
        else:
            reason = answer.fault or answer.ended or ""
            unread.append(reason if task.label in reason else f"{task.label}: {reason}")
    first: dict[str, str] = {}
    for label in [label for label in named if label in heads]:
        same = first.setdefault(heads[label].sha256, label)
        if same != label:
            left_out.append(f"{label}: is the instance of {same} again; left out")
    return {label: heads[label] for label in first.values()}


def _pairs(heads: Mapping[str, Head], solvers: Sequence[str] | None, left_out: list[str]) -> list[Pair]:
    """Return the pairs of source and solver to run; append messages on solvers of another kind."""
    pairs = []
    for label, head in heads.items():
        known = [solver.name for solver in solvers_for(head.kind)]
        if solvers is None:
            usable = [solver.name for solver in solvers_for(head.kind, available=True)]
            pairs += [(label, name) for name in usable if name not in ALIASES]
            continue
        for name in dict.fromkeys("milp:highs" if name == "milp" else name for name in solvers):
            if name in known:
                pairs.append((label, name))
            else:
                left_out.append(f"{label}: {name} is not for {head.kind}; left out")
    return pairs
