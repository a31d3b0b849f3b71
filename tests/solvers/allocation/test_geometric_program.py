"""The geometric program: prices prove its bound, plans are checked, what it leaves out is refused."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import random_instances
from allocation_instances import allocation, measured
from random_instances import random_allocation

import clusterplan
from clusterplan.formulations.allocation.check.bound import price_bound
from clusterplan.formulations.allocation.formulation import AllocationFormulation, monomials
from clusterplan.instances.allocation.generate import generate_allocation
from clusterplan.instances.allocation.instance import AllocationInstance
from clusterplan.instances.common.errors import OptionError
from clusterplan.solvers.allocation.geometric_program import (
    GeometricProgram,
    RelaxationSolution,
    Rounding,
)
from clusterplan.solvers.common.base import Clock
from clusterplan.solvers.common.result import SolveOptions
from clusterplan.solvers.registry import find_solver


def covered(seed: int) -> AllocationInstance:
    """Return a random instance with all that the geometric program covers, and nothing else."""
    document = random_allocation(seed).document()
    for index, job in enumerate(document["jobs"]):
        (variant, *_) = job["variants"]
        job["variants"] = [variant]
        for field in ("optional", "unplaced_s", "current"):
            job.pop(field, None)
        for tasks in ("workers", "ps"):
            if tasks in variant:
                variant[tasks]["max"] += 3
        variant["workers"]["min"] = 1 + index % 2
        if variant["speed"]["model"] == "ring_allreduce":  # its time is to be a posynomial
            a, b, c, d = variant["speed"]["theta"]
            c = min(c, variant["speed"]["batch"] * a)
            variant["speed"]["theta"] = [a, b, c, min(d, b + c)]
    return AllocationInstance.model_validate(document)


def one_job(**job: Any) -> AllocationInstance:
    """Return one job of the geometric program with changed fields."""
    document = generate_allocation(1, 2, tightness=0.3, seed=1).document()
    document["jobs"][0] |= job
    return AllocationInstance.model_validate(document)


@pytest.mark.parametrize("first", range(0, 200, 50))
def test_bound_and_plan_against_brute_force(first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bound never exceeds the optimum, the plan is never better, and most plans are nearly as good."""
    monkeypatch.setattr(random_instances, "SPEED_MODELS", ("ps_sync", "ps_async", "ring_allreduce"))
    solved = near = 0
    for seed in range(first, first + 50):
        expected = clusterplan.solve(covered(seed), "brute-force")
        result = clusterplan.solve(covered(seed), "geometric")
        assert result.status != "error", (seed, result.message)
        if expected.objective is None:
            assert result.plan is None, seed
            continue
        assert result.status in ("optimal", "feasible", "unknown"), seed
        assert result.bound <= expected.objective * (1 + 1e-9), seed
        solved += 1
        if result.objective is not None:
            assert result.objective >= expected.objective * (1 - 1e-9), seed
            near += result.objective <= expected.objective * 1.02 + 1e-9
    assert solved > 20
    assert near > 0.8 * solved


@pytest.mark.parametrize("objective", ["total_completion_time", "makespan"])
def test_relaxation_is_the_geometric_program(objective: str) -> None:
    """Value and multipliers are those that cvxpy finds when it is given the posynomials themselves."""
    import cvxpy as cp

    instance = generate_allocation(5, 2, tightness=0.97, seed=4).model_copy(update={"objective": objective})
    formulation = AllocationFormulation(instance)
    program = GeometricProgram(instance, tuple(instance.jobs), formulation.configurations.capacity)
    relaxed = program.solve(formulation.elementary_bounds()[0] or 1.0, SolveOptions(), Clock())
    p, w = cp.Variable(5, pos=True), cp.Variable(5, pos=True)
    times, value = [], []
    for j, job in enumerate(instance.jobs):
        terms = [(job.remaining_steps * m.coefficient, m) for m in monomials(job.variants[0].speed)]  # type: ignore[arg-type]
        times.append(cp.sum([c * p[j] ** m.ps * w[j] ** m.workers for c, m in terms]))
        value.append(
            sum(c * relaxed.tasks[0, j] ** m.ps * relaxed.tasks[1, j] ** m.workers for c, m in terms)
        )
    used = [
        cp.sum([a * x for a, x in zip(program.demand[:, :, r].ravel(), [*p, *w], strict=True) if a])
        <= capacity
        for r, capacity in enumerate(formulation.configurations.capacity.tolist())
    ]
    ranges = [p >= program.low[0], p <= program.high[0], w >= program.low[1], w <= program.high[1]]
    makespan = objective == "makespan"
    aim = cp.max(cp.hstack(times)) if makespan else cp.sum(times)
    best = cp.Problem(cp.Minimize(aim), [*used, *ranges]).solve(gp=True, solver=cp.CLARABEL)
    assert (max(value) if makespan else sum(value)) == pytest.approx(best, rel=1e-5)
    elasticities = np.array([float(np.squeeze(row.dual_value)) for row in used])
    assert elasticities.max() > 0.01
    found = relaxed.prices * formulation.configurations.capacity / best
    assert found == pytest.approx(elasticities, rel=1e-3, abs=1e-5)


