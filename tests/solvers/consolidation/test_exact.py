"""Exact consolidation: proofs at scale, every kind of objective, certificates, and honest ends."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from device_instances import job, placement, server, three_jobs
from random_instances import random_consolidation

import clusterplan
from clusterplan.formulations.consolidation import build_classes as consolidation_class_builder
from clusterplan.formulations.consolidation.formulation import ConsolidationFormulation
from clusterplan.instances.consolidation.generate import generate_consolidation
from clusterplan.instances.consolidation.instance import ConsolidationInstance
from clusterplan.instances.importers.traces.tiresias import import_tiresias
from clusterplan.planner.cli.solving import notes
from clusterplan.planner.verification import verify
from clusterplan.solvers.common.base import Clock
from clusterplan.solvers.common.result import Result, SolveOptions
from clusterplan.solvers.consolidation.exact import ConsolidationExact
from clusterplan.solvers.registry import find_solver
from clusterplan.solvers.run import solve_with


def proven(instance: Any, **options: Any) -> Result:
    """Solve with the exact method; the result must be optimal, and verified."""
    result = clusterplan.solve(instance, "exact", SolveOptions(**options))
    assert result.status == "optimal", (result.message, result.objectives)
    verification = verify(instance, result)
    assert verification.ok, verification.faults
    return result


def values(result: Result) -> list[float | None]:
    """Return the values of the objectives."""
    return [record.value for record in result.objectives]


def test_a_drained_server_has_no_room_for_traffic_either() -> None:
    """Its tasks and its traffic go to the others."""
    servers = [{**server(f"s{k}", gpu=4), "traffic_gbit_per_s": 1} for k in range(4)]
    jobs = [job(f"j{k}", 2, traffic_gbit_per_s=1.5) for k in range(5)]
    result = proven(placement(["value", "traffic"], servers, jobs, drain=["s1"]))
    assert not any("s1" in entry.servers for entry in result.plan or ())


def fragmented(
    seed: int, servers: int, resources: int, load: float, objectives: list[str]
) -> ConsolidationInstance:
    """Return jobs of 2 to 16 tasks on servers of which little is free, so that some have to be spread."""
    rng = random.Random(seed)
    requests = [
        {"gpu": 1, "cpu": 4, "memory_gib": 24},
        {"gpu": 1, "cpu": 12, "memory_gib": 32},
        {"gpu": 2, "cpu": 8, "memory_gib": 100},
    ]
    listed = []
    for n in range(servers):
        gpus = rng.randint(1, 7)
        amounts = {
            "gpu": gpus,
            "cpu": min(96, gpus * rng.choice([6, 8, 12])),
            "memory_gib": min(512, gpus * rng.choice([28, 40, 64])),
        }
        room = dict([("gpu", 8), ("cpu", 96), ("memory_gib", 512)][:resources])
        listed.append({**server(f"n{n}", **room), "free": {r: amounts[r] for r in room}})
    room, asked, jobs = sum(s["free"]["gpu"] for s in listed), 0, []
    while asked < room * load:
        demand = rng.choice(requests) if resources > 1 else {"gpu": 1}
        tasks = rng.choice([2, 3, 4, 5, 6, 8, 12, 16])
        spread = rng.choice(["preferred"] * 6 + ["required"] * 2 + ["free"] * 2)
        jobs.append(job(f"j{len(jobs)}", tasks, demand, spread=spread))
        asked += tasks * demand["gpu"]
    return placement(objectives, listed, jobs)


@pytest.mark.parametrize("load", [0.95, 1.4])
def test_thousands_of_servers_are_proven_and_certified(load: float) -> None:
    """Value, then spread, then servers; every bound is derived again by the check."""
    instance = generate_consolidation(3000, 4500, load=load, seed=2)
    result = proven(instance)
    assert [r.name for r in result.objectives] == ["value", "spread", "servers"]
    assert all(r.certified_bound == r.value for r in result.objectives)


def test_three_resources_are_proven() -> None:
    """Four shapes of servers, partly filled by random requests."""
    result = proven(generate_consolidation(200, 400, load=1.1, resources=3, shapes=4, seed=3))
    assert all(r.certified_bound == r.value for r in result.objectives)


@pytest.mark.parametrize(
    ("resources", "order"),
    [
        (1, ["value", "spread", "servers"]),
        pytest.param(3, ["value", "spread", "servers"], marks=pytest.mark.slow),
        (1, ["spread", "servers", "value"]),
        (3, ["spread", "servers", "value"]),
    ],
)
def test_fragmented_servers_are_proven(resources: int, order: list[str]) -> None:
    """Where jobs have to be spread, the fewest extra servers are found; nobody else finds a better plan."""
    for seed in range(3):
        instance = fragmented(seed, 60, resources, 1.1, order)
        result = proven(instance)
        for name in ("best-fit", "first-fit-decreasing", "consolidate-or-wait"):
            other = clusterplan.solve(instance, name)
            first = ConsolidationFormulation(instance).objectives[0]
            assert not first.better(other.objectives[0].value or 0.0, result.objectives[0].value or 0.0)
        if order[0] == "value":
            assert (result.objectives[1].value or 0) > 0  # or the instance tests nothing


@pytest.mark.slow
def test_integer_gaps_are_closed() -> None:
    """Where whole numbers cost more than the relaxation, the complete model proves it."""
    found = 0
    for seed in range(12):
        result = proven(fragmented(seed, 12, 3, 1.3, ["value", "spread", "servers"]))
        found += any(r.certified_bound != r.value for r in result.objectives)
    assert found > 0  # otherwise the instances have no gaps, and this tests nothing


def test_migrations_by_hand() -> None:
    """Freeing a whole server takes moving the smaller job, not the larger one."""
    servers = [server(f"n{i}", gpu=4) for i in range(3)]
    jobs = [
        job("three", 3, current={"n0": 3}),
        job("one", current={"n1": 1}),
        job("two", 2, current={"n2": 2}),
        job("new", 4, spread="required"),
    ]
    result = proven(placement(["value", "migrations", "servers"], servers, jobs))
    assert values(result) == [10, 1, 3]
    assert [r.certified_bound for r in result.objectives] == [10, 1, 3]
    three, _, two, new = (entry.servers for entry in result.plan)
    assert (three, two, new) == ({"n0": 3}, {"n2": 2}, {"n1": 4})


def test_running_clusters_are_proven() -> None:
    """A busy cluster is defragmented with the fewest moves; placing all anew moves more."""
    rng = random.Random(5)
    servers = [server(f"n{i}", gpu=8) for i in range(40)]
    left, jobs = [8] * 40, []
    for number in range(70):
        tasks = rng.choice([1, 2, 4, 4, 8])
        current: dict[str, int] = {}
        while sum(current.values()) < tasks and sum(left) > 60:
            n = rng.choice([n for n in range(40) if left[n]])
            count = min(left[n], tasks - sum(current.values()))
            left[n] -= count
            current[f"n{n}"] = current.get(f"n{n}", 0) + count
        spread = rng.choice(["required", "preferred", "free"])
        jobs.append(job(f"j{number}", tasks, spread=spread, **({"current": current} if current else {})))
    instance = placement(["value", "spread", "migrations", "servers"], servers, jobs)
    result = proven(instance)
    assert (result.objectives[2].value or 0) > 0
    other = clusterplan.solve(instance, "best-fit")
    assert (other.objectives[2].value or 0) > (result.objectives[2].value or 0)


@pytest.mark.parametrize("number", [30, pytest.param(120, marks=pytest.mark.slow)])
def test_no_prices_prove_too_much(number: int) -> None:
    """Whatever a certificate says, no bound that is derived from it is better than the optimum."""
    rng = random.Random(1)
    tight = 0
    for seed in range(number):
        instance = random_consolidation(seed)
        best = solve_with(instance, find_solver("brute-force", "consolidation"), SolveOptions())
        if best.plan is None:
            continue
        formulation = ConsolidationFormulation(instance)  # type: ignore[arg-type]
        optimum = formulation.evaluate(best.plan)
        names = [o.name for o in formulation.objectives]
        for _ in range(6):
            scale = rng.choice([0.1, 1.0, 1.0, 3.0, 1e6])
            forged = {
                "goals": [
                    {
                        "objective": name,
                        "prices": [
                            [rng.choice([0.0, 0.5, 1.0, rng.random()]) * scale for _ in pieces]
                            for pieces in formulation.classes.pieces
                        ],
                        "multipliers": {
                            earlier: rng.random() * 2
                            for earlier in names[:index]
                            if earlier not in ("racks", "traffic")
                        },
                    }
                    for index, name in enumerate(names)
                    if name not in ("racks", "traffic")
                ]
            }
            assert formulation.certificate_fault(forged) is None
            bounds = formulation.certified_bounds(forged, optimum)
            for objective, value, bound in zip(formulation.objectives, optimum, bounds, strict=True):
                assert bound is None or not objective.better(value, bound), (seed, objective.name)
                tight += bound == value
    assert tight > number * 0.8


def test_altered_certificates_are_refused() -> None:
    """Another number of prices, a negative one, an unknown objective or text is a fault."""
    instance = generate_consolidation(20, 30, load=1.2, resources=3, seed=1)
    result = proven(instance)
    goals = result.certificate["goals"]
    for broken in (
        [],
        {"goals": [{**goals[0], "prices": [[1.0]]}]},
        {"goals": [{**goals[0], "prices": [[-1.0, *kind[1:]] for kind in goals[0]["prices"]]}]},
        {"goals": [{**goals[0], "objective": "racks"}]},
        {"goals": "none"},
    ):
        altered = result.model_copy(update={"certificate": broken})
        assert not verify(instance, altered).ok
    weaker = {"goals": [{**goals[0], "prices": [[0.0] * len(kind) for kind in goals[0]["prices"]]}]}
    assert not verify(instance, result.model_copy(update={"certificate": weaker})).ok


def test_other_methods_get_certificates() -> None:
    """A plan of the textbook model is certified by prices of the class model."""
    instance = fragmented(4, 8, 1, 1.2, ["value", "spread", "servers"])
    best = proven(instance)
    for name in ("milp:highs", "cp-sat"):
        result = clusterplan.solve(instance, name)
        assert values(result) == values(best)
        assert [r.certified_bound for r in result.objectives] == [r.certified_bound for r in best.objectives]


def test_infeasible_is_certified_and_explained() -> None:
    """Five jobs of two thirds of a server do not fit on four; prices prove it, and one is named."""
    jobs = [job(name, 1, {"gpu": 2}, must_place=True) for name in "abcde"]
    instance = placement(["servers"], [{**server(gpu=3), "count": 4}], jobs)
    result = clusterplan.solve(instance)
    assert result.status == "infeasible"
    assert "4 of the 5 jobs that must be placed" in result.diagnosis.reasons[0]
    verification = verify(instance, result)
    assert verification.ok
    assert "prices of the certificate prove" in verification.confirmed[0]


def test_what_can_never_fit_is_named_by_shape() -> None:
    """Each resource is enough on some server, but no server has enough of both."""
    servers = [
        server("many-gpus", gpu=8, memory_gib=64),
        {**server("much-memory", gpu=2, memory_gib=512), "gpu_model": "p100"},
    ]
    jobs = [
        job("both", 1, {"gpu": 4, "memory_gib": 128}),
        job("model", gpu_model="h100"),
        job("small", 3, gpu_model="p100", spread="required"),
    ]
    result = proven(placement(["value"], servers, jobs))
    both, model, small = (entry.reason for entry in result.plan)
    assert "on 1 server: too little memory_gib (128 needed)" in both
    assert "on 1 server: too little gpu (4 needed)" in both
    assert "no server has the GPU model 'h100'; there are: 'p100'" in model
    assert "all servers with GPU model 'p100' together hold 2 of its 3 tasks" in small
    must = [{**each, "must_place": True} for each in jobs]
    infeasible = clusterplan.solve(placement(["value"], servers, must))
    assert infeasible.status == "infeasible"
    assert len(infeasible.diagnosis.reasons) == 3


def test_a_contradiction_is_named() -> None:
    """A job that must be placed and consolidated, on servers of which too little is free."""
    servers = [{**server(gpu=4), "count": 3, "free": {"gpu": 2}}]
    whole = job("j", 4, spread="required", must_place=True)
    result = clusterplan.solve(placement(["value"], servers, [whole]))
    assert result.status == "infeasible"
    assert "must be placed, but waits: it must run on a single server" in result.diagnosis.reasons[0]
    assert "it would take 2" in result.diagnosis.reasons[0]


@pytest.mark.parametrize("cluster", ["n32g4", "8x4"])
def test_tiresias_jobs_are_placed_optimally(shared_data: Path, tmp_path: Path, cluster: str) -> None:
    """The paper's 60 jobs: skewed models are on the fewest servers, and who waits says why."""
    spec = shared_data / "tiresias" / "n32g4.csv"
    if cluster == "8x4":
        spec = tmp_path / "n8g4.csv"
        header = "num_switch,num_node_p_switch,num_gpu_p_node,num_cpu_p_node,mem_p_node"
        spec.write_text(f"{header}\n1,8,4,64,256\n")
    instance = import_tiresias(shared_data / "tiresias" / "60_job.csv", spec)
    result = proven(instance)
    gpus = 128 if cluster == "n32g4" else 32
    assert result.objectives[0].value == gpus == result.objectives[0].certified_bound
    formulation = ConsolidationFormulation(instance)
    for entry in formulation.parse_plan([e.model_dump() for e in result.plan or ()]):
        known = formulation.jobs[entry.job]
        if entry.placed and instance.spread_of(known) == "required":
            assert len(entry.used_servers) == formulation.fewest(known)
        assert entry.placed or (entry.reason or "").startswith("waits:")
    skewed = [known for known in instance.jobs if instance.spread_of(known) == "required"]
    assert {known.name.split()[-1] for known in skewed} >= {"vgg19", "alexnet"}


