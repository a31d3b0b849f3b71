"""Options of importers of staging instances.

A chain of layers as a staging instance.

Layer graphs as they are.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from clusterplan.instances.common.errors import InstanceError
from clusterplan.instances.importers import IMPORTERS, import_dnn_partitioning, import_pipedream
from clusterplan.instances.importers.importer import option_of
from clusterplan.instances.importers.layer_graphs.chain import LayerGraph, Node, chain_of
from clusterplan.instances.importers.layer_graphs.graph_instance import (
    StagingOptions,
    branches,
    staging_instance,
    unique_names,
)
from clusterplan.instances.importers.layer_graphs.pipedream import PipedreamOptions
from clusterplan.instances.staging.instance import StagingInstance


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


NODES = {key: Node(key, {"gpu": 2.0}, output_bytes=10, weight_bytes=5e8) for key in "ab"}
OPTIONS = PipedreamOptions(graph_file=Path("g"), types={"fast": 3.0, "slow": 1.0}, limit={"x": 1})


def made(devices: dict[str, tuple[str, float]]) -> Any:
    """Return the instance of two layers."""
    return staging_instance(
        chain_of(LayerGraph("g", NODES, [("a", "b")])),
        OPTIONS.model_copy(update={"link_gbit_per_s": 8.0, "limit": {"fast": 2}}),
        devices,
        name="n",
        source="s",
        assumptions=[],
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
        OPTIONS.refuse_unknown("limit", "speeds")
    OPTIONS.refuse_unknown("speeds")


PRICES = {"accelerator": 2.5, "cpu": 0.5}


def node(number: int, colour: int, backward: int = 0, fpga: int = 1) -> dict[str, Any]:
    return {
        "id": number,
        "supportedOnFpga": fpga,
        "cpuLatency": 20.0,
        "fpgaLatency": 2.0,
        "isBackwardNode": backward,
        "colorClass": colour,
        "size": 2**30,
    }


def small(folder: Path, pairs: str = "12 13 24 34", **options: Any) -> StagingInstance:
    """Return the import of nodes 1 to 4, of which 3 runs on a CPU alone, and an orphan 9."""
    nodes = [
        *(node(number, number, fpga=int(number != 3)) for number in (1, 2, 3, 4)),
        node(9, 9, backward=1),
    ]
    return as_graph_made(folder, nodes, pairs, **options)


def as_graph_made(folder: Path, nodes: list[dict[str, Any]], pairs: str, **options: Any) -> StagingInstance:
    """Return the import of a graph."""
    edges = [{"sourceId": int(a), "destId": int(b), "cost": 3.0, "size": 8.0} for a, b in pairs.split()]
    document = {"maxSizePerFPGA": 2.0**34, "maxFPGAs": 2, "maxCPUs": 1, "nodes": nodes, "edges": edges}
    path = folder / "g.json"
    path.write_text(json.dumps(document))
    return import_dnn_partitioning(path, PRICES, **options)


def test_what_becomes_of_nodes_and_edges(tmp_path: Path) -> None:
    """Each is one of the instance; times are seconds, and a CPU pays for no transfers."""
    instance = small(tmp_path)
    assert [layer.name for layer in instance.layers] == ["node1", "node2", "node3", "node4", "node9"]
    assert [(edge.source, edge.target) for edge in instance.edges or ()][:2] == [
        ("node1", "node2"),
        ("node1", "node3"),
    ]
    first, _, third, _, last = instance.layers
    assert first.compute_s == {"accelerator": 0.002, "cpu": 0.02}
    assert first.transfer_s == {"accelerator": 0.003, "cpu": 0.0}
    assert (first.colour, first.backward, last.backward) == ("1", None, True)
    assert third.compute_s == {"cpu": 0.02}
    assert (instance.stage_rule, instance.stage_cost) == ("free_cuts", "sum")
    assert instance.most_units_per_stage == 1
    assert [one.limit for one in instance.types] == [2, 1]


def test_orphans_cannot_be_folded(tmp_path: Path) -> None:
    """One line, however many there are, and what keeps them."""
    nodes = [node(1, 1), *(node(number, number, backward=1) for number in (7, 8, 9))]
    with pytest.raises(InstanceError) as caught:
        as_graph_made(tmp_path, nodes, "", shape="chain")
    (line,) = str(caught.value).split("\n")
    assert "nodes[1].colorClass: the backward node 'node7' shares its class with no forward node" in line
    assert line.endswith("like 2 others; --shape graph keeps such nodes")


def test_a_given_link_moves_the_sizes(tmp_path: Path) -> None:
    """Instead of the source's transfer times; the CPU still pays nothing."""
    first = small(tmp_path, link_gbit_per_s=8.0).layers[0]
    assert (first.output_bytes, first.transfer_s) == (8.0, {"cpu": 0.0})


