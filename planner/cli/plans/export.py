"""The command `export-plan`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from ...exit_codes import NOT_VERIFIED, code_of_result
from ...export_plan import export_plan as export
from ...export_plan import notes, verified_result
from ...output.terminal import say
from ...verification.stored import read_results
from ..common import AllowOutside, InstanceFile, ResultFile, write_text
from ..moves import DeviceMoves
from .solved_instance import solved_instance


def export_plan(
    instance_file: InstanceFile,
    result_file: ResultFile,
    format: Annotated[
        str,
        typer.Option(
            help="json: of every kind; slurm, kubernetes: a script to run; slurm-options, "
            "kubernetes-affinity: what to add to the jobs by hand."
        ),
    ] = "json",
    every: Annotated[
        bool, typer.Option("--all", help="slurm, kubernetes: also jobs that keep running where they are.")
    ] = False,
    output: Annotated[Path | None, typer.Option(help="Where to write it; stdout if not given.")] = None,
    allow_outside: AllowOutside = False,
    device_moves: DeviceMoves = False,
) -> None:
    """Write a plan, once it is verified, for those who carry it out.

    Where a bound is only claimed the plan is written all the same, and it is said on stderr and in the file.
    """
    stored = read_results(result_file)
    instance = solved_instance(instance_file, allow_outside, device_moves, stored)
    result, checked = verified_result(instance, stored, str(result_file))
    if result is None:
        typer.echo(f"{result_file}: verification failed, so the plan is not exported", err=True)
        for fault in checked.faults:
            typer.echo(f"  wrong: {fault}", err=True)
        raise typer.Exit(NOT_VERIFIED)
    if result.plan is None:
        typer.echo(f"{result_file}: holds no plan: {result.status}", err=True)
        raise typer.Exit(code_of_result(result))
    text = export(instance, result, format, every, checked)
    if output is not None:
        write_text(output, text)
    else:
        sys.stdout.write(text)
    if not checked.complete:
        say(f"{result_file}: {checked.verdict}")
    for note in notes(instance, result, format, every):
        typer.echo(note, err=True)