@pytest.mark.parametrize("tightness", [0.3, 0.8, 0.95])
def test_gap_and_time_at_300_jobs(tightness: float) -> None:
    """Hundreds of jobs take a second, and plan and bound meet within half a per cent."""
    instance = generate_allocation(300, 4, tightness, seed=2)
    result = clusterplan.solve(instance, "geometric")
    assert result.gap < 5e-3
    assert result.runtime_s < 10
    prices = np.array(list(result.prices.values()))
    configs = AllocationFormulation(instance).checked
    assert result.bound == max(price_bound(configs, prices), price_bound(configs, 0 * prices))
    last = clusterplan.solve(instance.model_copy(update={"objective": "makespan"}), "geometric")
    assert last.prices is None
    for solved in (result, last):
        assert solved.deciding.certified_bound == pytest.approx(solved.bound, rel=1e-8)
    assert last.gap < 5e-2


def test_deadlines_shape_the_plan() -> None:
    """Jobs that would be late in the cheapest plan get what they need, and the bound knows it."""
    instance = generate_allocation(40, 3, tightness=0.9, seed=6)
    plan = clusterplan.solve(instance, "geometric").plan
    formulation = AllocationFormulation(instance)
    times = [entry.completion_s for entry in plan]  # type: ignore[attr-defined]
    alone = np.minimum.reduceat(formulation.configurations.time_s, formulation.configurations.start[:-1])
    hurried = [
        job.model_copy(update={"deadline_s": 0.5 * (time + best)}) if j % 8 == 0 else job
        for j, (job, time, best) in enumerate(zip(instance.jobs, times, alone.tolist(), strict=True))
    ]
    result = clusterplan.solve(instance.model_copy(update={"jobs": tuple(hurried)}), "geometric")
    assert result.status == "feasible"
    assert result.gap < 0.02


def test_real_numbers_that_do_not_fit_are_taken_back() -> None:
    """Rounding that starts with everybody's most tasks ends within the capacities."""
    for seed in range(5):
        instance = generate_allocation(30, 4, tightness=0.8, seed=seed)
        formulation = AllocationFormulation(instance)
        program = GeometricProgram(instance, tuple(instance.jobs), formulation.configurations.capacity)
        everything = RelaxationSolution(program.high.astype(float), np.zeros(4), "optimal")
        plan = Rounding(formulation, program, everything).plan(Clock())
        assert not formulation.violations(plan)


def asynchronous(demand: dict[str, float], **job: Any) -> dict[str, Any]:
    """Return a job whose time is 1/w + 1/p, with p and w up to 4."""
    variant = {
        "name": "v",
        "worker_demand": {"gpu": 1},
        "ps_demand": demand,
        "workers": {"min": 1, "max": 4},
        "ps": {"min": 1, "max": 4},
        "speed": {"model": "ps_async", "theta": [1, 1, 0, 0]},
    }
    return {"remaining_steps": 1, "variants": [variant], **job}


def test_a_relaxation_without_solution_is_not_called_infeasible() -> None:
    """Two jobs that need five tasks each do not fit into eight; the method says it found no plan."""
    jobs = [asynchronous({"cpu": 1}, name=name, deadline_s=0.9) for name in "ab"]
    instance = allocation({"gpu": 4, "cpu": 4}, jobs)
    assert AllocationFormulation(instance).elementary_infeasibility() is None
    assert clusterplan.solve(instance, "brute-force").status == "infeasible"
    outcome = find_solver("geometric", "allocation").solve(
        AllocationFormulation(instance), SolveOptions(), Clock()
    )
    assert not outcome.infeasible
    assert outcome.plan is None
    assert "status 'infeasible'; no rounding of the relaxation was found" in (outcome.message or "")


