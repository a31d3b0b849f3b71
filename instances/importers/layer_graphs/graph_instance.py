"""Layer graphs, the staging instances made of them, and the options of their imports."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Annotated, Any, Literal

import networkx as nx
from pydantic import Field

from ...common.errors import first_names, refuse_faults
from ...common.faults import validated
from ...common.fields import Name, NonNegative, Positive, PositiveCount, Share, unknown_names
from ...common.hardware import GIB
from ...files.reading import fail
from ...staging.instance import StagingInstance
from ..importer import ImportOptions, Option

MAX_NODES = 100_000
MAX_EDGES = 1_000_000
LONGEST_NAME = 200
MAX_NAMED = 5
"""Number of the nodes of a cycle that a message names."""

StageCost = Literal["overlap", "sum", "relay"]
TRANSFERS: Mapping[StageCost, str] = {
    "overlap": "While a stage computes, it sends or receives each tensor that passes between it and others",
    "sum": (
        "Before or after a stage computes, it sends or receives each tensor that passes between it and others"
    ),
    "relay": (
        "While a stage computes, it receives from the stage before it, and sends to the next at the same "
        "time, each tensor that is needed there or further on"
    ),
}
"""Stage cost → first words of the assumption on when stages communicate."""


class StagingOptions(ImportOptions):
    """Options of every import of measured layers."""

    limit: Annotated[dict[Name, PositiveCount], Option("Units of each type, such as A100-40=8,GH-96=4.")] = {}
    throughput: Annotated[Positive | None, Option("Floor in samples/s.")] = None
    parallel_share: Annotated[Share, Option("Share of the compute time that units divide.")] = 0.99
    link_gbit_per_s: Annotated[
        Positive | None,
        Option("Speed of the links; 0: no communication.", least=0, read=lambda speed: speed or None),
    ] = 100.0
    samples: Annotated[Positive, Option("Samples to train.")] = 1e6
    epochs: Annotated[Positive, Option("How many times over.")] = 1.0
    objective: Annotated[
        Literal["cost", "throughput", "time"], Option("Least cost, most samples/s or least time.")
    ] = "cost"
    stage_rule: Annotated[
        Literal["maximal_runs", "free_cuts"] | None,
        Option(
            "maximal_runs: neighbouring stages differ in type; free_cuts: they need not. "
            "[default: free_cuts for graphs and for tensor parallelism, else maximal_runs]"
        ),
    ] = None

    def how_units_share(self, units: str) -> str:
        """Return a note on how further units of a stage divide its compute time."""
        return (
            f"Further {units} of a stage divide {self.parallel_share:g} of its compute time; the source does "
            "not say how times scale."
        )

    def how_much_is_trained(self) -> str:
        """Return the note that the amount of training (samples, epochs) is assumed."""
        return (
            f"Training {self.samples:.10g} samples {self.epochs:g} times over is a choice; the source does "
            "not say how much is trained."
        )


class GraphOptions(StagingOptions):
    """Options of every import of a layer graph."""

    types: Annotated[
        dict[Name, NonNegative],
        Field(min_length=1),
        Option("USD per GPU-hour of each type, such as v100=2.48,t4=0.5."),
    ]
    stage_cost: Annotated[
        StageCost | None,
        Option(
            "In a graph: computing and transfers of a stage overlap, add up (sum), or overlap while stages "
            "hand on what crosses them (relay). [default: as the source has it]"
        ),
    ] = None

    def refuse_unknown(self, *keys: str) -> None:
        """Check that the named options, mappings by hardware type, name only chosen types.

        Raises
        ------
        InstanceError
            If one names another type.
        """
        wrong = (unknown_names(getattr(self, key), self.types, key, "type", "chosen types") for key in keys)
        refuse_faults("options", chain.from_iterable(wrong))


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
    transfer_s
        Kind of device → seconds to send or receive the output tensor; a missing kind sends its bytes over the
        link.
    colour
        Nodes of one colour must be in one stage; None: no such constraint.
    backward
        Whether it belongs to the backward pass.
    """

    name: str
    seconds: Mapping[str, float]
    kind: str | None = None
    output_bytes: float = 0.0
    memory_bytes: float = 0.0
    weight_bytes: float = 0.0
    transfer_s: Mapping[str, float] | None = None
    colour: str | None = None
    backward: bool = False


@dataclass(frozen=True)
class LayerGraph:
    """Nodes by key, and edges between keys; `source` is the name of the graph in error messages."""

    source: str
    nodes: Mapping[Hashable, Node]
    edges: Sequence[tuple[Hashable, Hashable]]


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


