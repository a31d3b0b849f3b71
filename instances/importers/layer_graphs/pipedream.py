"""PipeDream: profiled graphs of layers, with the times of one GPU and the sizes of tensors (SOSP'19).

``graph.txt`` has a line ``nodeN -- Op -- forward_compute_time=ms, backward_compute_time=ms,
activation_size=bytes, parameter_size=bytes`` for each node, where several tensors are in brackets with
semicolons between them, and a line ``nodeA -- nodeB`` that begins with a tab for each edge.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from ...common.errors import Fault, Faults, InstanceError
from ...common.faults import validated
from ...common.fields import Cell, Model, Name, NonNegative, Positive, PositiveCount, validated_in_batches
from ...files.reading import fail, read_text
from ...staging.instance import StagingInstance
from ..importer import Importer, Option
from .graph_instance import GraphOptions, LayerGraph, Node, check_size, graph_instance

SOURCE = "msr-fiddle/pipedream (commit 7db6a1c, MIT)"
DEVICE = "profiled"
COPIES = 3
"""Weights, gradients and the momentum of SGD."""
IMAGE_BYTES = 3 * 224 * 224 * 4
"""Bytes of a colour picture of 224 x 224 pixels in single precision, the input of ImageNet models."""
INPUT = re.compile(r"[Ii]nput[0-9]*")
# A name is matched from its first letter only, and a list ends before the next one begins: else a long line
# would be scanned from each of its positions.
FIGURE = re.compile(r"(?<!\w)(\w+)=(\[[^\[\]]*\]|[^,\[]*)")


class PipedreamOptions(GraphOptions):
    """Profiled graphs of layers (PipeDream, SOSP'19): a staging instance."""

    ORDER = ("graph_file", "types", "speeds", "limit", "memory", "throughput", "batch", "input_time")

    graph_file: Annotated[Path, Option("graph.txt of a profile.", argument="graph")]
    speeds: Annotated[
        dict[Name, Positive], Option("How many times as fast as the profiled GPU, such as t4=0.4; else 1.")
    ] = {}
    memory: Annotated[dict[Name, Positive], Option("GiB of each type, such as v100=16.")] = {}
    batch: Annotated[
        PositiveCount | None, Option("Samples of the profiled batch. [default: read off the input's size]")
    ] = None
    input_time: Annotated[bool, Option("Whether loading the batch takes its profiled time.")] = True


class _Figures(Model):
    """Milliseconds and bytes of one node; a node may hand on several tensors."""

    forward_compute_time: NonNegative
    backward_compute_time: NonNegative
    activation_size: Annotated[tuple[NonNegative, ...], Field(max_length=1000), validated_in_batches(1000)]
    parameter_size: NonNegative


@Importer
def import_pipedream(options: PipedreamOptions) -> StagingInstance:
    """Return the staging instance of a model that PipeDream profiled."""
    options.refuse_unknown("speeds", "limit", "memory")
    graph = read_pipedream(options.graph_file, options.input_time)
    probe, why = (options.batch, "given at import") if options.batch else _batch(graph)
    model = options.graph_file.absolute().parent.name
    return graph_instance(
        graph,
        options,
        {name: (DEVICE, options.speeds.get(name, 1.0)) for name in options.types},
        name=f"pipedream-{model}",
        source=f"profile of {model}, in the layout of {SOURCE}",
        assumptions=[*_assumptions(options, graph), f"The times refer to {probe} samples: {why}."],
        transfers="; the gradients that come back over the same links are not charged.",
        stage_cost="overlap",
        batch=probe,
        memory_gib=options.memory,
        all_reduce=True,
    )


def read_pipedream(path: Path, input_time: bool = True) -> LayerGraph:
    """Return the layer graph of a ``graph.txt``.

    Raises
    ------
    InstanceError
        If a line is malformed, a node occurs twice, or an edge names an unknown node.
    """
    source = str(path)
    text = read_text(path)
    check_size(source, 1, text.count("\n"))
    lines = [(n, line) for n, line in enumerate(text.splitlines(), 1) if line.strip()]
    node_lines = [(n, line) for n, line in lines if not line[0].isspace()]
    edge_lines = [(n, line.strip()) for n, line in lines if line[0].isspace()]
    check_size(source, len(node_lines), len(edge_lines))
    nodes: dict[Any, Node] = {}
    edges: list[tuple[Any, Any]] = []
    faults = Faults()
    for number, line in node_lines:
        where = f"{source}: line {number}"
        try:
            key, node = _node(line, where, input_time)
            if key in nodes:
                raise fail(where, f"the node {key[:60]!r} stands twice; each node has one line")
            nodes[key] = node
        except InstanceError as error:
            faults.add_all(error)
            if faults.stop():
                break
    for number, line in edge_lines:
        start, sign, end = line.partition(" -- ")
        if not sign:
            faults.add(Fault(source, f"line {number}", "is no edge; an edge is: tab, nodeA -- nodeB"))
        for key in (start, end):
            if sign and key not in nodes:
                faults.add(Fault(source, f"line {number}", f"the node {key[:60]!r} has no line"))
        edges.append((start, end))
    faults.refuse()
    return LayerGraph(source, nodes, edges)


def _node(line: str, where: str, input_time: bool) -> tuple[str, Node]:
    key, first, rest = line.partition(" -- ")
    operation, second, figures = rest.rpartition(" -- ")
    if figures.startswith("stage_id="):
        operation, second, figures = operation.rpartition(" -- ")
    if not (first and second):
        raise fail(where, "is no node; a node is: name -- operation -- forward_compute_time=ms, …")
    given: dict[str, Any] = {name: Cell(value.strip()) for name, value in FIGURE.findall(figures)}
    tensors = str(given.get("activation_size", "")).strip("[]").split(";")
    if "activation_size" in given:
        given["activation_size"] = [Cell(size.strip()) for size in tensors]
    profiled = validated(_Figures, given, where)
    kind = operation.split("(", 1)[0].strip() or None
    loading = kind is not None and INPUT.fullmatch(kind) is not None
    milliseconds = profiled.forward_compute_time + profiled.backward_compute_time
    activations = math.fsum(profiled.activation_size)
    return key, Node(
        name=f"{key} {kind}"[:200] if kind else key[:200],
        seconds={DEVICE: 0.0 if loading and not input_time else milliseconds / 1000},
        kind=kind[:200] if kind else None,
        output_bytes=activations,
        memory_bytes=activations + COPIES * profiled.parameter_size,
        weight_bytes=profiled.parameter_size,
    )


def _inputs(graph: LayerGraph) -> list[Node]:
    return [node for node in graph.nodes.values() if node.kind and INPUT.fullmatch(node.kind)]


def _batch(graph: LayerGraph) -> tuple[int, str]:
    """Return the probable number of samples of the profiled batch, and the reason."""
    for node in _inputs(graph):
        pictures = node.output_bytes / IMAGE_BYTES
        if pictures >= 1 and pictures.is_integer():
            return int(pictures), (
                f"the {node.output_bytes:,.0f} bytes of node {node.name!r} are so many pictures of "
                "224 x 224 points in single precision"
            )
    return 1, "the source does not say how many; one sample here is one whole batch of the profile"


def _assumptions(options: PipedreamOptions, graph: LayerGraph) -> Iterable[str]:
    speeds = ", ".join(f"{name} {options.speeds.get(name, 1.0):g}" for name in options.types)
    yield (
        "The source does not name the GPU that was profiled; how many times as fast the types run every "
        f"layer is an assumption: {speeds}."
    )
    yield "A layer takes its forward and backward milliseconds; the update of weights was not profiled."
    for node in _inputs(graph):
        if not options.input_time:
            yield f"The time of node {node.name!r}, which loads the batch, is left out as asked."
        elif node.seconds[DEVICE]:
            milliseconds = node.seconds[DEVICE] * 1000
            yield f"Node {node.name!r}, which loads the batch, takes {milliseconds:g} ms and counts."
    yield (
        f"A GPU holds {COPIES} x the parameter bytes of its layers (weights, gradients and momentum) and the "
        "activations of one whole batch, however many GPUs share it, and nothing else."
    )
    unknown = [name for name in options.types if name not in options.memory]
    if unknown:
        yield f"The memory of {', '.join(unknown)} is unknown and not checked."
    if options.link_gbit_per_s is None:
        yield "Neither all-reduce nor transfers take time."
        return
    yield (
        "The source has no communication times; each layer does an all-reduce of twice its parameter bytes "
        f"for each batch over an assumed link of {options.link_gbit_per_s:g} Gbit/s; further GPUs do not "
        "shorten it, and a stage of one GPU is charged too."
    )
