"""The command `pareto`: the whole trade-off of cost against throughput."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from ..instances.base import Instance
    from ..solvers.frontier import Frontier
    from ..solvers.options import SolveOptions


class FrontierFormat(StrEnum):
    """How to print a frontier."""

    table = "table"
    json = "json"
    csv = "csv"


def pareto(
    file: Annotated[str, typer.Argument(help="A staging instance, or example:NAME.", show_default=False)],
    output: Annotated[
        Path | None, typer.Option(help="Folder to write frontier.csv and frontier.json into.")
    ] = None,
    error: Annotated[
        float | None,
        typer.Option(help="Relative error in cost; 0 for every breakpoint. [default: 1e-4]"),
    ] = None,
    most_usd: Annotated[
        float | None, typer.Option("--most-usd", help="Leave out plans that cost more.")
    ] = None,
    time_limit: Annotated[float | None, typer.Option(help="Seconds, 0 for no limit. [default: 60]")] = None,
    threads: Annotated[int | None, typer.Option(help="Most threads to use.")] = None,
    seed: Annotated[int | None, typer.Option(help="Of everything random.")] = None,
    format: Annotated[FrontierFormat, typer.Option(help="How to print.")] = FrontierFormat.table,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress, only errors.")] = False,
) -> None:
    """Find every plan that no other beats in both cost and throughput, and prove that none is missing."""
    from ..instances.document import load
    from .cli_options import merged_options
    from .exit_codes import code_of_frontier
    from .output import console
    from .pareto import DEFAULT_ERROR, shown, to_csv, write

    given = {"time_limit_s": time_limit, "threads": threads, "seed": seed}
    _, options = merged_options(None, given, [])
    frontier = _find(load(file), options, DEFAULT_ERROR if error is None else error, most_usd, quiet)
    if output is not None:
        for path in write(frontier, output):
            typer.echo(f"written: {path}", err=True)
    if format is FrontierFormat.json:
        typer.echo(frontier.to_json())
    elif format is FrontierFormat.csv:
        typer.echo(to_csv(frontier), nl=False)
    else:
        out, (points, lines) = console(), shown(frontier)
        if frontier.points:
            out.print(points)
        for line in lines:
            out.print(line, markup=False)
    raise typer.Exit(code_of_frontier(frontier))


def _find(
    instance: Instance, options: SolveOptions, error: float, most_usd: float | None, quiet: bool
) -> Frontier:
    from .output import console
    from .pareto import pareto as find

    if quiet or not sys.stderr.isatty():
        return find(instance, options, error=error, most_usd=most_usd)
    limit = f", at most {options.time_limit_s:g} s" if options.time_limit_s else ""
    with console(stderr=True).status(f"{instance.name}: frontier{limit} …"):
        return find(instance, options, error=error, most_usd=most_usd)
