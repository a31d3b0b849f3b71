"""Edges of `exact`: extreme figures, many demands, and servers of which none is like another."""

from __future__ import annotations

import random
from typing import Any

import pytest
from device_instances import job, placement, server
from random_instances import unlike_consolidation

import clusterplan
from clusterplan.formulations.consolidation import build_classes
from clusterplan.formulations.consolidation.check import bounds as check_certificate
from clusterplan.formulations.consolidation.check import server_prices
from clusterplan.formulations.consolidation.cluster_data import limit_traffic
from clusterplan.formulations.consolidation.formulation import ConsolidationFormulation
from clusterplan.instances.common.errors import InstanceError
from clusterplan.instances.consolidation.generate import generate_consolidation
from clusterplan.instances.consolidation.instance import ConsolidationInstance
from clusterplan.planner.verification import verify
from clusterplan.solvers.common.result import Result, SolveOptions
from clusterplan.solvers.registry import find_solver
from clusterplan.solvers.run import solve_with


def optimum(instance: Any, solver: str = "exact") -> list[float | None]:
    """Return the values of an optimal, verified result."""
    result = clusterplan.solve(instance, solver)
    assert result.status == "optimal", (solver, result.message, result.objectives)
    verification = verify(instance, result)
    assert verification.ok, verification.faults
    return [record.value for record in result.objectives]


