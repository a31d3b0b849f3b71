"""The command `schema`."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from ..schemas import schema_of


def schema(
    document: Annotated[
        str, typer.Argument(help="A kind of problem, or catalogue, result or frontier.", metavar="DOCUMENT")
    ],
) -> None:
    """Print the JSON Schema of a document."""
    typer.echo(json.dumps(schema_of(document), indent=2))
