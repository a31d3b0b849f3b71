"""How every command that makes an instance writes it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from ....instances.common.base import Instance
from ....instances.common.errors import OptionError
from ....instances.documents import save, to_text, wants_tables

Output = Annotated[Path | None, typer.Option(help="YAML or JSON file to write; YAML on stdout if not given.")]


def emit(instance: Instance, output: Path | None, table: Literal["parquet", "csv"] | None = None) -> None:
    """Write an instance to a file, or to stdout if there is none.

    Raises
    ------
    OptionError
        If it has more jobs than belong on stdout.
    """
    if output is None:
        if table is not None:
            raise OptionError("--table needs --output FILE; the table is written beside that file")
        if wants_tables(instance):
            raise OptionError(
                "so many jobs go into a table beside the document, not to stdout; give --output FILE"
            )
        typer.echo(to_text(instance), nl=False)
        return
    save(instance, output, table)
    typer.echo(f"{output}: {instance.kind} instance {instance.name!r}", err=True)
    for assumption in instance.assumptions:
        typer.echo(f"  assumed: {assumption}", err=True)
