"""`exact` on graphs against all plans, certified."""

from __future__ import annotations

import importlib
import itertools
import math
from pathlib import Path
from typing import Any

import pytest
from authors import with_replicas
from staging_instances import GraphTruth, diamond, diamond_rows, random_graph, two_layers

from clusterplan import verify
from clusterplan.formulations.staging import graph_stages
from clusterplan.formulations.staging.formulation import GraphFormulation
from clusterplan.formulations.staging.graph_stages import graph_arrays
from clusterplan.formulations.staging.stages import stage_of
from clusterplan.instances.documents import parse_instance
from clusterplan.instances.importers import import_dnn_partitioning, import_pipedream
from clusterplan.instances.staging.generate import generate_staging
from clusterplan.instances.staging.instance import Edge, StagingInstance
from clusterplan.solvers.common.base import Clock
from clusterplan.solvers.common.result import Result, SolveOptions
from clusterplan.solvers.registry import find_solver
from clusterplan.solvers.run import solve_with
from clusterplan.solvers.staging import graph_exact
from clusterplan.solvers.staging.brute_force import StagingBruteForce
from clusterplan.solvers.staging.graph_exact import (
    DeviceSearch,
    ExactOnGraphs,
    OnChains,
    count_states,
    devices_of,
    fastest_path,
)

KNOWN = {
    "bert24_training": 41.7458,
    "gnmt_training": 107.004,
    "resnet50_training": 78.6318,
    "bert24_inference": 17.7899,
    "gnmt_inference": 32.91,
    "operator_bert_l-6_inference": 29.5795,
    "operator_bert_l-3_training": 65.3031,
    "operator_resnet50_training": 255.1944,
}


RELAYED = (1009, 1018, 1050, 1053, 1093, 1157, 1161, 1177)
"""Seeds of graphs whose best value is another where stages relay."""


def solved(instance: object, solver: str = "exact", **options: object) -> Result:
    return solve_with(instance, find_solver(solver, "staging"), SolveOptions(**options))  # type: ignore[arg-type]


def agree_with_all_plans(seed: int) -> None:
    document = random_graph(seed)
    best, result = GraphTruth(document).best(), solved(parse_instance(document))
    if best is None:
        assert result.status == "infeasible"
        return
    assert result.status == "optimal"
    assert result.objective == pytest.approx(best, rel=1e-6)
    assert result.certified_gap <= 1e-6


@pytest.mark.parametrize("seed", [*range(25), *RELAYED])
def test_random_graphs(seed: int) -> None:
    """Branches, joins, colours, a CPU, memory, limits, budgets, and all cost rules."""
    agree_with_all_plans(seed)


def test_relaying_decides_some_of_them() -> None:
    """For better and for worse: it receives and sends at once, and pays for what skips stages."""
    found = set()
    for seed in RELAYED:
        document = random_graph(seed)
        assert document["stage_cost"] == "relay"
        relayed, overlapping = (
            GraphTruth({**document, "stage_cost": rule}).best() for rule in ("relay", "overlap")
        )
        found.add((relayed < overlapping) == (document["objective"] == "time"))
        assert not math.isclose(relayed, overlapping)
    assert found == {True, False}


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1000, 1500, 10))
def test_five_hundred_random_graphs(first: int) -> None:
    """The same on many more."""
    for seed in range(first, first + 10):
        agree_with_all_plans(seed)


@pytest.mark.parametrize("seed", [*range(8), *RELAYED])
def test_brute_force_is_right_too(seed: int) -> None:
    """It enumerates classes, the truth of the tests colours."""
    document = random_graph(seed)
    best, result = GraphTruth(document).best(), solved(parse_instance(document), "brute-force")
    assert isinstance(find_solver("brute-force", "staging"), StagingBruteForce)
    assert (result.objective is None) == (best is None)
    assert best is None or result.objective == pytest.approx(best)


@pytest.mark.parametrize("seed", [*range(6), *RELAYED[:4]])
def test_the_textbook_model_agrees(seed: int) -> None:
    """It knows nothing of ideals."""
    instance = parse_instance(random_graph(seed))
    ours, theirs = solved(instance), solved(instance, "milp:highs", time_limit_s=20.0)
    assert ours.status == theirs.status
    assert theirs.objective == (None if ours.objective is None else pytest.approx(ours.objective, rel=1e-6))


