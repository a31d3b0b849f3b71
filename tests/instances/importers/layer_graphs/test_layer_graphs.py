"""Layer graphs of other projects: what becomes of real files, and what is said about broken ones."""

from __future__ import annotations

import json
import math
import time
from pathlib import Path
from typing import Any

import pytest
from command_line import run_here
from sample_documents import faults, is_kept, said

from clusterplan.instances.common.errors import InstanceError
from clusterplan.instances.importers import IMPORTERS, import_dnn_partitioning, import_pipedream
from clusterplan.instances.importers.importer import option_of
from clusterplan.instances.importers.layer_graphs.graph_instance import (
    LayerGraph,
    Node,
    StagingOptions,
    graph_instance,
    in_order,
    unique_names,
)
from clusterplan.instances.importers.layer_graphs.pipedream import FIGURE, PipedreamOptions, read_pipedream
from clusterplan.instances.staging.instance import StagingInstance

PRICES = {"accelerator": 2.5, "cpu": 0.5}


# PipeDream -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "layers", "edges", "batch"),
    [
        ("alexnet", 23, 23, 256),
        ("vgg16", 41, 41, 128),
        ("resnet50", 177, 193, 128),
        ("densenet121", 429, 487, 64),
        ("gnmt", 48, 58, 1),
    ],
)
def test_pipedream_counts(shared_data: Path, model: str, layers: int, edges: int, batch: int) -> None:
    """Every node is a layer, and no time and no memory is lost."""
    path = shared_data / "pipedream" / model / "graph.txt"
    read, instance = read_pipedream(path), import_pipedream(path, {"gpu": 2.5})
    assert (len(instance.layers), len(instance.edges or ()), instance.probe_batch) == (layers, edges, batch)
    nodes = {node.name: node for node in read.nodes.values()}
    for layer in instance.layers:
        assert layer.compute_s["gpu"] == nodes[layer.name].seconds["profiled"]
        assert layer.memory_gib == nodes[layer.name].memory_bytes / 2**30
    assert is_kept(instance)


def test_pipedream_options(shared_data: Path) -> None:
    """Speeds divide times, limits and memory are taken over, and the loading time can be left out."""
    path = shared_data / "pipedream" / "alexnet" / "graph.txt"
    kwargs: dict[str, Any] = {"speeds": {"fast": 2}, "limit": {"slow": 4}, "memory": {"fast": 16}}
    instance = import_pipedream(path, {"slow": 1, "fast": 3}, **kwargs, throughput=100, input_time=False)
    layers = {layer.name: layer for layer in instance.layers}
    assert layers["node1 Input"].compute_s == {"slow": 0, "fast": 0}
    first = layers["node2 Conv2d"]
    assert first.kind == "Conv2d"
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


def test_dnn_partitioning_keeps_every_node(shared_data: Path) -> None:
    """Of training graphs with orphans and of graphs of operators too; no time is lost."""
    files = [p for p in (shared_data / "dnn-partitioning").glob("*.json") if "expert" not in p.name]
    assert len(files) == 10
    for path in files:
        instance, raw = import_dnn_partitioning(path, PRICES), json.loads(path.read_text())["nodes"]
        assert len(instance.layers) == len(raw)
        for kind, key in (("accelerator", "fpgaLatency"), ("cpu", "cpuLatency")):
            total = math.fsum(node[key] for node in raw if kind == "cpu" or node["supportedOnFpga"]) / 1000
            assert math.fsum(one.compute_s.get(kind, 0.0) for one in instance.layers) == pytest.approx(total)


def test_dnn_partitioning_devices(shared_data: Path) -> None:
    """They are those of the file, and what the authors assumed is said."""
    instance = import_dnn_partitioning(shared_data / "dnn-partitioning" / "bert24_training.json", PRICES)
    assert [(kind.name, kind.limit) for kind in instance.types] == [("accelerator", 6), ("cpu", 1)]
    assert instance.types[0].memory_gib == pytest.approx(16.005, abs=0.001)
    assert "10 times that on an accelerator" in said(instance)
    assert is_kept(instance)


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
    return import_dnn_partitioning(path, **{"types": PRICES, **options})


