"""Every proving solver agrees with brute force on hundreds of tiny instances of every kind."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import pytest
from random_instances import OF_CLUSTERS, RANDOM
from staging_instances import random_row

from clusterplan.formulations.registry import formulate
from clusterplan.instances.common.errors import OptionError
from clusterplan.solvers.common.base import Clock
from clusterplan.solvers.common.result import Result, SolveOptions
from clusterplan.solvers.registry import find_solver, solvers_for
from clusterplan.solvers.run import solve_with

MAKERS = RANDOM | OF_CLUSTERS | {"rows": random_row}
"""Rows are graphs of layers that have only one order."""
INSTANCES = {
    "allocation": 500,
    "staging": 200,
    "consolidation": 500,
    "scheduling": 200,
    "mix": 500,
    "devices": 500,
    "unlike": 200,
    "rows": 200,
}
QUICK, BATCH = 25, 100
"""The first few instances are tried by the quick tests, the others in batches by the slow ones."""
FEW = 2
"""Of a method that trains a network for each, or starts a process."""
RULES = ("best-pair-first", "matching-rounds", "nobody-shares", "one-configuration", "cheapest-for-each-type")
"""Methods for a mix of jobs, or of requests."""
PARTIAL = ("minlp", "geometric", *RULES)
"""Methods that refuse what they do not cover."""
LEFT_OUT = ("brute-force", "optimus", "pool-then-pack")
"""What others are compared with, and methods that need servers."""
LEARNED = {
    "genetic": (100, {"evaluations": 60, "population": 10}),
    "bayesian": (25, {"evaluations": 20}),
    "reinforce-lstm": (50, {"episodes": 40, "batch": 10, "hidden": 4}),
    "reinforce-rnn": (50, {"episodes": 40, "batch": 10, "hidden": 4}),
    "dl2": (25, {"traces": 1, "passes": 2, "episodes": 2}),
}
"""Methods whose defaults are made for larger instances: fewer instances and smaller budgets here."""


def kind_of(sort: str) -> str:
    """Return the kind of the instances of a sort."""
    return {"rows": "staging"}.get(sort, sort if sort in RANDOM else "consolidation")


def batches(sort: str, name: str) -> Iterator[range]:
    """Yield the seeds of the instances for a method, the quick ones first."""
    seeds = range(min(INSTANCES[sort], LEARNED.get(name, (INSTANCES[sort],))[0]))
    quick = FEW if name in ("dl2", "milp:cbc") else QUICK
    yield seeds[:quick]
    for first in seeds[quick::BATCH]:
        yield seeds[first : first + BATCH]


CASES = [
    pytest.param(sort, solver.name, seeds, marks=[pytest.mark.slow] if seeds.start else [])
    for sort in MAKERS
    for solver in solvers_for(kind_of(sort))
    if solver.name not in LEFT_OUT
    for seeds in batches(sort, solver.name)
]


@cache
def by_brute_force(sort: str, seed: int) -> Result:
    """Return what every method is compared with."""
    return solve_with(MAKERS[sort](seed), find_solver("brute-force", kind_of(sort)), SolveOptions())


@pytest.mark.parametrize(("sort", "name", "seeds"), CASES, ids=str)
def test_solver_agrees_with_brute_force(sort: str, name: str, seeds: range) -> None:
    """A proving solver has brute force's status and values; a heuristic is never better, nor wrong."""
    solver = next(s for s in solvers_for(kind_of(sort)) if s.name == name)
    reason = solver.unavailable()
    if reason:
        pytest.skip(reason)
    settings = LEARNED.get(name, (0, {}))[1]
    covered = 0
    for seed in seeds:
        instance, expected = MAKERS[sort](seed), by_brute_force(sort, seed)
        try:
            result = solve_with(instance, solver, SolveOptions(threads=1, seed=seed, method_options=settings))
        except OptionError:
            if name not in PARTIAL:
                raise
            continue
        covered += 1
        assert result.status != "error", (seed, result.message)
        if solver.proves:
            assert result.status == expected.status, (seed, result.message)
            for ours, theirs in zip(result.objectives, expected.objectives, strict=True):
                assert ours.value == pytest.approx(theirs.value, rel=1e-6, abs=1e-9), (seed, ours.name)
        elif expected.plan is not None:
            first_of, best = formulate(instance).objectives[0], expected.objectives[0]
            for own in result.objectives[:1]:
                assert own.value is None or not first_of.better(own.value, best.value), seed
                assert own.bound is None or not first_of.better(best.value, own.bound), seed
    assert covered > 0


@pytest.mark.parametrize("number", [50, pytest.param(500, marks=pytest.mark.slow)])
@pytest.mark.parametrize("sort", MAKERS)
def test_bounds_hold(sort: str, number: int) -> None:
    """No elementary bound is better than the optimum, and what counting calls infeasible is infeasible."""
    infeasible = 0
    for seed in range(1000, 1000 + min(number, INSTANCES[sort])):
        formulation = formulate(MAKERS[sort](seed))
        outcome = find_solver("brute-force", kind_of(sort))
        if formulation.elementary_infeasibility() is not None:
            infeasible += 1
            answer = outcome.solve(formulation, SolveOptions(), Clock())
            assert answer.plan is None
            continue
        result = solve_with(formulation.instance, outcome, SolveOptions())
        if result.status == "infeasible":
            continue
        for objective, record in zip(formulation.objectives, result.objectives, strict=True):
            if record.value is not None and record.certified_bound is not None:
                assert not objective.better(record.value, record.certified_bound), (seed, objective.name)
    assert infeasible > 0 or sort == "scheduling"  # where a job that never fits is refused with the instance


@pytest.mark.parametrize("sort", MAKERS)
def test_same_seed_and_one_thread_give_the_same_plan(sort: str) -> None:
    """Solving twice with one thread and one seed returns the same plan."""
    options = SolveOptions(threads=1, seed=7)
    known = {solver.name for solver in solvers_for(kind_of(sort))}
    for name in sorted({"auto", "milp:highs", "cp-sat"} & known):
        instance, solver = MAKERS[sort](3), find_solver(name, kind_of(sort))
        first, second = (solve_with(instance, solver, options) for _ in range(2))
        assert first.plan == second.plan