def test_only_what_branches_is_a_graph() -> None:
    """A skip connection does not."""
    nodes = {name: Node(name, {"d": 1.0}) for name in "abcd"}
    assert not branches(LayerGraph("g", nodes, [("a", "b"), ("b", "c"), ("c", "d"), ("a", "d")]))
    assert branches(LayerGraph("g", nodes, [("a", "b"), ("a", "c"), ("b", "d"), ("c", "d")]))


def test_names_are_unique() -> None:
    """Those that stand twice get a number."""
    assert unique_names(["a", "b", "a"]) == ["a (1)", "b", "a (2)"]


@pytest.mark.parametrize(
    ("model", "layers", "edges"), [("alexnet", 19, None), ("resnet50", 177, 193), ("gnmt", 48, 58)]
)
def test_profiles_of_pipedream(shared_data: Path, model: str, layers: int, edges: int | None) -> None:
    """A chain stays one, and the others keep all nodes."""
    instance = import_pipedream(shared_data / "pipedream" / model / "graph.txt", {"gpu": 2.5})
    assert len(instance.layers) == layers
    assert (None if instance.edges is None else len(instance.edges)) == edges


def test_every_graph_of_dnn_partitioning_imports(shared_data: Path) -> None:
    """Training graphs with orphans and graphs of operators too."""
    files = [p for p in (shared_data / "dnn-partitioning").glob("*.json") if "expert" not in p.name]
    assert len(files) == 10
    for path in files:
        instance = import_dnn_partitioning(path, PRICES)
        assert len(instance.layers) == len(json.loads(path.read_text())["nodes"])


FIGURES = "forward_compute_time=1, backward_compute_time=0, activation_size=8, parameter_size=0"


def branching(folder: Path, figures: str = FIGURES) -> Path:
    """Write a graph of seven nodes, of which four lie on branches between two others."""
    path = folder / "profile" / "graph.txt"
    path.parent.mkdir()
    lines = [f"node{n} -- Op -- {figures}" for n in range(1, 8)]
    pairs = ["12", "13", "14", "15", "26", "36", "46", "56", "67"]
    path.write_text("\n".join([*lines, *(f"\tnode{a} -- node{b}" for a, b in pairs)]))
    return path


