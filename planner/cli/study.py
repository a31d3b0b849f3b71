"""Implementation of `what-if`, `solve --robust` and `compare`: studies of instances on the command line.

`what-if`, or `solve --what-if`, solves one instance as it is, and with the changes of each scenario;
`--robust` solves it at the ends of its uncertainty intervals; `compare` runs solvers on instances. Their
options are defined in `solve` and `options`, since they are read before anything heavy is loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import typer
from rich.table import Table

from ...instances.common.errors import OptionError
from ...instances.documents import load, save
from ..batch.comparison import Comparison, compare
from ..batch.comparison_rows import ComparisonRow
from ..exit_codes import BAD_INSTANCE, INTERRUPTED, SOLVED, code_of_result, worst
from ..output import say
from ..reports.comparison_page import figure_columns, measures_table, summary_table, to_csv, write
from ..reports.page import as_text_column
from ..reports.study_page import SCENARIO_COLUMNS, robust_page, what_if_page
from ..reports.text import (
    MAX_ROWS,
    TextColumn,
    console,
    csv_of,
    plain_column,
    table,
    table_of,
)
from ..study import AS_IT_IS, REGRET_COLUMNS, Study, WhatIf, robust, what_if
from .options import RunOptions, refuse_overwriting, write_text
from .progress import Progress, working
from .solving import batch_options, search_of, search_options


def study_instance(run: RunOptions, as_batch: bool) -> int:
    """Solve scenarios of one instance, or the ends of its intervals; show the study, return the exit code."""
    solver, options = search_of(run, as_batch)
    robustly = run.robust
    if len(run.files) != 1 or as_batch or (robustly and run.what_if):
        raise OptionError(
            "--robust takes one file, without --what-if and the options of a batch"
            if robustly
            else "--what-if compares scenarios of one file, without the options of a batch"
        )
    output = run.output
    if output is not None and output.suffix.lower() not in (".html", ".json"):
        option = "--robust" if robustly else "scenarios"
        raise OptionError(f"{output}: with {option} a page (.html) or everything (.json) is written")
    instance = load(run.files[0], run.allow_outside, run.changes())
    run.check_patterns(instance)
    more = " end" if robustly else ""

    def during(name: str) -> Any:
        return working(f"{instance.name}, {name}{more}: {solver}", options, run.quiet)

    if robustly:
        ends = robust(instance, solver, options, during)
        _show(run, ends, lambda: robust_page(ends), REGRET_COLUMNS, ends.regrets)
        return worst(code_of_result(each.result) for each in ends.all())
    name = None if run.apply is None else _chosen(run, run.apply)
    scenarios = what_if(instance, run.what_if or (), solver, options, during)
    if name is not None and output is not None:
        _write_plan(run, scenarios, name, output)
        run = replace(run, output=None)
    columns = [*map(as_text_column, SCENARIO_COLUMNS)]
    _show(run, scenarios, lambda: what_if_page(scenarios), columns, scenarios.rows())
    return worst(code_of_result(each.result) for each in scenarios.all())


def _chosen(run: RunOptions, given: str) -> str:
    """Return the scenario that `--apply` names, by its name or its number; 0 is the instance as it is."""
    if run.output is None or run.output.suffix.lower() != ".json":
        raise OptionError(f"--apply {given!r} writes a plan; give --output PLAN.json")
    names = [AS_IT_IS, *dict.fromkeys(run.what_if or ())]
    numbered = {str(number): name for number, name in enumerate(names)}
    name = numbered.get(given, given)
    if name not in names:
        there = ", ".join(f"{number}: {name}" for number, name in numbered.items())
        raise OptionError(f"--apply {given!r} is no scenario; there are {there}")
    return name


def _write_plan(run: RunOptions, analysis: WhatIf, name: str, path: Path) -> None:
    """Write the result of a scenario, and the changed instance beside it if options do not make it."""
    scenario = next((each for each in analysis.all() if each.name == name), None)
    if scenario is None:
        say(f"{name}: was not solved, so that no plan is written")
        return
    beside = path.with_suffix(".instance.json")
    for each in (path, beside):
        refuse_overwriting(each, run.files)
    write_text(path, scenario.result.to_json() + "\n")
    changed, file = scenario.instance, run.files[0]
    # Commands on results set again what was chosen with the solve, such as the servers to be drained.
    if analysis.baseline.instance.replace(**changed.chosen()).sha256() != changed.sha256():
        file = str(beside)
        save(changed, file)
    if scenario.result.plan is None:
        say(f"written: {path}: {name} has no plan; it says why")
    elif not run.quiet:
        say(f"written: {path}; verify, diff, report and export-plan take it after {file}")


def _show(
    run: RunOptions,
    study: Study,
    page: Callable[[], str],
    columns: Sequence[TextColumn[Any]],
    rows: Sequence[Any],
) -> None:
    """Write a study to the output file, or print it as a table, CSV or JSON."""
    if run.output is not None:
        everything = study.to_json() + "\n" if run.output.suffix.lower() == ".json" else page()
        write_text(run.output, everything)
        if not run.quiet:
            say(f"{study.headline()} Written: {run.output}")
    elif run.format == "json":
        typer.echo(study.to_json())
    elif run.format == "csv":
        typer.echo(csv_of(columns, rows), nl=False)
    else:
        out = console()
        out.print(study.headline())
        out.print("")
        out.print(table_of(columns, rows))
        for line in study.sentences():
            out.print(line)


def compare_and_show(run: RunOptions) -> int:
    """Compare solvers, print and write the comparison, and return the exit code."""
    named, options = search_options(run)
    batch = batch_options(run)
    solvers = None if named is None else [name.strip() for name in named.split(",") if name.strip()]
    with Progress(run.quiet) as progress:
        comparison = compare(
            run.files, solvers, options, batch, on_start=progress.begin, on_record=progress.advance
        )
    if batch.output is None:
        _print(comparison, run.format)
    else:
        for line in failures(comparison):
            say(line)
    for fault in comparison.faults:
        say(fault)
    if batch.output is not None and (comparison.rows or not comparison.interrupted):
        for path in write(comparison, batch.output):
            if not run.quiet:
                say(f"written: {path}")
    if comparison.interrupted:
        say("interrupted; what is shown is complete" + ("; --resume continues it" if batch.output else ""))
        return INTERRUPTED
    return BAD_INSTANCE if comparison.unread else SOLVED


def _print(comparison: Comparison, format: str) -> None:
    if format == "json":
        typer.echo(comparison.to_json())
        return
    if format == "csv":
        typer.echo(to_csv(comparison), nl=False)
        return
    out = console()
    if 0 < len(comparison.rows) <= MAX_ROWS:
        for place, (objective, rows) in enumerate(comparison.by_objective().items()):
            if place:
                out.print()
            out.print(rows_table(objective, rows))
    elif comparison.rows:
        out.print(f"{len(comparison.rows):,} rows are too many to show; --output DIR writes them")
    for line in failures(comparison):
        out.print(line)
    if comparison.rows:
        out.print()
        summary = summary_table(comparison)
        out.print(table(summary.head, summary.texts))
    measures = measures_table(comparison)
    if measures is not None and len(measures.rows) <= MAX_ROWS:
        out.print()
        out.print(table(measures.head, measures.texts))
    for advice in comparison.advice:
        out.print()
        out.print(advice)


def rows_table(objective: str, rows: Sequence[ComparisonRow]) -> Table:
    """Return the text table of solves that share an objective, a row for each solver on each instance.

    An instance's name is only in its first row.
    """
    first = {row.instance: row for row in reversed(rows)}
    return table_of(
        [
            ("instance", False, lambda row: row.instance if row is first[row.instance] else ""),
            plain_column("solver", "solver"),
            *map(as_text_column, figure_columns(objective)),
        ],
        rows,
    )


def failures(comparison: Comparison) -> Iterator[str]:
    """Yield a line for each solve without an answer, and for each optimum that is only claimed."""
    for row in comparison.rows:
        if row.only_claimed or row.status in ("error", "unknown"):
            yield f"{row.instance}: {row.solver}: {row.message or 'no plan was found'}"
