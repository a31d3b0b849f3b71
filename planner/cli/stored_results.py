"""The commands on stored results: `report`, `verify`, `diff` and `export-plan`.

Each reads the instance with the options of the solve, and verifies the stored results.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from ...instances.common.base import Instance
from ...instances.common.errors import OptionError
from ...instances.documents import load
from ...instances.files.reading import fail
from ...instances.registry import KINDS as INSTANCES
from ...solvers.common.result import Result
from ..changes import Changes, change_columns, place_columns
from ..exit_codes import NOT_VERIFIED, code_of_result, code_of_verification, worst
from ..findings import Verification
from ..output import say, write_file
from ..publish import notes
from ..publish import plan_text as export
from ..registry import KINDS
from ..reports.result_page import frontier_page, plan_page
from ..reports.text import console, csv_of, first_rows
from ..stored_results import (
    Stored,
    is_frontier,
    parse_frontier,
    parse_result,
    read_results,
    results_of_instance,
    verify_stored,
)
from .options import (
    AllowOutside,
    DeviceMoves,
    Format,
    HowToPrint,
    InstanceFile,
    MoveOptions,
    ResultFile,
    argument,
    option,
    write_text,
)


def solved_instance(
    instance_file: str, allow_outside: bool, device_moves: bool, stored: list[Stored]
) -> Instance:
    """Load an instance with the instance options of the last stored result.

    Only these options are taken from the result: everything else is derived from the instance.

    Raises
    ------
    InstanceError
        If the file is missing or wrong.
    """
    given = MoveOptions(device_moves=device_moves).changes()
    last = stored[-1] if stored else {}
    solved_with, kind = last.get("instance_options"), last.get("kind", "")
    if isinstance(solved_with, dict) and kind in INSTANCES:
        chosen = INSTANCES[kind].model.chosen_with_solve
        # What is not set stays as the document has it.
        given = {name: solved_with[name] for name in chosen if solved_with.get(name) is not None} | given
    return load(instance_file, allow_outside, given)


def report(
    instance_file: Annotated[
        str,
        argument("The instance that was solved, or example:NAME.", "INSTANCE"),
    ],
    result_file: Annotated[
        Path,
        argument("A stored result or frontier, or the journal of a batch.", "RESULT"),
    ],
    output: Annotated[Path, option("HTML file to write.")],
    allow_outside: AllowOutside = False,
    device_moves: DeviceMoves = False,
) -> None:
    """Write a stored result or frontier as one HTML page that opens without a network.

    Of a file with several results it takes the last one of the instance.
    """
    stored = read_results(result_file)
    instance = solved_instance(instance_file, allow_outside, device_moves, stored)
    page, checked = page_of(instance, stored, str(result_file))
    write_file(output, page)
    say(f"written: {output}")
    if not checked.complete:
        say(f"{result_file}: {checked.verdict}; the page says so")


def page_of(instance: Instance, stored: list[Stored], source: str) -> tuple[str, Verification]:
    """Return the page of an instance's last stored result or frontier, and its verification.

    Raises
    ------
    OptionError
        If none is of this instance.
    """
    own = [data for data in stored if data["instance_sha256"] == instance.sha256()]
    if not own:
        raise OptionError(f"{source}: has no result of {instance.name}, or the instance was changed since")
    last = own[-1]
    checked = verify_stored(instance, last, source)
    if not checked.ok:
        raise OptionError(f"{source}: verification failed, so there is no page: {checked.faults[0]}")
    if is_frontier(last):
        return frontier_page(instance, parse_frontier(last, source), checked=checked), checked
    return plan_page(instance, parse_result(last, source), checked), checked


def verify(
    instance_file: InstanceFile,
    result_file: ResultFile,
    accept_claimed: Annotated[
        bool,
        option("Exit code 0, not 8, for what is only claimed.", "--accept-claimed"),
    ] = False,
    format: HowToPrint = "table",
    allow_outside: AllowOutside = False,
    device_moves: DeviceMoves = False,
) -> None:
    """Check stored results: constraints, objective, bounds and everything else that can be derived again.

    Three answers: verified (0); ONLY CLAIMED, where nothing is false, but a bound, a price or that no plan
    exists rests on the solver's word (8); VERIFICATION FAILED (7).
    """
    if format == "csv":
        raise OptionError("verify prints a table or JSON; --format csv is not for it")
    results = read_results(result_file)
    instance = solved_instance(instance_file, allow_outside, device_moves, results)
    own = results_of_instance(instance, results)
    if len(own) < len(results):
        say(f"{result_file}: {len(results) - len(own)} results of other instances are left out")
    checks = [verify_stored(instance, data, str(result_file)) for data in own]
    for verification in checks:
        if format == "json":
            typer.echo(verification.model_dump_json())
            continue
        typer.echo(f"{verification.instance}: {verification.verdict}")
        for line in verification.lines():
            typer.echo(f"  {line}")
    raise typer.Exit(worst(code_of_verification(verification, accept_claimed) for verification in checks))


def diff(
    instance_file: InstanceFile,
    results: Annotated[
        list[Path],
        argument("The result; before it one to compare with, else what runs now.", "[BEFORE] RESULT"),
    ],
    format: HowToPrint = "table",
    allow_outside: AllowOutside = False,
    device_moves: DeviceMoves = False,
) -> None:
    """Show what a plan changes, against what runs now or against another plan.

    Both plans are verified first. JSON holds everything, CSV a line for each job or stage that changes.
    """
    if len(results) > 2:
        raise OptionError(f"diff takes one result or two, not {len(results)}")
    stored = [read_results(file) for file in results]
    instance = solved_instance(instance_file, allow_outside, device_moves, stored[-1])
    compare = KINDS[instance.kind].changes
    if compare is None:
        raise OptionError(f"diff does not know what a plan of {instance.kind} changes")
    plans = [
        _verified(instance, *each, "its plan is not compared")[0].plan
        for each in zip(stored, results, strict=True)
    ]
    before = plans[0] if len(plans) > 1 else None
    _print(compare(instance, before, plans[-1] or ()), format)


def _verified(
    instance: Instance, stored: list[Stored], file: Path, otherwise: str
) -> tuple[Result, Verification]:
    """Return the one result of an instance, which has a plan, and its verification; exit if either fails.

    Raises
    ------
    InstanceError
        If there is not exactly one result of the instance.
    """
    results = results_of_instance(instance, stored)
    if len(results) != 1:
        raise fail(str(file), f"has {len(results)} results of the instance; give a file with one")
    if is_frontier(results[0]):
        raise fail(str(file), "is a frontier, which has many plans; give the result of one solve")
    checked = verify_stored(instance, results[0], str(file))
    if not checked.ok:
        say(f"{file}: verification failed, so {otherwise}")
        for fault in checked.faults:
            say(f"  wrong: {fault}")
        raise typer.Exit(NOT_VERIFIED)
    result = parse_result(results[0], str(file))
    if result.plan is None:
        say(f"{file}: holds no plan: {result.status}")
        raise typer.Exit(code_of_result(result))
    return result, checked


def _print(changes: Changes, format: Format) -> None:
    columns = change_columns(changes.unit)
    if format == "json":
        typer.echo(json.dumps({"headline": changes.headline(), **asdict(changes)}, ensure_ascii=False))
    elif format == "csv":
        typer.echo(csv_of(columns, changes.changes), nl=False)
    else:
        out = console()
        for line in (changes.headline(), *changes.sentences()):
            out.print(line)
        if changes.changes:
            out.print("")
            out.print(first_rows(columns, changes.changes))
        if changes.places:
            out.print("")
            out.print(first_rows(place_columns(changes.place), changes.places))
        for line in changes.notes:
            out.print(line)


def export_plan(
    instance_file: InstanceFile,
    result_file: ResultFile,
    format: Annotated[
        str,
        option(
            "json: of every kind; slurm, kubernetes: a script to run, of a mix Deployments to complete; "
            "slurm-options, kubernetes-affinity: what to add to the jobs by hand; consolidation: of a mix, "
            "an instance that places each copy on a server."
        ),
    ] = "json",
    every: Annotated[
        bool, option("slurm, kubernetes: also jobs that keep running where they are.", "--all")
    ] = False,
    output: Annotated[Path | None, option("Where to write it; stdout if not given.")] = None,
    allow_outside: AllowOutside = False,
    device_moves: DeviceMoves = False,
) -> None:
    """Write a plan, once it is verified, for those who carry it out.

    Where a bound is only claimed the plan is written all the same, and it is said on stderr and in the file.
    """
    stored = read_results(result_file)
    instance = solved_instance(instance_file, allow_outside, device_moves, stored)
    result, checked = _verified(instance, stored, result_file, "the plan is not exported")
    text = export(instance, result, format, every, checked)
    if output is not None:
        write_text(output, text)
    else:
        sys.stdout.write(text)
    if not checked.complete:
        say(f"{result_file}: {checked.verdict}")
    for note in notes(instance, result, format, every):
        say(note)
