"""Layer graphs, and their reduction to a chain of layers at cut nodes (option --shape chain).

Stages consist of consecutive layers, so the layers need one order. A node is a cut node if every other
node comes before or after it on some path, so that it has the same place in every topological order; if
edges that a longer path bypasses are left out, every path from an input to an output passes it. Other
nodes lie on parallel branches; they are merged with the cut node that follows them. Between two layers
all tensors are transferred that were made before and are used after, those of skip connections included.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import networkx as nx

from ...common.errors import InstanceError
from ...files.reading import fail

MAX_NODES = 100_000
MAX_EDGES = 1_000_000


@dataclass(frozen=True)
class Node:
    """One node of a layer graph, with its times and sizes.

    Attributes
    ----------
    seconds
        Kind of device → seconds of forward and backward; a kind that is missing cannot run the node.
    kind
        The operation; None if it is unknown.
    output_bytes
        Size of its output tensor.
    memory_bytes, weight_bytes
        Memory that a device needs for it, and the part of the weights.
    count
        Number of nodes of the source that it represents.
    """

    name: str
    seconds: Mapping[str, float]
    kind: str | None = None
    output_bytes: float = 0.0
    memory_bytes: float = 0.0
    weight_bytes: float = 0.0
    count: int = 1


@dataclass(frozen=True)
class LayerGraph:
    """Nodes with the edges of the forward pass; `source` is the name of the graph in error messages."""

    source: str
    nodes: Mapping[Hashable, Node]
    edges: Sequence[tuple[Hashable, Hashable]]

    def digraph(self) -> nx.DiGraph[Hashable]:
        """Return the graph as a directed graph of networkx, which may still have cycles."""
        graph: nx.DiGraph[Hashable] = nx.DiGraph()
        graph.add_nodes_from(self.nodes)
        graph.add_edges_from(self.edges)
        return graph

    def seconds(self, keys: Sequence[Hashable]) -> dict[str, float]:
        """Return kind of device → total seconds of some nodes; only kinds that can run all of them."""
        sorts = set.intersection(*(set(self.nodes[key].seconds) for key in keys))
        kept = [sort for sort in self.nodes[keys[0]].seconds if sort in sorts]
        return {sort: math.fsum(self.nodes[key].seconds[sort] for key in keys) for sort in kept}

    def named(self, keys: Iterable[Hashable], most: int = 5) -> str:
        """Return the names of the first few nodes as text."""
        names = [self.nodes[key].name for key in keys]
        return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


@dataclass
class ChainLayer:
    """The graph nodes merged into one layer of a chain, which its last cut node names."""

    cut: Hashable
    nodes: list[Hashable]
    output_bytes: float = 0.0


@dataclass(frozen=True)
class Chain:
    """The layers of a chain in order, with notes on merged nodes."""

    graph: LayerGraph
    layers: Sequence[ChainLayer]
    notes: Sequence[str] = field(default=())

    def total(self, layer: ChainLayer, what: str) -> float:
        """Return the sum of the attribute `what`, such as bytes, over the nodes of a layer."""
        return math.fsum(getattr(self.graph.nodes[key], what) for key in layer.nodes)


def check_size(source: str, nodes: int, edges: int) -> None:
    """Refuse a graph without nodes or with too many nodes or edges, before it is built.

    Raises
    ------
    InstanceError
        If it has no nodes, or too many nodes or edges.
    """
    if not nodes:
        raise fail(source, "has no nodes; a graph of layers is needed")
    if nodes > MAX_NODES or edges > MAX_EDGES:
        raise fail(
            source,
            f"has {nodes:,} nodes and {edges:,} edges; at most {MAX_NODES:,} and {MAX_EDGES:,} are read",
        )


def in_order(graph: LayerGraph) -> tuple[list[Hashable], set[Hashable]]:
    """Return the nodes in topological order, and the cut nodes: those with a path from or to every other.

    Raises
    ------
    InstanceError
        If the graph has a cycle.
    """
    digraph = graph.digraph()
    try:
        order = list(nx.topological_sort(digraph))
    except nx.NetworkXUnfeasible:
        around = graph.named(edge[0] for edge in nx.find_cycle(digraph))
        raise fail(graph.source, f"has a cycle through {around}; layers need an order", "edges") from None
    after_all = _after_all_before(order, digraph.pred)
    before_all = _after_all_before(order[::-1], digraph.succ)
    return order, after_all & before_all


def _after_all_before(
    order: Sequence[Hashable], neighbours: Mapping[Hashable, Mapping[Hashable, Any]]
) -> set[Hashable]:
    """Return the nodes that are reachable from all nodes before them in the topological order.

    A node can if all ends of the paths so far lead to it, so that it becomes the only end.
    """
    ends: set[Hashable] = set()
    reached = set()
    for node in order:
        # An end with an edge to this node is no end any more.
        ends.difference_update(neighbours[node])
        ends.add(node)
        if len(ends) == 1:
            reached.add(node)
    return reached


def chain_of(graph: LayerGraph) -> Chain:
    """Return the chain of a layer graph, cut at the nodes with a path from or to every other node.

    Raises
    ------
    InstanceError
        If it has a cycle or no cut node, or no node takes time.
    """
    order, cut = in_order(graph)
    if not cut:
        raise _no_cut_node(graph)
    layers: list[ChainLayer] = []
    waiting: list[Hashable] = []
    for key in order:
        waiting.append(key)
        if key in cut:
            layers.append(ChainLayer(key, waiting))
            waiting = []
    # Nodes after the last cut node join its layer.
    layers[-1].nodes += waiting
    notes = [*_branch_notes(graph, layers, len(cut))]
    merged, without = _without_zero_times(graph, layers)
    if without:
        notes.append(
            f"{len(without)} layers take 0 s and joined the layer before them (at the start, after them): "
            f"{graph.named(without)}; {len(merged)} layers are left."
        )
    _set_output_bytes(graph, merged)
    return Chain(graph, merged, notes)


def _no_cut_node(graph: LayerGraph) -> InstanceError:
    digraph = graph.digraph()
    inputs = [key for key in graph.nodes if digraph.in_degree(key) == 0]
    outputs = [key for key in graph.nodes if digraph.out_degree(key) == 0]
    return fail(
        graph.source,
        f"its {len(graph.nodes)} nodes have no single order: none of them comes before or after all others, "
        "so the graph is no chain of layers (--shape graph keeps it); "
        f"inputs: {graph.named(inputs)}; outputs: {graph.named(outputs)}",
    )


def _branch_notes(graph: LayerGraph, layers: Sequence[ChainLayer], cut: int) -> Iterable[str]:
    total = len(graph.nodes)
    if total == cut:
        yield f"All {total} nodes of the graph are cut nodes, and each is a layer."
        return
    joined = sorted((layer for layer in layers if len(layer.nodes) > 1), key=lambda layer: -len(layer.nodes))
    largest = "; ".join(
        f"layer {graph.nodes[layer.cut].name!r} is {graph.named(layer.nodes)}" for layer in joined[:3]
    )
    yield (
        f"{total} nodes became {cut} layers at the cut nodes, which come before or after every other node; "
        f"the {total - cut} nodes of parallel branches joined the cut node after them"
        f"{f', in {len(joined)} layers, of which the largest' if len(joined) > 3 else ''}: {largest}."
    )


def _without_zero_times(
    graph: LayerGraph, layers: Sequence[ChainLayer]
) -> tuple[list[ChainLayer], list[Hashable]]:
    """Merge layers of zero time on any device into a neighbour; also return their cut nodes."""
    merged: list[ChainLayer] = []
    without: list[Hashable] = []
    start: list[Hashable] = []
    for layer in layers:
        if all(seconds > 0 for seconds in graph.seconds(layer.nodes).values()):
            merged.append(ChainLayer(layer.cut, start + layer.nodes))
            start = []
            continue
        without.append(layer.cut)
        (merged[-1].nodes if merged else start).extend(layer.nodes)
    if not merged:
        raise fail(graph.source, "all its layers take 0 s on some device; measured times are needed")
    return merged, without


def _set_output_bytes(graph: LayerGraph, layers: Sequence[ChainLayer]) -> None:
    """Set each layer's output bytes: the tensors made up to it that later layers use, once each."""
    place = {key: index for index, layer in enumerate(layers) for key in layer.nodes}
    last: dict[Hashable, int] = {}
    for start, end in graph.edges:
        last[start] = max(last.get(start, 0), place[end])
    ending: list[list[float]] = [[] for _ in range(len(layers) + 1)]
    alive: list[float] = []
    for key, end in last.items():
        if end > place[key]:
            ending[place[key]].append(graph.nodes[key].output_bytes)
            ending[end].append(-graph.nodes[key].output_bytes)
    for index, layer in enumerate(layers):
        alive += ending[index]
        alive = [math.fsum(alive)]
        layer.output_bytes = max(0.0, alive[0])
