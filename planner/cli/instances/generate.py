"""The commands `generate KIND` for synthetic instances, `validate` for instance files, and `schema`.

The JSON Schema of a document says what a file may contain, which `validate` checks.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from functools import reduce
from operator import or_
from pathlib import Path
from typing import Annotated, Any, Literal, get_type_hints

import typer
from pydantic import BaseModel, TypeAdapter

from ....instances.allocation.generate import generate_allocation
from ....instances.common.base import Instance
from ....instances.common.errors import ClusterplanError, OptionError
from ....instances.common.hardware import HardwareCatalogue
from ....instances.consolidation.generate import generate_consolidation
from ....instances.documents import load
from ....instances.mix.generate import generate_mix
from ....instances.registry import KINDS
from ....instances.scheduling.generate import generate_scheduling
from ....instances.staging.generate import generate_staging
from ....instances.staging.generate_ctr import generate_ctr
from ....solvers.common.result import Result
from ...exit_codes import code_of_error, worst
from ...output import say
from ...registry import frontier_kinds
from ..options import AllowOutside, Files, MoveOptions, argument, option
from .output import BY_NAME, Output, emit

generators = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


def _add(name: str, make: Callable[..., Instance], about: str, table: Any = None, **options: Any) -> None:
    """Add the command of a generator.

    Parameters
    ----------
    table
        Option of the table of jobs; None if there is no table.
    options
        Options of the generator's parameters, in the order of `--help`.
    """

    def run(output: Path | None, table: Literal["parquet", "csv"] | None = None, **given: Any) -> None:
        emit(make(**given), output, table)

    parameters, hints = inspect.signature(make).parameters, get_type_hints(make)
    options["seed"] = option("The same seed gives the same instance.", min=0)
    offered = [
        inspect.Parameter(
            each, BY_NAME, default=parameters[each].default, annotation=Annotated[hints[each], shown]
        )
        for each, shown in options.items()
    ]
    offered.append(inspect.Parameter("output", BY_NAME, default=None, annotation=Output))
    if table is not None:
        kind = Annotated[Literal["parquet", "csv"] | None, table]
        offered.append(inspect.Parameter("table", BY_NAME, default=None, annotation=kind))
    run.__signature__ = inspect.Signature(offered)  # type: ignore[attr-defined]  # which Typer reads
    generators.command(name, help=about)(run)


JOBS_TABLE = option(
    "Write the jobs to a table beside the document. [default: parquet from 5000 jobs on]", "--table"
)

_add(
    "allocation",
    generate_allocation,
    "Jobs with published speed coefficients and heavy-tailed remaining work.",
    JOBS_TABLE,
    jobs=option("How many jobs.", min=1),
    resources=option("How many resources.", min=1, max=4),
    tightness=option("0: plenty; 1: only the smallest fit. [default: 0.5]", min=0, max=1),
    optional_share=option("Share of jobs that may wait.", min=0, max=1),
    spare=option("Every resource binds, with at most so many units to spare.", min=0),
    servers=option("Servers of 4 GPUs, on which the tasks are placed.", min=1),
    shapes=option("With --servers: 2: of 8 GPUs too; 3: of 2 GPUs too.", min=1, max=3),
    running_share=option("With --servers: share of jobs that run now.", min=0, max=1),
)
_add(
    "staging",
    generate_staging,
    "Chains of embedding and dense layers on random hardware.",
    layers=option("How many layers.", min=1),
    types=option("How many types of hardware.", min=1),
    limits=option("How scarce units are; tight: a good plan needs all of every type."),
    memory=option("Units have a memory limit."),
    transfers=option("Stages wait for their input."),
)
_add(
    "ctr",
    generate_ctr,
    "Synthetic click-through-rate models on HeterPS's CPU cores and V100: a staging instance.",
    layers=option("How many layers.", min=3),
    floor=option("Floor in samples/s. [default: 150000 for 16 layers]"),
)
_add(
    "consolidation",
    generate_consolidation,
    "Jobs of 1 to 32 GPUs on servers that are partly filled with running tasks.",
    option("Write servers and jobs to tables beside the document. [default: parquet from 5000 on]"),
    servers=option("How many servers, up to 100,000.", min=1),
    jobs=option("How many jobs.", min=1),
    gpus_per_server=option("GPUs of each server, where all have one shape. [default: 8]", min=1),
    load=option("GPUs asked over GPUs free; if not given, two fifths are free."),
    resources=option("1: GPUs; 3: CPUs and memory too.", min=1, max=3),
    shapes=option("How many shapes of servers.", min=1),
    required_share=option("Share of jobs that must be consolidated."),
    preferred_share=option("Share of jobs that had better be."),
    must_place_share=option("Share of jobs that must be placed.", min=0, max=1),
    rack_size=option("Servers of a rack; 0: no racks.", min=0),
    devices=option("GPUs are single devices.", "--devices"),
    shared=option("With --devices: share of one-GPU jobs that share GPUs.", min=0, max=1),
    partitioned=option("With --devices: share of one-GPU jobs on partitions.", min=0, max=1),
    unlike=option("Amounts in milli-CPUs and MiB, values with nine decimals.", "--unlike"),
)
_add(
    "scheduling",
    generate_scheduling,
    "Jobs of 1 to 32 GPUs that arrive at random, with heavy-tailed durations.",
    JOBS_TABLE,
    jobs=option("How many jobs.", min=1),
    gpus=option("GPUs of the cluster.", min=1),
    load=option("GPU-seconds asked over those until the last arrival."),
    malleable=option("Jobs run on any of a few sizes.", "--malleable"),
)
_add(
    "mix",
    generate_mix,
    "Requests and replicas that serve them; or jobs of several types that share devices in pairs.",
    types=option("How many types of requests, or of jobs.", min=1),
    hardware=option("How many models of device.", min=1),
    configurations=option("How many replicas to choose from; jobs have all pairs.", min=1),
    load=option("Requests per second, or with --sharing jobs."),
    sharing=option("Jobs that share devices.", "--sharing"),
)


def validate(
    files: Files,
    allow_outside: AllowOutside = False,
) -> None:
    """Check instance files without solving them; one line for each fault."""
    raise typer.Exit(check_files(files, allow_outside, MoveOptions()))


def check_files(files: list[str], allow_outside: bool, moves: MoveOptions) -> int:
    """Print what is wrong with instance files under these options, or their sizes; return the exit code."""
    codes = []
    for file in files:
        try:
            instance = load(file, allow_outside, moves.changes())
            if len(files) == 1:
                moves.check_patterns(instance)
        except ClusterplanError as error:
            say(str(error))
            codes.append(code_of_error(error))
            continue
        sizes = ", ".join(f"{count} {field}" for field, count in instance.sizes().items() if count)
        typer.echo(f"{file}: {instance.kind}, {sizes}; fine")
        for note in (*instance.figure_notes(), *instance.scale_notes()):
            typer.echo(f"  note: {note}")
    return worst(codes)


def document_names() -> list[str]:
    """Return the names of the documents that have a schema."""
    return [*KINDS, "catalogue", "result", "frontier"]


def schema_of(document: str) -> dict[str, Any]:
    """Return the JSON Schema of a document: of a kind of problem, a catalogue, a result or a frontier.

    Raises
    ------
    OptionError
        If there is no such document.
    """
    models: dict[str, type[BaseModel]] = {name: kind.model for name, kind in KINDS.items()}
    models |= {"catalogue": HardwareCatalogue, "result": Result}
    if document == "frontier":
        return TypeAdapter[Any](
            reduce(or_, (traded.model for traded in frontier_kinds().values()))
        ).json_schema()
    if document not in models:
        raise OptionError(f"no document {document!r}; there are: {', '.join(document_names())}")
    return models[document].model_json_schema()


def schema(
    document: Annotated[str, argument("A kind of problem, or catalogue, result or frontier.", "DOCUMENT")],
) -> None:
    """Print the JSON Schema of a document."""
    typer.echo(json.dumps(schema_of(document), indent=2))
