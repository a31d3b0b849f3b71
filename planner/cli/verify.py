"""The command `verify`."""

from __future__ import annotations

from typing import Annotated

import typer

from ...instances.common.errors import OptionError
from ..exit_codes import code_of_verification, worst
from ..output.terminal import say
from ..verification.stored import of_instance, read_results, verify_stored
from .common import AllowOutside, HowToPrint, InstanceFile, ResultFile
from .moves import DeviceMoves
from .plans.solved_instance import solved_instance


def verify(
    instance_file: InstanceFile,
    result_file: ResultFile,
    accept_claimed: Annotated[
        bool,
        typer.Option("--accept-claimed", help="Exit code 0, not 8, for what is only claimed."),
    ] = False,
    format: HowToPrint = "table",
    allow_outside: AllowOutside = False,
    device_moves: DeviceMoves = False,
) -> None:
    """Check stored results: constraints, objective, bounds and everything else that can be derived again.

    Three answers: verified (0); ONLY CLAIMED, where nothing is false, but a bound, a price or that no plan
    exists rests on the solver's word (8); VERIFICATION FAILED (7).
    """
    if format == "csv":
        raise OptionError("verify prints a table or JSON; --format csv is not for it")
    results = read_results(result_file)
    instance = solved_instance(instance_file, allow_outside, device_moves, results)
    own = of_instance(instance, results)
    if len(own) < len(results):
        say(f"{result_file}: {len(results) - len(own)} results of other instances are left out")
    found = [verify_stored(instance, data, str(result_file)) for data in own]
    for verification in found:
        if format == "json":
            typer.echo(verification.model_dump_json())
            continue
        typer.echo(f"{verification.instance}: {verification.verdict}")
        for line in verification.lines():
            typer.echo(f"  {line}")
    raise typer.Exit(worst(code_of_verification(verification, accept_claimed) for verification in found))
