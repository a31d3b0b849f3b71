"""The command line. stdout is data, stderr is log and progress; no traceback reaches a user."""

from __future__ import annotations

import io
import logging
import os
import sys
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..instances.errors import ClusterplanError, InstanceError, OptionError
from .cli_export import export_plan
from .cli_fit import fits
from .cli_import_clusters import importers
from .cli_inputs import generators
from .cli_pareto import pareto
from .exit_codes import (
    FAILED,
    INTERRUPTED,
    NOT_VERIFIED,
    SOLVED,
    code_of_error,
    code_of_result,
    worst,
)

if TYPE_CHECKING:
    from ..solvers.options import SolveOptions
    from ..solvers.result import Result


class Format(StrEnum):
    """How to print."""

    table = "table"
    json = "json"
    csv = "csv"


class Provisioning(StrEnum):
    """How units are found once types are chosen."""

    load_balance = "load-balance"
    exact = "exact"


class Kind(StrEnum):
    """Kinds of document."""

    allocation = "allocation"
    staging = "staging"
    consolidation = "consolidation"
    catalogue = "catalogue"
    result = "result"
    frontier = "frontier"


class ModelFormat(StrEnum):
    """Formats of an exported model."""

    mps = "mps"
    lp = "lp"


app = typer.Typer(
    name="clusterplan",
    help="Plan deep-learning clusters by mathematical optimisation. Every plan says how good it is.",
    epilog="Exit codes: 0 solved, 1 error, 2 usage, 3 bad instance, 4 infeasible, 5 limit with a plan, "
    "6 no plan, 7 verification failed, 130 interrupted; of several files, the worst.",
    no_args_is_help=True,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command()(pareto)
app.command("export-plan")(export_plan)
app.add_typer(importers, name="import")
app.add_typer(generators, name="generate")
app.add_typer(fits, name="fit")


def say(text: str) -> None:
    """Print a line for people on stderr."""
    typer.echo(text, err=True)


def _version(wanted: bool) -> None:
    if wanted:
        from .. import __version__

        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and leave.")
    ] = False,
) -> None:
    """Do what all commands share."""
    del version


def _solve_one(file: str, solver: str, options: SolveOptions, quiet: bool) -> Result:
    from ..instances.document import load
    from .api import solve as solve_instance
    from .output import console

    instance = load(file)
    if quiet or not sys.stderr.isatty():
        return solve_instance(instance, solver, options)
    limit = f", at most {options.time_limit_s:g} s" if options.time_limit_s else ""
    with console(stderr=True).status(f"{instance.name}: {solver}{limit} …"):
        return solve_instance(instance, solver, options)


