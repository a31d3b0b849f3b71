"""Staging instances of layer graphs, as a chain or as a graph, and their import options."""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain as joined
from typing import Annotated, Any, Literal

from pydantic import Field

from ...common.errors import refuse_faults
from ...common.faults import validated
from ...common.fields import Name, NonNegative, Positive, PositiveCount, Share, unknown_names
from ...common.hardware import GIB
from ...files.reading import fail
from ...staging.instance import StagingInstance
from ..importer import ImportOptions, Option
from .chain import Chain, ChainLayer, LayerGraph, Node, in_order


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


log = logging.getLogger("clusterplan")

LONGEST_NAME = 200
TRANSFERS_OF_CHAINS = (
    "A stage receives, once for each batch, every tensor made before it that it or a later stage uses; "
    "the gradients that come back over the same links are not charged."
)


class GraphOptions(StagingOptions):
    """Options of every import of a layer graph."""

    types: Annotated[
        dict[Name, NonNegative],
        Field(min_length=1),
        Option("USD per GPU-hour of each type, such as v100=2.48,t4=0.5."),
    ]
    shape: Annotated[
        Literal["auto", "graph", "chain"],
        Option(
            "Layers as a graph, or merged to a chain at the cut nodes; auto: as a graph if it branches or "
            "--stage-cost is given."
        ),
    ] = "auto"
    stage_cost: Annotated[
        Literal["overlap", "sum", "relay"] | None,
        Option(
            "In a graph: computing and transfers of a stage overlap, add up (sum), or overlap while stages "
            "hand on what crosses them (relay). [default: as the source has it]"
        ),
    ] = None

    def wants_graph(self, branches: Callable[[], bool]) -> bool:
        """Return whether the instance keeps the graph of layers; by default, if it has branches.

        Raises
        ------
        InstanceError
            If both a stage cost and a chain are requested.
        """
        what = f"is {self.stage_cost}, but is for graphs; leave it out, or take --shape graph"
        refuse_faults("options", [("stage_cost", what)] if self.stage_cost and self.shape == "chain" else ())
        if self.shape == "auto":
            return self.stage_cost is not None or branches()
        return self.shape == "graph"

    def refuse_unknown(self, *keys: str) -> None:
        """Check that the named options, mappings by hardware type, name only chosen types.

        Raises
        ------
        InstanceError
            If one names another type.
        """
        wrong = (unknown_names(getattr(self, key), self.types, key, "type", "chosen types") for key in keys)
        refuse_faults("options", joined.from_iterable(wrong))


def staging_instance(
    chain: Chain,
    options: GraphOptions,
    devices: Mapping[str, tuple[str, float]],
    *,
    name: str,
    source: str,
    assumptions: Sequence[str],
    batch: float,
    memory_gib: Mapping[str, float],
    all_reduce: bool,
) -> StagingInstance:
    """Return the staging instance of a chain of layers on the given devices.

    Parameters
    ----------
    devices
        Type → kind of device in the graph, and the speed of the type relative to it.
    all_reduce
        Whether layers communicate: an all-reduce of twice their weights over the link for each batch.

    Raises
    ------
    InstanceError
        If a layer can run on none of the types, or the document breaks a rule of staging.
    """
    layers = []
    for layer in chain.layers:
        seconds = chain.graph.seconds(layer.nodes)
        compute = {t: seconds[sort] / speed for t, (sort, speed) in devices.items() if sort in seconds}
        if not compute:
            own = chain.graph.named(layer.nodes)
            raise fail(chain.graph.source, f"none of {', '.join(devices)} can run {own}; choose other types")
        layers.append(_layer(chain, layer, options, compute, all_reduce))
    merged = list(_merged_note(chain))
    for warning in merged:
        log.warning(warning)
    notes = [
        *chain.notes,
        *merged,
        *assumptions,
        *shared_assumptions(options, TRANSFERS_OF_CHAINS),
    ]
    document = document_of(options, layers, name, source, notes, batch, memory_gib)
    return validated(StagingInstance, document, chain.graph.source)


def document_of(
    options: GraphOptions,
    layers: Sequence[Mapping[str, Any]],
    name: str,
    source: str,
    assumptions: Sequence[str],
    batch: float,
    memory_gib: Mapping[str, float],
) -> dict[str, Any]:
    """Return the document of a staging instance with these layers."""
    return {
        "name": name[:LONGEST_NAME],
        "source": source,
        "assumptions": assumptions,
        "objective": options.objective,
        "stage_rule": options.stage_rule or "maximal_runs",
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
        "layers": layers,
    }


