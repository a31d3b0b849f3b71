"""Exact allocation for total completion time and for the makespan."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from allocation_instances import allocation, measured
from random_instances import random_allocation
from small_models import best_choice, random_knapsack

from clusterplan.formulations.allocation.formulation import AllocationFormulation
from clusterplan.instances.allocation.generate import generate_allocation
from clusterplan.instances.common.arrays import Ints
from clusterplan.solvers.allocation.exact import AllocationBruteForce
from clusterplan.solvers.allocation.lagrangian import MultipleChoice
from clusterplan.solvers.allocation.makespan import MakespanSearch, even_share, least_share, per_unit
from clusterplan.solvers.allocation.total_time import IncumbentSearch, TotalTimeSearch, solve_core
from clusterplan.solvers.common.base import Clock
from clusterplan.solvers.common.result import SolveOptions

OPTIONS = SolveOptions(threads=1)


def by_brute_force(objective: str) -> Iterator[tuple[AllocationFormulation, float | None]]:
    """Yield random formulations that counting does not refute, with their optima; None where none fits."""
    for seed in range(60):
        instance = random_allocation(seed)
        formulation = AllocationFormulation(instance.model_copy(update={"objective": objective}))
        if formulation.elementary_infeasibility() is None:
            best = AllocationBruteForce().solve(formulation, OPTIONS, Clock(None)).plan
            yield formulation, None if best is None else formulation.evaluate(best)[0]


@pytest.mark.parametrize("cores", [True, False])
def test_plans_and_bounds_enclose_the_optimum(cores: bool) -> None:
    """With cores both reach it; without, the bound is below and the plan above."""
    compared = 0
    for formulation, optimum in by_brute_force("total_completion_time"):
        found = TotalTimeSearch(formulation, OPTIONS, Clock(None), cores).run()
        if optimum is None:
            assert found.plan is None
            assert found.infeasible or not cores
            continue
        compared += 1
        assert found.bounds[0] <= optimum * (1 + 1e-9)
        if found.plan is not None:
            assert not formulation.violations(found.plan)
            assert formulation.evaluate(found.plan)[0] >= optimum * (1 - 1e-9)
        if cores:
            assert formulation.evaluate(found.plan)[0] == pytest.approx(optimum, rel=1e-6)
            assert found.bounds[0] == pytest.approx(optimum, rel=1e-5)
    assert compared > 20


def knapsack(groups: int, resources: int) -> AllocationFormulation:
    """Return groups of four items that take integers of each resource, of which half is there."""
    rng = np.random.default_rng(1)
    names = [f"r{index}" for index in range(resources)]
    jobs = []
    for group in range(groups):
        taken = rng.integers(0, 10, (4, resources))
        times = 10 * resources + 10 - taken.sum(axis=1) + rng.random(4)
        demands = [dict(zip(names, amounts, strict=True)) for amounts in taken.tolist()]
        jobs.append(measured(str(group), *zip(times.tolist(), demands, strict=True)))
    return AllocationFormulation(allocation(dict.fromkeys(names, 5 * groups), jobs))


@pytest.mark.parametrize(("limit_s", "wanted"), [(60.0, True), (None, True), (1.0, False)])
def test_pairs_are_searched_once_and_in_time(limit_s: float | None, wanted: bool) -> None:
    """They improve the rounded plan; with little time they are left alone."""
    search = TotalTimeSearch(knapsack(40, 6), SolveOptions(threads=1), Clock(limit_s))
    reduced = search.problem.reduced_costs(search.prices)
    assert not search.wants_pairs
    search.first_plan(reduced)
    before = search.value
    assert search.incumbent is not None
    assert search.wants_pairs is wanted
    if wanted:
        search.search_pairs(search.incumbent, reduced)
        assert not search.wants_pairs
        assert search.value < before
        assert search.bound <= search.value
        assert search.problem.fits(search.incumbent)


@pytest.mark.parametrize("resources", [3, 5])
def test_an_open_core_leads_to_pairs(resources: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The optimum is proven, whether the first cores are left after no node or solved."""
    formulation, options = knapsack(10, resources), SolveOptions(threads=1, gap=0)
    expected = TotalTimeSearch(formulation, options, Clock()).run()
    for name, value in (("FIRST_CORE", 6), ("NODES_OF_PARTIAL_CORE", 0), ("NODES_BEFORE_PAIRS", 0)):
        monkeypatch.setattr(f"clusterplan.solvers.allocation.total_time.{name}", value)
    search = TotalTimeSearch(formulation, options, Clock())
    outcome = search.run()
    assert search.searched_pairs
    assert outcome.bounds[0] == pytest.approx(expected.bounds[0])
    assert formulation.evaluate(outcome.plan) == pytest.approx(formulation.evaluate(expected.plan))
    assert outcome.bounds[0] == pytest.approx(formulation.evaluate(outcome.plan)[0])