def test_what_is_zero_or_fixed_is_no_trouble() -> None:
    """Weights, demands, capacities and coefficients of 0, and ranges of one number, all have a plan."""
    weightless = clusterplan.solve(one_job(weight=0), "geometric")
    assert (weightless.status, weightless.objective) == ("optimal", 0)
    free = clusterplan.solve(allocation({"gpu": 3, "cpu": 0}, [asynchronous({}, name="a")]), "geometric")
    assert free.objective == pytest.approx(1 / 3 + 1 / 4)
    fixed = asynchronous({"cpu": 1}, name="a")
    fixed["variants"][0] |= {"workers": {"min": 2, "max": 2}, "ps": {"min": 2, "max": 2}}
    assert clusterplan.solve(allocation({"gpu": 3, "cpu": 3}, [fixed]), "geometric").objective == 1
    fixed["variants"][0]["ps"] = {"min": 1, "max": 4}
    assert clusterplan.solve(
        allocation({"gpu": 2, "cpu": 3}, [fixed]), "geometric"
    ).objective == pytest.approx(1 / 2 + 1 / 3)


def test_a_relaxation_that_fails_still_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without prices the bound is the elementary one, the plan grows from the smallest, and that is said."""
    instance = generate_allocation(20, 3, tightness=0.9, seed=3)
    monkeypatch.setattr(
        "clusterplan.solvers.allocation.geometric_program._solve_with_clarabel", lambda *_: "failed"
    )
    result = clusterplan.solve(instance, "geometric")
    assert result.status == "feasible"
    assert result.bound == result.certified_bound
    assert result.prices is None
    assert result.message == "geometric: the relaxation ended with status 'failed'"


def test_time_that_is_up_is_said() -> None:
    """Without any time there is the smallest plan, the elementary bound and the limit."""
    instance = generate_allocation(100, 3, tightness=0.9, seed=3)
    result = clusterplan.solve(instance, "geometric", SolveOptions(time_limit_s=1e-6))
    assert (result.status, result.limit) == ("feasible", "time")
    assert result.bound == result.certified_bound


def test_makespan_prices_that_prove_infeasibility(monkeypatch: pytest.MonkeyPatch) -> None:
    """An infinite price bound is a proof that no plan exists."""
    instance = generate_allocation(3, 2, tightness=0.9, seed=3).model_copy(update={"objective": "makespan"})
    monkeypatch.setattr(
        "clusterplan.solvers.allocation.geometric_program.makespan_bound", lambda *_: math.inf
    )
    assert clusterplan.solve(instance, "geometric").status == "infeasible"


RING = {"model": "ring_allreduce", "theta": [1, 0, 1, 2], "batch": 4}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"optional": True, "unplaced_s": 9}, "'a' is optional, which is not covered; 'exact', 'milp' and"),
        (
            {"restart_s": 9, "current": {"variant": "v", "ps": 1, "workers": 1}},
            "'a' may keep its current conf",
        ),
        (measured("a", (1, {"gpu": 1})), "'a' has a table of speeds"),
        (measured("a", (1, {"gpu": 1}), (2, {"gpu": 2})), "'a' has 2 variants, and only one is covered"),
        (
            {
                "variants": [
                    {"name": "v", "worker_demand": {"gpu": 1}, "workers": {"min": 1, "max": 4}, "speed": RING}
                ]
            },
            "'a' has θ0·M < θ2 or θ1 [+] θ2 < θ3, so that its time is no posynomial",
        ),
    ],
)
def test_what_is_not_covered_is_refused_by_name(fields: dict[str, Any], message: str) -> None:
    """The message names the job, what is not covered, and methods that cover it."""
    with pytest.raises(OptionError, match=message):
        clusterplan.solve(allocation({"gpu": 3}, [asynchronous({}, name="a") | fields]), "geometric")


def test_a_restart_that_nothing_avoids_is_covered() -> None:
    """Without a current configuration in the ranges every plan pays restart_s, which is a constant."""
    new = asynchronous({}, name="a", restart_s=5)
    moved = new | {"current": {"variant": "v", "ps": 1, "workers": 9}}
    for job in (new, moved):
        assert clusterplan.solve(allocation({"gpu": 4}, [job]), "geometric").objective == pytest.approx(5.5)
