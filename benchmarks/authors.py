"""Planners of layer graphs by other authors, run from checkouts, and the problem that PipeDream's solves.

* `throughput-dp` of msr-fiddle/dnn-partitioning: C++, compiled with g++ (Tarnawski et al., NeurIPS 2020);
* `optimizer_graph_hierarchical.py` of msr-fiddle/pipedream: Python (Narayanan et al., SOSP 2019).

Stages may have several replicas that all-reduce their weights; each number of replicas is a type then. The
all-reduce of m replicas grows with m, which a parallel share of the time cannot express. Instead, one unit of
the type `m x NAME` is a whole stage of m replicas, with its own times, and an hourly budget limits all these
types together (`with_replicas`).

To the second a stage of m replicas takes the m-th part of its computing and of an all-reduce. With transfers,
a stage takes at least the time of what crosses the cut before it, and of what crosses the cut after it
(`stage_cost: relay`), but for two things:

* the first stage sends for nothing: so it has types of its own, on which nothing is sent, and which only one
  stage can have (`with_free_start`);
* a tensor with several receivers is counted until the branches to them have joined, though all of them are
  before the cut: so it has one more edge, to where they join (`until_joined`).
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
import types
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from runner import last_line

from clusterplan.instances.importers import import_pipedream
from clusterplan.instances.staging.instance import Edge, Layer, StageType, StagingInstance

PROGRAMME = Path("throughput-dp", "dp.cpp")
OPTIMISER = Path("optimizer", "optimizer_graph_hierarchical.py")
START = """
import runpy, sys, types
sys.modules["graphviz"] = types.ModuleType("graphviz")
del sys.argv[0]
runpy.run_path(sys.argv[0], run_name="__main__")
"""
"""Runs a script that imports graphviz, which it needs only to draw."""
ALL_REDUCE, THERE_AND_BACK = 4.0, 2.0
"""How often the optimiser counts the bytes of weights, and of tensors: there and back."""
FIRST_LAYER = "start"
"""A layer without time in front of all others: the stage that has it is the first."""


def compiled_programme(checkout: Path, folder: Path) -> Path:
    """Compile the dynamic programme of dnn-partitioning.

    Raises
    ------
    subprocess.CalledProcessError
        If it cannot be compiled.
    OSError
        If there is no g++.
    """
    program = folder / "dp"
    command = ["g++", "-O3", "-w", str(checkout / PROGRAMME), "-o", str(program)]
    subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603
    return program


def dynamic_programme(program: Path, file: Path) -> dict[str, Any]:
    """Return what the dynamic programme of dnn-partitioning finds for a graph."""
    start = time.perf_counter()
    with file.open("rb") as graph:
        done = subprocess.run(  # noqa: S603
            [str(program)], check=False, stdin=graph, capture_output=True, text=True
        )
    seconds = time.perf_counter() - start
    found = re.search(r'"maxLoad"\s*:\s*([-+.\deE]+)', done.stdout)
    if found is None:
        return {
            "status": "no answer",
            "total_s": seconds,
            "message": last_line(done.stdout + done.stderr),
        }
    return {"status": "answered", "total_s": seconds, "ms": float(found[1])}


def pipedream(checkout: Path, file: Path, gpus: int, bytes_per_s: float, transfers: bool) -> dict[str, Any]:
    """Return what PipeDream's optimiser finds for a profile."""
    arguments = ["-f", str(file), "-n", str(gpus), "-b", f"{bytes_per_s:g}"]
    arguments += ["--activation_compression_ratio", "1"] if transfers else []
    command = [sys.executable, "-c", START, OPTIMISER.name, *arguments]
    start = time.perf_counter()
    done = subprocess.run(  # noqa: S603
        command, check=False, cwd=checkout / OPTIMISER.parent, capture_output=True, text=True
    )
    seconds = time.perf_counter() - start
    found = re.search(r"^Time per stage in pipeline: (\S+)", done.stdout, re.MULTILINE)
    if found is None:
        return {"status": "no answer", "total_s": seconds, "message": last_line(done.stderr)}
    replicas = re.findall(r"^\(\d+, \d+\) \S+ (\d+)$", done.stdout, re.MULTILINE)
    milliseconds = 1000 * float(found[1])
    return {
        **{"status": "answered", "total_s": seconds, "ms": milliseconds, "priced_ms": milliseconds},
        "stages": " → ".join(replicas),
    }


def priced_ms(
    checkout: Path,
    file: Path,
    stages: Sequence[tuple[Sequence[str], int]],
    bytes_per_s: float,
    transfers: bool,
) -> float:
    """Return the milliseconds of a plan under the cost model of PipeDream's optimiser.

    A stage of m replicas takes (C + 4 (m − 1) P / (m b)) / m for C seconds of computing, P bytes of weights
    and b bytes per second. Each further stage takes at least the time of its transfers: 2/m of the tensors
    that leave the ideal before it, and of those that leave its own.

    Parameters
    ----------
    stages
        Names of the nodes of each stage in turn, and its replicas.
    """
    graph = _graph(checkout, file)
    slowest, received, done = 0.0, 0.0, set[str]()
    for index, (names, replicas) in enumerate(stages):
        own = [graph.nodes[name] for name in names if name in graph.nodes]
        done.update(node.node_id for node in own)
        computing = sum(node.forward_compute_time + node.backward_compute_time for node in own) / 1000
        weights = sum(node.parameter_size for node in own)
        reduced = 4 * (replicas - 1) * weights / (bytes_per_s * replicas)
        sent = _leaving_bytes(graph, done)
        times = [(computing + reduced) / replicas]
        if transfers and index:
            times += [2 * moved / (bytes_per_s * replicas) for moved in (received, sent)]
        slowest, received = max(slowest, *times), sent
    return 1000 * slowest


