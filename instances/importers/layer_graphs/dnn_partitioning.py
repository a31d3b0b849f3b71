"""dnn-partitioning: graphs of layers with latencies on an accelerator and a CPU (NeurIPS'20).

A JSON file has ``nodes`` (id, latencies in ms on either device, bytes on an accelerator, whether it is of the
backward pass, and a colour class whose nodes share a device), ``edges`` (time and bytes of the tensor that
the source node hands on) and how many devices there are. Accelerators are called FPGA throughout.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import networkx as nx
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
    validated_in_batches,
)
from ...common.hardware import GIB
from ...files.reading import fail, read_mapping
from ...staging.instance import StagingInstance
from ..importer import Importer, Option
from .chain import LayerGraph, Node, chain_of, check_size, in_order
from .graph_instance import (
    TRANSFERS,
    GraphLayer,
    GraphOptions,
    StageCost,
    branches,
    graph_instance,
    staging_instance,
)

SOURCE = "msr-fiddle/dnn-partitioning (commit b207b6a, MIT)"
ACCELERATOR, CPU = "accelerator", "cpu"
DEFAULT_LINK_GBIT_PER_S = 100.0
STAGE_COST: StageCost = "sum"
"""The default rule, that of the source."""


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
    strange = [name for name in options.types if name not in (ACCELERATOR, CPU)]
    what = f"the source has no such device; allowed: {ACCELERATOR}, {CPU}"
    refuse_faults("options", ((f"types.{name}", what) for name in strange))
    options.refuse_unknown("limit")
    data = read(file)
    link, how = _link(data, options.link_gbit_per_s)
    limits = {ACCELERATOR: data.maxFPGAs, CPU: data.maxCPUs} | options.limit
    none = [name for name in options.types if not limits[name]]
    what = f"{file} has 0 of them; give --limit "
    refuse_faults("options", ((f"types.{name}", f"{what}{name}=N, or choose other types") for name in none))
    if options.wants_graph(lambda: _branches(data, str(file), link)):
        return _as_graph(data, options.model_copy(update={"limit": limits}))
    graph = folded(data, str(file), link)
    return staging_instance(
        chain_of(graph),
        options.model_copy(update={"limit": limits, "link_gbit_per_s": link}),
        {name: (name, 1.0) for name in options.types},
        name=f"dnn-partitioning-{file.stem}",
        source=f"{file.name}, in the layout of {SOURCE}",
        assumptions=[*_assumptions(data, options), how],
        batch=options.batch,
        memory_gib={ACCELERATOR: data.maxSizePerFPGA / GIB},
        all_reduce=False,
    )


def _branches(data: _File, source: str, link_gbit_per_s: float) -> bool:
    """Return whether a chain cannot represent the layers: branches, or unpaired backward nodes."""
    colours = {node.colorClass for node in data.nodes if not node.isBackwardNode}
    orphans = any(node.isBackwardNode and node.colorClass not in colours for node in data.nodes)
    return orphans or branches(folded(data, source, link_gbit_per_s))


def _as_graph(data: _File, options: DnnPartitioningOptions) -> StagingInstance:
    """Return the staging instance of the unmerged graph, one device per stage and additive costs."""
    edges = [edge for edge in data.edges if edge.sourceId != edge.destId]
    costs: dict[int, float] = {}
    sizes: dict[int, float] = {}
    for edge in edges:
        # A tensor may have several receivers; if the sizes of its edges differ, the largest counts.
        costs[edge.sourceId] = max(costs.get(edge.sourceId, 0.0), edge.cost)
        sizes[edge.sourceId] = max(sizes.get(edge.sourceId, 0.0), edge.size or 0.0)
    over_link = options.link_gbit_per_s is not None and all(edge.size is not None for edge in edges)
    layers = []
    for node in data.nodes:
        seconds = {ACCELERATOR: node.fpgaLatency / 1000} if node.supportedOnFpga else {}
        seconds[CPU] = node.cpuLatency / 1000
        transfer = {CPU: 0.0}
        if not over_link:
            transfer[ACCELERATOR] = costs.get(node.id, 0.0) / 1000
        bytes_held = Node(node.label, seconds, None, sizes.get(node.id, 0.0), node.size)
        colour = None if node.colorClass is None else str(node.colorClass)
        layers.append(GraphLayer(bytes_held, transfer, colour, node.isBackwardNode))
    place = {node.id: index for index, node in enumerate(data.nodes)}
    cost = options.stage_cost or STAGE_COST
    took = "over the link that was given at import" if over_link else "for the source's own transfer times"
    return graph_instance(
        layers,
        [(place[edge.sourceId], place[edge.destId]) for edge in edges],
        options,
        {name: (name, 1.0) for name in options.types},
        file=str(options.file),
        name=f"dnn-partitioning-{options.file.stem}",
        source=f"{options.file.name}, in the layout of {SOURCE}",
        assumptions=list(_assumptions(data, options, folded=False)),
        transfers=(
            f"{TRANSFERS[cost]}, once for each batch, {took}; a CPU pays for no transfers. "
            "A stage has one device."
        ),
        stage_cost=cost,
        batch=options.batch,
        memory_gib={ACCELERATOR: data.maxSizePerFPGA / GIB},
        rules={"most_units_per_stage": 1},
    )


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


def _forward_edges(data: _File) -> list[_Edge]:
    backward = {node.id for node in data.nodes if node.isBackwardNode}
    return [edge for edge in data.edges if edge.sourceId not in backward and edge.destId not in backward]


def _link(data: _File, asked: float | None) -> tuple[float, str]:
    """Return the link speed in Gbit/s, and a note on it and on the tensor sizes."""
    edges = _forward_edges(data)
    sized = [edge for edge in edges if edge.size and edge.cost]
    speed = asked or DEFAULT_LINK_GBIT_PER_S
    if any(edge.size is None for edge in edges):
        return speed, (
            "The source has transfer times but not all sizes; tensors have the bytes that a link of "
            f"{speed:g} Gbit/s moves in that time."
        )
    if asked is not None or not sized:
        return speed, (
            f"Transfers take the bytes of the source over an assumed link of {speed:g} Gbit/s; the source's "
            "own transfer times are not used."
        )
    total_bytes = math.fsum(edge.size or 0.0 for edge in sized)
    speed = total_bytes * 8 / (math.fsum(edge.cost for edge in sized) / 1000) / 1e9
    doubt = "no network is so fast, and they may be in another unit; " if speed > 10_000 else ""
    return speed, (
        f"The link of {speed:.6g} Gbit/s is the one that the source's transfer times imply, read as "
        f"milliseconds as its latencies are; {doubt}--link-gbit-per-s sets another."
    )


def folded(data: _File, source: str, link_gbit_per_s: float) -> LayerGraph:
    """Return the graph with each colour class merged to one node, forward and backward together.

    Raises
    ------
    InstanceError
        If the forward edges have a cycle, or a backward node has no forward node of its colour.
    """
    forward = {node.id: node for node in data.nodes if not node.isBackwardNode}
    edges = _forward_edges(data)
    plain: dict[Hashable, Node] = {key: Node(node.label, {}) for key, node in forward.items()}
    # Only to refuse a cycle with the names of the file's nodes; the groups come later.
    in_order(LayerGraph(source, plain, [(edge.sourceId, edge.destId) for edge in edges]))
    group = _groups(data, source)
    members: dict[Hashable, list[_Node]] = {}
    for node in sorted(data.nodes, key=lambda node: node.isBackwardNode):
        members.setdefault(group[node.id], []).append(node)
    tensors: dict[int, float] = {}
    all_sized = all(edge.size is not None for edge in edges)
    for edge in edges:
        moved = edge.size if all_sized else edge.cost / 1000 * link_gbit_per_s * 1e9 / 8
        if group[edge.sourceId] != group[edge.destId]:
            # A tensor may have several receivers; if the sizes of its edges differ, the largest counts.
            tensors[edge.sourceId] = max(tensors.get(edge.sourceId, 0.0), moved or 0.0)
    labels = _labels(members)
    nodes = {key: _folded_node(labels[key], nodes, tensors) for key, nodes in members.items()}
    pairs = [(group[edge.sourceId], group[edge.destId]) for edge in edges]
    return LayerGraph(source, nodes, [(start, end) for start, end in pairs if start != end])


def _groups(data: _File, source: str) -> dict[int, Hashable]:
    """Return node id → key of its merged node: its colour class, or several that form a cycle."""
    colour = {
        node.id: ("node", node.id) if node.colorClass is None else ("colour", node.colorClass)
        for node in data.nodes
    }
    coloured = {colour[node.id] for node in data.nodes if not node.isBackwardNode}
    orphans = [
        (index, node)
        for index, node in enumerate(data.nodes)
        if node.isBackwardNode and colour[node.id] not in coloured
    ]
    if orphans:
        index, first = orphans[0]
        what = (
            f"the backward node {first.label!r} shares its class with no forward node, onto which to fold it"
        )
        more = f", like {len(orphans) - 1} others" if len(orphans) > 1 else ""
        raise fail(source, f"{what}{more}; --shape graph keeps such nodes", f"nodes[{index}].colorClass")
    graph: nx.DiGraph[Hashable] = nx.DiGraph()
    graph.add_nodes_from(coloured)
    graph.add_edges_from((colour[edge.sourceId], colour[edge.destId]) for edge in _forward_edges(data))
    joined: dict[Hashable, Hashable] = {}
    # Classes on a cycle depend on each other in both directions, so they cannot be different layers.
    for component in nx.strongly_connected_components(graph):
        joined |= dict.fromkeys(component, min(component))
    return {key: joined[name] for key, name in colour.items()}


def _labels(members: Mapping[Hashable, Sequence[_Node]]) -> dict[Hashable, str]:
    """Return key of a merged node → unique name: that of its first forward node."""
    names = {key: nodes[0].label for key, nodes in members.items()}
    count = Counter(names.values())
    return {
        key: name[:200] if count[name] == 1 else f"{name[:180]} ({members[key][0].id})"
        for key, name in names.items()
    }


def _folded_node(label: str, nodes: Sequence[_Node], tensors: Mapping[int, float]) -> Node:
    seconds = {ACCELERATOR: math.fsum(node.fpgaLatency for node in nodes) / 1000}
    if not all(node.supportedOnFpga for node in nodes):
        seconds = {}
    seconds[CPU] = math.fsum(node.cpuLatency for node in nodes) / 1000
    return Node(
        name=label,
        seconds=seconds,
        output_bytes=math.fsum(tensors.get(node.id, 0.0) for node in nodes),
        memory_bytes=math.fsum(node.size for node in nodes),
        count=len(nodes),
    )


def _assumptions(data: _File, options: DnnPartitioningOptions, folded: bool = True) -> Iterable[str]:
    backward = sum(node.isBackwardNode for node in data.nodes)
    if backward and not folded:
        yield f"{backward} backward nodes are in the stages of the forward nodes of their colour class."
    elif backward:
        yield (
            f"{backward} backward nodes were folded onto the forward nodes of their colour class, with their "
            "latencies and sizes."
        )
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