def test_a_chain_says_what_it_merges(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Where most of a graph becomes one layer: among the assumptions, and as a warning."""
    path = branching(tmp_path)
    merged = import_pipedream(path, {"gpu": 1.0}, shape="chain")
    (warning,) = caplog.messages
    assert "Merging to a chain puts 5 of 7 nodes, with 71% of all time, into one layer" in warning
    assert warning in merged.assumptions
    caplog.clear()
    assert "Merging" not in " ".join(import_pipedream(path, {"gpu": 1.0}).assumptions)
    assert caplog.messages == []


def test_classes_that_swallow_a_graph_are_counted_by_their_nodes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Three of four nodes have one colour, and no shape of the import divides them."""
    nodes = [node(number, colour) for number, colour in ((1, 1), (2, 1), (3, 1), (4, 2))]
    as_graph_made(tmp_path, nodes, "12 23 34", shape="chain")
    (warning,) = caplog.messages
    assert "puts 3 of 4 nodes" in warning
    assert "--shape graph" not in warning


def test_a_graph_has_free_cuts_and_any_objective(tmp_path: Path) -> None:
    """Its stages have no neighbours; a chain of the same nodes has."""
    path = branching(tmp_path)
    graph = import_pipedream(path, {"gpu": 1.0}, objective="time", stage_rule="free_cuts")
    assert (graph.objective, graph.stage_rule) == ("time", "free_cuts")
    for rule, expected in ((None, "maximal_runs"), ("free_cuts", "free_cuts")):
        chain = import_pipedream(path, {"gpu": 1.0}, shape="chain", stage_rule=rule)
        assert (chain.objective, chain.stage_rule) == ("cost", expected)
    with pytest.raises(InstanceError, match=r"^options: stage_rule: is maximal_runs, but stages of a graph"):
        import_pipedream(path, {"gpu": 1.0}, stage_rule="maximal_runs")


@pytest.mark.parametrize("cost", ["overlap", "sum", "relay"])
def test_stage_cost_of_a_profile(tmp_path: Path, cost: str) -> None:
    """It becomes the field of the document, and what is assumed says so."""
    path = branching(tmp_path)
    assert import_pipedream(path, {"gpu": 1.0}).stage_cost == "overlap"
    asked = import_pipedream(path, {"gpu": 1.0}, stage_cost=cost)
    assert asked.stage_cost == cost
    starts = {"overlap": "While a stage computes, it sends or", "sum": "Before or", "relay": "While a stage"}
    (said,) = [one for one in asked.assumptions if "once for each batch" in one]
    assert said.startswith(starts[cost])
    assert ("sends to the next" in said) == (cost == "relay")


def test_stage_cost_of_dnn_partitioning(tmp_path: Path) -> None:
    """The file's own rule is the sum; another one leaves one device to a stage."""
    assert small(tmp_path).stage_cost == "sum"
    asked = small(tmp_path, stage_cost="relay")
    assert (asked.stage_cost, asked.most_units_per_stage) == ("relay", 1)


def test_stage_cost_makes_a_graph_of_a_chain(tmp_path: Path) -> None:
    """A chain has none, so that one is refused where both are asked for."""
    nodes = [node(1, 1), node(2, 2)]
    assert as_graph_made(tmp_path, nodes, "12").edges is None
    assert as_graph_made(tmp_path, nodes, "12", stage_cost="overlap").is_graph
    with pytest.raises(InstanceError, match="stage_cost: is sum, but is for graphs; leave it out, or take"):
        as_graph_made(tmp_path, nodes, "12", stage_cost="sum", shape="chain")


def test_gradients_of_a_graph_are_exchanged_over_the_link(tmp_path: Path) -> None:
    """Each unit sends and receives all weights; without a link, and in graphs of one device, nothing is."""
    figures = "forward_compute_time=1, backward_compute_time=2, activation_size=8, parameter_size=3e9"
    path = branching(tmp_path, figures)
    first = import_pipedream(path, {"gpu": 1.0}, link_gbit_per_s=8.0).layers[0]
    assert first.communication_s == {"gpu": pytest.approx(2 * 3e9 * 8 / 8e9)}
    apart = import_pipedream(path, {"gpu": 1.0}, link_gbit_per_s=None).layers[0]
    assert not apart.communication_s
    assert not small(tmp_path, link_gbit_per_s=8.0).layers[0].communication_s


@pytest.mark.parametrize(("input_time", "loading_s"), [(True, 0.003), (False, 0.0)])
def test_loading_data_takes_time_if_it_is_counted(tmp_path: Path, input_time: bool, loading_s: float) -> None:
    """Forward and backward milliseconds are seconds together; only input nodes may count as nothing."""
    figures = "forward_compute_time=1, backward_compute_time=2, activation_size=8, parameter_size=0"
    path = branching(tmp_path, figures)
    path.write_text(path.read_text().replace("node1 -- Op", "node1 -- Input"))
    first, second, *_ = import_pipedream(path, {"gpu": 1.0}, input_time=input_time).layers
    assert (first.compute_s["gpu"], second.compute_s["gpu"]) == pytest.approx((loading_s, 0.003))
