"""The commands about solvers: `solvers` lists, `doctor` tests, `export-model` writes a model for others.

`doctor` checks that the required libraries are installed, load together, and give right answers.
"""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module, metadata
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from ...formulations.registry import formulate, milp_model
from ...instances.common.errors import OptionError
from ...instances.common.faults import suggestion_text
from ...instances.documents import load
from ...instances.registry import KINDS
from ...solvers.common.base import Solver
from ...solvers.common.result import SolveOptions
from ...solvers.registry import all_solvers
from ..api import solve
from ..exit_codes import FAILED, SOLVED
from ..reports.text import console, csv_line, plain_column, table, table_of
from .options import AllowOutside, DeviceMoves, HowToPrint, MoveOptions, argument, option, write_text

NameOfOne = Annotated[str | None, argument("Only this one, with its options.", "[NAME]", show_default=False)]


def solvers(name: NameOfOne = None, format: HowToPrint = "table") -> None:
    """List the solvers: what they can solve and prove, and whether they can be used here."""
    listed = _named(name) if name is not None else all_solvers()
    rows = [
        {
            "solver": solver.name,
            "kinds": list(solver.kinds),
            "proves": solver.proves,
            "available": solver.unavailable() is None,
            "what": solver.unavailable() or solver.what,
        }
        for solver in listed
    ]
    if format == "json":
        for solver, row in zip(listed, rows, strict=True):
            options = {key: option.what for key, option in solver.method_options.items()}
            typer.echo(json.dumps({**row, "options": options}))
        return
    cells = [[_plain(value) for value in row.values()] for row in rows]
    titles = ["solver", "kinds", "proves", "here", "what it is"]
    if format == "csv":
        typer.echo("\n".join(csv_line(line) for line in [titles, *cells]))
    else:
        console().print(table([(title, False) for title in titles], cells))
        if name is not None:
            _print_options(listed)


def _plain(value: Any) -> str:
    """Return a truth value, a list of names or a text as the text of a table cell."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return " ".join(value) if isinstance(value, list) else str(value)


def _named(name: str) -> Sequence[Solver[Any]]:
    """Return the solvers of this name, at most one for each problem kind."""
    matches = [solver for solver in all_solvers() if solver.name == name]
    if not matches:
        names = sorted({solver.name for solver in all_solvers()})
        raise OptionError(f"no solver {name!r}; {suggestion_text(name, names)}there are: {', '.join(names)}")
    return matches


def _print_options(listed: Sequence[Solver[Any]]) -> None:
    """Print the options of solvers, with their defaults and allowed values."""
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


LIBRARIES = {
    # name → why its versions are limited as they are
    "pulp": "PuLP 4 drops the CBC program that it ships",
    "highspy": "HiGHS 1.14.0 returns wrong optima, and later wheels cannot be loaded beside OR-Tools",
    "ortools": "other versions are not tested",
    "cvxpy": "older ones do not know OR-Tools 9.15",
    "numpy": "OR-Tools needs it",
    "scipy": "",
    "pydantic": "older ones refuse words from CSV tables",
    "pandas": "",
    "pyscipopt": "",
}
OPTIONAL = ("pyscipopt",)

LIMIT_S = 120.0
"""Time limit of a solve: the tiny instance takes seconds, but loops may have to be compiled first."""


@dataclass(frozen=True)
class Finding:
    """One check of the installation: whether it passed, and the version, the result or the remedy."""

    what: str
    ok: bool
    detail: str
    needed: bool = True


def _allowed() -> dict[str, SpecifierSet]:
    """Return the versions that this package requires, by library."""
    try:
        asked = [Requirement(line) for line in metadata.requires("clusterplan") or ()]
    except metadata.PackageNotFoundError:
        return {}  # run from a checkout that is not installed, which asks for nothing
    return {requirement.name: requirement.specifier for requirement in asked}


def _library(name: str, allowed: SpecifierSet) -> Finding:
    needed = name not in OPTIONAL
    try:
        version = metadata.version(name)
    except metadata.PackageNotFoundError:
        return Finding(name, not needed, "not installed" + ("" if needed else " (optional)"), needed)
    if not allowed.contains(version, prereleases=True):
        what = f"{version} is installed; pip install '{name}{allowed}'. {LIBRARIES[name]}"
        return Finding(name, False, what.strip(), needed)
    try:
        # OR-Tools loads its shared library, which may clash, only with CP-SAT.
        import_module(name if name != "ortools" else "ortools.sat.python.cp_model")
    except (ImportError, OSError) as error:
        return Finding(name, False, f"{version} does not load: {error}", needed)
    return Finding(name, True, version, needed)


def _solver_finding(kind: str, name: str) -> Finding:
    """Check a solver on a tiny instance against the optimum found by brute force."""
    instance = KINDS[kind].tiny()
    expected = [record.value for record in solve(instance, "brute-force").objectives]
    result = solve(instance, name, SolveOptions(time_limit_s=LIMIT_S))
    right = result.status == "optimal" and all(
        ours.value is not None and value is not None and math.isclose(ours.value, value, rel_tol=1e-6)
        for ours, value in zip(result.objectives, expected, strict=True)
    )
    seen = ", ".join(
        f"{record.name} {record.value:g}" for record in result.objectives if record.value is not None
    )
    seen = seen or result.message or "no plan"
    return Finding(f"{name} on {kind}", right, seen if right else f"{seen}; brute force says {expected}")


def examine() -> list[Finding]:
    """Check the libraries, in the order in which loading may clash, and exact solvers; return findings."""
    allowed = _allowed()
    findings = [_library(name, allowed.get(name, SpecifierSet())) for name in LIBRARIES]
    for solver in all_solvers():
        if solver.proves and solver.name not in ("auto", "brute-force") and not solver.unavailable():
            for kind in solver.kinds:
                findings.append(_solver_finding(kind, solver.name))
    return findings


def doctor() -> None:
    """Check that the libraries load together and that every solver answers right."""
    findings = examine()
    outcome = ("", False, lambda finding: "fine" if finding.ok else "WRONG")
    columns = [plain_column("what", "what"), outcome, plain_column("detail", "detail")]
    console().print(table_of(columns, findings))
    raise typer.Exit(SOLVED if all(finding.ok or not finding.needed for finding in findings) else FAILED)


def export_model(
    file: Annotated[str, argument("An instance file, or example:NAME.")],
    format: Annotated[
        Literal["mps", "lp"] | None,
        option("By default what the ending of --output says, else MPS."),
    ] = None,
    objective: Annotated[
        int, option("Which objective, counted from 1, of an instance that has several.")
    ] = 1,
    output: Annotated[Path | None, option("Where to write it; stdout if not given.")] = None,
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
