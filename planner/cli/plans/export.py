"""The command `export-plan`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from ....instances.documents import load
from ...exit_codes import NOT_VERIFIED, code_of_result
from ...export_plan import export_plan as export
from ...export_plan import notes, verified_result
from ...output.terminal import say
from ..common import AllowOutside, DeviceMoves, InstanceFile, ResultFile, changes_of, write_text


def export_plan(
    instance_file: InstanceFile,
    result_file: ResultFile,
    format: Annotated[
        str,
        typer.Option(
            help="json: of every kind; slurm: a line of sbatch options a job; kubernetes: node affinity."
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
    instance = load(instance_file, allow_outside, changes_of(device_moves))
    result, checked = verified_result(instance, result_file)
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