@app.command()
def solve(
    files: Annotated[list[str], typer.Argument(help="Instance files, or example:NAME.", show_default=False)],
    solver: Annotated[
        str | None, typer.Option(help="A name from 'clusterplan solvers'. [default: auto]")
    ] = None,
    time_limit: Annotated[
        float | None, typer.Option(help="Seconds for each instance, 0 for no limit. [default: 60]")
    ] = None,
    gap: Annotated[
        float | None, typer.Option(help="Relative gap that counts as optimal. [default: 1e-6]")
    ] = None,
    threads: Annotated[int | None, typer.Option(help="Most threads to use.")] = None,
    seed: Annotated[int | None, typer.Option(help="Of everything random.")] = None,
    memory_limit: Annotated[float | None, typer.Option(help="GiB that the backend may take.")] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Option of the method; may be repeated."),
    ] = None,
    provisioning: Annotated[
        Provisioning | None,
        typer.Option(help="How HeterPS's methods find units. [default: load-balance]"),
    ] = None,
    config: Annotated[Path | None, typer.Option(help="YAML file with options; those given here win.")] = None,
    format: Annotated[Format, typer.Option(help="How to print.")] = Format.table,
    output: Annotated[
        Path | None, typer.Option(help="Also write the results here, one JSON object a line.")
    ] = None,
    verbose: Annotated[
        int, typer.Option("--verbose", "-v", count=True, help="Say more; twice: even more.")
    ] = 0,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress, only errors.")] = False,
) -> None:
    """Solve instances; every plan is verified before it is shown."""
    from .output import COLUMNS, console, csv_line, csv_row, notes, plan_table, summary

    level = logging.ERROR if quiet else (logging.WARNING, logging.INFO, logging.DEBUG)[min(verbose, 2)]
    logging.basicConfig(level=level, stream=sys.stderr, format="%(levelname)s %(message)s")
    given = {
        "time_limit_s": time_limit,
        "gap": gap,
        "threads": threads,
        "seed": seed,
        "memory_limit_gib": memory_limit,
    }
    from .cli_options import merged_options

    more = [f"provisioning={provisioning.value}"] if provisioning else []
    configured, options = merged_options(config, given, [*(settings or []), *more])
    if output is not None:
        _write(output, "", append=True)  # what is there stays until there is a result
    if format is Format.csv:
        typer.echo(csv_line(COLUMNS))
    codes: list[int] = []
    results: list[Result] = []
    for file in files:
        try:
            result = _solve_one(file, solver or configured or "auto", options, quiet)
        except ClusterplanError as error:
            say(str(error) if isinstance(error, InstanceError) else f"{file}: {error}")
            codes.append(code_of_error(error))
            continue
        results.append(result)
        codes.append(code_of_result(result))
        if output is not None:
            _write(output, result.to_json() + "\n", append=len(results) > 1)
        if format is Format.json:
            typer.echo(result.to_json())
        elif format is Format.csv:
            typer.echo(csv_line(csv_row(result)))
    if format is Format.table and results:
        out = console()
        for part in summary(results, out.width):
            out.print(part, markup=False)
        plan = plan_table(results[0]) if len(files) == 1 else None
        if plan is not None:
            out.print(plan)
        for result in results:
            for line in notes(result):
                out.print(line if len(files) == 1 else f"{result.instance}: {line}", markup=False)
    raise typer.Exit(worst(codes))


