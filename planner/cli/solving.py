"""Implementation of `solve`: options merged, instances solved in turn or as a batch, results printed.

Settings come from the command line, a configuration file and the defaults, in that order. Results are
shown as tables for people and as lines of JSON or CSV for programs; a batch shows its progress, and ends
with tables and `summary.csv`.
"""

from __future__ import annotations

import signal
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer
from rich.table import Table

from ...instances.common.base import Instance
from ...instances.common.errors import ClusterplanError, InstanceError, OptionError
from ...instances.common.fields import Fields
from ...instances.documents import load
from ...instances.files.reading import parse_document, read_text
from ...solvers.common.result import ObjectiveRecord, Result, SolveOptions, parse_options
from ..api import solve
from ..batch.solve_many import NAME as JOURNAL
from ..batch.solve_many import BatchOptions, Sources, check_solvers, labelled, read_journal
from ..batch.solve_many import run as solve_each
from ..batch.task import Record
from ..exit_codes import INTERRUPTED, code_of_error, code_of_result, worst
from ..output import say, write_all, write_file
from ..registry import KINDS
from ..reports.result_page import plan_page
from ..reports.text import (
    MAX_ROWS,
    TextColumn,
    cells_of,
    console,
    csv_line,
    figure,
    first_rows,
    number_column,
    percent,
    plain_column,
    safe_cell,
    table,
    table_of,
    titled,
)
from ..stored_results import parse_result, read_results
from ..verification import differs
from .instances.output import Steps
from .options import Format, RunOptions, refuse_overwriting, write_text
from .progress import Progress, working

DEFAULT_TIME_LIMIT_S = 60.0


def _setting(text: str) -> tuple[str, Any]:
    """Split KEY=VALUE into key and value; numbers and truth values are parsed."""
    key, sign, value = text.partition("=")
    if not sign or not key:
        raise OptionError(f"--set {text!r}: write KEY=VALUE")
    try:
        parsed = parse_document(value, "--set", ".yaml")
    except InstanceError:
        parsed = value
    return key, parsed if isinstance(parsed, bool | int | float | str) else value


def merged_options(
    config: Path | None, given: Fields, settings: list[str]
) -> tuple[str | None, SolveOptions]:
    """Return solver and options: the configuration file's, overridden by those of the command line."""
    merged: Fields = {"time_limit_s": DEFAULT_TIME_LIMIT_S}
    solver = None
    if config is not None:
        try:
            data = parse_document(read_text(config), str(config), config.suffix.lower())
        except InstanceError as error:
            raise OptionError(str(error)) from None
        if not isinstance(data, dict) or not isinstance(data.get("solver", ""), str):
            raise OptionError(f"{config}: must be a mapping of options such as 'solver: auto'")
        solver = data.pop("solver", None)
        merged |= data
    merged |= {key: value for key, value in given.items() if value is not None}
    if merged["time_limit_s"] == 0:
        merged["time_limit_s"] = None
    options = parse_options(merged)
    method_options = {**options.method_options, **dict(map(_setting, settings))}
    return solver, options.model_copy(update={"method_options": method_options})


def search_options(
    run: RunOptions, settings: Sequence[str] = (), **more: Any
) -> tuple[str | None, SolveOptions]:
    """Return the requested solver (None if none is named), and the options of every solve."""
    given = {"time_limit_s": run.time_limit, "gap": run.gap, "threads": run.threads, "seed": run.seed}
    configured, options = merged_options(run.config, {**given, **more}, [*(run.settings or ()), *settings])
    return run.solver or configured, options


def batch_options(run: RunOptions) -> BatchOptions:
    """Return the options of a batch from those of the command line.

    Raises
    ------
    OptionError
        If options exclude each other.
    """
    if (run.engine == "dask") != (run.scheduler is not None):
        raise OptionError("--engine dask and --scheduler ADDRESS belong together; give both or neither")
    return BatchOptions(
        jobs=run.jobs,
        output=run.output,
        resume=run.resume,
        kill_after_s=run.kill_after,
        memory_limit_gib=run.memory_limit,
        scheduler=run.scheduler,
        allow_outside=run.allow_outside,
        changes=run.changes(),
    )


COLUMNS = (
    "instance",
    "kind",
    "solver",
    "status",
    "limit",
    "objective_name",
    "objective",
    "bound",
    "gap",
    "certified_bound",
    "certified_gap",
    "runtime_s",
    "objectives",
)


