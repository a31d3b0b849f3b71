"""The command `pareto`: the whole trade-off of cost against throughput, or against completion time."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..instances.errors import OptionError

if TYPE_CHECKING:
    from ..instances.base import Instance
    from ..solvers.options import SolveOptions
    from .pareto import AnyFrontier


class FrontierFormat(StrEnum):
    """How to print a frontier."""

    table = "table"
    json = "json"
    csv = "csv"


class ClusterMix(StrEnum):
    """Which clusters an allocation's frontier looks at."""

    fixed = "fixed"
    any = "any"


def pareto(
    file: Annotated[
        str, typer.Argument(help="A staging or allocation instance, or example:NAME.", show_default=False)
    ],
    output: Annotated[
        Path | None, typer.Option(help="Folder to write frontier.csv and frontier.json into.")
    ] = None,
    error: Annotated[
        float | None,
        typer.Option(
            help="Relative error, of staging in cost, of allocation in mean completion time; 0 for every "
            "breakpoint. [default: 1e-4, of allocation 0.01]"
        ),
    ] = None,
    most_usd: Annotated[
        float | None,
        typer.Option("--most-usd", help="Leave out what costs more; of allocation USD per hour."),
    ] = None,
    mix: Annotated[
        ClusterMix | None,
        typer.Option(
            help="Allocation: scale the cluster, or take any amounts of what has a price. [default: fixed]"
        ),
    ] = None,
    price: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=USD", help="Allocation: price of a resource per unit and hour; may be repeated."
        ),
    ] = None,
    time_limit: Annotated[float | None, typer.Option(help="Seconds, 0 for no limit. [default: 60]")] = None,
    threads: Annotated[int | None, typer.Option(help="Most threads to use.")] = None,
    seed: Annotated[int | None, typer.Option(help="Of everything random.")] = None,
    format: Annotated[FrontierFormat, typer.Option(help="How to print.")] = FrontierFormat.table,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress, only errors.")] = False,
) -> None:
    """Find what no other plan beats in two aims at once, and prove that none is missing.

    Staging: cost against throughput. Allocation: mean completion time against the hourly cost of the cluster.
    """
    from ..instances.document import load
    from .cli_options import merged_options
    from .exit_codes import code_of_frontier
    from .output import console
    from .pareto import shown, to_csv, write

    given = {"time_limit_s": time_limit, "threads": threads, "seed": seed}
    _, options = merged_options(None, given, [])
    wanted: dict[str, Any] = {"error": error, "most_usd": most_usd, "prices": read_prices(price or ())}
    wanted["mix"] = None if mix is None else mix.value
    frontier = _find(load(file), options, wanted, quiet)
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


def read_prices(given: Sequence[str]) -> dict[str, float]:
    """Read NAME=USD; a name may hold an equals sign, a number cannot."""
    prices: dict[str, float] = {}
    for text in given:
        name, sign, number = text.rpartition("=")
        try:
            price = float(number)
        except ValueError:
            price = math.nan
        if not sign or not name or not price >= 0:
            raise OptionError(f"--price {text!r}: write NAME=USD, such as gpu=2.5, with USD at least 0")
        if name in prices:
            raise OptionError(f"--price {name} is given twice; give each resource one price")
        prices[name] = price
    return prices


def _find(instance: Instance, options: SolveOptions, wanted: dict[str, Any], quiet: bool) -> AnyFrontier:
    from .output import console
    from .pareto import pareto as find

    if quiet or not sys.stderr.isatty():
        return find(instance, options, **wanted)
    limit = f", at most {options.time_limit_s:g} s" if options.time_limit_s else ""
    with console(stderr=True).status(f"{instance.name}: frontier{limit} …"):
        return find(instance, options, **wanted)
