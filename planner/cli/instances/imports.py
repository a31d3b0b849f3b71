"""The commands `import SOURCE`: published data sets, and clusters as they are."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from ....instances.common.errors import OptionError
from ....instances.importers import import_gavel, import_gavel_consolidation
from ....instances.importers.kubernetes.importer import import_kubernetes
from ....instances.importers.layer_graphs.dnn_partitioning import import_dnn_partitioning
from ....instances.importers.layer_graphs.pipedream import import_pipedream
from ....instances.importers.philly import import_philly
from ....instances.importers.pollux import import_pollux
from ....instances.importers.sailor import import_sailor
from ....instances.importers.slurm.importer import import_slurm
from ....instances.importers.tiresias import import_tiresias
from .output import Output, emit

importers = typer.Typer(
    help="Turn somebody else's data into an instance.", no_args_is_help=True, rich_markup_mode=None
)

UnitLimits = Annotated[str | None, typer.Option(help="Units of each type, such as A100-40=8,GH-96=4.")]
Floor = Annotated[float | None, typer.Option(help="Floor in samples/s.")]
ParallelShare = Annotated[float, typer.Option(help="Share of the compute time that units divide.")]
Samples = Annotated[float, typer.Option(help="Samples to train.")]
Epochs = Annotated[float, typer.Option(help="How many times over.")]


def pairs(text: str, option: str, kind: type) -> dict[str, Any]:
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
    kind: Annotated[
        Literal["allocation", "consolidation"], typer.Option(help="What to plan.")
    ] = "allocation",
    capacity: Annotated[
        str | None, typer.Option(help="Allocation: GPUs of each type, such as v100=64,p100=64,k80=64.")
    ] = None,
    gpu_type: Annotated[str | None, typer.Option(help="Consolidation: GPUs of the servers, as v100.")] = None,
    servers: Annotated[int | None, typer.Option(help="Consolidation: how many servers.", min=1)] = None,
    gpus_per_server: Annotated[
        int | None, typer.Option(help="Consolidation: GPUs of each server.", min=1)
    ] = None,
    first: Annotated[int | None, typer.Option(help="Only the first N jobs of the trace.", min=1)] = None,
    output: Output = None,
) -> None:
    """Jobs with measured speeds on three GPU types (Gavel, OSDI'20): allocation or consolidation."""
    cluster = {"--gpu-type": gpu_type, "--servers": servers, "--gpus-per-server": gpus_per_server}
    _check_options("allocation", kind, {"--capacity": capacity})
    _check_options("consolidation", kind, cluster)
    if capacity is not None:
        emit(import_gavel(throughputs, trace, pairs(capacity, "--capacity", int), first), output)
    elif gpu_type is not None and servers is not None and gpus_per_server is not None:
        emit(
            import_gavel_consolidation(throughputs, trace, gpu_type, servers, gpus_per_server, first), output
        )


def _check_options(needed_by: str, kind: str, given: dict[str, Any]) -> None:
    """Make sure that options are given with the kind of instance that needs them, and only there."""
    for name, value in given.items():
        if kind == needed_by and value is None:
            raise OptionError(f"{name} is missing; --kind {kind} needs {', '.join(given)}")
        if kind != needed_by and value is not None:
            raise OptionError(f"{name} goes with --kind {needed_by} only")


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
    emit(import_tiresias(jobs, cluster, tensor_sizes), output)


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
    instance = import_pollux(
        app,
        gpus,
        speed,
        pairs(batch, "--batch", int) if batch else None,
        pairs(samples, "--samples", float) if samples else None,
        steps,
    )
    emit(instance, output)


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
    instance = import_sailor(
        model_dir,
        "all" if types.strip() == "all" else [name.strip() for name in types.split(",")],
        microbatch,
        pairs(limit, "--limit", int) if limit else None,
        throughput,
        prices=pairs(price, "--price", float) if price else None,
        parallel_share=parallel_share,
        link_gbit_per_s=link_gbit_per_s or None,
        microbatches_per_step=microbatches_per_step,
        samples=samples,
        epochs=epochs,
        llm_info=llm_info,
    )
    emit(instance, output)


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
    instance = import_pipedream(
        graph,
        pairs(types, "--types", float),
        pairs(speeds, "--speeds", float) if speeds else None,
        pairs(limit, "--limit", int) if limit else None,
        pairs(memory, "--memory", float) if memory else None,
        throughput,
        batch=batch,
        input_time=input_time,
        samples=samples,
        epochs=epochs,
        parallel_share=parallel_share,
        link_gbit_per_s=link_gbit_per_s or None,
    )
    emit(instance, output)


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
    instance = import_dnn_partitioning(
        file,
        pairs(types, "--types", float),
        pairs(limit, "--limit", int) if limit else None,
        throughput,
        batch=batch,
        samples=samples,
        epochs=epochs,
        parallel_share=parallel_share,
        link_gbit_per_s=link_gbit_per_s,
    )
    emit(instance, output)


@importers.command()
def philly(
    jobs: Annotated[Path, typer.Argument(help="philly.csv of the Pollux artifact.")],
    at: Annotated[str, typer.Option(help="The instant, such as '2017-11-01 12:00'.")],
    servers: Annotated[int, typer.Option(help="Servers of the cluster.", min=1)],
    gpus_per_server: Annotated[int, typer.Option(help="GPUs of each server.", min=1)] = 8,
    spread: Annotated[
        Literal["one-server", "required", "preferred", "free"],
        typer.Option(help="one-server: a job that fits one must have one, others had better use few."),
    ] = "one-server",
    virtual_cluster: Annotated[
        str | None, typer.Option(help="Only the jobs of this one, such as 6214e9.")
    ] = None,
    output: Output = None,
) -> None:
    """Jobs that ran at one instant in production (Philly, ATC'19): a consolidation instance."""
    emit(import_philly(jobs, at, servers, gpus_per_server, spread, virtual_cluster), output)


Spread = Annotated[
    Literal["required", "preferred", "free"],
    typer.Option(help="How jobs of several tasks or pods may spread over servers."),
]
Running = Annotated[
    Literal["move", "stay"],
    typer.Option(help="move: jobs that run are planned too and stay placed; stay: they keep what they have."),
]


@importers.command()
def kubernetes(
    nodes: Annotated[Path, typer.Argument(help="What 'kubectl get nodes -o json' prints.")],
    pods: Annotated[Path, typer.Argument(help="What 'kubectl get pods --all-namespaces -o json' prints.")],
    choice: Annotated[
        Literal["gpu", "all"],
        typer.Option("--pods", help="gpu: jobs that ask for a GPU; all: every job outside kube-*."),
    ] = "gpu",
    running: Running = "move",
    namespace: Annotated[
        list[str] | None, typer.Option(help="Only the pods of this namespace; repeatable.")
    ] = None,
    spread: Spread = "preferred",
    rack_label: Annotated[
        str, typer.Option(help="Label of a node with its rack.")
    ] = "topology.kubernetes.io/zone",
    gpu_label: Annotated[
        str, typer.Option(help="Label of a node with its GPU model.")
    ] = "nvidia.com/gpu.product",
    gpu_resource: Annotated[
        list[str] | None,
        typer.Option(help="Resource that is a GPU; repeatable. [default: those called so]"),
    ] = None,
    output: Output = None,
) -> None:
    """Nodes and pods of a Kubernetes cluster: a consolidation instance."""
    instance = import_kubernetes(
        nodes,
        pods,
        choice,
        running,
        namespace or (),
        spread,
        rack_label,
        gpu_label,
        gpu_resource or (),
    )
    emit(instance, output)


@importers.command()
def slurm(
    nodes: Annotated[
        Path, typer.Argument(help="What 'scontrol show nodes --json' or 'sinfo --json' prints.")
    ],
    queue: Annotated[Path, typer.Argument(help="What 'squeue --json' prints.")],
    choice: Annotated[
        Literal["gpu", "all"], typer.Option("--jobs", help="gpu: jobs that ask for a GPU; all: every job.")
    ] = "gpu",
    running: Running = "move",
    partition: Annotated[
        list[str] | None, typer.Option(help="Only nodes and jobs of this partition; repeatable.")
    ] = None,
    spread: Spread = "preferred",
    output: Output = None,
) -> None:
    """Nodes and queue of a Slurm cluster: a consolidation instance."""
    emit(import_slurm(nodes, queue, choice, running, partition or (), spread), output)
