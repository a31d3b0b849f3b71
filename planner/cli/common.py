"""Options, formats and small functions that several commands share; nothing heavy is imported here."""

from __future__ import annotations

import logging
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from ...instances.common.errors import OptionError


class Format(StrEnum):
    """How to print."""

    table = "table"
    json = "json"
    csv = "csv"


class Engine(StrEnum):
    """Where a batch runs."""

    local = "local"
    dask = "dask"


Files = Annotated[list[str], typer.Argument(help="Instance files, or example:NAME.", show_default=False)]
TimeLimit = Annotated[
    float | None, typer.Option(help="Seconds for each instance, 0 for no limit. [default: 60]")
]
Gap = Annotated[float | None, typer.Option(help="Relative gap that counts as optimal. [default: 1e-6]")]
Threads = Annotated[int | None, typer.Option(help="Most threads to use.")]
Seed = Annotated[int | None, typer.Option(help="Of everything random.")]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Option of the method; may be repeated."),
]
Config = Annotated[Path | None, typer.Option(help="YAML file with options; those given here win.")]
Jobs = Annotated[int | None, typer.Option(help="Solves at a time, each in a process of its own.", min=1)]
Resume = Annotated[bool, typer.Option(help="Continue the batch in the folder --output.")]
KillAfter = Annotated[
    float | None,
    typer.Option(help="Seconds after which a solve is killed. [default: twice the time limit and 10]", min=0),
]
Where = Annotated[
    Engine, typer.Option("--engine", help="Where a batch runs: this machine, or a Dask cluster.")
]
Scheduler = Annotated[str | None, typer.Option(help="Address of the Dask scheduler.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress, only errors.")]
Verbose = Annotated[int, typer.Option("--verbose", "-v", count=True, help="Say more; twice: even more.")]
HowToPrint = Annotated[Format, typer.Option(help="How to print.")]
AllowOutside = Annotated[
    bool,
    typer.Option("--allow-outside", help="Also read files that an instance names outside its own folder."),
]


def write_text(path: Path, text: str, append: bool = False) -> None:
    """Write text to a file.

    Raises
    ------
    OptionError
        If it cannot be written.
    """
    try:
        with path.open("a" if append else "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise OptionError(f"{path}: cannot be written: {error.strerror or error}") from None


def start_logging(verbose: int, quiet: bool) -> None:
    """Send the log to stderr, as much of it as was asked for."""
    level = logging.ERROR if quiet else (logging.WARNING, logging.INFO, logging.DEBUG)[min(verbose, 2)]
    logging.basicConfig(level=level, stream=sys.stderr, format="%(levelname)s %(message)s")