OBJECTIVES: list[TextColumn[ObjectiveRecord]] = [
    plain_column("objective", titled),
    number_column("value", "value"),
    number_column("bound", "bound"),
    number_column("gap", "gap", percent),
    number_column("certified bound", "certified_bound"),
]
NARROW = 130
"""Terminal width below which each result is a line and a small table instead of a row."""


def summary(results: Sequence[Result], width: int) -> list[Table | str]:
    """Return one wide text table of the results; on a narrow terminal, a line and a table for each."""
    if width < NARROW:
        return [part for result in results for part in _summary_in_parts(result)]
    columns = [
        ("instance", False),
        ("solver", False),
        ("status", False),
        *(column[:2] for column in OBJECTIVES),
        ("check", False),
        ("seconds", True),
    ]
    rows = []
    for result in results:
        head = [result.instance, result.solver, result.status_text]
        tail = [_check(result), f"{result.runtime_s:.2f}"]
        first, *others = cells_of(OBJECTIVES, result.objectives) or [["–"] * len(OBJECTIVES)]
        rows += [[*head, *first, *tail], *([*[""] * 3, *figures, *[""] * 2] for figures in others)]
    return [table(columns, rows)]


def _check(result: Result) -> str:
    """Return `verified` if plan and bounds were certified, `plan verified` if some bound was not."""
    if result.plan is None:
        return "–"
    sure = not any(differs(record.bound, record.certified_bound) for record in result.objectives)
    return "verified" if sure else "plan verified"


def _summary_in_parts(result: Result) -> list[Table | str]:
    check = f", {_check(result)}" if result.plan is not None else ""
    line = f"{result.instance}: {result.status_text}, by {result.solver} in {result.runtime_s:.2f} s{check}"
    if not result.objectives:
        return [line]
    return [line, table_of(OBJECTIVES, result.objectives)]


def plan_table(instance: Instance, result: Result) -> Table | None:
    """Return the text table of a result's plan, at most `MAX_ROWS` rows; None without a plan."""
    if result.plan is None:
        return None
    return first_rows(KINDS[result.kind].columns(instance, result.plan[:MAX_ROWS]), result.plan)


def notes(result: Result) -> list[str]:
    """Return a result's message, diagnosis and remarks on its plan, as one line of text each."""
    lines = [result.message] if result.message else []
    if result.diagnosis:
        lines += [f"why: {reason}" for reason in result.diagnosis.reasons]
        lines += [f"what would help: {remedy}" for remedy in result.diagnosis.remedies]
    if result.plan is not None:
        lines += KINDS[result.kind].notes(result, MAX_ROWS)
    return lines


def csv_row(result: Result) -> list[Any]:
    """Return the cells of a result's CSV row, in the order of `COLUMNS`."""
    name = result.deciding.name if result.deciding else None
    values = "; ".join(f"{r.name}={r.value:.10g}" for r in result.objectives if r.value is not None)
    own = {"objective_name": name, "objectives": values}
    return [safe_cell(own[column] if column in own else getattr(result, column)) for column in COLUMNS]


SUMMARY = "summary.csv"
TITLES = ("source", *COLUMNS, "message", "seconds", "exit_code")


def solve_batch(run: RunOptions, solver: str, options: SolveOptions, batch: BatchOptions) -> int:
    """Solve files as a batch, show the progress, and return the exit code."""
    named = labelled(run.files)
    check_solvers([solver])
    if len(named) < len(run.files):
        say(f"{len(run.files) - len(named)} files stand twice; each is solved once")
    if run.format == "csv" and batch.output is None:
        typer.echo(csv_line(("source", *COLUMNS)))
    records, interrupted = _solve_all(run, named, solver, options, batch)
    if run.format == "table" and (batch.output is None or not run.quiet):
        _show(records, batch.output)
    if batch.output is not None:
        write_summary(records, batch.output)
        if not run.quiet:
            say(f"written: {batch.output / SUMMARY}, and every result in {batch.output / JOURNAL}")
    if interrupted:
        how = "; --resume continues it" if batch.output is not None else ""
        say(f"interrupted: {len(records)} of {len(named)} are finished{how}")
        return INTERRUPTED
    return worst(record.code for record in records)