SLOWER = {1: 0.5, 2: 2 / 3}
CASES = {
    "values without a common step": (
        ["value"],
        [server(gpu=4)],
        [job("a", value=1), job("b", value=1 / 3)],
    ),
    "slowdown without a common step": (
        ["slowdown", "servers"],
        [server("n", gpu=4), server("m", gpu=4)],
        [
            job("a", 2, value=1, must_place=True, speed_by_servers=SLOWER),
            job("b", value=1, must_place=True, speed_by_servers={1: 0.5}),
        ],
    ),
    "fractions of a GPU": (
        ["value"],
        [server(gpu=0.8)],
        [job("a", 3, {"gpu": 0.1}), job("b", 1, {"gpu": 0.5}), job("c", 1, {"gpu": 0.3})],
    ),
    "spreading helps, but there is one server": (
        ["slowdown", "spread"],
        [server(gpu=4)],
        [job("a", 2, must_place=True, spread="preferred", speed_by_servers={1: 1, 2: 2})],
    ),
    "spreading helps, and nobody else is there": (
        ["slowdown", "spread", "servers"],
        [server("n", gpu=4), server("m", gpu=1)],
        [job("a", 3, must_place=True, spread="preferred", speed_by_servers={1: 1, 2: 1.5, 3: 2})],
    ),
    "gains and losses cancel": (
        ["slowdown"],
        [server(gpu=4)],
        [
            job("a", must_place=True, speed_by_servers={1: 1.1}),
            job("b", must_place=True, speed_by_servers={1: 0.9}),
        ],
    ),
    "speed listed for a million servers": (
        ["slowdown"],
        [server("n", gpu=1), server("m", gpu=1)],
        [job("a", 2, value=1, must_place=True, speed_by_servers={1: 1, 1_000_000: 0.5})],
    ),
    "huge and tiny values": (
        ["value", "servers"],
        [server(gpu=2)],
        [job("a", value=1e10), job("b", 2, value=1e-6), job("c", value=3)],
    ),
    "amounts far larger than demands": (
        ["value"],
        [server(mem=1e12)],
        [job("a", 1, {"mem": 1 / 3}, value=1), job("b", 1, {"mem": 0.1 + 0.2}, value=1)],
    ),
    "tiny demands": (["value"], [server(mem=1e6)], [job("a", 1, {"mem": 1e-8}, value=1)]),
    "sums that round": (
        ["value"],
        [server(gpu=0.3)],
        [job("a", 1, {"gpu": 0.1}, value=1), job("b", 1, {"gpu": 0.2}, value=1)],
    ),
    "demands of nothing": (
        ["value", "servers"],
        [server("n", gpu=1), server("m", gpu=1)],
        [job("a", 5, {"gpu": 0}, value=1), job("b", 1, value=2), job("c", 3, {}, value=1)],
    ),
    "traffic only of what is there": (
        ["traffic", "value"],
        [{**server(gpu=1), "traffic_gbit_per_s": 2.5}],
        [job("a", value=1), job("b", traffic_gbit_per_s=0.1, value=1)],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_odd_figures(name: str) -> None:
    """The exact method agrees with brute force, and every figure is verified."""
    instance = placement(*CASES[name])
    assert optimum(instance) == pytest.approx(optimum(instance, "brute-force"), rel=1e-9)


def test_rooms_change_hands_in_the_right_order() -> None:
    """Room of a demanding kind may go through a second kind to a third, and the plan is written back."""
    ps = {"name": "ps", "demand": {"gpu": 1, "cpu": 1}}

    def grouped(name: str, spread: str, value: float, tasks: int, others: int, demand: Any) -> dict[str, Any]:
        worker = {"name": "worker", "tasks": others, "demand": demand}
        groups = [{**ps, "tasks": tasks}, worker]
        return {"name": name, "spread": spread, "value": value, "gpu_model": "a", "groups": groups}

    servers = [
        {**server("n0", gpu=8, cpu=8), "free": {"gpu": 7, "cpu": 6}, "gpu_model": "a"},
        {**server("n1", gpu=8, cpu=8), "free": {"gpu": 1, "cpu": 8}, "gpu_model": "a"},
    ]
    jobs = [
        grouped("j0", "required", 3, 2, 3, {"gpu": 3, "cpu": 3}),
        grouped("j1", "required", 3, 3, 3, {"gpu": 1, "cpu": 2}),
        grouped("j3", "required", 1, 2, 1, {"gpu": 1, "cpu": 2}),
        grouped("j5", "preferred", 3, 3, 1, {"gpu": 0, "cpu": 1}),
    ]
    instance = placement(["value", "spread"], servers, jobs)
    assert optimum(instance) == optimum(instance, "cp-sat")


def test_many_kinds_on_one_server_are_priced_without_overflow() -> None:
    """Prices near the limit on hundreds of kinds do not wrap around into a bound that is too good."""
    price = float(2**38 - 1)
    jobs = [job(f"j{k}", 1, {"cpu": k + 1}, value=price) for k in range(150)]
    instance = placement(["value"], [server(cpu=40_000)], jobs)
    formulation = ConsolidationFormulation(instance)
    goal = {"objective": "value", "prices": [[price]] * len(formulation.classes.task_shapes)}
    bound = formulation.certified_bounds({"goals": [goal]})[0]
    assert bound >= 150 * price


def test_prices_too_large_to_add_up_certify_nothing() -> None:
    """Instead of an overflow there is only the elementary bound."""
    instance = placement(["value"], [{**server(gpu=8), "count": 2000}], [job("a", 1_000_000, value=1)])
    formulation = ConsolidationFormulation(instance)
    goal = {"objective": "value", "prices": [[1e12] for _ in formulation.classes.task_shapes]}
    assert formulation.certified_bounds({"goals": [goal]}) == formulation.elementary_bounds()


def test_a_bound_beyond_unproven_objectives_is_not_certified() -> None:
    """A plan that is not the best in the first objective says nothing about the third."""
    jobs = [
        job("a", value=2, speed_by_servers={1: 1.5}),
        job("b", value=3, speed_by_servers={1: 1.5}),
    ]
    instance = placement(["value", "servers", "slowdown"], [server("n", gpu=1), server("m", gpu=1)], jobs)
    formulation = ConsolidationFormulation(instance)
    prices = [[1.0 for _ in pieces] for pieces in formulation.classes.pieces]
    goal = {"objective": "slowdown", "prices": prices, "multipliers": {"servers": 1.0}}
    worse = formulation.parse_plan([{"job": "a", "servers": {"n": 1}}, {"job": "b", "placed": False}])
    bounds = formulation.certified_bounds({"goals": [goal]}, formulation.evaluate(worse))
    assert bounds[2] is None or bounds[2] <= -2.5


def test_threads_may_change_between_solves() -> None:
    """One process may solve with two threads, then with as many as there are, then with one."""
    instance = generate_consolidation(10, 15, load=1.2, seed=1)
    for threads in (2, None, 1, None, 2):
        for solver in ("exact", "cp-sat", "milp:highs"):
            result = clusterplan.solve(instance, solver, SolveOptions(threads=threads))
            assert result.status == "optimal", (threads, solver, result.message)


def test_servers_that_all_differ_end_in_time() -> None:
    """Where there is nothing to count, a plan comes in about the time that was given, and says so."""
    servers = [
        {
            "name": f"n{i}",
            "capacity": {"gpu": 8, "cpu": 96_000, "mem": 524_288},
            "free": {"gpu": 8, "cpu": 20_000 + 7 * i, "mem": 90_000 + 13 * i},
        }
        for i in range(600)
    ]
    jobs = [
        job(f"j{i}", 1 + i % 4, {"gpu": 1, "cpu": 1_000 + 137 * (i % 40), "mem": 9_000 + 511 * (i % 30)})
        for i in range(500)
    ]
    instance = placement(["value", "servers"], servers, jobs)
    result = clusterplan.solve(instance, "exact", SolveOptions(time_limit_s=2))
    assert result.plan is not None
    assert verify(instance, result).ok
    assert result.status == "optimal" or result.message


def test_a_limit_on_traffic_is_one_more_resource() -> None:
    """Under a limit no server takes more; the fewest servers of a job stay the same."""
    jobs = [job("a", 4, traffic_gbit_per_s=1.0, spread="required"), job("b", 2, traffic_gbit_per_s=2.0)]
    instance = placement(["value", "traffic"], [{**server(gpu=4), "count": 2}], jobs)
    under = ConsolidationFormulation(limit_traffic(instance, 3.0))
    assert [under.fewest(j) for j in under.instance.jobs] == [1, 1]
    result = clusterplan.solve(limit_traffic(instance, 3.0).model_copy(update={"objectives": ("value",)}))
    assert result.objectives[0].value == 2  # the consolidated job would need 4 Gbit/s on one server
    assert optimum(instance) == [6, 4]


def test_the_least_traffic_is_certified() -> None:
    """Prices show that no smaller limit lets as much be placed."""
    jobs = [job(f"j{k}", 2, traffic_gbit_per_s=1.0 + k % 2) for k in range(8)]
    instance = placement(["value", "traffic", "servers"], [{**server(gpu=8), "count": 4}], jobs)
    result = clusterplan.solve(instance)
    assert result.status == "optimal"
    assert [r.value for r in result.objectives[:2]] == [16, 6]
    assert [r.certified_bound for r in result.objectives[:2]] == [16, 6]
    assert verify(instance, result).ok


def test_huge_prices_do_not_hide_a_better_plan() -> None:
    """Where figures of a million millions cancel, the check's own search still finds what is better."""
    rng = random.Random(0)
    jobs = [job(f"j{k}", 1, {"gpu": k + 1}, must_place=True, value=1) for k in range(5)]
    instance = placement(["servers"], [server(gpu=15)], jobs)
    formulation = ConsolidationFormulation(instance)
    for _ in range(60):
        prices = [[rng.uniform(1e11, 1e12) for _ in pieces] for pieces in formulation.classes.pieces]
        bounds = formulation.certified_bounds({"goals": [{"objective": "must_place", "prices": prices}]})
        assert bounds[0] == 1  # by volume; no price proves that there is no plan
    jobs = [
        job("a", 2, value=0.7, spread="preferred"),
        job("b", 1, value=0.1, spread="preferred"),
    ]
    instance = placement(["value", "servers", "spread"], [server("n1", gpu=2), server("n2", gpu=2)], jobs)
    formulation = ConsolidationFormulation(instance)
    result = clusterplan.solve(instance)
    honest = [goal for goal in result.certificate["goals"] if goal["objective"] != "spread"]
    zeros = [[0.0 for _ in pieces] for pieces in formulation.classes.pieces]
    forged = {"objective": "spread", "prices": zeros, "multipliers": {"value": 1e12, "servers": 4e11}}
    worse = [{"job": "a", "servers": {"n1": 1, "n2": 1}}, {"job": "b", "servers": {"n1": 1}}]
    values = formulation.evaluate(formulation.parse_plan(worse))
    assert values == (pytest.approx(0.8), 2, 1)
    assert formulation.certified_bounds({"goals": [*honest, forged]}, values)[2] == 0


def test_fractions_of_a_gpu_are_worth_the_same_under_a_limit_on_traffic() -> None:
    """Three times 0.7 GPUs are 2.1, with or without a limit, and no certificate of traffic proves more."""
    jobs = [
        job("a", 3, {"gpu": 0.7}, traffic_gbit_per_s=1.0),
        job("b", 1, {"gpu": 0.7}, traffic_gbit_per_s=1.0),
    ]
    instance = placement(["value", "traffic"], [server("n1", gpu=4), server("n2", gpu=4)], jobs)
    result = clusterplan.solve(instance)
    assert [record.value for record in result.objectives] == [pytest.approx(2.8), 2]
    assert result.objectives[1].certified_bound == 2
    formulation = ConsolidationFormulation(instance)
    zeros = [[0.0 for _ in pieces] for pieces in formulation.classes.pieces]
    goal = {"objective": "value", "prices": zeros}
    forged = {"goals": result.certificate["goals"], "traffic": {"below": 2.0, "goal": goal}}
    plan = [{"job": "a", "servers": {"n1": 3}}, {"job": "b", "servers": {"n2": 1}}]
    values = formulation.evaluate(formulation.parse_plan(plan))
    assert formulation.certified_bounds(forged, values)[1] in (0, 2)


REVIEWED = {
    "pieces are parted more often than asked": (
        ["value", "traffic", "spread"],
        [server("n0", gpu=4), server("n1", gpu=1)],
        [
            {"name": "j0", "groups": [{"name": "w", "tasks": 1, "demand": {"gpu": 0}}]},
            job("j1", 4, {"gpu": 0.5}, spread="preferred"),
        ],
    ),
    "bounds after an objective that classes leave open": (
        ["value", "servers", "migrations"],
        [server("n0", gpu=2), server("n1", gpu=2)],
        [
            job("j0", 2, current={"n0": 2}),
            {
                "name": "j1",
                "groups": [
                    {"name": "ps", "tasks": 2, "demand": {"gpu": 2}, "current": {"n1": 1, "n0": 1}},
                    {"name": "w", "tasks": 1, "demand": {"gpu": 0}, "current": {"n0": 1}},
                ],
            },
        ],
    ),
    "two ways to write a worth": (
        ["slowdown"],
        [server(gpu=100)],
        [
            job("a", 3, {"gpu": 0.7}, must_place=True, speed_by_servers={1: 0.9}),
            job("b", 3, {"gpu": 0.7}, value=2.1, must_place=True, speed_by_servers={1: 1.1}),
        ],
    ),
}


@pytest.mark.parametrize("name", REVIEWED)
def test_traps_of_running_and_limited_clusters(name: str) -> None:
    """The exact method agrees with brute force."""
    instance = placement(*REVIEWED[name])
    assert optimum(instance) == pytest.approx(optimum(instance, "brute-force"), rel=1e-9, abs=1e-12)


def test_no_price_where_a_server_lets_another_job_run() -> None:
    """A job that needs one server more than there are makes that server worth more than prices know."""
    instance = placement(["value"], [server(gpu=2)], [job("a", 4), job("b", 1)])
    assert clusterplan.solve(instance).prices is None


def solved(instance: ConsolidationInstance, name: str) -> Result:
    """Return the result of a method."""
    return solve_with(instance, find_solver(name, "consolidation"), SolveOptions())


def without_tables(patch: pytest.MonkeyPatch, methods: bool = True) -> None:
    """Let the check search, and the methods as well, as if there were too many sums."""
    patch.setattr(server_prices, "MAX_MERGED", -1)
    if methods:
        patch.setattr(build_classes, "MAX_USAGES", 0)


BATCHES = [
    range(4),
    *(pytest.param(range(first, first + 25), marks=pytest.mark.slow) for first in range(4, 204, 25)),
]


@pytest.mark.parametrize("seeds", BATCHES, ids=str)
@pytest.mark.parametrize("methods", [True, False])
def test_exact_agrees_with_brute_force(methods: bool, seeds: range, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether the methods have a table or not: the same values, and no bound that is beyond them."""
    for seed in seeds:
        instance = unlike_consolidation(seed)
        best = solved(instance, "brute-force")
        with monkeypatch.context() as patch:
            without_tables(patch, methods)
            found = solved(instance, "exact")
            assert verify(instance, found).ok, seed
        assert found.status == best.status, seed
        for ours, right in zip(found.objectives, best.objectives, strict=True):
            assert ours.value == pytest.approx(right.value, rel=1e-9), seed
            assert ours.certified_bound is not None, seed


def _with_a_price_off(certificate: dict[str, Any], rng: random.Random) -> dict[str, Any] | None:
    """Return a certificate with one price far off; None if it has none."""
    goals = [
        {**goal, "prices": [list(shape) for shape in goal["prices"]]} for goal in certificate.get("goals", [])
    ]
    places = [
        (g, k, i)
        for g, goal in enumerate(goals)
        for k, shape in enumerate(goal["prices"])
        for i, price in enumerate(shape)
        if price > 0
    ]
    if not places:
        return None
    g, k, i = rng.choice(places)
    goals[g]["prices"][k][i] *= rng.choice([0.0, 5.0])
    return {**certificate, "goals": goals}


def test_prices_that_are_off_prove_no_more_than_is_true(monkeypatch: pytest.MonkeyPatch) -> None:
    """Searched or looked up, bounds of forged prices are the same; they hold, and some are weaker."""
    # Where prices are off, enumeration would close what they leave open.
    monkeypatch.setattr(check_certificate, "no_better_placement", lambda *_: None)
    rng, weaker = random.Random(1), 0
    for seed in range(15):
        instance = unlike_consolidation(seed)
        found = solved(instance, "exact")
        forged = _with_a_price_off(found.certificate or {}, rng)
        if forged is None or found.status != "optimal":
            continue
        values = [record.value for record in found.objectives if record.value is not None]
        listed = ConsolidationFormulation(instance).certified_bounds(forged, values)
        with monkeypatch.context() as patch:
            without_tables(patch)
            formulation = ConsolidationFormulation(instance)
            searched = formulation.certified_bounds(forged, values)
        assert searched == pytest.approx(listed, rel=1e-9), seed
        for objective, value, bound in zip(formulation.objectives, values, searched, strict=True):
            assert bound is not None
            assert not objective.better(value, bound) or value == pytest.approx(bound, rel=1e-9)
            weaker += value != pytest.approx(bound, rel=1e-9)
    assert weaker > 1


DOCUMENT: dict[str, Any] = {
    "schema_version": 1,
    "kind": "consolidation",
    "name": "models",
    "servers": [
        {**server("a", gpu=4), "gpu_model": "A"},
        {**server("b", gpu=4), "gpu_model": "B"},
        server("c", gpu=4),
    ],
    "jobs": [
        job("either", 2, {"gpu": 2}, gpu_model=["B", "A"]),
        job("only a", 1, {"gpu": 4}, gpu_model="A"),
        job("any", 1, {"gpu": 4}),
        job("none", 1, {"gpu": 4}, gpu_model=["D", "C"]),
    ],
}


def _with(models: Any) -> Any:
    first, *others = DOCUMENT["jobs"]
    return clusterplan.parse_instance({**DOCUMENT, "jobs": [{**first, "gpu_model": models}, *others]})


@pytest.mark.parametrize("solver", ["exact", "brute-force", "milp:highs", "cp-sat"])
def test_a_job_goes_to_any_of_its_models(solver: str) -> None:
    """The optimum needs it on B, for another job can only be on A; the certificate says so too."""
    result = clusterplan.solve(clusterplan.parse_instance(DOCUMENT), solver=solver)
    assert [entry.servers for entry in result.plan] == [{"b": 2}, {"a": 1}, {"c": 1}, {}]
    assert result.objectives[0].certified_bound == result.objectives[0].value == 12.0
    reason = result.plan[-1].reason
    assert reason == "never fits: no server has the GPU model 'C' or 'D'; there are: 'A', 'B'"


@pytest.mark.parametrize("solver", ["best-fit", "first-fit-decreasing", "consolidate-or-wait"])
def test_heuristics_keep_to_the_models(solver: str) -> None:
    """Every constraint of their plans is checked."""
    result = clusterplan.solve(clusterplan.parse_instance(DOCUMENT), solver=solver)
    assert result.status == "feasible"


def test_a_plan_on_another_model_is_no_plan() -> None:
    """The job of two models stands on a server without any."""
    formulation = ConsolidationFormulation(_with(["A", "B"]))
    left = [{"job": job.name, "placed": False} for job in formulation.instance.jobs[1:]]
    plan = formulation.parse_plan([{"job": "either", "servers": {"c": 2}}, *left])
    assert list(map(str, formulation.violations(plan))) == [
        "gpu_model: job 'either' needs A or B; 'c' has another model"
    ]


def test_models_mean_the_same_in_any_order_and_number() -> None:
    """They are sorted, and one alone is no list."""
    assert _with(["B", "A", "B"]).jobs[0].gpu_model == ("A", "B")
    assert _with(["B"]).jobs[0].gpu_model == "B"


@pytest.mark.parametrize(
    ("models", "fault"),
    [
        (5, "jobs[0].gpu_model: is 5, which is not text; write it in quotes"),
        ([], "jobs[0].gpu_model: has 0 entries; at least 1 needed"),
        (["A", 3], "jobs[0].gpu_model[1]: is 3, which is not text; write it in quotes"),
    ],
)
def test_wrong_models_are_refused_in_words(models: Any, fault: str) -> None:
    """With the place in the document."""
    with pytest.raises(InstanceError) as error:
        _with(models)
    assert fault in str(error.value)
