"""The command `solvers`."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from ...solvers.registry import all_solvers
from ..output.text import console, csv_line, table
from .common import Format


def solvers(format: Annotated[Format, typer.Option(help="How to print.")] = Format.table) -> None:
    """List the solvers: what they can solve and prove, and whether they can be used here."""
    rows = [
        {
            "solver": solver.name,
            "kinds": list(solver.kinds),
            "proves": solver.proves,
            "available": solver.unavailable() is None,
            "what": solver.unavailable() or solver.what,
            "options": {key: option.what for key, option in solver.method_options.items()},
        }
        for solver in all_solvers()
    ]
    if format is Format.json:
        typer.echo("\n".join(json.dumps(row) for row in rows))
        return
    cells = [
        [
            str(row["solver"]),
            " ".join(solver.kinds),
            "yes" if row["proves"] else "no",
            "yes" if row["available"] else "no",
            str(row["what"]),
        ]
        for row, solver in zip(rows, all_solvers(), strict=True)
    ]
    titles = ["solver", "kinds", "proves", "here", "what it is"]
    if format is Format.csv:
        typer.echo("\n".join(csv_line(line) for line in [titles, *cells]))
    else:
        console().print(table([(title, False) for title in titles], cells))