@pytest.mark.slow
def test_plans_do_not_depend_on_hashing(tmp_path: Path) -> None:
    """Two processes with other hash seeds write the same plan."""
    code = (
        "import sys, clusterplan\n"
        "from clusterplan.instances.consolidation.generate import generate_consolidation\n"
        "made = generate_consolidation(60, 90, load=1.1, seed=4, resources=3, shapes=2)\n"
        "options = clusterplan.SolveOptions(threads=1, seed=1)\n"
        "print(clusterplan.solve(made, 'exact', options).plan_sha256)\n"
    )
    hashes = set()
    for seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
            env={**os.environ, "PYTHONHASHSEED": seed},
            cwd=tmp_path,
        )
        hashes.add(done.stdout.strip())
    assert len(hashes) == 1


def test_no_time_is_said_so() -> None:
    """Without time there is a plan of a heuristic, and no more is said than counting proves."""
    instance = generate_consolidation(400, 600, load=1.2, resources=3, shapes=4, seed=1)
    result = clusterplan.solve(instance, "exact", SolveOptions(time_limit_s=1e-6))
    assert result.status == "feasible"
    assert result.limit == "time"
    assert verify(instance, result).ok


def test_without_a_table_of_loads_small_instances_are_proven(monkeypatch: pytest.MonkeyPatch) -> None:
    """Patterns by a search, or else the model with named servers, close the gap."""
    monkeypatch.setattr(consolidation_class_builder, "MAX_USAGES", 2)
    instance = fragmented(1, 6, 3, 1.0, ["value", "servers"])
    result = clusterplan.solve(instance, "exact")
    assert result.status == "optimal"
    other = clusterplan.solve(instance, "milp:highs")
    assert values(result) == values(other)


