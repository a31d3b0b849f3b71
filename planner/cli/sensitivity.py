"""Implementation of `what-if` and `solve --robust`: sensitivity analysis on the command line.

`what-if`, or `solve --what-if`, solves one instance as it is, and with the changes of each scenario;
`--robust` solves it at the ends of its uncertainty intervals.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import typer

from ...instances.common.base import Instance
from ...instances.common.errors import OptionError
from ...instances.documents import load, save
from ...solvers.common.result import SolveOptions
from ..exit_codes import code_of_result, worst
from ..output import say
from ..reports.sensitivity_page import robust_page, what_if_page
from ..reports.text import TextColumn, cells_of, console, csv_text, table_of
from ..sensitivity import AS_IT_IS, REGRET_COLUMNS, SCENARIO_COLUMNS, Robust, WhatIf, robust, what_if
from .options import RunOptions, refuse_overwriting, write_text
from .progress import working

SCENARIO_ENDINGS: dict[str, Callable[[WhatIf], str]] = {
    ".html": what_if_page,
    ".json": lambda found: found.to_json() + "\n",
}
"""Functions that return the text of an output file, by its ending."""


def compare_scenarios(run: RunOptions, as_batch: bool, solver: str, options: SolveOptions) -> int:
    """Solve the scenarios of one instance, show the comparison and return the exit code."""
    if len(run.files) != 1 or as_batch:
        raise OptionError("--what-if compares scenarios of one file, without the options of a batch")
    instance = _instance(run, "scenarios", SCENARIO_ENDINGS)
    name = None if run.apply is None else _chosen(run, run.apply)
    analysis = what_if(instance, run.what_if or (), solver, options, _working(run, instance, solver, options))
    if name is not None and run.output is not None:
        _write_plan(run, analysis, name, run.output)
        run = replace(run, output=None)
    _show(run, analysis, SCENARIO_ENDINGS, SCENARIO_COLUMNS, analysis.rows())
    return worst(code_of_result(scenario.result) for scenario in analysis.all())


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


REGRET_ENDINGS: dict[str, Callable[[Robust], str]] = {
    ".html": robust_page,
    ".json": lambda found: found.to_json() + "\n",
}
"""Functions that return the text of an output file, by its ending."""


def plan_at_ends(run: RunOptions, as_batch: bool, solver: str, options: SolveOptions) -> int:
    """Solve one instance at the ends of its uncertainty intervals, show regrets, return the exit code."""
    if len(run.files) != 1 or as_batch or run.what_if:
        raise OptionError("--robust takes one file, without --what-if and the options of a batch")
    instance = _instance(run, "--robust", REGRET_ENDINGS)
    analysis = robust(instance, solver, options, _working(run, instance, solver, options, " end"))
    _show(run, analysis, REGRET_ENDINGS, REGRET_COLUMNS, analysis.regrets)
    return worst(code_of_result(end.result) for end in analysis.ends)


def _instance(run: RunOptions, option: str, endings: Mapping[str, Any]) -> Instance:
    """Return the instance of a run, whose output file has one of these endings."""
    if run.output is not None and run.output.suffix.lower() not in endings:
        raise OptionError(f"{run.output}: with {option} a page (.html) or everything (.json) is written")
    instance = load(run.files[0], run.allow_outside, run.changes())
    run.check_patterns(instance)
    return instance


def _working(
    run: RunOptions, instance: Instance, solver: str, options: SolveOptions, more: str = ""
) -> Callable[[str], AbstractContextManager[None]]:
    """Return a function that shows progress while the scenario of a name is solved."""
    return lambda name: working(f"{instance.name}, {name}{more}: {solver}", options, run.quiet)


def _show(
    run: RunOptions,
    analysis: Any,
    endings: Mapping[str, Callable[[Any], str]],
    columns: Sequence[TextColumn[Any]],
    rows: Sequence[Any],
) -> None:
    """Write an analysis to the output file, or print it as a table, CSV or JSON."""
    if run.output is not None:
        write_text(run.output, endings[run.output.suffix.lower()](analysis))
        if not run.quiet:
            say(f"{analysis.headline()} Written: {run.output}")
    elif run.format == "json":
        typer.echo(analysis.to_json())
    elif run.format == "csv":
        titles = [title for title, _, _ in columns]
        typer.echo(csv_text(titles, cells_of(columns, rows)), nl=False)
    else:
        out = console()
        out.print(analysis.headline(), markup=False)
        out.print("")
        out.print(table_of(columns, rows))
        for line in analysis.sentences():
            out.print(line, markup=False)