@pytest.mark.parametrize(("size", "expected_bytes"), [(1e6, 1e6), (None, 0)])
def test_dnn_partitioning_takes_a_link_where_it_has_sizes(
    tmp_path: Path, size: float | None, expected_bytes: float
) -> None:
    """Instead of its transfer times, which an edge without a size has alone; a CPU pays nothing."""
    edges = [edge(1, 2, 2.0, **({} if size is None else {"size": size})), edge(2, 3, 1.0, size=5.0)]
    first = small_dnn(tmp_path, edges=edges, link_gbit_per_s=80).layers[0]
    given = {"cpu": 0} if size else {"accelerator": 0.002, "cpu": 0}
    assert (first.output_bytes, first.transfer_s) == (expected_bytes, given)


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
        ({"devices": {"maxFPGAs": -1}}, "maxFPGAs: is -1, but must be at least 0"),
        ({"devices": {"maxCPUs": 0}}, "options: types.cpu: "),
        ({"types": {"cpu": 1}, "limit": {"accelerator": 1}}, "options: limit.accelerator: unknown type"),
        ({"batch": 0}, "options: batch: is 0"),
    ],
)
def test_dnn_partitioning_bad_input(tmp_path: Path, files: dict[str, Any], expected: str) -> None:
    """Each fault names the place and what is wrong or allowed."""
    found = faults(lambda: small_dnn(tmp_path, **files))
    assert any(expected in fault for fault in found), found


# Graphs as instances ---------------------------------------------------------------------------------


def test_a_link_of_no_speed_is_no_link() -> None:
    """The command line has 0 for it."""
    option = option_of(StagingOptions.model_fields["link_gbit_per_s"])
    assert option.read is not None
    assert (option.read(0), option.read(25.0), option.least) == (None, 25.0, 0)


@pytest.mark.parametrize("name", ["sailor", "pipedream", "dnn-partitioning"])
def test_every_import_of_layers_has_them(name: str) -> None:
    """Objective and stage rule among them."""
    assert issubclass(IMPORTERS[name].options, StagingOptions)
    assert {"objective", "stage_rule"} <= set(IMPORTERS[name].options.model_fields)


TWO_NODES = {key: Node(key, {"gpu": 2.0}, output_bytes=10, weight_bytes=5e8) for key in "ab"}
GRAPH_OPTIONS = PipedreamOptions(graph_file=Path("g"), types={"fast": 3.0, "slow": 1.0}, limit={"x": 1})


def made(devices: dict[str, tuple[str, float]]) -> Any:
    """Return the instance of two layers."""
    return graph_instance(
        LayerGraph("g", TWO_NODES, [("a", "b")]),
        GRAPH_OPTIONS.model_copy(update={"link_gbit_per_s": 8.0, "limit": {"fast": 2}}),
        devices,
        name="n",
        source="s",
        assumptions=[],
        transfers=".",
        stage_cost="overlap",
        batch=4,
        memory_gib={},
        all_reduce=True,
    )


def test_a_type_is_as_fast_as_is_said() -> None:
    """Times are divided by the speed; the all-reduce takes twice the weights over the link."""
    instance = made({"fast": ("gpu", 2.0), "slow": ("gpu", 1.0)})
    assert instance.layers[0].compute_s == {"fast": 1.0, "slow": 2.0}
    assert instance.layers[0].communication_s["fast"] == pytest.approx(2 * 5e8 * 8 / 8e9)
    assert [kind.limit for kind in instance.types] == [2, None]


def test_a_layer_that_no_type_can_run() -> None:
    """It is named."""
    with pytest.raises(InstanceError, match="none of fast can run"):
        made({"fast": ("cpu", 1.0)})


def test_options_for_types_that_are_not_chosen() -> None:
    """One fault each."""
    with pytest.raises(InstanceError, match=r"options: limit.x: unknown type 'x'"):
        GRAPH_OPTIONS.refuse_unknown("limit", "speeds")
    GRAPH_OPTIONS.refuse_unknown("speeds")


