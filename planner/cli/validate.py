"""The command `validate`."""

from __future__ import annotations

import typer

from ...instances.common.errors import ClusterplanError
from ...instances.documents import load
from ..exit_codes import code_of_error, worst
from ..output.terminal import say
from .common import AllowOutside, Files


def validate(
    files: Files,
    allow_outside: AllowOutside = False,
) -> None:
    """Check instance files without solving them; one line for each fault."""
    codes = []
    for file in files:
        try:
            instance = load(file, allow_outside)
        except ClusterplanError as error:
            say(str(error))
            codes.append(code_of_error(error))
            continue
        sizes = ", ".join(f"{count} {field}" for field, count in instance.sizes().items() if count)
        typer.echo(f"{file}: {instance.kind}, {sizes}; fine")
        for note in (*instance.figure_notes(), *instance.scale_notes()):
            typer.echo(f"  note: {note}")
    raise typer.Exit(worst(codes))
