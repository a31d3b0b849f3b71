"""The command `solvers`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from ...instances.common.errors import OptionError
from ...solvers.common.base import Solver
from ...solvers.registry import all_solvers, guess
from ..output.text import console, csv_line, table
from .common import HowToPrint

NameOfOne = Annotated[
    str | None, typer.Argument(metavar="[NAME]", help="Only this one, with its options.", show_default=False)
]


def solvers(name: NameOfOne = None, format: HowToPrint = "table") -> None:
    """List the solvers: what they can solve and prove, and whether they can be used here."""
    listed = _named(name) if name is not None else all_solvers()
    if format == "json":
        for solver in listed:
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
        for solver in listed
    ]
    titles = ["solver", "kinds", "proves", "here", "what it is"]
    if format == "csv":
        typer.echo("\n".join(csv_line(line) for line in [titles, *cells]))
    else:
        console().print(table([(title, False) for title in titles], cells))
        if name is not None:
            _print_options(listed)


def _named(name: str) -> Sequence[Solver[Any]]:
    """Return the solvers of this name; there may be one for each kind."""
    found = [solver for solver in all_solvers() if solver.name == name]
    if not found:
        names = sorted({solver.name for solver in all_solvers()})
        raise OptionError(f"no solver {name!r}; {guess(name, names)}there are: {', '.join(names)}")
    return found


def _print_options(listed: Sequence[Solver[Any]]) -> None:
    """Print the options of solvers, each with what may be given."""
    titles = [(title, False) for title in ("--set", "default", "allowed", "what it does")]
    for solver in listed:
        kinds = " ".join(solver.kinds)
        if not solver.method_options:
            console().print(f"\n{kinds}: there are no options of its own")
            continue
        rows = [
            [key, str(option.default), option.allowed, option.what]
            for key, option in solver.method_options.items()
        ]
        console().print(f"\n{kinds}:")
        console().print(table(titles, rows))