def test_a_warm_start_is_never_lost() -> None:
    """A plan that was given comes back where there is no time for a better one."""
    instance = fragmented(1, 30, 1, 1.0, ["value", "spread"])
    best = proven(instance)
    start = tuple(entry.model_dump() for entry in best.plan or ())
    result = clusterplan.solve(instance, "exact", SolveOptions(time_limit_s=1e-6, warm_start=start))
    assert values(result) == values(best)


def test_prices_bound_what_a_server_adds() -> None:
    """One more empty server adds no more to the value than its price says."""
    for seed in range(6):
        instance = generate_consolidation(12, 40, load=1.5, seed=seed)
        result = proven(instance)
        if result.prices is None:
            continue
        price = max(result.prices.values())
        more = instance.servers[0].model_copy(update={"name": "more", "count": None, "free": None})
        larger = instance.model_copy(update={"servers": (*instance.servers, more)})
        larger.__dict__.pop("expanded_servers", None)
        gained = (proven(larger).objectives[0].value or 0) - (result.objectives[0].value or 0)
        assert gained <= price


def test_many_waiting_jobs_are_summed_up() -> None:
    """Where the table cannot show all jobs, the notes count who waits, by reason."""
    instance = generate_consolidation(40, 120, load=1.6, seed=1)
    result = proven(instance)
    waiting = sum(not entry.model_dump()["placed"] for entry in result.plan or ())
    lines = notes(result)
    assert f"{waiting} of 120 jobs are not placed" in lines
    assert any("on one server; the most that the placed jobs leave is" in line for line in lines)