def _write(path: Path, text: str, append: bool = False) -> None:
    try:
        with path.open("a" if append else "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise OptionError(f"{path}: cannot be written: {error.strerror or error}") from None


@app.command()
def verify(
    instance_file: Annotated[str, typer.Argument(metavar="INSTANCE", help="The instance that was solved.")],
    result_file: Annotated[
        Path, typer.Argument(metavar="RESULT", help="What 'solve --format json' printed.")
    ],
    format: Annotated[Format, typer.Option(help="How to print.")] = Format.table,
) -> None:
    """Check stored results: constraints, objective, bounds and every stored figure."""
    from ..instances.document import load
    from .verification import of_instance, read_results, verify_stored

    if format is Format.csv:
        raise OptionError("verify prints a table or JSON; --format csv is not for it")
    instance = load(instance_file)
    results = read_results(result_file)
    own = of_instance(instance, results)
    if len(own) < len(results):
        say(f"{result_file}: {len(results) - len(own)} results of other instances are left out")
    found = [verify_stored(instance, data, str(result_file)) for data in own]
    for verification in found:
        if format is Format.json:
            typer.echo(verification.model_dump_json())
            continue
        typer.echo(f"{verification.instance}: {'verified' if verification.ok else 'VERIFICATION FAILED'}")
        for title, lines in (
            ("wrong", verification.faults),
            ("confirmed", verification.confirmed),
            ("not re-derived here", verification.claimed),
        ):
            for line in lines:
                typer.echo(f"  {title}: {line}")
    raise typer.Exit(SOLVED if all(v.ok for v in found) else NOT_VERIFIED)


@app.command()
def validate(
    files: Annotated[list[str], typer.Argument(help="Instance files, or example:NAME.", show_default=False)],
) -> None:
    """Check instance files without solving them; one line for each fault."""
    from ..instances.document import load

    codes = []
    for file in files:
        try:
            instance = load(file)
        except ClusterplanError as error:
            say(str(error))
            codes.append(code_of_error(error))
            continue
        sizes = ", ".join(
            f"{len(rows)} {field}"
            for field in type(instance).model_fields
            if isinstance(rows := getattr(instance, field), Sequence)
            and not isinstance(rows, str)
            and field != "assumptions"
        )
        typer.echo(f"{file}: {instance.kind}, {sizes}; fine")
    raise typer.Exit(worst(codes))


@app.command()
def schema(kind: Annotated[Kind, typer.Argument(help="Which document.")]) -> None:
    """Print the JSON Schema of a document."""
    import json

    from pydantic import BaseModel

    from ..instances.document import DOCUMENTS
    from ..solvers.frontier import Frontier
    from ..solvers.result import Result

    models: dict[str, type[BaseModel]] = {**DOCUMENTS, "result": Result, "frontier": Frontier}
    typer.echo(json.dumps(models[kind.value].model_json_schema(), indent=2))


@app.command()
def solvers(format: Annotated[Format, typer.Option(help="How to print.")] = Format.table) -> None:
    """List the solvers: what they can solve and prove, and whether they can be used here."""
    import json

    from ..solvers.registry import all_solvers
    from .output import console, csv_line, table

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


@app.command()
def doctor() -> None:
    """Check that the libraries load together and that every solver answers right."""
    from .doctor import examine
    from .output import console, table

    findings = examine()
    rows = [[finding.what, "fine" if finding.ok else "WRONG", finding.detail] for finding in findings]
    console().print(table([("what", False), ("", False), ("detail", False)], rows))
    raise typer.Exit(SOLVED if all(finding.ok or not finding.needed for finding in findings) else FAILED)


@app.command("export-model")
def export_model(
    file: Annotated[str, typer.Argument(help="An instance file, or example:NAME.")],
    format: Annotated[
        ModelFormat | None, typer.Option(help="By default what the ending of --output says, else MPS.")
    ] = None,
    objective: Annotated[
        int, typer.Option(help="Which objective, counted from 1, of an instance that has several.")
    ] = 1,
    output: Annotated[Path | None, typer.Option(help="Where to write it; stdout if not given.")] = None,
) -> None:
    """Write the textbook model for any other solver; earlier objectives are not fixed in it."""
    import tempfile

    from ..formulations.registry import formulate
    from ..instances.document import load

    ending = output.suffix.lower().removeprefix(".") if output is not None else ""
    chosen = format or (ModelFormat.lp if ending == "lp" else ModelFormat.mps)
    model = formulate(load(file)).textbook()
    if not 1 <= objective <= len(model.objectives):
        raise OptionError(f"--objective {objective}: the instance has {len(model.objectives)}")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"model.{chosen.value}"
        model.write(path, objective - 1)
        text = path.read_text(encoding="utf-8")
    if output is not None:
        _write(output, text)
    else:
        typer.echo(text, nl=False)


def main() -> None:
    """Run the command line; turn every error into one line and an exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a name must not fail because the terminal lacks a letter
    try:
        app()
    except ClusterplanError as error:
        say(str(error))
        sys.exit(code_of_error(error))
    except KeyboardInterrupt:
        say("interrupted; what was printed before is complete")
        sys.exit(INTERRUPTED)
    except BrokenPipeError:
        # The reader has seen enough; nothing more can be written, not even at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(SOLVED)
    except MemoryError:
        say("out of memory; try a smaller instance, or a method with a smaller model")
        sys.exit(FAILED)
    except Exception as error:
        if os.environ.get("CLUSTERPLAN_DEBUG"):
            raise
        say(f"internal error: {type(error).__name__}: {error}. Please report it with CLUSTERPLAN_DEBUG=1")
        sys.exit(FAILED)