def test_a_cycle_names_its_first_nodes() -> None:
    """Of a forward pass; that of a backward pass the instance refuses."""
    nodes = {n: Node(f"n{n}", {"d": 1.0}) for n in range(9)}
    edges = [(n, (n + 1) % 9) for n in range(9)]
    with pytest.raises(InstanceError, match="g: edges: has a cycle through n0, n1, n2, n3, n4 and 4 more; l"):
        in_order(LayerGraph("g", nodes, edges))
    in_order(LayerGraph("g", nodes | {5: Node("n5", {"d": 1.0}, backward=True)}, edges))


@pytest.mark.parametrize(("edges", "expected"), [("ca ab cb", "cab"), ("ca cb", "abc")])
def test_a_single_order_is_that_of_the_layers(edges: str, expected: str) -> None:
    """Whatever that of the file; where there are several, that of the file is kept."""
    nodes = {key: Node(key, {"d": 1.0}) for key in "abc"}
    assert "".join(map(str, in_order(LayerGraph("g", nodes, [(a, b) for a, b in edges.split()])))) == expected


def test_names_are_unique() -> None:
    """Those that stand twice get a number."""
    assert unique_names({1: "a", 2: "b", 3: "a"}) == {1: "a (1)", 2: "b", 3: "a (2)"}


def test_a_graph_has_free_cuts_and_any_objective(tmp_path: Path) -> None:
    """Its stages have no neighbours."""
    graph = small_pipedream(tmp_path, objective="time", stage_rule="free_cuts")
    assert (graph.objective, graph.stage_rule) == ("time", "free_cuts")
    with pytest.raises(InstanceError, match=r"^options: stage_rule: is maximal_runs, but stages of a graph"):
        small_pipedream(tmp_path, stage_rule="maximal_runs")


@pytest.mark.parametrize(
    ("cost", "starts"),
    [
        ("overlap", "While a stage computes, it sends or"),
        ("sum", "Before or"),
        ("relay", "While a stage computes, it receives from the stage before it, and sends to the next"),
    ],
)
def test_stage_cost_of_a_profile(tmp_path: Path, cost: str, starts: str) -> None:
    """It becomes the field of the document, and what is assumed says so."""
    assert small_pipedream(tmp_path).stage_cost == "overlap"
    asked = small_pipedream(tmp_path, stage_cost=cost)
    assert asked.stage_cost == cost
    (transfers,) = [one for one in asked.assumptions if "once for each batch" in one]
    assert transfers.startswith(starts)


def test_gradients_of_a_graph_are_exchanged_over_the_link(tmp_path: Path) -> None:
    """Each unit sends and receives all weights; without a link nothing is."""
    text = PROFILE.replace("parameter_size=40.0", "parameter_size=3e9")
    second = small_pipedream(tmp_path, text, link_gbit_per_s=8.0).layers[1]
    assert second.communication_s == {"gpu": pytest.approx(2 * 3e9 * 8 / 8e9)}
    assert not small_pipedream(tmp_path, text, link_gbit_per_s=None).layers[1].communication_s


@pytest.mark.parametrize(("input_time", "loading_s"), [(True, 0.001), (False, 0.0)])
def test_loading_data_takes_time_if_it_is_counted(tmp_path: Path, input_time: bool, loading_s: float) -> None:
    """Forward and backward milliseconds are seconds together; only input nodes may count as nothing."""
    first, second, *_ = small_pipedream(tmp_path, input_time=input_time).layers
    assert (first.compute_s["gpu"], second.compute_s["gpu"]) == pytest.approx((loading_s, 0.003))


# On the command line ---------------------------------------------------------------------------------


def test_commands_write_instances_that_solve(tmp_path: Path) -> None:
    """Both imports and the generator write documents, and `solve` proves them."""
    small_pipedream(tmp_path)
    small_dnn(tmp_path)
    made = [tmp_path / name for name in ("p.yaml", "d.yaml", "c.yaml")]
    graph_file, json_file = tmp_path / "tiny" / "graph.txt", tmp_path / "tiny.json"
    types, speeds = "big=2,small=0.5", "small=0.4"
    words = ["import", "pipedream", graph_file, "--types", types, "--speeds", speeds]
    assert (
        run_here(
            *words, "--limit", "big=2,small=4", "--no-input-time", "--throughput", 300, "--output", made[0]
        ).returncode
        == 0
    )
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