def _graph(checkout: Path, file: Path) -> Any:
    """Return the graph as the optimiser reads it: without inputs, and without sinks that nothing uses."""
    sys.modules.setdefault("graphviz", types.ModuleType("graphviz"))
    sys.path.insert(0, str(checkout))
    try:
        from graph import Graph
    finally:
        sys.path.remove(str(checkout))
    graph = Graph.from_str(file.read_text())
    for source in graph.sources():
        if source.node_desc.startswith("Input"):
            graph.remove_node(source)
    for sink in graph.sinks():
        if sink.node_desc.startswith("__getitem__"):
            graph.remove_node(sink)
    return graph


def _leaving_bytes(graph: Any, done: set[str]) -> float:
    """Return the bytes that leave an ideal, counted as the optimiser counts them; 0 of all nodes."""
    if len(done) == len(graph.nodes):
        return 0.0
    last = [name for name in done if not any(node.node_id in done for node in graph.edges.get(name, ()))]
    return float(sum(graph.nodes[name].activation_size for name in graph.augment_antichain(last)))


def optimised(file: Path, gpus: int, bytes_per_s: float, transfers: bool) -> StagingInstance:
    """Return a profile of PipeDream as its optimiser sees it; the fewest seconds are sought of any plan."""
    options: dict[str, Any] = {"input_time": False, "link_gbit_per_s": None, "parallel_share": 1.0}
    instance = import_pipedream(file, {"gpu": 1.0}, limit={"gpu": gpus}, **options)
    # The optimiser takes inputs out of the graph, and all that they send.
    layers = tuple(
        layer.model_copy(update={"output_bytes": 0.0}) if layer.kind.startswith("Input") else layer
        for layer in instance.layers
    )
    instance = instance.model_copy(update={"layers": layers})
    if not transfers:
        return with_replicas(instance, bytes_per_s, ALL_REDUCE, 0.0)
    changes = {"stage_cost": "relay", "edges": until_joined(layers, instance.edges or ())}
    replicated = with_replicas(instance.model_copy(update=changes), bytes_per_s, ALL_REDUCE, THERE_AND_BACK)
    return with_free_start(replicated)


def with_replicas(
    instance: StagingInstance, bytes_per_s: float, all_reduce: float = 2.0, transfers: float = 2.0
) -> StagingInstance:
    """Return an instance on one type in which stages are replicated instead of using several units.

    A batch belongs to one replica, so m replicas divide the time of a layer of C seconds and W bytes of
    weights with parallel share α: C (1 − α) + (C α + all_reduce (m − 1)/m W/bytes_per_s) / m. Existing
    communication times of layers are left out.

    Parameters
    ----------
    instance
        A graph on one type with a limit and a price, without hourly budget.
    bytes_per_s
        Speed of the link of each replica.
    all_reduce
        Number of times that a ring moves the weights: once to sum gradients and once to distribute the sums.
    transfers
        Number of times that a tensor crosses the link between two stages: as activations and as gradients.

    Raises
    ------
    ValueError
        If the instance is not of this form.
    """
    if not instance.is_graph or len(instance.types) != 1 or instance.hourly_budget_usd is not None:
        raise ValueError("replicas need a graph on one type without an hourly budget")
    kind = instance.types[0]
    if kind.limit is None or not kind.price_usd_per_hour:
        raise ValueError(f"replicas need a limit and a price of type {kind.name!r}")
    sizes = {f"{m} x {kind.name}": m for m in range(1, kind.limit + 1)}

    def type_of(name: str, m: int) -> StageType:
        price = m * kind.price_usd_per_hour
        return kind.model_copy(update={"name": name, "price_usd_per_hour": price, "limit": None})

    def layer_of(layer: Layer) -> Layer:
        share = layer.compute_parallel
        alpha = share[kind.name] if isinstance(share, dict) else share
        seconds, reduced = layer.compute_s[kind.name], all_reduce * layer.weight_bytes / bytes_per_s
        sent = transfers * layer.output_bytes / bytes_per_s
        return layer.model_copy(
            update={
                "compute_s": {
                    name: seconds * (1 - alpha) + (seconds * alpha + reduced * (m - 1) / m) / m
                    for name, m in sizes.items()
                },
                "compute_parallel": 0.0,
                "communication_s": {},
                "transfer_s": {name: sent / m for name, m in sizes.items()},
            }
        )

    return instance.model_copy(
        update={
            "types": tuple(type_of(name, m) for name, m in sizes.items()),
            "layers": tuple(map(layer_of, instance.layers)),
            "hourly_budget_usd": kind.limit * kind.price_usd_per_hour,
            "most_units_per_stage": 1,
        }
    )


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
    start = Layer(name=FIRST_LAYER, compute_s=dict.fromkeys(names.values(), 0.0), compute_parallel=0.0)
    return instance.model_copy(
        update={
            "types": (*instance.types, *map(first, instance.types)),
            "layers": (start, *map(also, instance.layers)),
            "edges": (*(Edge(source=FIRST_LAYER, target=name) for name in sources), *edges),
            "hourly_budget_usd": 2 * budget,
        }
    )