@pytest.mark.parametrize("name", KNOWN)
def test_published_optima(shared_data: Path, name: str) -> None:
    """The authors' answers come out, in ms, and are certified."""
    listed = (shared_data / "published" / "reference_optima.csv").read_text()
    assert f"{name}.json" in listed
    assert f"{KNOWN[name]}" in listed
    path = shared_data / "dnn-partitioning" / f"{name}.json"
    instance = import_dnn_partitioning(path, {"accelerator": 2.5, "cpu": 0.5})
    result = solved(instance.model_copy(update={"objective": "throughput"}))
    assert result.status == "optimal"
    assert result.objective == pytest.approx(1000 / KNOWN[name], rel=2e-5)
    assert result.certified_gap <= 1e-6


def once(instance: StagingInstance) -> StagingInstance:
    """Return the instance with the time of one batch as its objective."""
    training = instance.training.model_copy(update={"samples": instance.probe_batch})
    return instance.model_copy(update={"objective": "time", "training": training})


def of_pipedream(data: Path, model: str, share: float) -> StagingInstance:
    """Return a published graph on four GPUs without transfers; a share of its seconds is divided by units."""
    path = data / "pipedream" / model / "graph.txt"
    options: dict[str, Any] = {"limit": {"gpu": 4}, "link_gbit_per_s": None, "parallel_share": share}
    return import_pipedream(path, {"gpu": 1.0}, input_time=False, **options)


@pytest.mark.parametrize(
    ("model", "ms"),
    [
        ("alexnet", 28.721),
        ("vgg16", 216.45),
        ("resnet50", 111.497),
        ("densenet121", 81.985),
        ("gnmt", 25.868),
    ],
)
def test_straight_pipelines_of_pipedream(shared_data: Path, model: str, ms: float) -> None:
    """Four GPUs, one for each stage, without transfers: what PipeDream's own optimiser finds, run beside."""
    instance = once(of_pipedream(shared_data, model, 0.0))
    result = solved(instance.model_copy(update={"most_units_per_stage": 1}))
    assert result.status == "optimal"
    assert result.objective == pytest.approx(ms / 1000)