OPTIONS = SolveOptions(threads=1)


def test_a_core_is_solved_to_its_optimum() -> None:
    """Value and bound agree with enumeration; without a choice the bound is infinite."""
    for seed in range(60):
        problem = random_knapsack(seed)
        best, _ = best_choice(problem)
        answer = solve_core(problem, Clock(None), OPTIONS)
        if math.isinf(best):
            assert answer.chosen is None
            assert answer.bound == math.inf
            continue
        assert answer.chosen is not None
        assert problem.fits(answer.chosen)
        assert problem.value(answer.chosen) == pytest.approx(best)
        assert answer.bound <= best + 1e-9
        assert answer.bound == pytest.approx(best, rel=1e-5, abs=1e-4)


def test_jobs_without_a_choice_are_constants() -> None:
    """A core of single items needs no solver."""
    problem = random_knapsack(1)
    single = problem.only(np.isin(np.arange(len(problem.cost)), problem.start[:-1]))
    roomy = replace(single, limit=single.demand.sum(axis=0))
    answer = solve_core(roomy, Clock(None), OPTIONS)
    assert answer.chosen.tolist() == list(range(problem.jobs))
    assert answer.bound == pytest.approx(roomy.value(answer.chosen))
    assert solve_core(replace(roomy, limit=roomy.limit - 1), Clock(None), OPTIONS).bound == math.inf


class Total(IncumbentSearch):
    """A search whose value is the sum of the costs."""

    def value_of(self, chosen: Ints) -> float:
        """Return the sum."""
        return self.problem.value(chosen)


def search(**options: object) -> Total:
    """Return a search on three small jobs."""
    formulation = AllocationFormulation(generate_allocation(3, 1, seed=1))
    return Total(formulation, SolveOptions.model_validate(options), Clock(), formulation.configurations.cost)


def smallest(state: Total) -> Ints:
    """Return the configurations that take the least."""
    configs = state.formulation.configurations
    taken = configs.demand.sum(axis=1)
    return np.array([min(configs.of(j), key=lambda k: float(taken[k])) for j in range(configs.jobs)])


def test_only_better_choices_that_fit_are_kept() -> None:
    state = search()
    few = smallest(state)
    state.update_incumbent(None)
    state.update_incumbent(few[:2])
    assert state.incumbent is None
    state.update_incumbent(few)
    assert state.value == state.value_of(few) > 0
    state.update_incumbent(few.copy())
    assert state.incumbent is few
    assert [value for _, value, _ in state.trace] == [state.value]


def test_the_warm_start_is_an_incumbent() -> None:
    plan = (first := search()).formulation.plan_of(smallest(first))
    state = search(warm_start=[entry.model_dump() for entry in plan], gap=0.25)
    state.take_warm_start()
    assert state.value == first.value_of(smallest(first))
    state.bound = 0.74 * state.value
    assert not state.proven
    state.bound = 0.76 * state.value
    assert state.proven


def test_shares_and_prices_leave_out_what_is_not_there() -> None:
    """A resource without capacity has no share and no price."""
    limit = np.array([4.0, 0.0, 2.0])
    assert even_share(limit).tolist() == [0.5, 0, 0.5]
    assert per_unit(even_share(limit), limit).tolist() == [0.125, 0, 0.25]


def one_job(limit: float) -> MultipleChoice:
    """Return a job that takes two units of either of two resources."""
    return MultipleChoice(
        np.array([0, 2]), np.zeros(2), np.array([[2.0, 0.0], [0.0, 2.0]]), np.full(2, limit), np.arange(2)
    )


def test_the_value_of_the_game_by_hand() -> None:
    """At equal prices the job takes 2/1.5 of half of both capacities, so that at least 2/3 is taken."""
    share, value, chosen = least_share(one_job(1.5), np.array([1.0, 0.0]), Clock(None))
    assert chosen is None
    assert value == pytest.approx(2 / 3)
    assert share.tolist() == pytest.approx([0.5, 0.5])


def test_a_choice_that_fits_ends_the_game() -> None:
    """With two units either item fits."""
    _, _, chosen = least_share(one_job(2), even_share(np.full(2, 2.0)), Clock(None))
    assert chosen is not None


def test_plan_and_bound_reach_the_optimum() -> None:
    """On random instances, against brute force."""
    compared = 0
    for formulation, optimum in by_brute_force("makespan"):
        found = MakespanSearch(formulation, OPTIONS, Clock(None)).run()
        if optimum is None:
            assert found.infeasible
            continue
        compared += 1
        assert not formulation.violations(found.plan)
        assert formulation.evaluate(found.plan)[0] == pytest.approx(optimum)
        assert found.bounds[0] == pytest.approx(optimum)
    assert compared > 20