def _solve_all(
    run: RunOptions,
    named: Sources,
    solver: str,
    options: SolveOptions,
    batch: BatchOptions,
) -> tuple[list[Record], bool]:
    """Return the records of finished solves in file order, and whether the batch was interrupted."""
    records: dict[str, Record] = {}
    interrupted = False
    with Progress(run.quiet) as progress:
        try:
            for record in solve_each(
                named, [(name, solver) for name in named], options, batch, progress.begin
            ):
                records[record.source] = record.light()
                if record.result is not None and batch.output is None:
                    print_result(record.result, run.format, safe_cell(record.source))
                progress.advance(record)
        except KeyboardInterrupt:
            interrupted = True
    if interrupted:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # what is left to do is short, and must not be cut off
        # The journal may hold records that were written but not yet handed over, and those of earlier runs.
        for record in read_journal(batch.output):
            if record.solver == solver and record.source in named:
                records.setdefault(record.source, record.light())
    return [records[name] for name in named if name in records], interrupted


def print_result(result: Result, format: Format, *head: Any) -> None:
    """Print a result as JSON or CSV at once; tables are printed after the last solve."""
    if format != "table":
        typer.echo(_line(result, format, *head))


def _line(result: Result, format: Format, *head: Any) -> str:
    """Return a result as a line of JSON, or of CSV after the cells of a head."""
    return result.to_json() if format == "json" else csv_line([*head, *csv_row(result)])


def write_summary(records: Sequence[Record], folder: Path) -> Path:
    """Write one line for each record to `summary.csv`, and replace an older file.

    Raises
    ------
    OptionError
        If it cannot be written.
    """
    lines = [csv_line(TITLES)]
    for record in records:
        cells = [None] * len(COLUMNS) if record.result is None else csv_row(record.result)
        message = record.fault if record.result is None else record.result.message
        tail = [safe_cell(message), round(record.seconds, 6), record.code]
        lines.append(csv_line([safe_cell(record.source), *cells, *tail]))
    (path,) = write_all(folder, {SUMMARY: "\n".join(lines) + "\n"})
    return path


def _show(records: Sequence[Record], folder: Path | None) -> None:
    """Print the records of a batch (beside an output folder, failures only), and counts by status."""
    out = console(stderr=folder is not None)
    wrong = [record for record in records if record.result is None or record.result.plan is None]
    shown = wrong[:MAX_ROWS] if folder is not None else records
    if shown:
        out.print(_table(shown))
    for record in shown:
        for line in notes(record.result) if record in wrong and record.result is not None else ():
            out.print(f"{record.source}: {line}")
    counts = Counter(record.result.status if record.result else "not solved" for record in records)
    ended = ", ".join(f"{count:,} {status}" for status, count in counts.most_common())
    seconds = sum(record.seconds for record in records)
    out.print(f"{len(records):,} instances: {ended or 'none'}; {seconds:,.1f} s of work")


def _table(records: Sequence[Record]) -> Table:
    """Return the text table of a batch, with a row for the record of each solve."""
    titles = [("source", False), ("status", False), ("objective", False)]
    titles += [("value", True), ("gap", True), ("certified gap", True), ("seconds", True)]
    cells = []
    for record in records:
        result, seconds = record.result, f"{record.seconds:.2f}"
        if result is None:
            cells.append([record.source, "not solved", *["–"] * 4, seconds])
            continue
        name = ", ".join(known.name for known in result.objectives) or "–"
        values = ", ".join(figure(known.value) for known in result.objectives) or "–"
        figures = [values, percent(result.gap), percent(result.certified_gap)]
        cells.append([record.source, result.status_text, name, *figures, seconds])
    return table(titles, cells)


def search_of(run: RunOptions, as_batch: bool) -> tuple[str, SolveOptions]:
    """Return the solver and the options of every solve, with settings that have options of their own."""
    settings = [f"provisioning={run.provisioning}"] if run.provisioning else []
    # In a batch the limit is on each worker process, which holds whatever the backend does.
    more: Fields = {} if as_batch else {"memory_limit_gib": run.memory_limit}
    if run.warm_start is not None:
        more["warm_start"] = _earlier(run.warm_start)
    if run.keep_cuts:
        more["keep_cuts"] = True
    solver, options = search_options(run, settings, **more)
    return solver or "auto", options