@pytest.mark.parametrize(("model", "ms"), [("alexnet", 23.165752), ("vgg16", 175.732624), ("gnmt", 25.868)])
def test_replicated_stages_of_pipedream(shared_data: Path, model: str, ms: float) -> None:
    """Four GPUs in stages of up to four replicas: what PipeDream's own optimiser finds, run beside."""
    instance = once(of_pipedream(shared_data, model, 1.0))
    result = solved(with_replicas(instance, 1e9, all_reduce=4.0, transfers=0.0))
    assert result.status == "optimal"
    assert result.objective == pytest.approx(ms / 1000)
    assert result.certified_gap == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize(
    ("model", "gpus", "ms"),
    [
        ("alexnet", 4, 34.217141),
        ("vgg16", 4, 205.520896),
        ("gnmt", 4, 25.868),
        ("gnmt", 16, 19.285),
        ("vgg16", 16, 56.529767),
    ],
)
def test_replicated_stages_of_pipedream_that_relay(
    shared_data: Path, monkeypatch: pytest.MonkeyPatch, model: str, gpus: int, ms: float
) -> None:
    """With transfers, as the benchmark states it: what PipeDream's own optimiser finds, run beside."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[3] / "benchmarks"))
    optimised = importlib.import_module("authors").optimised
    instance = optimised(shared_data / "pipedream" / model / "graph.txt", gpus, 1e9, transfers=True)
    result = solved(once(instance))
    assert result.status == "optimal"
    assert result.objective == pytest.approx(ms / 1000)
    assert result.certified_gap == pytest.approx(0, abs=1e-6)
    assert [stage.type.endswith("first") for stage in result.plan].index(True) == 0


@pytest.mark.slow
def test_inception(shared_data: Path) -> None:
    """34,730 ideals: our own dynamic programme had found 51.5519 ms."""
    path = shared_data / "dnn-partitioning" / "inceptionv3_inference.json"
    instance = import_dnn_partitioning(path, {"accelerator": 2.5, "cpu": 0.5})
    result = solved(instance.model_copy(update={"objective": "throughput"}))
    assert result.objective == pytest.approx(1000 / 51.5519, rel=2e-5)
    assert result.certified_gap == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize(("limit", "seconds"), [(1, 7.0), (2, 5.0), (3, 4.0)])
def test_devices_decide(limit: int, seconds: float) -> None:
    """The dynamic program over units used, and the search that raises its cutoff."""
    formulation = GraphFormulation(diamond(limit))
    assert graph_exact.dynamic_program_applies(formulation)
    problem = graph_arrays(formulation.instance, formulation.blocks, formulation.ideals)
    devices = devices_of(problem, [limit])
    assert devices.left.tolist() == [list(range(limit, -1, -1))]
    assert len(devices.room) == count_states([limit])
    found, complete = fastest_path(problem, devices, math.inf, Clock())
    assert complete
    assert found[0] == seconds
    assert fastest_path(problem, devices, seconds, Clock()) == (None, True)
    outcome = DeviceSearch(formulation, SolveOptions(), Clock()).run()
    assert outcome.bounds[0] == pytest.approx(seconds)


@pytest.mark.parametrize("seed", range(6))
def test_a_path_is_planned_like_a_chain(seed: int) -> None:
    """Without transfers a graph that is a path costs what the chain costs, where cuts are free."""
    chain = generate_staging(6, 3, "tight", seed=seed).model_copy(
        update={"stage_rule": "free_cuts", "link_gbit_per_s": None}
    )
    names = [layer.name for layer in chain.layers]
    edges = [Edge(source=a, target=b) for a, b in itertools.pairwise(names)]
    for objective in ("cost", "time"):
        plain = chain.model_copy(update={"objective": objective})
        path = plain.model_copy(update={"edges": tuple(edges)})
        assert solved(path).objective == pytest.approx(solved(plain).objective, rel=1e-6)


def test_many_units_are_left_to_the_search_over_stage_times() -> None:
    """A hundred of each of two types make ten thousand states."""
    types = [{"name": n, "price_usd_per_hour": 1.0, "limit": 100} for n in ("gpu", "tpu")]
    formulation = GraphFormulation(diamond(types=types))
    assert graph_exact.dynamic_program_applies(formulation)
    assert graph_exact.steps_per_stage(formulation) == 101 * 101
    assert (
        graph_exact.steps_per_stage(GraphFormulation(diamond(types=types, most_units_per_stage=None)))
        == 100 * 101 * 101
    )
    result = solved(diamond(types=types))
    assert (result.status, result.objective) == ("optimal", 4.0)
    assert result.certified_gap == pytest.approx(0, abs=1e-6)


def test_money_sends_graphs_to_the_search_for_chains() -> None:
    """One unit costs 7 s, two cost twice 5 s, three times 4 s."""
    assert not graph_exact.dynamic_program_applies(GraphFormulation(diamond(objective="cost")))
    cheapest = solved(diamond(3, objective="cost", training={"samples": 3600}))
    assert cheapest.objective == pytest.approx(7.0)
    faster = solved(
        diamond(3, objective="cost", training={"samples": 3600}, throughput_floor_samples_per_s=0.2)
    )
    assert faster.objective == pytest.approx(10.0)
    within = solved(diamond(3, hourly_budget_usd=2.0))
    assert (within.status, within.objective) == ("optimal", 5.0)


def test_too_many_ideals_leave_a_plan_and_a_bound() -> None:
    """Twenty layers side by side have a million ideals."""
    rows = [
        {"name": f"l{index}", "compute_s": {"gpu": 1.0 + index % 3}, "compute_parallel": 0}
        for index in range(20)
    ]
    for objective in ("time", "cost"):
        result = solved(diamond(4, layers=rows, edges=[], objective=objective))
        assert result.plan is not None
        assert result.bound is not None
        assert "only one order" in str(result.message)
        assert result.status in ("feasible", "optimal")


def test_a_graph_whose_stages_are_too_many_has_a_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even those of one order of its layers, under a budget beside the limits of units."""
    monkeypatch.setattr(graph_stages, "MAX_STAGES", 3)
    instance = diamond(8, hourly_budget_usd=2)
    for limit_s in (None, 60.0):
        result = solved(instance, time_limit_s=limit_s)
        assert (result.status, result.limit) == ("feasible", "none")
        assert result.bound == result.certified_bound == pytest.approx(3.5)  # 7 s of work on two units
        assert "even one order of the layers" in str(result.message)
        assert verify(instance, result).ok


