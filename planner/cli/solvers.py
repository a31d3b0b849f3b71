"""The command `solvers`."""

from __future__ import annotations

import json

import typer

from ...solvers.registry import all_solvers
from ..output.text import console, csv_line, table
from .common import HowToPrint


def solvers(format: HowToPrint = "table") -> None:
    """List the solvers: what they can solve and prove, and whether they can be used here."""
    if format == "json":
        for solver in all_solvers():
            row = {
                "solver": solver.name,
                "kinds": list(solver.kinds),
                "proves": solver.proves,
                "available": solver.unavailable() is None,
                "what": solver.unavailable() or solver.what,
                "options": {key: option.what for key, option in solver.method_options.items()},
            }
            typer.echo(json.dumps(row))
        return
    cells = [
        [
            solver.name,
            " ".join(solver.kinds),
            "yes" if solver.proves else "no",
            "yes" if solver.unavailable() is None else "no",
            solver.unavailable() or solver.what,
        ]
        for solver in all_solvers()
    ]
    titles = ["solver", "kinds", "proves", "here", "what it is"]
    if format == "csv":
        typer.echo("\n".join(csv_line(line) for line in [titles, *cells]))
    else:
        console().print(table([(title, False) for title in titles], cells))
