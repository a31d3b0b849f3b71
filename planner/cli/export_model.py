"""The command `export-model`."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated, Literal

import typer

from ...formulations.registry import formulate, milp_model
from ...instances.common.errors import OptionError
from ...instances.documents import load
from .common import AllowOutside, write_text
from .moves import DeviceMoves, MoveOptions


def export_model(
    file: Annotated[str, typer.Argument(help="An instance file, or example:NAME.")],
    format: Annotated[
        Literal["mps", "lp"] | None,
        typer.Option(help="By default what the ending of --output says, else MPS."),
    ] = None,
    objective: Annotated[
        int, typer.Option(help="Which objective, counted from 1, of an instance that has several.")
    ] = 1,
    output: Annotated[Path | None, typer.Option(help="Where to write it; stdout if not given.")] = None,
    allow_outside: AllowOutside = False,
    device_moves: DeviceMoves = False,
) -> None:
    """Write the textbook model for any other solver; earlier objectives are not fixed in it."""
    ending = output.suffix.lower().removeprefix(".") if output is not None else ""
    chosen = format or ("lp" if ending == "lp" else "mps")
    model = milp_model(formulate(load(file, allow_outside, MoveOptions(device_moves=device_moves).changes())))
    if not 1 <= objective <= len(model.objectives):
        raise OptionError(f"--objective {objective}: the instance has {len(model.objectives)}")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"model.{chosen}"
        model.write(path, objective - 1)
        text = path.read_text(encoding="utf-8")
    if output is not None:
        write_text(output, text)
    else:
        typer.echo(text, nl=False)
