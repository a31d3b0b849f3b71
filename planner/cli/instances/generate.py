"""The commands `generate KIND` for synthetic instances, `validate` for instance files, and `schema`.

The JSON Schema of a document says what a file may contain, which `validate` checks.
"""

from __future__ import annotations

import json
from functools import reduce
from operator import or_
from typing import Annotated, Any, Literal

import typer
from pydantic import BaseModel, TypeAdapter

from ....instances.allocation.generate import generate_allocation
from ....instances.common.errors import ClusterplanError, OptionError
from ....instances.common.hardware import HardwareCatalogue
from ....instances.consolidation.generate import generate_consolidation
from ....instances.documents import load
from ....instances.registry import KINDS
from ....instances.scheduling.generate import generate_scheduling
from ....instances.staging.generate import Limits, generate_staging
from ....instances.staging.generate_ctr import generate_ctr
from ....solvers.common.result import Result
from ...exit_codes import code_of_error, worst
from ...output import say
from ...registry import frontier_kinds
from ..options import AllowOutside, Files, MoveOptions
from .output import Output, emit

generators = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

JobsTable = Annotated[
    Literal["parquet", "csv"] | None,
    typer.Option(
        "--table", help="Write the jobs to a table beside the document. [default: parquet from 5000 jobs on]"
    ),
]
Seed = Annotated[int, typer.Option(help="The same seed gives the same instance.", min=0)]


@generators.command()
def allocation(
    jobs: Annotated[int, typer.Option(help="How many jobs.", min=1)],
    resources: Annotated[int, typer.Option(help="How many resources.", min=1, max=4)] = 3,
    tightness: Annotated[
        float | None, typer.Option(help="0: plenty; 1: only the smallest fit. [default: 0.5]", min=0, max=1)
    ] = None,
    optional_share: Annotated[float, typer.Option(help="Share of jobs that may wait.", min=0, max=1)] = 0.0,
    spare: Annotated[
        int | None,
        typer.Option(help="Every resource binds, with at most so many units to spare.", min=0),
    ] = None,
    seed: Seed = 0,
    output: Output = None,
    table: JobsTable = None,
) -> None:
    """Jobs with published speed coefficients and heavy-tailed remaining work."""
    emit(generate_allocation(jobs, resources, tightness, optional_share, seed, spare), output, table)


@generators.command()
def staging(
    layers: Annotated[int, typer.Option(help="How many layers.", min=1)],
    types: Annotated[int, typer.Option(help="How many types of hardware.", min=1)],
    limits: Annotated[
        Limits, typer.Option(help="How scarce units are; tight: a good plan needs all of every type.")
    ] = "loose",
    memory: Annotated[bool, typer.Option(help="Units have a memory limit.")] = False,
    transfers: Annotated[bool, typer.Option(help="Stages wait for their input.")] = False,
    seed: Seed = 0,
    output: Output = None,
) -> None:
    """Chains of embedding and dense layers on random hardware."""
    emit(generate_staging(layers, types, limits, memory, transfers, seed), output)


@generators.command()
def ctr(
    layers: Annotated[int, typer.Option(help="How many layers.", min=3)] = 16,
    floor: Annotated[
        float | None,
        typer.Option(help="Floor in samples/s. [default: 150000 for 16 layers]"),
    ] = None,
    seed: Seed = 0,
    output: Output = None,
) -> None:
    """Synthetic click-through-rate models on HeterPS's CPU cores and V100: a staging instance."""
    emit(generate_ctr(layers, seed, floor), output)


@generators.command()
def consolidation(
    servers: Annotated[int, typer.Option(help="How many servers, up to 100,000.", min=1)],
    jobs: Annotated[int, typer.Option(help="How many jobs.", min=1)],
    gpus_per_server: Annotated[
        int | None,
        typer.Option(help="GPUs of each server, where all have one shape. [default: 8]", min=1),
    ] = None,
    load: Annotated[
        float | None, typer.Option(help="GPUs asked over GPUs free; if not given, two fifths are free.")
    ] = None,
    resources: Annotated[int, typer.Option(help="1: GPUs; 3: CPUs and memory too.", min=1, max=3)] = 1,
    shapes: Annotated[int, typer.Option(help="How many shapes of servers.", min=1)] = 1,
    required_share: Annotated[float, typer.Option(help="Share of jobs that must be consolidated.")] = 0.3,
    preferred_share: Annotated[float, typer.Option(help="Share of jobs that had better be.")] = 0.3,
    must_place_share: Annotated[
        float, typer.Option(help="Share of jobs that must be placed.", min=0, max=1)
    ] = 0.0,
    rack_size: Annotated[int, typer.Option(help="Servers of a rack; 0: no racks.", min=0)] = 32,
    devices: Annotated[bool, typer.Option("--devices", help="GPUs are single devices.")] = False,
    shared: Annotated[
        float, typer.Option(help="With --devices: share of one-GPU jobs that share GPUs.", min=0, max=1)
    ] = 0.3,
    partitioned: Annotated[
        float, typer.Option(help="With --devices: share of one-GPU jobs on partitions.", min=0, max=1)
    ] = 0.0,
    unlike: Annotated[
        bool, typer.Option("--unlike", help="Amounts in milli-CPUs and MiB, values with nine decimals.")
    ] = False,
    seed: Seed = 0,
    output: Output = None,
    table: Annotated[
        Literal["parquet", "csv"] | None,
        typer.Option(
            help="Write servers and jobs to tables beside the document. [default: parquet from 5000 on]"
        ),
    ] = None,
) -> None:
    """Jobs of 1 to 32 GPUs on servers that are partly filled with running tasks."""
    made = generate_consolidation(
        servers,
        jobs,
        gpus_per_server,
        load,
        required_share,
        preferred_share,
        seed,
        resources=resources,
        shapes=shapes,
        rack_size=rack_size,
        must_place_share=must_place_share,
        devices=devices,
        shared=shared,
        partitioned=partitioned,
        unlike=unlike,
    )
    emit(made, output, table)


@generators.command()
def scheduling(
    jobs: Annotated[int, typer.Option(help="How many jobs.", min=1)],
    gpus: Annotated[int, typer.Option(help="GPUs of the cluster.", min=1)],
    load: Annotated[float, typer.Option(help="GPU-seconds asked over those until the last arrival.")] = 0.9,
    malleable: Annotated[bool, typer.Option("--malleable", help="Jobs run on any of a few sizes.")] = False,
    seed: Seed = 0,
    output: Output = None,
    table: JobsTable = None,
) -> None:
    """Jobs of 1 to 32 GPUs that arrive at random, with heavy-tailed durations."""
    emit(generate_scheduling(jobs, gpus, load, seed, malleable), output, table)


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
    document: Annotated[
        str, typer.Argument(help="A kind of problem, or catalogue, result or frontier.", metavar="DOCUMENT")
    ],
) -> None:
    """Print the JSON Schema of a document."""
    typer.echo(json.dumps(schema_of(document), indent=2))
