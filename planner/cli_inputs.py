"""The commands that make instances: `import SOURCE` and `generate KIND`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from ..instances.errors import OptionError

if TYPE_CHECKING:
    from ..instances.base import Instance

importers = typer.Typer(
    help="Turn somebody else's data into an instance.", no_args_is_help=True, rich_markup_mode=None
)
generators = typer.Typer(
    help="Make a reproducible synthetic instance.", no_args_is_help=True, rich_markup_mode=None
)

Output = Annotated[Path | None, typer.Option(help="YAML or JSON file to write; YAML on stdout if not given.")]
JobsTable = Annotated[
    Literal["parquet", "csv"] | None,
    typer.Option(
        "--table",
        help="Write the jobs to a table beside the document. [default: parquet from 5000 jobs on]",
        show_default=False,
    ),
]
UnitLimits = Annotated[str | None, typer.Option(help="Units of each type, such as A100-40=8,GH-96=4.")]
Floor = Annotated[float | None, typer.Option(help="Floor in samples/s.")]
ParallelShare = Annotated[float, typer.Option(help="Share of the compute time that units divide.")]
Samples = Annotated[float, typer.Option(help="Samples to train.")]
Epochs = Annotated[float, typer.Option(help="How many times over.")]
Limits = Literal["none", "loose", "tight"]
Seed = Annotated[int, typer.Option(help="The same seed gives the same instance.", min=0)]


def _emit(instance: Instance, output: Path | None, table: Literal["parquet", "csv"] | None = None) -> None:
    from ..instances.document import has_many_jobs, save, to_text

    if output is None:
        if table is not None:
            raise OptionError("--table needs --output FILE; the table is written beside that file")
        if has_many_jobs(instance):
            raise OptionError(
                "so many jobs go into a table beside the document, not to stdout; give --output FILE"
            )
        typer.echo(to_text(instance), nl=False)
        return
    save(instance, output, table)
    typer.echo(f"{output}: {instance.kind} instance {instance.name!r}", err=True)
    for assumption in instance.assumptions:
        typer.echo(f"  assumed: {assumption}", err=True)


def _pairs(text: str, option: str, kind: type) -> dict[str, Any]:
    """Read NAME=NUMBER,NAME=NUMBER."""
    found = {}
    for part in text.split(","):
        name, sign, number = part.strip().partition("=")
        try:
            if not (sign and name):
                raise ValueError
            value = kind(number)
        except ValueError:
            raise OptionError(
                f"{option} {part.strip()!r}: write NAME=NUMBER, several separated by commas"
            ) from None
        if name in found:
            raise OptionError(f"{option} {part.strip()!r}: {name} stands twice; each name may stand once")
        found[name] = value
    return found


@importers.command()
def gavel(
    throughputs: Annotated[Path, typer.Option(help="simulation_throughputs.json")],
    trace: Annotated[Path, typer.Option(help="A .trace file.")],
    capacity: Annotated[str, typer.Option(help="GPUs of each type, such as v100=64,p100=64,k80=64.")],
    first: Annotated[int | None, typer.Option(help="Only the first N jobs of the trace.", min=1)] = None,
    output: Output = None,
) -> None:
    """Jobs with measured speeds on three GPU types (Gavel, OSDI'20): an allocation instance."""
    from ..instances.importers.gavel import import_gavel

    _emit(import_gavel(throughputs, trace, _pairs(capacity, "--capacity", int), first), output)


@importers.command()
def tiresias(
    jobs: Annotated[Path, typer.Option(help="Job list of the simulator, CSV.")],
    cluster: Annotated[Path, typer.Option(help="Cluster description of the simulator, CSV.")],
    tensor_sizes: Annotated[
        Path | None, typer.Option(help="JSON: model → tensor sizes; by default those of the simulator.")
    ] = None,
    output: Output = None,
) -> None:
    """Jobs and clusters of the Tiresias simulator (NSDI'19): a consolidation instance."""
    from ..instances.importers.tiresias import import_tiresias

    _emit(import_tiresias(jobs, cluster, tensor_sizes), output)


@importers.command()
def pollux(
    app: Annotated[
        list[Path],
        typer.Option(help="Folder with placements.csv and scalability.csv of an application; repeatable."),
    ],
    gpus: Annotated[int, typer.Option(help="GPUs of the cluster.", min=1)],
    speed: Annotated[
        Literal["ring", "table"], typer.Option(help="Fit ring_allreduce, or offer what was measured.")
    ] = "ring",
    batch: Annotated[
        str | None,
        typer.Option(help="Global batches, such as bert=48,cifar10=4096; by default what four GPUs take."),
    ] = None,
    samples: Annotated[
        str | None, typer.Option(help="Samples still to be trained, such as imagenet=1.2e8.")
    ] = None,
    steps: Annotated[
        float, typer.Option(help="Steps still to be made by jobs that --samples does not name.")
    ] = 10_000,
    output: Output = None,
) -> None:
    """Measured step times of ring all-reduce training (Pollux, OSDI'21): an allocation instance."""
    from ..instances.importers.pollux import import_pollux

    instance = import_pollux(
        app,
        gpus,
        speed,
        _pairs(batch, "--batch", int) if batch else None,
        _pairs(samples, "--samples", float) if samples else None,
        steps,
    )
    _emit(instance, output)


@importers.command()
def sailor(
    model_dir: Annotated[
        Path, typer.Option(help="Folder of one model's profiles, such as profiles/OPT-350.")
    ],
    types: Annotated[
        str, typer.Option(help="GPU types, separated by commas; all: those measured on one GPU.")
    ],
    microbatch: Annotated[
        int | None,
        typer.Option(
            help="Samples of the profiled batch. [default: most measured]", min=1, show_default=False
        ),
    ] = None,
    limit: UnitLimits = None,
    throughput: Floor = None,
    price: Annotated[str | None, typer.Option(help="USD per GPU-hour, such as Titan-RTX=0.5.")] = None,
    parallel_share: ParallelShare = 0.99,
    link_gbit_per_s: Annotated[
        float, typer.Option(help="Speed of the links; 0: no communication.", min=0)
    ] = 100.0,
    microbatches_per_step: Annotated[
        int, typer.Option(help="Microbatches that share an all-reduce.", min=1)
    ] = 4,
    samples: Samples = 1e6,
    epochs: Epochs = 1.0,
    llm_info: Annotated[
        Path | None, typer.Option(help="Sizes; by default llm_info.json above the folder.")
    ] = None,
    output: Output = None,
) -> None:
    """Measured layer times of a language model on several GPU types (Sailor): a staging instance."""
    from ..instances.importers.sailor import import_sailor

    instance = import_sailor(
        model_dir,
        "all" if types.strip() == "all" else [name.strip() for name in types.split(",")],
        microbatch,
        _pairs(limit, "--limit", int) if limit else None,
        throughput,
        prices=_pairs(price, "--price", float) if price else None,
        parallel_share=parallel_share,
        link_gbit_per_s=link_gbit_per_s or None,
        microbatches_per_step=microbatches_per_step,
        samples=samples,
        epochs=epochs,
        llm_info=llm_info,
    )
    _emit(instance, output)


@importers.command()
def pipedream(
    graph: Annotated[Path, typer.Argument(help="graph.txt of a profile.")],
    types: Annotated[str, typer.Option(help="USD per GPU-hour of each type, such as v100=2.48,t4=0.5.")],
    speeds: Annotated[
        str | None, typer.Option(help="How many times as fast as the profiled GPU, such as t4=0.4; else 1.")
    ] = None,
    limit: UnitLimits = None,
    memory: Annotated[str | None, typer.Option(help="GiB of each type, such as v100=16.")] = None,
    throughput: Floor = None,
    batch: Annotated[
        int | None,
        typer.Option(
            help="Samples of the profiled batch. [default: read off the input's size]",
            min=1,
            show_default=False,
        ),
    ] = None,
    input_time: Annotated[
        bool, typer.Option(help="Whether loading the batch takes its profiled time.")
    ] = True,
    parallel_share: ParallelShare = 0.99,
    link_gbit_per_s: Annotated[
        float, typer.Option(help="Speed of the links; 0: no communication.", min=0)
    ] = 100.0,
    samples: Samples = 1e6,
    epochs: Epochs = 1.0,
    output: Output = None,
) -> None:
    """Profiled graphs of layers (PipeDream, SOSP'19), cut into a chain: a staging instance."""
    from ..instances.importers.pipedream import import_pipedream

    instance = import_pipedream(
        graph,
        _pairs(types, "--types", float),
        _pairs(speeds, "--speeds", float) if speeds else None,
        _pairs(limit, "--limit", int) if limit else None,
        _pairs(memory, "--memory", float) if memory else None,
        throughput,
        batch=batch,
        input_time=input_time,
        samples=samples,
        epochs=epochs,
        parallel_share=parallel_share,
        link_gbit_per_s=link_gbit_per_s or None,
    )
    _emit(instance, output)


@importers.command()
def dnn_partitioning(
    file: Annotated[Path, typer.Argument(help="JSON file with nodes and edges.")],
    types: Annotated[
        str, typer.Option(help="USD per hour of one accelerator, CPU or both: accelerator=2.5,cpu=0.5.")
    ],
    limit: Annotated[
        str | None, typer.Option(help="Units of each type, such as accelerator=8; else as in the file.")
    ] = None,
    throughput: Floor = None,
    batch: Annotated[int, typer.Option(help="Samples that the latencies refer to.", min=1)] = 1,
    parallel_share: ParallelShare = 0.99,
    link_gbit_per_s: Annotated[
        float | None,
        typer.Option(
            help="Speed of the links. [default: as the file's transfer times imply]", show_default=False
        ),
    ] = None,
    samples: Samples = 1e6,
    epochs: Epochs = 1.0,
    output: Output = None,
) -> None:
    """Graphs of layers with latencies on two devices (dnn-partitioning): a staging instance."""
    from ..instances.importers.dnn_partitioning import import_dnn_partitioning

    instance = import_dnn_partitioning(
        file,
        _pairs(types, "--types", float),
        _pairs(limit, "--limit", int) if limit else None,
        throughput,
        batch=batch,
        samples=samples,
        epochs=epochs,
        parallel_share=parallel_share,
        link_gbit_per_s=link_gbit_per_s,
    )
    _emit(instance, output)


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
    from ..instances.generators.allocation import generate_allocation

    _emit(generate_allocation(jobs, resources, tightness, optional_share, seed, spare), output, table)


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
    from ..instances.generators.staging import generate_staging

    _emit(generate_staging(layers, types, limits, memory, transfers, seed), output)


@generators.command()
def ctr(
    layers: Annotated[int, typer.Option(help="How many layers.", min=3)] = 16,
    floor: Annotated[
        float | None,
        typer.Option(help="Floor in samples/s. [default: 150000 for 16 layers]", show_default=False),
    ] = None,
    seed: Seed = 0,
    output: Output = None,
) -> None:
    """Synthetic click-through-rate models on HeterPS's CPU cores and V100: a staging instance."""
    from ..instances.generators.ctr import generate_ctr

    _emit(generate_ctr(layers, seed, floor), output)


@generators.command()
def consolidation(
    servers: Annotated[int, typer.Option(help="How many servers.", min=1)],
    jobs: Annotated[int, typer.Option(help="How many jobs.", min=1)],
    gpus_per_server: Annotated[int, typer.Option(help="GPUs of each server.", min=1)] = 8,
    load: Annotated[float | None, typer.Option(help="GPUs asked over GPUs free.")] = None,
    required_share: Annotated[float, typer.Option(help="Share of jobs that must be consolidated.")] = 0.3,
    preferred_share: Annotated[float, typer.Option(help="Share of jobs that had better be.")] = 0.3,
    seed: Seed = 0,
    output: Output = None,
) -> None:
    """Jobs of 1 to 32 GPUs on partly filled servers."""
    from ..instances.generators.consolidation import generate_consolidation

    made = generate_consolidation(servers, jobs, gpus_per_server, load, required_share, preferred_share, seed)
    _emit(made, output)