def test_the_method_alone_leaves_bounds_prices_and_a_certificate() -> None:
    """Before anybody checks them: two of three jobs, on two servers."""
    outcome = ConsolidationExact().solve(three_jobs(), SolveOptions(threads=1), Clock())
    assert outcome.bounds == [6.0, 2.0]
    assert outcome.limit == "none"
    assert [entry.placed for entry in outcome.plan] == [True, True, False]
    assert [goal["objective"] for goal in outcome.certificate["goals"]] == ["value", "servers"]


def test_the_method_alone_keeps_a_better_plan_that_it_is_given() -> None:
    """Without time the warm start is the plan, and nothing is proven about it."""
    start = (
        {"job": "a", "servers": {"n": 3}},
        {"job": "b", "servers": {"m": 3}},
        {"job": "c", "placed": False},
    )
    outcome = ConsolidationExact().solve(three_jobs(), SolveOptions(warm_start=start), Clock(0.0))
    assert outcome.plan[0].servers == {"n": 3}
    assert outcome.limit == "time"


def test_best_fit_without_a_plan_is_not_named() -> None:
    """Four jobs of three GPUs have to run on three servers of four, in no time."""
    jobs = [{"name": f"j{k}", "tasks": 1, "task_demand": {"gpu": 3}, "must_place": True} for k in range(4)]
    servers = [{"name": "n", "count": 3, "capacity": {"gpu": 4}}]
    document = {"schema_version": 1, "kind": "consolidation", "name": "x", "servers": servers, "jobs": jobs}
    result = clusterplan.solve(clusterplan.parse_instance(document), time_limit_s=0.001)
    assert result.plan is None
    assert "best-fit" not in (result.message or "")
