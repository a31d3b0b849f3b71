"""The problem that PipeDream's optimiser solves, as data of ours.

`optimizer_graph_hierarchical.py` of msr-fiddle/pipedream: a stage of m replicas takes the m-th part of its
computing and of an all-reduce. With transfers, a stage takes at least the time of what crosses the cut before
it, and of what crosses the cut after it (`stage_cost: relay`), but for two things:

* the first stage sends for nothing: so it has types of its own, on which nothing is sent, and which only one
  stage can have (`with_free_start`);
* a tensor with several receivers is counted until the branches to them have joined, though all of them are
  before the cut: so it has one more edge, to where they join (`until_joined`).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from clusterplan.instances.importers import import_pipedream
from clusterplan.instances.staging.instance import Edge, Layer, StageType, StagingInstance, with_replicas

ALL_REDUCE, TRANSFERS = 4.0, 2.0
"""How often the optimiser counts the bytes of weights, and of tensors: there and back."""
START = "start"
"""A layer without time in front of all others: the stage that has it is the first."""


def optimised(file: Path, gpus: int, bytes_per_s: float, transfers: bool) -> StagingInstance:
    """Return a profile of PipeDream as its optimiser sees it; the fewest seconds are sought of any plan."""
    options: dict[str, Any] = {"input_time": False, "link_gbit_per_s": None, "parallel_share": 1.0}
    instance = import_pipedream(file, {"gpu": 1.0}, shape="graph", limit={"gpu": gpus}, **options)
    # The optimiser takes inputs out of the graph, and all that they send.
    layers = tuple(
        layer.model_copy(update={"output_bytes": 0.0}) if layer.kind.startswith("Input") else layer
        for layer in instance.layers
    )
    instance = instance.model_copy(update={"layers": layers})
    if not transfers:
        return with_replicas(instance, bytes_per_s, ALL_REDUCE, 0.0)
    changes = {"stage_cost": "relay", "edges": until_joined(layers, instance.edges or ())}
    replicated = with_replicas(instance.model_copy(update=changes), bytes_per_s, ALL_REDUCE, TRANSFERS)
    return with_free_start(replicated)


def until_joined(layers: Sequence[Layer], edges: Sequence[Edge]) -> tuple[Edge, ...]:
    """Return the edges, and one more from each layer with branches to where all of them have joined."""
    import networkx as nx

    graph = nx.DiGraph([(edge.source, edge.target) for edge in edges])
    kind = {layer.name: layer.kind for layer in layers}
    # The optimiser takes out what unpacks a tensor that nothing uses.
    graph.remove_nodes_from([n for n in [*graph] if not graph.out_degree(n) and kind[n] == "__getitem__"])
    after = {name: nx.descendants(graph, name) | {name} for name in graph}
    place = {name: index for index, name in enumerate(nx.topological_sort(graph))}
    more = []
    for name in graph:
        common = set.intersection(*(after[other] for other in graph[name])) if graph[name] else set()
        joined = min(common, key=place.__getitem__, default=None)
        if joined is not None and joined not in graph[name]:
            more.append(Edge(source=name, target=joined))
    return (*edges, *more)


def with_free_start(instance: StagingInstance) -> StagingInstance:
    """Return a graph on types for replicas with a copy of each for the first stage, which sends for nothing.

    Such a copy costs as much as the whole hourly budget more than its replicas, and the budget is twice as
    large: one stage has such a type, and the replicas of all are limited as before.
    """
    budget = instance.hourly_budget_usd
    assert budget is not None
    names = {one.name: f"{one.name}, first" for one in instance.types}

    def first(one: StageType) -> StageType:
        price = one.price_usd_per_hour + budget
        return one.model_copy(update={"name": names[one.name], "price_usd_per_hour": price})

    def also(layer: Layer) -> Layer:
        seconds = layer.compute_s
        return layer.model_copy(
            update={
                "compute_s": seconds | {names[name]: value for name, value in seconds.items()},
                "transfer_s": (layer.transfer_s or {}) | dict.fromkeys(names.values(), 0.0),
            }
        )

    edges = instance.edges or ()
    received = {edge.target for edge in edges}
    sources = [layer.name for layer in instance.layers if layer.name not in received]
    start = Layer(name=START, compute_s=dict.fromkeys(names.values(), 0.0), compute_parallel=0.0)
    return instance.model_copy(
        update={
            "types": (*instance.types, *map(first, instance.types)),
            "layers": (start, *map(also, instance.layers)),
            "edges": (*(Edge(source=START, target=name) for name in sources), *edges),
            "hourly_budget_usd": 2 * budget,
        }
    )
