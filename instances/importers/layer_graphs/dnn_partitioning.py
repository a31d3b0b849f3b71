"""dnn-partitioning: graphs of layers with latencies on an accelerator and a CPU (NeurIPS'20).

A JSON file has ``nodes`` (id, latencies in ms on either device, bytes on an accelerator, whether it is of the
backward pass, and a colour class whose nodes share a device), ``edges`` (time and bytes of the tensor that
the source node hands on) and how many devices there are. Accelerators are called FPGA throughout.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from ...common.errors import refuse_faults
from ...common.faults import validated
from ...common.fields import (
    Count,
    Flag,
    Many,
    Name,
    NonNegative,
    Part,
    Positive,
    PositiveCount,
    repeated,
    unknown_names,
    validated_in_batches,
)
from ...common.hardware import GIB
from ...files.reading import fail, read_mapping
from ...staging.instance import StagingInstance
from ..importer import Importer, Option
from .graph_instance import GraphOptions, LayerGraph, Node, check_size, graph_instance

SOURCE = "msr-fiddle/dnn-partitioning (commit b207b6a, MIT)"
ACCELERATOR, CPU = "accelerator", "cpu"


def _as_flag(value: Any) -> Any:
    return bool(value) if value in (0, 1) and not isinstance(value, str) else value


NodeId = Annotated[int, Field(strict=True, ge=-1_000_000_000, le=1_000_000_000)]
ZeroOne = Annotated[Flag, BeforeValidator(_as_flag)]


class _Node(Part):
    id: NodeId
    name: Name | None = None
    supportedOnFpga: ZeroOne
    cpuLatency: NonNegative
    fpgaLatency: NonNegative
    isBackwardNode: ZeroOne
    colorClass: NodeId | None = None
    size: NonNegative = 0.0

    @property
    def label(self) -> str:
        """Its name, or its number if it has none."""
        return self.name or f"node{self.id}"


class _Edge(Part):
    sourceId: NodeId
    destId: NodeId
    cost: NonNegative
    size: NonNegative | None = None


class _File(Part):
    maxSizePerFPGA: Positive
    maxFPGAs: Count
    maxCPUs: Count
    nodes: Annotated[tuple[_Node, ...], Field(min_length=1), validated_in_batches()]
    edges: Many[_Edge]


class DnnPartitioningOptions(GraphOptions):
    """Graphs of layers with latencies on two devices (dnn-partitioning): a staging instance."""

    ORDER = ("file", "types", "limit", "throughput", "batch")

    file: Annotated[Path, Option("JSON file with nodes and edges.", argument="file")]
    types: Annotated[
        dict[Name, NonNegative],
        Field(min_length=1),
        Option("USD per hour of one accelerator, CPU or both: accelerator=2.5,cpu=0.5."),
    ]
    limit: Annotated[
        dict[Name, PositiveCount], Option("Units of each type, such as accelerator=8; else as in the file.")
    ] = {}
    batch: Annotated[PositiveCount, Option("Samples that the latencies refer to.")] = 1
    link_gbit_per_s: Annotated[
        Positive | None, Option("Speed of the links. [default: as the file's transfer times imply]")
    ] = None


@Importer
def import_dnn_partitioning(options: DnnPartitioningOptions) -> StagingInstance:
    """Return the staging instance of a graph in the layout of dnn-partitioning."""
    file = options.file
    refuse_faults("options", unknown_names(options.types, (ACCELERATOR, CPU), "types", "device"))
    options.refuse_unknown("limit")
    data = read(file)
    limits = {ACCELERATOR: data.maxFPGAs, CPU: data.maxCPUs} | options.limit
    none = [name for name in options.types if not limits[name]]
    refuse_faults(
        "options",
        (
            (f"types.{name}", f"{file} has 0 of them; give --limit {name}=N, or choose other types")
            for name in none
        ),
    )
    over_link = options.link_gbit_per_s is not None and all(edge.size is not None for edge in data.edges)
    took = "over the link that was given at import" if over_link else "for the source's own transfer times"
    return graph_instance(
        _graph(data, str(file), over_link),
        options.model_copy(update={"limit": limits}),
        {name: (name, 1.0) for name in options.types},
        name=f"dnn-partitioning-{file.stem}",
        source=f"{file.name}, in the layout of {SOURCE}",
        assumptions=_assumptions(data, options),
        transfers=f", {took}; a CPU pays for no transfers. A stage has one device.",
        stage_cost="sum",
        batch=options.batch,
        memory_gib={ACCELERATOR: data.maxSizePerFPGA / GIB},
        rules={"most_units_per_stage": 1},
    )


def _graph(data: _File, source: str, over_link: bool) -> LayerGraph:
    """Return the layer graph of a file; tensors take the file's own times, or go over a link."""
    costs: dict[int, float] = {}
    sizes: dict[int, float] = {}
    backward = {node.id for node in data.nodes if node.isBackwardNode}
    # An edge from a backward node to itself orders nothing; of a forward node it is a cycle.
    edges = [edge for edge in data.edges if edge.sourceId != edge.destId or edge.sourceId not in backward]
    for edge in edges:
        # A tensor may have several receivers; if the sizes of its edges differ, the largest counts.
        costs[edge.sourceId] = max(costs.get(edge.sourceId, 0.0), edge.cost)
        sizes[edge.sourceId] = max(sizes.get(edge.sourceId, 0.0), edge.size or 0.0)
    nodes: dict[Hashable, Node] = {}
    for node in data.nodes:
        seconds = {ACCELERATOR: node.fpgaLatency / 1000} if node.supportedOnFpga else {}
        nodes[node.id] = Node(
            name=node.label,
            seconds=seconds | {CPU: node.cpuLatency / 1000},
            output_bytes=sizes.get(node.id, 0.0),
            memory_bytes=node.size,
            transfer_s={CPU: 0.0} if over_link else {CPU: 0.0, ACCELERATOR: costs.get(node.id, 0.0) / 1000},
            colour=None if node.colorClass is None else str(node.colorClass),
            backward=node.isBackwardNode,
        )
    return LayerGraph(source, nodes, [(edge.sourceId, edge.destId) for edge in edges])


