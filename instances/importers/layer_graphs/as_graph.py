"""A layer graph as it is: each node a layer, each edge an edge of the instance."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ...common.errors import refuse_faults
from ...common.faults import validated
from ...common.hardware import GIB
from ...files.reading import fail
from ...staging.instance import StagingInstance
from .graph import LayerGraph, Node, in_order
from .instance import GraphOptions, document_of, shared_assumptions

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
"""The beginning of a sentence on when stages communicate."""


@dataclass(frozen=True)
class GraphLayer:
    """A node of a graph with what only a graph can say of it.

    Attributes
    ----------
    transfer_s
        Sort of device → seconds in which it sends or receives the tensor of the node; a sort that is missing
        takes its bytes over the link.
    colour
        Nodes of one colour are in one stage; None for a node alone.
    """

    node: Node
    transfer_s: Mapping[str, float]
    colour: str | None = None
    backward: bool = False


def branches(graph: LayerGraph) -> bool:
    """Return whether some node comes neither before nor after another."""
    order, cut = in_order(graph)
    return len(cut) < len(order)


def graph_instance(
    layers: Sequence[GraphLayer],
    edges: Sequence[tuple[int, int]],
    options: GraphOptions,
    devices: Mapping[str, tuple[str, float]],
    *,
    file: str,
    name: str,
    source: str,
    assumptions: Sequence[str],
    transfers: str,
    stage_cost: StageCost,
    batch: float,
    memory_gib: Mapping[str, float],
    all_reduce: bool = False,
    rules: Mapping[str, Any] | None = None,
) -> StagingInstance:
    """Return the staging instance of a graph.

    Parameters
    ----------
    edges
        Pairs of places in `layers`.
    devices
        Type → sort of device in the graph, and how many times as fast as it the type is.
    file
        What faults call the graph.
    transfers
        A sentence on when stages communicate.
    stage_cost
        Whether computing and communicating overlap, add up, or stages relay tensors.
    all_reduce
        Whether layers communicate: an all-reduce of twice their weights over the link for each batch.
    rules
        Further fields of the document.

    Raises
    ------
    InstanceError
        If a layer can run on none of the types, the options ask for another stage rule than free cuts, or the
        document breaks a rule of staging.
    """
    _refuse_maximal_runs(options)
    names = unique_names([layer.node.name for layer in layers])
    rows = []
    for label, layer in zip(names, layers, strict=True):
        seconds = layer.node.seconds
        compute = {t: seconds[sort] / speed for t, (sort, speed) in devices.items() if sort in seconds}
        if not compute:
            raise fail(file, f"none of {', '.join(devices)} can run {label}; choose other types")
        row: dict[str, Any] = {
            "name": label,
            "memory_gib": layer.node.memory_bytes / GIB,
            "output_bytes": layer.node.output_bytes,
            "weight_bytes": layer.node.weight_bytes,
            "compute_s": compute,
            "compute_parallel": options.parallel_share,
            "transfer_s": {t: layer.transfer_s[s] for t, (s, _) in devices.items() if s in layer.transfer_s}
            or None,
            "colour": layer.colour,
            "backward": layer.backward or None,
        }
        if layer.node.kind:
            row["kind"] = layer.node.kind
        if all_reduce and options.link_gbit_per_s is not None:
            moved = 2 * layer.node.weight_bytes * 8 / (options.link_gbit_per_s * 1e9)
            row["communication_s"] = dict.fromkeys(compute, moved)
        rows.append(row)
    said = [f"All {len(layers)} nodes of the graph are layers.", *assumptions]
    said += shared_assumptions(options, transfers)
    document = document_of(options, rows, name, source, said, batch, memory_gib)
    document["edges"] = [{"source": names[a], "target": names[b]} for a, b in edges]
    rules = {"stage_rule": "free_cuts", "stage_cost": stage_cost, **(rules or {})}
    return validated(StagingInstance, {**document, **rules}, file)


def _refuse_maximal_runs(options: GraphOptions) -> None:
    what = "is maximal_runs, but stages of a graph have no neighbours; take free_cuts, or --shape chain"
    refuse_faults("options", [("stage_rule", what)] if options.stage_rule == "maximal_runs" else ())


def unique_names(names: Sequence[str]) -> list[str]:
    """Return names that differ: those that stand twice get a number."""
    count, seen, made = Counter(names), Counter[str](), []
    for name in names:
        seen[name] += 1
        made.append(name[:200] if count[name] == 1 else f"{name[:180]} ({seen[name]})")
    return made
