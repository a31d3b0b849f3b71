"""Layer graphs of other projects: what becomes of real files, and what is said about broken ones."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command_line import run_here
from sample_documents import faults, is_kept, said

from clusterplan.instances.importers import import_dnn_partitioning, import_pipedream
from clusterplan.instances.importers.layer_graphs.chain import LayerGraph, Node, chain_of, in_order
from clusterplan.instances.importers.layer_graphs.dnn_partitioning import folded, read
from clusterplan.instances.importers.layer_graphs.pipedream import FIGURE, read_pipedream
from clusterplan.instances.staging.instance import StagingInstance

PRICES = {"accelerator": 2.5, "cpu": 0.5}


# Graphs ----------------------------------------------------------------------------------------------


def graph(edges: str, seconds: dict[str, float] | None = None, size: float = 1.0) -> LayerGraph:
    """Return a graph of edges such as ``ab bc``; every node takes 1 s unless told otherwise."""
    pairs = [(edge[0], edge[1]) for edge in edges.split()]
    names = dict.fromkeys(name for pair in pairs for name in pair)
    nodes = {name: Node(name, {"d": (seconds or {}).get(name, 1.0)}, output_bytes=size) for name in names}
    return LayerGraph("graph", nodes, pairs)


def layers(edges: str, seconds: dict[str, float] | None = None) -> list[str]:
    return ["".join(map(str, layer.nodes)) for layer in chain_of(graph(edges, seconds)).layers]


def test_cut_nodes_come_before_or_after_all_others() -> None:
    """A skip connection leaves a chain a chain; parallel branches join the cut node after them."""
    assert in_order(graph("ab bc cd ad"))[1] == set("abcd")
    assert layers("ab bc cd ad") == ["a", "b", "c", "d"]
    assert in_order(graph("ab ac bd cd de"))[1] == set("ade")
    assert layers("ab ac bd cd de") == ["a", "bcd", "e"]
    assert layers("ac bc cd ce") == ["abcde"]


def test_everything_used_later_is_handed_over_once() -> None:
    """A tensor that two later layers use crosses each boundary once; one that skips a layer crosses both."""
    chain = chain_of(graph("ab bc cd ad ac"))
    assert [layer.output_bytes for layer in chain.layers] == [1, 2, 2, 0]


def test_layers_without_time_join_a_neighbour() -> None:
    """A layer of 0 s joins the one before it, at the start the one after, and its output counts."""
    chain = chain_of(graph("ab bc cd de", {"a": 0, "c": 0}))
    assert [layer.nodes for layer in chain.layers] == [["a", "b", "c"], ["d"], ["e"]]
    assert [chain.graph.nodes[layer.cut].name for layer in chain.layers] == ["b", "d", "e"]
    assert "2 layers take 0 s" in chain.notes[-1]
    (fault,) = faults(lambda: chain_of(graph("ab", {"a": 0, "b": 0})))
    assert "all its layers take 0 s" in fault


def test_a_graph_without_order_is_refused() -> None:
    """Two separate chains have no cut node; a cycle and a loop have no order at all."""
    (fault,) = faults(lambda: chain_of(graph("ab cd")))
    assert "none of them comes before or after all others" in fault
    assert "inputs: a, c; outputs: b, d" in fault
    assert "has a cycle through" in faults(lambda: chain_of(graph("ab bc ca")))[0]
    assert "has a cycle through b" in faults(lambda: chain_of(graph("ab bb")))[0]


def test_long_graphs_take_no_recursion() -> None:
    """A chain of 50,000 nodes, of which most take no time, is read in one pass."""
    count = 50_000
    nodes = {n: Node(str(n), {"d": float(n % 100 == 0)}, output_bytes=1) for n in range(count)}
    chain = chain_of(LayerGraph("long", nodes, [(n, n + 1) for n in range(count - 1)]))
    assert len(chain.layers) == count // 100
    assert math.fsum(chain.graph.seconds(layer.nodes)["d"] for layer in chain.layers) == count // 100


# PipeDream -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "nodes", "cut", "made", "batch"),
    [
        ("alexnet", 23, 23, 19, 256),
        ("vgg16", 41, 41, 37, 128),
        ("resnet50", 177, 137, 123, 128),
        ("densenet121", 429, 426, 368, 64),
    ],
)
def test_pipedream_counts(shared_data: Path, model: str, nodes: int, cut: int, made: int, batch: int) -> None:
    """Every profile but one is a chain at its cut nodes; no time and no memory is lost."""
    path = shared_data / "pipedream" / model / "graph.txt"
    read = read_pipedream(path)
    order, found = in_order(read)
    assert (len(order), len(found)) == (nodes, cut)
    instance = import_pipedream(path, {"gpu": 2.5}, shape="chain")
    assert (len(instance.layers), instance.probe_batch) == (made, batch)
    total = math.fsum(node.seconds["profiled"] for node in read.nodes.values())
    assert math.fsum(layer.compute_s["gpu"] for layer in instance.layers) == pytest.approx(total)
    held = math.fsum(node.memory_bytes for node in read.nodes.values()) / 2**30
    assert math.fsum(layer.memory_gib for layer in instance.layers) == pytest.approx(held)
    assert instance.layers[-1].output_bytes == 0
    assert is_kept(instance)


def test_pipedream_without_order_is_refused(shared_data: Path) -> None:
    """GNMT has several inputs and outputs and no cut node, and the fault names them."""
    path = shared_data / "pipedream" / "gnmt" / "graph.txt"
    (fault,) = faults(lambda: import_pipedream(path, {"gpu": 1}, shape="chain"))
    assert "its 48 nodes have no single order" in fault
    assert "inputs: node1 Input0, node2 Input1, node3 Input2, node20 hidden" in fault


def test_pipedream_options(shared_data: Path) -> None:
    """Speeds divide times, limits and memory are taken over, and the loading time can be left out."""
    path = shared_data / "pipedream" / "alexnet" / "graph.txt"
    kwargs: dict[str, Any] = {"speeds": {"fast": 2}, "limit": {"slow": 4}, "memory": {"fast": 16}}
    instance = import_pipedream(path, {"slow": 1, "fast": 3}, **kwargs, throughput=100, input_time=False)
    first = instance.layers[0]
    assert (first.name, first.kind) == ("node2 Conv2d", "Conv2d")
    assert first.compute_s == pytest.approx({"slow": 0.028721, "fast": 0.0143605})
    assert first.output_bytes == 198246400
    assert first.communication_s["slow"] == pytest.approx(2 * 93184 * 8 / 100e9)
    assert [(kind.limit, kind.memory_gib) for kind in instance.types] == [(4, None), (None, 16)]
    assert "slow 1, fast 2" in said(instance)
    assert "is left out as asked" in said(instance)


PROFILE = (
    "node1 -- Input -- forward_compute_time=1.0, backward_compute_time=0.0, activation_size=602112.0, "
    "parameter_size=0.0\n"
    "node2 -- Linear(in=3, out=4) -- forward_compute_time=1.0, backward_compute_time=2.0, "
    "activation_size=[100.0; 50.0], parameter_size=40.0\n"
    "node3 -- Add -- forward_compute_time=0.5, backward_compute_time=0.0, activation_size=8.0, "
    "parameter_size=0.0 -- stage_id=1\n"
    "\tnode1 -- node2\n\tnode2 -- node3\n"
)


def small_pipedream(folder: Path, text: str = PROFILE, **options: Any) -> StagingInstance:
    path = folder / "tiny"
    path.mkdir(exist_ok=True)
    (path / "graph.txt").write_text(text)
    return import_pipedream(path / "graph.txt", **{"types": {"gpu": 2.0}, **options})


def test_pipedream_reads_every_part(tmp_path: Path) -> None:
    """Milliseconds become seconds, several tensors add up, and stages that a file names play no part."""
    instance = small_pipedream(tmp_path, link_gbit_per_s=None)
    assert [layer.compute_s["gpu"] for layer in instance.layers] == pytest.approx([0.001, 0.003, 0.0005])
    assert [layer.output_bytes for layer in instance.layers] == [602112, 150, 0]
    assert instance.layers[1].memory_gib * 2**30 == pytest.approx(150 + 3 * 40)
    assert not instance.layers[1].communication_s
    assert (instance.name, instance.probe_batch) == ("pipedream-tiny", 1)
    assert small_pipedream(tmp_path, batch=7).probe_batch == 7
    unknown = small_pipedream(tmp_path, PROFILE.replace("602112.0", "5.0"))
    assert unknown.probe_batch == 1
    assert "does not say how many" in said(unknown)


@pytest.mark.parametrize("long", ["parameter" + "a" * 300_000, "a=[" * 100_000])
def test_pipedream_looks_through_a_long_line_once(long: str) -> None:
    """A line of many letters, or of many lists that never end; from each place anew it would take minutes."""
    start = time.process_time()
    found = dict(FIGURE.findall(f"forward_compute_time=1.0, activation_size=[1.0; 2.0], {long}"))
    assert (found["forward_compute_time"], found["activation_size"]) == ("1.0", "[1.0; 2.0]")
    assert time.process_time() - start < 10


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("node1 -- Input\n", "line 1: is no node; a node is: name -- operation -- "),
        (PROFILE.replace("forward_compute_time=1.0", "forward_compute_time=nan", 1), "line 1: forward_comp"),
        (PROFILE.replace("forward_compute_time=1.0", "forward_compute_time=-1", 1), "must be at least 0"),
        (PROFILE.replace("forward_compute_time=1.0", "forward_compute_time=x", 1), "is not a number"),
        (PROFILE.replace("forward_compute_time=1.0, ", "", 1), "forward_compute_time: is missing"),
        (PROFILE.replace("[100.0; 50.0]", "[100.0; -5]"), "line 2: activation_size[1]: is"),
        (PROFILE.replace("node3 --", "node2 --", 1), "line 3: the node 'node2' stands twice"),
        (PROFILE + "\tnode3 -- node9\n", "line 6: the node 'node9' has no line"),
        (PROFILE + "\tnode3\n", "line 6: is no edge; an edge is: tab, nodeA -- nodeB"),
        (PROFILE + "\tnode3 -- node1\n", "has a cycle through node1 Input, node2 Linear, node3 Add"),
        ("\tnode1 -- node2\n", "has no nodes"),
        ("", "is empty"),
    ],
)
def test_pipedream_bad_file(tmp_path: Path, text: str, expected: str) -> None:
    """Each fault names the file, the line and what is wrong."""
    found = faults(lambda: small_pipedream(tmp_path, text))
    assert any(expected in fault and "graph.txt" in fault for fault in found), found


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"types": {}}, "options: types: has 0 entries; at least 1 needed"),
        ({"types": {"gpu": -1}}, "options: types.gpu: is -1, but must be at least 0"),
        ({"types": {"gpu": math.nan}}, "options: types.gpu: is nan"),
        ({"speeds": {"t4": 1}}, "options: speeds.t4: unknown type 't4'; the chosen types are: gpu"),
        ({"speeds": {"gpu": 0}}, "options: speeds.gpu: is 0, but must be greater than 0"),
        ({"limit": {"t4": 1}}, "options: limit.t4: unknown type"),
        ({"memory": {"t4": 1}}, "options: memory.t4: unknown type"),
        ({"batch": 0}, "options: batch: is 0, but must be at least 1"),
        ({"parallel_share": 2}, "options: parallel_share: is 2, but must be at most 1"),
        ({"link_gbit_per_s": 0}, "options: link_gbit_per_s: is 0"),
    ],
)
def test_pipedream_bad_option(tmp_path: Path, options: dict[str, Any], expected: str) -> None:
    """Each wrong option is named with what is allowed."""
    (fault,) = faults(lambda: small_pipedream(tmp_path, **options))
    assert fault.startswith(expected)


# dnn-partitioning ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "classes", "cut", "made"),
    [
        ("bert24_training", 32, 26, 26),
        ("bert24_inference", 32, 26, 26),
        ("resnet50_training", 177, 137, 123),
        ("gnmt_training", 96, 0, 0),
    ],
)
def test_dnn_partitioning_counts(shared_data: Path, name: str, classes: int, cut: int, made: int) -> None:
    """After folding, the graphs have the known cut nodes; one has none and is refused."""
    path = shared_data / "dnn-partitioning" / f"{name}.json"
    order, found = in_order(folded(read(path), str(path), link_gbit_per_s=100.0))
    assert (len(order), len(found)) == (classes, cut)
    if not cut:
        assert (
            "have no single order" in faults(lambda: import_dnn_partitioning(path, PRICES, shape="chain"))[0]
        )
        return
    instance = import_dnn_partitioning(path, PRICES, shape="chain")
    assert len(instance.layers) == made
    raw = json.loads(path.read_text())["nodes"]
    for kind, key in (("accelerator", "fpgaLatency"), ("cpu", "cpuLatency")):
        total = math.fsum(node[key] for node in raw) / 1000
        assert math.fsum(layer.compute_s[kind] for layer in instance.layers) == pytest.approx(total)
    assert [(kind.name, kind.limit) for kind in instance.types] == [("accelerator", 6), ("cpu", 1)]
    assert instance.types[0].memory_gib == pytest.approx(16.005, abs=0.001)
    assert "10 times that on an accelerator" in said(instance)
    assert is_kept(instance)


def reference_loads(instance: StagingInstance) -> Callable[[int, int], tuple[float, float]]:
    """Return what layers a to b−1 load an accelerator and a CPU with, in ms, as the reference counts.

    An accelerator pays for its latencies and for the tensors that come and go, gradients as well as
    activations; a CPU for its latencies alone.
    """
    link = (instance.link_gbit_per_s or math.inf) * 1e9 / 8
    backward = 1 if "were folded" in said(instance) else 0
    moved = [0.0] + [1000 * (1 + backward) * layer.output_bytes / link for layer in instance.layers]
    sums: dict[str, list[float]] = {"accelerator": [0.0], "cpu": [0.0], "memory": [0.0]}
    for layer in instance.layers:
        for kind in ("accelerator", "cpu"):
            sums[kind].append(sums[kind][-1] + 1000 * layer.compute_s[kind])
        sums["memory"].append(sums["memory"][-1] + layer.memory_gib)
    most = instance.types[0].memory_gib or math.inf

    def load(a: int, b: int) -> tuple[float, float]:
        fits = sums["memory"][b] - sums["memory"][a] <= most * (1 + 1e-9)
        fast = sums["accelerator"][b] - sums["accelerator"][a] + moved[a] + moved[b]
        return (fast if fits else math.inf), sums["cpu"][b] - sums["cpu"][a]

    return load


def smallest_max_load(instance: StagingInstance, accelerators: int, cpus: int) -> float:
    """Return the smallest largest load of any split into runs of layers on so many devices."""
    load, count = reference_loads(instance), len(instance.layers)
    best = {(0, 0): [0.0] + [math.inf] * count}
    for used in range(accelerators + 1):
        for slow in range(cpus + 1):
            row = best.setdefault((used, slow), [0.0] + [math.inf] * count)
            for end in range(1, count + 1):
                for start in range(end):
                    fast_load, slow_load = load(start, end)
                    if used:
                        row[end] = min(row[end], max(best[used - 1, slow][start], fast_load))
                    if slow:
                        row[end] = min(row[end], max(best[used, slow - 1][start], slow_load))
    return best[accelerators, cpus][count]


@pytest.mark.parametrize(
    ("name", "reference", "within"),
    [
        ("bert24_training", 41.7458, 1.0001),
        ("bert24_inference", 17.7899, 1.0001),
        ("resnet50_training", 78.6318, 1.07),
    ],
)
def test_dnn_partitioning_against_the_authors_optimum(
    shared_data: Path, name: str, reference: float, within: float
) -> None:
    """The best split of the chain is no better than that of the graph, and hardly worse."""
    listed = (shared_data / "published" / "reference_optima.csv").read_text()
    assert f"dnn-partitioning/{name}.json" in listed
    assert f"{reference}" in listed
    path = shared_data / "dnn-partitioning" / f"{name}.json"
    instance = import_dnn_partitioning(path, PRICES, shape="chain")
    found = smallest_max_load(instance, 6, 1)
    assert reference * (1 - 1e-5) <= found <= reference * within, found / reference


def test_piper_is_another_layout(shared_data: Path) -> None:
    """The file of piper is refused with what is missing."""
    (fault,) = faults(lambda: import_dnn_partitioning(shared_data / "piper" / "bert32a100.json", PRICES))
    assert "is in piper's layout" in fault


def node(number: int, ms: float, colour: int | None = None, backward: int = 0, **more: Any) -> dict[str, Any]:
    given = {"id": number, "supportedOnFpga": 1, "cpuLatency": 10 * ms, "fpgaLatency": ms, "size": 2**30}
    given |= {"isBackwardNode": backward, **more}
    return given if colour is None else {**given, "colorClass": colour}


def edge(start: int, end: int, cost: float = 1.0, **more: Any) -> dict[str, Any]:
    return {"sourceId": start, "destId": end, "cost": cost, **more}


NODES = [node(1, 1, 1), node(2, 2, 2), node(3, 0, 3), node(11, 4, 1, 1), node(12, 5, 2, 1), node(13, 6, 3, 1)]
EDGES = [edge(1, 2, size=1e6), edge(2, 3, size=2e6), edge(13, 12, size=9e6), edge(12, 11, size=9e6)]
DEVICES = {"maxSizePerFPGA": 2**34, "maxFPGAs": 4, "maxCPUs": 2}


def small_dnn(
    folder: Path, nodes: Any = NODES, edges: Any = EDGES, text: str | None = None, **options: Any
) -> StagingInstance:
    path = folder / "tiny.json"
    document = {**DEVICES, **options.pop("devices", {}), "nodes": nodes, "edges": edges}
    path.write_text(json.dumps(document) if text is None else text)
    return import_dnn_partitioning(path, **{"types": PRICES, "shape": "chain", **options})


def test_dnn_partitioning_folds_backward_nodes(tmp_path: Path) -> None:
    """Backward nodes add their time to forward ones whichever way their edges point, in ms."""
    instance = small_dnn(tmp_path)
    assert [layer.compute_s["accelerator"] for layer in instance.layers] == pytest.approx(
        [0.005, 0.007, 0.006]
    )
    assert [layer.output_bytes for layer in instance.layers] == [1e6, 2e6, 0]
    assert [layer.memory_gib for layer in instance.layers] == [2, 2, 2]
    assert instance.link_gbit_per_s == pytest.approx(3e6 * 8 / 2e-3 / 1e9)
    assert {kind.name: (kind.limit, kind.memory_gib) for kind in instance.types} == {
        "accelerator": (4, 16),
        "cpu": (2, None),
    }
    assert small_dnn(tmp_path, link_gbit_per_s=50).link_gbit_per_s == 50


def test_dnn_partitioning_without_sizes_takes_times(tmp_path: Path) -> None:
    """Where edges have no sizes, tensors are what the link moves in the time of the source."""
    edges = [edge(1, 2, 1.0), edge(2, 3, 2.0)]
    instance = small_dnn(tmp_path, edges=edges, link_gbit_per_s=80)
    assert [layer.output_bytes for layer in instance.layers] == pytest.approx([1e7, 2e7, 0])
    assert "not all sizes" in said(instance)


def test_dnn_partitioning_classes_stay_together(tmp_path: Path) -> None:
    """Nodes of one colour, and all between them, are one layer; a node may be for CPUs only."""
    nodes = [node(1, 1, 7), node(2, 2), node(3, 4, 7), node(4, 8, supportedOnFpga=0), node(5, 1, name="end")]
    edges = [edge(1, 2), edge(2, 3), edge(3, 4), edge(4, 5)]
    instance = small_dnn(tmp_path, nodes, edges)
    assert [sorted(layer.compute_s) for layer in instance.layers] == [
        ["accelerator", "cpu"],
        ["cpu"],
        ["accelerator", "cpu"],
    ]
    assert instance.layers[0].compute_s["accelerator"] == pytest.approx(0.007)
    assert instance.layers[-1].name == "end"
    (fault,) = faults(lambda: small_dnn(tmp_path, nodes, edges, types={"accelerator": 1}))
    assert "none of accelerator can run node4" in fault


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"text": "[]"}, "tiny.json: is not a mapping; it needs nodes, edges"),
        ({"text": "{"}, "tiny.json: line 1, column 2: is not valid JSON"),
        ({"nodes": []}, "tiny.json: has no nodes"),
        ({"nodes": {}}, "tiny.json: nodes: is"),
        ({"nodes": [{"id": 1}]}, "nodes[0].cpuLatency: is missing"),
        ({"nodes": [node(1, -1)], "edges": []}, "nodes[0].fpgaLatency: is -1, but must be at least 0"),
        ({"nodes": [node(1, math.nan)], "edges": []}, "nodes[0].fpgaLatency: is nan"),
        ({"nodes": [*NODES, node(1, 1)]}, "nodes[6].id: 1 stands twice"),
        ({"edges": [*EDGES, edge(2, 99)]}, "edges[4].destId: is 99, which is the id of none of the 6 nodes"),
        ({"edges": [*EDGES, edge(3, 1, size=1)]}, "has a cycle through node1, node2, node3"),
        ({"edges": [*EDGES, edge(2, 2, size=1)]}, "has a cycle through node2"),
        ({"nodes": [*NODES, node(14, 1, 9, 1)]}, "nodes[6].colorClass: the backward node 'node14' shares"),
        ({"edges": []}, "have no single order"),
        ({"devices": {"maxFPGAs": -1}}, "maxFPGAs: is -1, but must be at least 0"),
        ({"devices": {"maxCPUs": 0}}, "options: types.cpu: "),
        (
            {"types": {"tpu": 1}},
            "options: types.tpu: the source has no such device; allowed: accelerator, cpu",
        ),
        ({"types": {"cpu": 1}, "limit": {"accelerator": 1}}, "options: limit.accelerator: unknown type"),
        ({"batch": 0}, "options: batch: is 0"),
    ],
)
def test_dnn_partitioning_bad_input(tmp_path: Path, files: dict[str, Any], expected: str) -> None:
    """Each fault names the place and what is wrong or allowed."""
    found = faults(lambda: small_dnn(tmp_path, **files))
    assert any(expected in fault for fault in found), found


# On the command line ---------------------------------------------------------------------------------


def test_commands_write_instances_that_solve(tmp_path: Path) -> None:
    """Both imports and the generator write documents, and `solve` proves them."""
    small_pipedream(tmp_path)
    small_dnn(tmp_path)
    made = [tmp_path / name for name in ("p.yaml", "d.yaml", "c.yaml")]
    graph_file, json_file = tmp_path / "tiny" / "graph.txt", tmp_path / "tiny.json"
    types, speeds = "big=2,small=0.5", "small=0.4"
    words = [
        "import",
        "pipedream",
        graph_file,
        "--types",
        types,
        "--speeds",
        speeds,
        "--limit",
        "big=2,small=4",
    ]
    assert run_here(*words, "--no-input-time", "--throughput", 300, "--output", made[0]).returncode == 0
    words = ["import", "dnn-partitioning", json_file, "--types", "accelerator=2.5,cpu=0.2"]
    assert run_here(*words, "--throughput", 10, "--output", made[1]).returncode == 0
    assert run_here("generate", "ctr", "--layers", 4, "--seed", 3, "--output", made[2]).returncode == 0
    assert run_here("solve", *made, "--quiet").returncode == 0


def test_commands_refuse_in_one_line(tmp_path: Path) -> None:
    """A wrong option and a wrong file have exit codes of their own and one line each."""
    small_pipedream(tmp_path)
    graph_file = tmp_path / "tiny" / "graph.txt"
    for file, types, code, says in (
        (graph_file, "big=2,big=3", 2, "big stands twice"),
        (graph_file, "big", 2, ""),
        (tmp_path / "no.txt", "big=2", 3, "there is no such file"),
    ):
        done = run_here("import", "pipedream", file, "--types", types)
        assert done.returncode == code
        assert says in done.stderr
    assert done.stderr.strip().endswith(says)