def in_order(graph: LayerGraph) -> list[Hashable]:
    """Return the keys of the nodes, in topological order where that is the only one, else as they are.

    Raises
    ------
    InstanceError
        If the edges between forward nodes make a cycle.
    """
    nodes = graph.nodes
    forward: nx.DiGraph[Hashable] = nx.DiGraph()
    forward.add_nodes_from(nodes)
    forward.add_edges_from((a, b) for a, b in graph.edges if not (nodes[a].backward or nodes[b].backward))
    try:
        order = list(nx.topological_sort(forward))
    except nx.NetworkXUnfeasible:
        around = first_names([nodes[edge[0]].name for edge in nx.find_cycle(forward)], MAX_NAMED)
        raise fail(graph.source, f"has a cycle through {around}; layers need an order", "edges") from None
    return order if nx.is_path(forward, order) else list(nodes)


def graph_instance(
    graph: LayerGraph,
    options: GraphOptions,
    devices: Mapping[str, tuple[str, float]],
    *,
    name: str,
    source: str,
    assumptions: Iterable[str],
    transfers: str,
    stage_cost: StageCost,
    batch: float,
    memory_gib: Mapping[str, float],
    all_reduce: bool = False,
    rules: Mapping[str, Any] | None = None,
) -> StagingInstance:
    """Return the staging instance of a graph of layers on the given devices.

    Parameters
    ----------
    devices
        Type → kind of device in the graph, and the speed of the type relative to it.
    transfers
        What follows the words on the stage cost in the sentence on when stages communicate.
    stage_cost
        Whether computing and communicating overlap, add up, or stages relay tensors, by default.
    all_reduce
        Whether layers communicate: an all-reduce of twice their weights over the link for each batch.
    rules
        Further fields of the document.

    Raises
    ------
    InstanceError
        If the graph has a cycle, a layer can run on none of the types, the options request another stage rule
        than free cuts, or the document breaks a rule of staging.
    """
    what = "is maximal_runs, but stages of a graph have no neighbours; take free_cuts"
    refuse_faults("options", [("stage_rule", what)] if options.stage_rule == "maximal_runs" else ())
    names = unique_names({key: graph.nodes[key].name for key in in_order(graph)})
    cost = options.stage_cost or stage_cost
    prices = ", ".join(f"{name} {price:g} USD/h" for name, price in options.types.items())
    document = {
        "name": name[:LONGEST_NAME],
        "source": source,
        "assumptions": [
            f"All {len(names)} nodes of the graph are layers.",
            *assumptions,
            options.how_units_share("units"),
            f"Prices were given at import and are not from the source: {prices}.",
            f"{TRANSFERS[cost]}, once for each batch{transfers}",
            options.how_much_is_trained(),
        ],
        "objective": options.objective,
        "stage_rule": "free_cuts",
        "throughput_floor_samples_per_s": options.throughput,
        "training": {"samples": options.samples, "epochs": options.epochs},
        "probe_batch": batch,
        "link_gbit_per_s": options.link_gbit_per_s,
        "types": [
            {
                "name": kind,
                "price_usd_per_hour": price,
                "limit": options.limit.get(kind),
                "memory_gib": memory_gib.get(kind),
            }
            for kind, price in options.types.items()
        ],
        "layers": [
            _layer(graph, key, label, options, devices, all_reduce=all_reduce) for key, label in names.items()
        ],
        "edges": [{"source": names[a], "target": names[b]} for a, b in graph.edges],
        "stage_cost": cost,
        **(rules or {}),
    }
    return validated(StagingInstance, document, graph.source)


def _layer(
    graph: LayerGraph,
    key: Hashable,
    label: str,
    options: GraphOptions,
    devices: Mapping[str, tuple[str, float]],
    *,
    all_reduce: bool,
) -> dict[str, Any]:
    """Return a node as a layer of a document."""
    node, link = graph.nodes[key], options.link_gbit_per_s
    compute = {t: node.seconds[kind] / speed for t, (kind, speed) in devices.items() if kind in node.seconds}
    if not compute:
        raise fail(graph.source, f"none of {', '.join(devices)} can run {label}; choose other types")
    given = node.transfer_s or {}
    layer = {
        "name": label,
        "memory_gib": node.memory_bytes / GIB,
        "output_bytes": node.output_bytes,
        "weight_bytes": node.weight_bytes,
        "compute_s": compute,
        "compute_parallel": options.parallel_share,
        "transfer_s": {t: given[kind] for t, (kind, _) in devices.items() if kind in given} or None,
        "colour": node.colour,
        "backward": node.backward or None,
    }
    if node.kind:
        layer["kind"] = node.kind
    if all_reduce and link is not None:
        layer["communication_s"] = dict.fromkeys(compute, 2 * node.weight_bytes * 8 / (link * 1e9))
    return layer


def unique_names(names: Mapping[Hashable, str]) -> dict[Hashable, str]:
    """Return key → name, made unique: duplicates get a number."""
    count, seen, made = Counter(names.values()), Counter[str](), dict[Hashable, str]()
    for key, name in names.items():
        seen[name] += 1
        made[key] = name[:LONGEST_NAME] if count[name] == 1 else f"{name[:180]} ({seen[name]})"
    return made
