"""Layer graphs as staging instances, and the options of their imports."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from clusterplan.instances.common.errors import InstanceError
from clusterplan.instances.importers import IMPORTERS, import_pipedream
from clusterplan.instances.importers.importer import option_of
from clusterplan.instances.importers.layer_graphs.graph_instance import (
    LayerGraph,
    Node,
    StagingOptions,
    graph_instance,
    in_order,
    unique_names,
)
from clusterplan.instances.importers.layer_graphs.pipedream import PipedreamOptions


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
    return graph_instance(
        LayerGraph("g", NODES, [("a", "b")]),
        OPTIONS.model_copy(update={"link_gbit_per_s": 8.0, "limit": {"fast": 2}}),
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
        OPTIONS.refuse_unknown("limit", "speeds")
    OPTIONS.refuse_unknown("speeds")


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


FIGURES = "forward_compute_time=1, backward_compute_time=0, activation_size=8, parameter_size=0"


def branching(folder: Path, figures: str = FIGURES) -> Path:
    """Write a graph of seven nodes, of which four lie on branches between two others."""
    path = folder / "profile" / "graph.txt"
    path.parent.mkdir()
    lines = [f"node{n} -- Op -- {figures}" for n in range(1, 8)]
    pairs = ["12", "13", "14", "15", "26", "36", "46", "56", "67"]
    path.write_text("\n".join([*lines, *(f"\tnode{a} -- node{b}" for a, b in pairs)]))
    return path


def test_a_graph_has_free_cuts_and_any_objective(tmp_path: Path) -> None:
    """Its stages have no neighbours."""
    path = branching(tmp_path)
    graph = import_pipedream(path, {"gpu": 1.0}, objective="time", stage_rule="free_cuts")
    assert (graph.objective, graph.stage_rule) == ("time", "free_cuts")
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


def test_gradients_of_a_graph_are_exchanged_over_the_link(tmp_path: Path) -> None:
    """Each unit sends and receives all weights; without a link nothing is."""
    figures = "forward_compute_time=1, backward_compute_time=2, activation_size=8, parameter_size=3e9"
    path = branching(tmp_path, figures)
    first = import_pipedream(path, {"gpu": 1.0}, link_gbit_per_s=8.0).layers[0]
    assert first.communication_s == {"gpu": pytest.approx(2 * 3e9 * 8 / 8e9)}
    apart = import_pipedream(path, {"gpu": 1.0}, link_gbit_per_s=None).layers[0]
    assert not apart.communication_s


@pytest.mark.parametrize(("input_time", "loading_s"), [(True, 0.003), (False, 0.0)])
def test_loading_data_takes_time_if_it_is_counted(tmp_path: Path, input_time: bool, loading_s: float) -> None:
    """Forward and backward milliseconds are seconds together; only input nodes may count as nothing."""
    figures = "forward_compute_time=1, backward_compute_time=2, activation_size=8, parameter_size=0"
    path = branching(tmp_path, figures)
    path.write_text(path.read_text().replace("node1 -- Op", "node1 -- Input"))
    first, second, *_ = import_pipedream(path, {"gpu": 1.0}, input_time=input_time).layers
    assert (first.compute_s["gpu"], second.compute_s["gpu"]) == pytest.approx((loading_s, 0.003))
