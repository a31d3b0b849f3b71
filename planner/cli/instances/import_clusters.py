"""The commands `import kubernetes` and `import slurm`: a cluster as it is."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from ....instances.importers.kubernetes.importer import import_kubernetes
from ....instances.importers.slurm.importer import import_slurm
from .imports import importers
from .output import Output, emit

__all__ = ["importers"]

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