def _merged_note(chain: Chain) -> Iterable[str]:
    """Yield a note for each layer that contains most of the graph, which no plan can divide further."""
    nodes = chain.graph.nodes
    seconds = {key: sum(node.seconds.values()) for key, node in nodes.items()}
    total, total_s = sum(node.count for node in nodes.values()), math.fsum(seconds.values())
    for layer in chain.layers:
        count, share = chain.total(layer, "count"), math.fsum(seconds[key] for key in layer.nodes) / total_s
        parallel = len(layer.nodes) > 1
        if (count > 1 and count > total / 2) or (parallel and share > 0.5):
            yield (
                f"Merging to a chain puts {count:g} of {total} nodes, with {share:.0%} of all time, "
                f"into one layer, {nodes[layer.cut].name!r}, which no plan divides"
                f"{' (--shape graph does)' if parallel else ''}."
            )


def _layer(
    chain: Chain,
    layer: ChainLayer,
    options: GraphOptions,
    compute: Mapping[str, float],
    all_reduce: bool,
) -> dict[str, Any]:
    node = chain.graph.nodes[layer.cut]
    weights = chain.total(layer, "weight_bytes")
    row: dict[str, Any] = {
        "name": node.name,
        "memory_gib": chain.total(layer, "memory_bytes") / GIB,
        "output_bytes": layer.output_bytes,
        "weight_bytes": weights,
        "compute_s": dict(compute),
        "compute_parallel": options.parallel_share,
    }
    if node.kind:
        row["kind"] = node.kind
    if all_reduce and options.link_gbit_per_s is not None:
        row["communication_s"] = dict.fromkeys(compute, 2 * weights * 8 / (options.link_gbit_per_s * 1e9))
    return row


def shared_assumptions(options: GraphOptions, transfers: str) -> Iterable[str]:
    """Yield the assumptions that all imports of layer graphs share."""
    yield options.how_units_share("units")
    yield (
        "Prices were given at import and are not from the source: "
        f"{', '.join(f'{name} {price:g} USD/h' for name, price in options.types.items())}."
    )
    yield transfers
    yield options.how_much_is_trained()


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


@dataclass(frozen=True)
class GraphLayer:
    """A node of a layer graph with its transfer times, colour class and direction.

    Attributes
    ----------
    transfer_s
        Kind of device → seconds to send or receive the output tensor; a missing kind sends its bytes over the
        link.
    colour
        Nodes of one colour must be in one stage; None: no such constraint.
    """

    node: Node
    transfer_s: Mapping[str, float]
    colour: str | None = None
    backward: bool = False


def branches(graph: LayerGraph) -> bool:
    """Return whether a layer graph has parallel branches: two nodes without a path between them."""
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
    """Return the staging instance of a graph of layers on the given devices.

    Parameters
    ----------
    edges
        Pairs of indices into `layers`.
    devices
        Type → kind of device in the graph, and the speed of the type relative to it.
    file
        The name of the graph in error messages.
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
        If a layer can run on none of the types, the options request another stage rule than free cuts, or the
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
    notes = [f"All {len(layers)} nodes of the graph are layers.", *assumptions]
    notes += shared_assumptions(options, transfers)
    document = document_of(options, rows, name, source, notes, batch, memory_gib)
    document["edges"] = [{"source": names[a], "target": names[b]} for a, b in edges]
    rules = {"stage_rule": "free_cuts", "stage_cost": stage_cost, **(rules or {})}
    return validated(StagingInstance, {**document, **rules}, file)


def _refuse_maximal_runs(options: GraphOptions) -> None:
    what = "is maximal_runs, but stages of a graph have no neighbours; take free_cuts, or --shape chain"
    refuse_faults("options", [("stage_rule", what)] if options.stage_rule == "maximal_runs" else ())


def unique_names(names: Sequence[str]) -> list[str]:
    """Return names made unique: duplicates get a number."""
    count, seen, made = Counter(names), Counter[str](), []
    for name in names:
        seen[name] += 1
        made.append(name[:200] if count[name] == 1 else f"{name[:180]} ({seen[name]})")
    return made
