"""The command line. stdout is data, stderr is log and progress; no traceback reaches a user."""

from __future__ import annotations

import os
import signal
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from ...instances.common.errors import ClusterplanError, OptionError
from ..exit_codes import (
    FAILED,
    INTERRUPTED,
    SOLVED,
    code_of_error,
    code_of_verification,
    worst,
)
from ..output.terminal import visible_output
from .common import AllowOutside, Files, Format, HowToPrint, say, write_text
from .compare import compare
from .export import export_plan
from .fit import fits
from .generate import generators
from .import_clusters import importers
from .pareto import pareto
from .report import report
from .solve import solve


class ModelFormat(StrEnum):
    """Formats of an exported model."""

    mps = "mps"
    lp = "lp"


app = typer.Typer(
    name="clusterplan",
    help="Plan deep-learning clusters by mathematical optimisation. Every plan says how good it is.",
    epilog="Exit codes: 0 solved, 1 error, 2 usage, 3 bad instance, 4 infeasible, 5 limit with a plan, "
    "6 no plan, 7 verification failed, 8 verified but for what is only claimed, 130 interrupted; of several "
    "files, the worst.",
    no_args_is_help=True,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command()(solve)
app.command()(compare)
app.command()(pareto)
app.command()(report)
app.command("export-plan")(export_plan)
app.add_typer(importers, name="import")
app.add_typer(generators, name="generate")
app.add_typer(fits, name="fit")


def _version(wanted: bool) -> None:
    if wanted:
        from ... import __version__

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


@app.command()
def verify(
    instance_file: Annotated[str, typer.Argument(metavar="INSTANCE", help="The instance that was solved.")],
    result_file: Annotated[
        Path, typer.Argument(metavar="RESULT", help="What 'solve --format json' printed.")
    ],
    accept_claimed: Annotated[
        bool,
        typer.Option("--accept-claimed", help="Exit code 0, not 8, for what is only claimed."),
    ] = False,
    format: HowToPrint = Format.table,
    allow_outside: AllowOutside = False,
) -> None:
    """Check stored results: constraints, objective, bounds and everything else that can be derived again.

    Three answers: verified (0); ONLY CLAIMED, where nothing is false, but a bound, a price or that no plan
    exists rests on the solver's word (8); VERIFICATION FAILED (7).
    """
    from ...instances.documents import load
    from ..verification.stored import of_instance, read_results, verify_stored

    if format is Format.csv:
        raise OptionError("verify prints a table or JSON; --format csv is not for it")
    instance = load(instance_file, allow_outside)
    results = read_results(result_file)
    own = of_instance(instance, results)
    if len(own) < len(results):
        say(f"{result_file}: {len(results) - len(own)} results of other instances are left out")
    found = [verify_stored(instance, data, str(result_file)) for data in own]
    for verification in found:
        if format is Format.json:
            typer.echo(verification.model_dump_json())
            continue
        typer.echo(f"{verification.instance}: {verification.verdict}")
        for line in verification.lines():
            typer.echo(f"  {line}")
    raise typer.Exit(worst(code_of_verification(verification, accept_claimed) for verification in found))


@app.command()
def validate(
    files: Files,
    allow_outside: AllowOutside = False,
) -> None:
    """Check instance files without solving them; one line for each fault."""
    from ...instances.documents import load

    codes = []
    for file in files:
        try:
            instance = load(file, allow_outside)
        except ClusterplanError as error:
            say(str(error))
            codes.append(code_of_error(error))
            continue
        sizes = ", ".join(f"{count} {field}" for field, count in instance.sizes().items())
        typer.echo(f"{file}: {instance.kind}, {sizes}; fine")
        for note in instance.scale_notes():
            typer.echo(f"  note: {note}")
    raise typer.Exit(worst(codes))


@app.command()
def schema(
    document: Annotated[
        str, typer.Argument(help="A kind of problem, or catalogue, result or frontier.", metavar="DOCUMENT")
    ],
) -> None:
    """Print the JSON Schema of a document."""
    import json

    from ..schemas import schema_of

    typer.echo(json.dumps(schema_of(document), indent=2))


@app.command()
def solvers(format: Annotated[Format, typer.Option(help="How to print.")] = Format.table) -> None:
    """List the solvers: what they can solve and prove, and whether they can be used here."""
    import json

    from ...solvers.registry import all_solvers
    from ..output.text import console, csv_line, table

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
    from ..doctor import examine
    from ..output.text import console, table

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
    allow_outside: AllowOutside = False,
) -> None:
    """Write the textbook model for any other solver; earlier objectives are not fixed in it."""
    import tempfile

    from ...formulations.registry import formulate, milp_model
    from ...instances.documents import load

    ending = output.suffix.lower().removeprefix(".") if output is not None else ""
    chosen = format or (ModelFormat.lp if ending == "lp" else ModelFormat.mps)
    model = milp_model(formulate(load(file, allow_outside)))
    if not 1 <= objective <= len(model.objectives):
        raise OptionError(f"--objective {objective}: the instance has {len(model.objectives)}")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"model.{chosen.value}"
        model.write(path, objective - 1)
        text = path.read_text(encoding="utf-8")
    if output is not None:
        write_text(output, text)
    else:
        typer.echo(text, nl=False)


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def main() -> None:
    """Run the command line; turn every error into one line and an exit code."""
    signal.signal(signal.SIGTERM, _interrupt)  # how batch systems ask a process to end
    with visible_output():
        _run()


def _run() -> None:
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
