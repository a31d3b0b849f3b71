"""The command `schema`: the JSON Schema of every document."""

from __future__ import annotations

import json
from functools import reduce
from operator import or_
from typing import Annotated, Any

import typer
from pydantic import BaseModel, TypeAdapter

from ...instances.common.errors import OptionError
from ...instances.documents import DOCUMENTS
from ...solvers.common.result import Result
from ..registry import FRONTIER_KINDS


def names() -> list[str]:
    """Return the names of the documents that have a schema."""
    return [*DOCUMENTS, "result", "frontier"]


def schema_of(document: str) -> dict[str, Any]:
    """Return the JSON Schema of a document: of a kind of problem, a catalogue, a result or a frontier.

    Raises
    ------
    OptionError
        If there is no such document.
    """
    models: dict[str, type[BaseModel]] = {**DOCUMENTS, "result": Result}
    if document == "frontier":
        return TypeAdapter[Any](
            reduce(or_, (traded.model for traded in FRONTIER_KINDS.values()))
        ).json_schema()
    if document not in models:
        raise OptionError(f"no document {document!r}; there are: {', '.join(names())}")
    return models[document].model_json_schema()


def schema(
    document: Annotated[
        str, typer.Argument(help="A kind of problem, or catalogue, result or frontier.", metavar="DOCUMENT")
    ],
) -> None:
    """Print the JSON Schema of a document."""
    typer.echo(json.dumps(schema_of(document), indent=2))