def _earlier(file: Path) -> Result:
    """Return the only result in a file, which has a plan.

    Raises
    ------
    OptionError
        If there is no plan, or more than one result.
    """
    results = read_results(file)
    result = parse_result(results[0], str(file)) if len(results) == 1 else None
    if result is None or result.plan is None:
        what = f"has {len(results)} results" if len(results) != 1 else "has no plan"
        raise OptionError(f"--warm-start {file}: {what}; give the result of one solve that found a plan")
    return result


def solve_files(run: RunOptions, as_batch: bool) -> int:
    """Solve the files, in this process or as a batch in others, and return the exit code."""
    solver, options = search_of(run, as_batch)
    if as_batch:
        return solve_batch(run, solver, options, batch_options(run))
    return _solve_in_turn(run, solver, options)


def _solve_in_turn(run: RunOptions, solver: str, options: SolveOptions) -> int:
    """Solve one file after the other in this process; return the exit code."""
    made = run.output is not None and not run.output.exists()
    if run.output is not None:
        if run.output.is_dir():
            raise OptionError(
                f"{run.output}: is a folder; give a file, or --jobs N for a batch, which has a folder"
            )
        # With --stability the result names the plan that runs by its file.
        files = run.files if run.stability is None else [*run.files, str(run.warm_start)]
        refuse_overwriting(run.output, files)
        write_text(run.output, "", append=True)  # what is there stays until there is a result
    form: Format = "json" if run.format == "table" and run.output is not None else run.format
    if form == "csv" and run.output is None:
        typer.echo(csv_line(COLUMNS))
    codes: list[int] = []
    results: list[Result] = []
    for file in run.files:
        try:
            instance = load(file, run.allow_outside, run.changes())
            if len(run.files) == 1:
                run.check_patterns(instance)
            with working(f"{instance.name}: {solver}", options, run.quiet):
                result = solve(instance, solver, options)
        except ClusterplanError as error:
            say(str(error) if isinstance(error, InstanceError) else f"{file}: {error}")
            codes.append(code_of_error(error))
            continue
        results.append(result)
        codes.append(code_of_result(result))
        if run.output is None:
            print_result(result, form)
            continue
        head = [csv_line(COLUMNS)] if form == "csv" and len(results) == 1 else []
        write_text(run.output, "\n".join([*head, _line(result, form), ""]), append=len(results) > 1)
        if not run.quiet:
            plan = result.plan
            what = "" if plan is None else f": {KINDS[result.kind].answer_of(instance, plan)}"
            say(f"{run.output}: {result.instance}: {result.status_text}{what}")
            for note in notes(result) if result.plan is None else ():
                say(note)
    if form == "table" and results:
        show_results(results, instance if len(run.files) == 1 else None)
    if run.output is not None and made and not results:
        run.output.unlink()
    return worst(codes)


def show_results(results: list[Result], only: Instance | None = None) -> None:
    """Print the text tables of results; of an only instance also the plan, and remarks on it."""
    out = console()
    for part in summary(results, out.width):
        out.print(part)
    plan = plan_table(only, results[0]) if only else None
    if plan is not None:
        out.print(plan)
    for result in results:
        for line in notes(result):
            out.print(line if only else f"{result.instance}: {line}")
    if only and results[0].plan is not None:
        for line in KINDS[only.kind].remarks(only, results[0].plan):
            out.print(line)


def solve_imported(
    instance: Instance, solver: str, time_limit_s: float | None, report: Path | None, steps: Steps
) -> int:
    """Solve an imported instance, print its table, write its page, and return the exit code.

    Parameters
    ----------
    time_limit_s
        0 is none; by default that of `solve`.
    report
        File of the page, if one is requested.
    """
    _, options = merged_options(None, {"time_limit_s": time_limit_s}, [])
    begun = time.perf_counter()
    if not sys.stderr.isatty() and not steps.quiet:
        say("solving …")
    with working(f"solving with {solver}", options, steps.quiet):
        result = solve(instance, solver, options)
    steps.done("solving", time.perf_counter() - begun)
    if report is not None:
        with steps.step("writing the page"):
            write_file(report, plan_page(instance, result))
        if not steps.quiet:
            say(f"written: {report}")
    show_results([result], instance if report is None else None)
    return code_of_result(result)
