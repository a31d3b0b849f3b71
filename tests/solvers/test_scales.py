"""Figures of unlike size, or of many digits: no wrong bound, no lost plan, no exception."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from device_instances import job, placement
from imports import ROOT
from typer.testing import CliRunner

import clusterplan
from clusterplan.formulations.common.formulation import Formulation
from clusterplan.formulations.registry import formulate
from clusterplan.instances.common.base import Instance
from clusterplan.instances.documents import parse_instance
from clusterplan.planner.cli.main import app
from clusterplan.planner.verification import verify
from clusterplan.solvers.common.base import Outcome
from clusterplan.solvers.common.conclude import conclude
from clusterplan.solvers.common.result import Result, SolveOptions


def placed(jobs: list[dict[str, Any]], servers: int, objectives: list[str], free: float = 4) -> Instance:
    """Return jobs on servers of four GPUs each."""
    there = {"name": "n", "count": servers, "capacity": {"gpu": 4}, "free": {"gpu": free}}
    rows = [job(f"j{n}", 4, spread="free") | fields for n, fields in enumerate(jobs)]
    return placement(objectives, [there], rows)


def solved(instance: Instance, solver: str = "exact") -> Result:
    """Solve, verify, and make sure that nothing was refuted on the way."""
    result = clusterplan.solve(instance, solver, SolveOptions(time_limit_s=30))
    assert result.status in ("optimal", "feasible"), result.message
    assert "contradicts" not in (result.message or "")
    assert verify(instance, result).ok
    return result


def values(result: Result) -> list[float]:
    """Return what the plan reaches."""
    return [record.value for record in result.objectives if record.value is not None]


@pytest.mark.parametrize("objectives", [["value", "servers"], ["value", "spread", "servers"]])
def test_values_of_nine_decimals_are_placed_optimally(objectives: list[str]) -> None:
    """Three servers, three jobs: the fewest servers for all of the value are three, not four."""
    jobs = [{"value": value} for value in (0.347576893, 2.636901995, 3.241014023)]
    result = solved(placed(jobs, 3, objectives))
    assert result.status == "optimal"
    assert values(result)[-1] == 3


@pytest.mark.parametrize("seed", range(25))
def test_odd_values_agree_with_brute_force(seed: int) -> None:
    """Uniform floats, nine decimals, and an integer beside 1e9: the same optimum as by trying everything."""
    rng = random.Random(seed)
    pick = [
        lambda: rng.random() * 10,
        lambda: round(rng.uniform(0, 10), 9),
        lambda: rng.choice([10**9, rng.randint(1, 9)]),
        lambda: 10 ** rng.uniform(-6, 6),
    ][seed % 4]
    jobs = [
        {
            "value": pick(),
            "tasks": rng.randint(1, 5),
            "spread": rng.choice(["free", "preferred", "required"]),
            "speed_by_servers": {2: rng.random(), 3: rng.random()} if rng.random() < 0.5 else {},
        }
        for _ in range(3)
    ]
    objectives = rng.sample(["value", "spread", "servers", "slowdown"], 3)
    instance = placed(jobs, 3, objectives, rng.choice([2, 4]))
    result, best = solved(instance), solved(instance, "brute-force")
    assert result.status == "optimal"
    assert values(result) == pytest.approx(values(best), rel=1e-6)


@pytest.mark.parametrize("seed", range(40))
def test_values_over_21_orders_of_magnitude_claim_nothing_false(seed: int) -> None:
    """Values of 1e12 beside 0.3 and 1e-9, with migrations and slowdowns: whoever is better, no bound is."""
    rng = random.Random(seed)
    few = rng.choice([[1e12, 0.3], [1e12, 1e-9], [1e12, 0.3, 1e-9, 1]])
    jobs: list[dict[str, Any]] = []
    for _ in range(rng.randint(2, 7)):
        job = {
            "value": rng.choice(few),
            "tasks": rng.randint(1, 6),
            "task_demand": {"gpu": rng.choice([1, 2])},
        }
        job["spread"] = rng.choice(["free", "preferred", "required"])
        if rng.random() < 0.4:
            job["current"] = {"n-0": 1}
        if rng.random() < 0.3:
            job["speed_by_servers"] = {2: rng.choice([0.9, 1e-9, 1e6]), 3: 0.3}
        jobs.append(job)
    objectives = rng.sample(["value", "spread", "servers", "migrations", "slowdown"], rng.randint(1, 4))
    instance = placed(jobs, rng.randint(2, 5), objectives, rng.choice([2, 3, 4]))
    formulation = formulate(instance)
    one, other = solved(instance), solved(instance, "cp-sat")
    assert_no_bound_is_beaten(formulation, one, values(other))
    assert_no_bound_is_beaten(formulation, other, values(one))


def assert_no_bound_is_beaten(formulation: Formulation[Any, Any], result: Result, known: list[float]) -> None:
    """Compare bounds with the values of another plan, as far as that is as good in the earlier objectives."""
    for objective, record, value in zip(formulation.objectives, result.objectives, known, strict=True):
        for bound in (record.bound, record.certified_bound):
            close = bound is not None and abs(value - bound) <= 1e-6 * abs(value)
            assert bound is None or close or not objective.better(value, bound), (
                objective.name,
                value,
                bound,
            )
        if value != record.value:
            return


def test_what_is_lost_in_rounding_is_not_called_optimal() -> None:
    """Beside a job worth 1e12 that cannot run, 1e-9 is beyond the linear programme; the bound says so."""
    jobs = [
        {"value": 1e12, "tasks": 3, "task_demand": {"gpu": 3}, "spread": "required"},
        {"value": 1e-9, "tasks": 2},
        {"value": 1e-9, "tasks": 2},
    ]
    result = solved(placed(jobs, 2, ["value"], free=2))
    assert result.objective is not None
    assert result.bound >= 2e-9 * (1 - 1e-9)
    assert result.status == "feasible" or result.objective == pytest.approx(2e-9)


@pytest.mark.parametrize(
    ("name", "traffic"),
    [
        ("traffic-that-cp-sat-presolve-cut-off", 148669.61458821435),
        # What the model with named servers is told to keep is no bound.
        ("traffic-settled-above-its-optimum", 44862.38386233852),
    ],
)
@pytest.mark.parametrize("solver", ["cp-sat", "exact"])
def test_traffic_of_unlike_size_has_a_true_bound(name: str, traffic: float, solver: str) -> None:
    """The least traffic is known by trying everything; no bound is above it."""
    path = ROOT / "tests" / "regressions" / f"{name}.json"
    result = solved(parse_instance(json.loads(path.read_text())["instance"]), solver)
    record = next(record for record in result.objectives if record.name == "traffic")
    assert record.value == pytest.approx(traffic, rel=1e-6)
    assert record.bound <= traffic


def test_validate_says_where_scales_are_beyond_doubles(tmp_path: Path) -> None:
    """1e12 and 1e-9 in one sum: the smaller does not count, and the user is told."""
    for values_, said in (([1e12, 1e-9], True), ([1e6, 1e-6], False)):
        instance = placed([{"value": value} for value in values_], 2, ["value"])
        path = tmp_path / "scales.json"
        path.write_text(instance.model_dump_json(exclude_none=True))
        answer = CliRunner().invoke(app, ["validate", str(path)])
        assert answer.exit_code == 0
        assert ("value goes from 1e-09 to 1e+12" in answer.stdout) == said


def test_a_demand_that_fits_infinitely_often_is_placed() -> None:
    """The room for tasks of 5e-324 GPUs is beyond doubles; there are only four of them."""
    assert solved(placed([{"task_demand": {"gpu": 5e-324}}], 1, ["value"])).status == "optimal"


def test_what_a_library_cannot_see_is_no_error() -> None:
    """A plan that breaks a limit by a library's tolerance is none, and what it proved does not count."""
    instance = placed([{"value": 1.0}], 1, ["value"], free=3)
    formulation = formulate(instance)
    plan = formulation.parse_plan([{"job": "j0", "servers": {instance.expanded_servers[0].name: 4}}])
    outcome = Outcome(plan, bounds=(1.0,), doubtful=True, message="the figures are too unlike")
    result = conclude(formulation, "milp:scip", SolveOptions(), outcome, 0.1)
    assert (result.status, result.plan) == ("unknown", None)
    assert str(result.message).startswith("the figures are too unlike; its plan does not hold: free gpu")
    outcome = Outcome(plan, bounds=(1.0,))
    assert conclude(formulation, "milp:scip", SolveOptions(), outcome, 0.1).status == "error"


@pytest.mark.parametrize("backend", ["highs", "scip", "cbc"])
def test_only_what_is_certified_counts_beyond_the_reach_of_tolerances(backend: str) -> None:
    """Values of 1e12 and 1 in one objective: no claim of a library, but the bound of our own check."""
    instance = placed([{"value": 1e12}, {"value": 1.0}], 2, ["value"])
    result = clusterplan.solve(instance, f"milp:{backend}", SolveOptions(threads=1))
    assert "only what is certified counts" in str(result.message)
    assert result.bound == result.certified_bound
    assert verify(instance, result).complete