def read(path: Path) -> _File:
    """Return the validated content of a JSON file of dnn-partitioning.

    Raises
    ------
    InstanceError
        If the file is malformed or its edges do not fit its nodes.
    """
    source = str(path)
    what = "is not a mapping; it needs nodes, edges, maxFPGAs, maxCPUs and maxSizePerFPGA"
    raw = read_mapping(path, what)
    lists = {key: raw.get(key) for key in ("nodes", "edges")}
    if isinstance(lists["nodes"], list) and isinstance(lists["edges"], list):
        check_size(source, len(lists["nodes"]), len(lists["edges"]))
        if any(isinstance(node, dict) and "TMPCs" in node for node in lists["nodes"][:1]):
            raise fail(
                source,
                "is in piper's layout (nodes with TMPCs: choices of tensor parallelism), which is not read; "
                "nodes need cpuLatency and fpgaLatency",
            )
    data = validated(_File, raw, source)
    ids = [node.id for node in data.nodes]
    complaints = [*repeated(ids, "nodes", "id", "{value} stands twice; each id may stand once")]
    known = set(ids)
    for index, edge in enumerate(data.edges):
        for key in ("sourceId", "destId"):
            if getattr(edge, key) not in known:
                what = f"is {getattr(edge, key)}, which is the id of none of the {len(known)} nodes"
                complaints.append((f"edges[{index}].{key}", what))
    refuse_faults(source, complaints)
    return data


def _assumptions(data: _File, options: DnnPartitioningOptions) -> Iterable[str]:
    backward = sum(node.isBackwardNode for node in data.nodes)
    if backward:
        yield f"{backward} backward nodes are in the stages of the forward nodes of their colour class."
    else:
        yield "The source has no backward nodes: the times are those of inference."
    ratios = {round(node.cpuLatency / node.fpgaLatency, 6) for node in data.nodes if node.fpgaLatency}
    if CPU in options.types and len(ratios) == 1:
        yield (
            f"The latency on a CPU is {ratios.pop():g} times that on an accelerator for every node: an "
            "assumption of the source's authors, not a measurement."
        )
    yield "Latencies are taken as milliseconds, for a whole CPU and a whole accelerator as one unit each."
    if options.batch == 1:
        yield "They refer to 1 sample; the source does not say how many, so a sample is what it took as one."
    else:
        yield f"They refer to {options.batch} samples, as given at import; the source does not say how many."
    if ACCELERATOR in options.types:
        yield (
            f"An accelerator has {data.maxSizePerFPGA / GIB:.6g} GiB, as in the source, and holds "
            "the sizes of all nodes of its layers, however many accelerators share them."
        )
    if CPU in options.types:
        yield "The memory of cpu is unknown and not checked."
    yield "Layers have no communication but transfers between stages; the source has no sizes of weights."