@pytest.mark.slow
def test_a_graph_of_five_thousand_layers_has_a_plan() -> None:
    """More than any graph that has been published has."""
    rows = [{"name": f"l{index}", "compute_s": {"gpu": 1.0}, "compute_parallel": 0} for index in range(5000)]
    edges = [{"source": f"l{index}", "target": f"l{index + 1}"} for index in range(4999)]
    result = solved(diamond(8, layers=rows, edges=edges, most_units_per_stage=1))
    assert (result.status, result.objective) == ("optimal", 625.0)
    assert result.certified_bound == pytest.approx(625.0)


def test_a_warm_start_is_never_lost() -> None:
    """A plan that cannot be improved comes back, and a worse one is improved."""
    worse = [stage_of([0, 1, 2, 3], "gpu", 1).model_dump()]
    for objective in ("time", "cost"):
        result = solved(diamond(objective=objective), warm_start=worse)
        assert result.objective == pytest.approx({"time": 5.0, "cost": 7.0 / 3600}[objective])


@pytest.mark.parametrize("name", ["milp:highs", "cp-sat"])
def test_a_warm_start_may_divide_layers_that_are_joined(name: str) -> None:
    """Those without time are one place with a neighbour; a plan that parts them is no hint for a model."""
    rows = diamond_rows(*[0.0] * 4)
    rows[2]["compute_s"] = {"gpu": 0.0}
    instance = diamond(layers=rows, edges=[{"source": a, "target": b} for a, b in ("ab", "bc", "cd")])
    start = [stage_of(own, "gpu", 1).model_dump() for own in ([0, 1], [2, 3])]
    formulation = GraphFormulation(instance)
    assert formulation.positions(formulation.parse_plan(start)) is None
    result = solved(instance, name, warm_start=start)
    assert (result.status, result.objective) == ("optimal", 3.0)


def test_methods_for_chains_refuse_graphs() -> None:
    """With a line that says what plans them; chains they solve as before."""
    method = find_solver("greedy", "staging")
    assert isinstance(method, OnChains)
    assert isinstance(find_solver("exact", "staging"), ExactOnGraphs)
    result = solved(diamond(), "greedy")
    assert (result.status, result.plan) == ("error", None)
    assert "greedy plans chains of layers" in str(result.message)
    assert solved(two_layers(), "greedy").plan is not None


@pytest.mark.parametrize("name", ["genetic", "greedy", "cp-sat", "milp:highs"])
def test_layers_of_one_colour_that_fit_no_type_together(name: str) -> None:
    """Each alone fits; methods for chains find no plan, as the order of the three places is the only one."""
    rows = diamond_rows(memory_gib=1.0)
    for row in rows[1:3]:
        row["colour"] = "c"
    types = [{"name": "gpu", "price_usd_per_hour": 1.0, "limit": 4, "memory_gib": 1.5}]
    result = solved(diamond(layers=rows, types=types), name)
    expected = "infeasible" if find_solver(name, "staging").proves else "unknown"
    assert (result.plan, result.status) == (None, expected)


def test_an_unreachable_floor_is_explained() -> None:
    """By the highest throughput that the limits allow."""
    result = solved(diamond(throughput_floor_samples_per_s=0.3))
    assert result.status == "infeasible"
    assert "0.2 samples/s" in result.diagnosis.reasons[0]


def test_what_if_on_a_graph() -> None:
    """One unit more saves a second."""
    result = solved(diamond(), method_options={"what_if": True})
    assert "4 layers; 6 ideals; what more units would bring" in str(result.message)
    assert "gpu: 1 more units" in str(result.message)
