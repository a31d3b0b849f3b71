"""The command `pareto`: the Pareto frontier of cost or cluster size against speed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import typer

from ...instances.common.base import Instance
from ...instances.common.errors import OptionError
from ...instances.documents import load
from ...solvers.common.result import Result, SolveOptions
from ...solvers.registry import find_solver
from ..api import solve
from ..exit_codes import code_of_frontier
from ..output import say
from ..pareto import frontier_table
from ..pareto import pareto as find
from ..registry import frontier_kinds
from ..reports.result_page import to_csv, write
from ..reports.text import console, table
from .options import AllowOutside, HowToPrint, Quiet, Seed, Threads, argument, option_field, taking
from .progress import working
from .solving import merged_options

BASELINE_S = 10.0
"""Time limit in seconds of each baseline solver."""


@dataclass(frozen=True, kw_only=True)
class FrontierOptions:
    """The options of `pareto`, in the order of `--help`."""

    file: Annotated[
        str,
        argument("An instance of any kind, or example:NAME.", show_default=False),
    ]
    output: Path | None = option_field(
        "Folder for frontier.html, .md, .csv and .json; nothing is printed then."
    )
    error: float | None = option_field(
        "Relative error, of staging in cost, of consolidation in moves, of mix in cost or progress, else in "
        "mean completion time; 0 for every breakpoint. [default: 1e-4, of allocation 0.01, of scheduling "
        "and mix 0.1, of consolidation 0.05]"
    )
    most_usd: float | None = option_field(
        "Leave out what costs more; USD, of allocation and scheduling per hour.", "--most-usd"
    )
    mix: Literal["fixed", "any"] | None = option_field(
        "Allocation: scale the cluster, or take any amounts of what has a price. [default: fixed]"
    )
    price: list[str] | None = option_field(
        "Allocation, scheduling: price of a resource per unit and hour; may be repeated.", metavar="NAME=USD"
    )
    resource: str | None = option_field(
        "Scheduling: of which there shall be more or less. [default: the only one]"
    )
    least: float | None = option_field(
        "Scheduling: the smallest size. [default: half of what there is] Consolidation: the fewest "
        "servers freed. [default: 1] Mix: per cent of the requests. [default: 10] Or devices for the jobs. "
        "[default: a tenth]",
        "--from",
    )
    most: float | None = option_field(
        "Scheduling: the largest size. [default: twice what there is] Consolidation: the most "
        "servers freed. [default: all that are in use] Mix: per cent of the requests. [default: 200] Or "
        "devices for the jobs. [default: all]",
        "--to",
    )
    per: Literal["server", "rack"] | None = option_field(
        "Consolidation: free servers or whole racks. [default: as the instance says]"
    )
    baselines: str | None = option_field(
        "Staging: solvers to be seen on the page beside the frontier, separated by commas, or none. "
        "[default: single-type,greedy,genetic]"
    )
    time_limit: float | None = option_field("Seconds, 0 for no limit. [default: 60]")
    threads: Threads = None
    seed: Seed = None
    format: HowToPrint = "table"
    allow_outside: AllowOutside = False
    quiet: Quiet = False


@taking(FrontierOptions)
def pareto(run: FrontierOptions) -> None:
    """Find what no other plan beats in two aims at once, and prove that none is missing.

    Staging: cost against throughput. Allocation: mean completion time against the hourly cost of the cluster.
    Scheduling: mean completion time against the size of the cluster, and what no scheduler can beat.
    Consolidation: tasks moved against servers or racks freed, each step with a plan of its own. Mix: cost
    against requests served, or devices against the progress of jobs.
    """
    given = {"time_limit_s": run.time_limit, "threads": run.threads, "seed": run.seed}
    _, options = merged_options(None, given, [])
    prices = read_prices(run.price or ())
    instance = load(run.file, run.allow_outside)
    names = _baseline_names(instance, run.baselines, run.output)
    with working(f"{instance.name}: frontier", options, run.quiet):
        frontier = find(
            instance,
            options,
            error=run.error,
            most_usd=run.most_usd,
            mix=run.mix,
            prices=prices,
            resource=run.resource,
            least=run.least,
            most=run.most,
            per=run.per,
        )
    if run.output is not None:
        for path in write(instance, frontier, run.output, _baselines(instance, names, options)):
            if not run.quiet:
                say(f"written: {path}")
    elif run.format == "json":
        typer.echo(frontier.to_json())
    elif run.format == "csv":
        typer.echo(to_csv(frontier), nl=False)
    else:
        out, (points, lines) = console(), frontier_table(frontier)
        if frontier.points:
            out.print(table(points.head, points.texts))
        for line in lines:
            out.print(line)
    raise typer.Exit(code_of_frontier(frontier))


def _baseline_names(instance: Instance, given: str | None, output: Path | None) -> list[str]:
    """Return the names of the solvers whose plans the frontier's page shows for comparison.

    Raises
    ------
    OptionError
        If there is no page, or no such solver of the kind, or its page shows none.
    """
    able = {name: traded.baselines for name, traded in frontier_kinds().items() if traded.baselines}
    if given is not None and (output is None or instance.kind not in able):
        raise OptionError(
            f"--baselines are for the page of a {' or '.join(able)} instance, which --output DIR writes"
        )
    if instance.kind not in able or output is None or given == "none":
        return []
    names = able[instance.kind] if given is None else filter(None, map(str.strip, given.split(",")))
    return [find_solver(name, instance.kind).name for name in names]


def _baselines(instance: Instance, names: Sequence[str], options: SolveOptions) -> list[Result]:
    """Solve an instance with fast solvers for comparison, and return the results that have a plan."""
    asked = options.model_copy(update={"time_limit_s": BASELINE_S})
    results = [solve(instance, name, asked) for name in names]
    return [result for result in results if result.plan is not None]


def read_prices(given: Sequence[str]) -> dict[str, float]:
    """Parse texts NAME=USD into prices by name; a name may contain an equals sign, a number cannot."""
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
