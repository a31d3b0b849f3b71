"""`exact`: known optima of others, prices, certificates and what they must never certify.

Its searches for the least total completion time and makespan, certificates for methods that write none, and
the diagnosis of infeasibility.
"""

from __future__ import annotations

import dataclasses
import importlib
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from allocation_instances import allocation, measured, ring
from hypothesis import given, settings
from hypothesis import strategies as st
from random_instances import random_allocation
from small_models import best_choice, random_knapsack

import clusterplan
from clusterplan import SolveOptions
from clusterplan.formulations.allocation.certificate import PriceCertificate
from clusterplan.formulations.allocation.check.bound import certified_bound, price_bound
from clusterplan.formulations.allocation.formulation import AllocationFormulation
from clusterplan.formulations.common.enumeration import Choices, no_choice_below
from clusterplan.instances.allocation.generate import generate_allocation
from clusterplan.instances.allocation.instance import AllocationInstance
from clusterplan.instances.common.arrays import Ints
from clusterplan.solvers.allocation.exact import (
    AllocationBruteForce,
    MakespanSearch,
    certify,
    even_share,
    least_share,
    per_unit,
)
from clusterplan.solvers.allocation.kind import ALLOCATION
from clusterplan.solvers.allocation.lagrangian import MultipleChoice
from clusterplan.solvers.allocation.total_time import IncumbentSearch, TotalTimeSearch, solve_core
from clusterplan.solvers.common.base import Clock
from clusterplan.solvers.common.result import Result

KHAN = {"I01": 173.0, "I02": 364.0, "I03": 1602.0, "I04": 3597.0, "I05": 3905.7, "I06": 4799.3}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in ("I01", "I02") else [pytest.mark.slow]) for name in KHAN]
)
def test_khans_instances_have_their_known_optima(
    name: str, shared_data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Six multiple-choice knapsacks with 5 or 10 constraints, whose optima are published."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[3] / "benchmarks"))
    instance, total = importlib.import_module("knapsacks").khan(shared_data / "mmkp" / name)
    result = clusterplan.solve(instance, "exact", SolveOptions(gap=0))
    assert result.status == "optimal"
    assert total - result.objective == pytest.approx(KHAN[name], abs=1e-6)
    assert clusterplan.verify(instance, result).ok


def tight(jobs: int, seed: int, resources: int = 4) -> AllocationInstance:
    """Return an instance in which every resource binds and at most two units of each are to spare."""
    return generate_allocation(jobs, resources, seed=seed, spare=2)


@pytest.mark.parametrize("seed", range(4))
def test_tight_capacities_are_solved_and_certified(seed: int) -> None:
    """The plan is as good as that of the explicit model, and the certificate proves it without a solver."""
    instance = tight(60, seed)
    result = clusterplan.solve(instance, "exact")
    expected = clusterplan.solve(instance, "milp:highs", SolveOptions(time_limit_s=60, gap=1e-3))
    assert result.status == "optimal"
    assert expected.objective is not None
    assert all(price > 0 for price in result.prices.values())
    assert expected.bound * (1 - 1e-9) <= result.objective <= expected.objective * (1 + 1e-6)
    assert result.certified_gap <= 1e-6
    verification = clusterplan.verify(instance, result)
    assert verification.ok
    assert not any("bound" in claim for claim in verification.claimed)


def optimum(instance: AllocationInstance) -> Result:
    """Return what brute force finds."""
    return clusterplan.solve(instance, "brute-force")


@settings(max_examples=80, deadline=None)
@given(seed=st.integers(0, 10**6), data=st.data())
def test_prices_limit_what_one_more_unit_saves(seed: int, data: st.DataObject) -> None:
    """0 ≤ V(C) − V(C + e_r) ≤ λ_r + V(C) − L(λ), where L knows what fits beside one unit more."""
    instance = random_allocation(seed)
    instance = instance.model_copy(update={"objective": "total_completion_time"})
    result = clusterplan.solve(instance, "exact")
    if result.objective is None or result.prices is None:
        return
    resource = data.draw(st.sampled_from(sorted(instance.resources)))
    more = {**instance.resources, resource: instance.resources[resource] + 1}
    richer = instance.model_copy(update={"resources": more})
    after = optimum(richer)
    configs = AllocationFormulation(richer).checked
    bound = price_bound(configs, np.array([result.prices[name] for name in configs.resources]))
    saved, slack = result.objective - after.objective, 1e-6 * abs(result.objective)
    # L(λ) at C + e_r is L(λ) at C less λ_r.
    assert -slack <= saved <= result.objective - bound + slack


@settings(max_examples=150, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    scale=st.floats(0, 1e6),
    cutoff=st.sampled_from([0.5, 0.999, 1.0, 1.0 + 1e-7, 1.01, 3.0, None]),
    data=st.data(),
)
def test_no_certificate_certifies_more_than_the_optimum(
    seed: int, scale: float, cutoff: float | None, data: st.DataObject
) -> None:
    """Whatever prices and cutoff somebody writes, the certified bound never exceeds the optimum."""
    instance = random_allocation(seed)
    formulation = AllocationFormulation(instance)
    if formulation.elementary_infeasibility() is not None:
        return
    best = optimum(instance)
    configs, makespan = formulation.checked, instance.objective == "makespan"
    prices = {name: scale * data.draw(st.floats(0, 1)) for name in configs.resources}
    value = best.objective if best.objective is not None else 1000.0
    claim = {"prices": prices, "cutoff": None if cutoff is None else cutoff * value}
    found = certified_bound(configs, makespan, PriceCertificate.model_validate(claim))
    if best.objective is not None:
        assert found <= best.objective * (1 + 1e-12)


@settings(max_examples=200, deadline=None)
@given(seed=st.integers(0, 10**6), ratio=st.sampled_from([0.9, 1 - 1e-6, 1 + 1e-6, 1.1]))
def test_the_search_of_the_check_is_right(seed: int, ratio: float) -> None:
    """`no_choice_below` says True only where enumeration finds nothing, and finds what is there."""
    problem, rng = random_knapsack(seed), np.random.default_rng(seed)
    best, _ = best_choice(problem)
    cutoff = ratio * (best if math.isfinite(best) else 100.0) + (1e-6 if ratio > 1 else -1e-6)
    choices = Choices(problem.start, problem.cost, problem.demand, problem.limit)
    prices = rng.random(len(problem.limit)) * rng.choice([0.0, 1.0, 10.0])
    assert no_choice_below(choices, prices, cutoff) is bool(best >= cutoff)


def test_a_makespan_has_no_prices_and_a_certificate() -> None:
    """What one more unit saves is not priced for a makespan; the bound is certified all the same."""
    instance = generate_allocation(40, 3, tightness=0.9, seed=5)
    table = instance.table()
    even = dataclasses.replace(table, remaining_steps=np.full(40, 1000.0))
    instance = instance.model_copy(update={"objective": "makespan", "jobs": even})
    result = clusterplan.solve(instance, "exact")
    assert (result.status, result.prices, result.certified_gap) == ("optimal", None, 0.0)
    assert result.certificate is not None
    assert clusterplan.verify(instance, result).claimed == ()


@pytest.mark.parametrize("objective", ["total_completion_time", "makespan"])
def test_prices_prove_that_there_is_no_plan(objective: str) -> None:
    """Two resources that are each enough alone, and not together: counting finds nothing, prices do."""
    jobs = [measured(name, (10, {"x": 3}), (10, {"y": 3})) for name in "abc"]
    instance = allocation({"x": 3.5, "y": 3.5}, jobs, objective=objective)
    result = clusterplan.solve(instance, "exact")
    assert result.status == "infeasible"
    verification = clusterplan.verify(instance, result)
    assert verification.ok
    assert any("prove that there is no plan" in line for line in verification.confirmed)


def test_a_tampered_certificate_is_found() -> None:
    """Prices that prove less than the stored certified bound, and a form that cannot be read."""
    instance = tight(30, 1)
    result = clusterplan.solve(instance, "exact")
    less = {**result.certificate, "prices": dict.fromkeys(result.certificate["prices"], 0.0), "cutoff": 0.0}
    answer = clusterplan.verify(instance, result.model_copy(update={"certificate": less}))
    assert any("certified_bound" in fault for fault in answer.faults)
    answer = clusterplan.verify(instance, result.model_copy(update={"certificate": {"prices": "none"}}))
    assert any(fault.startswith("certificate: prices") for fault in answer.faults)


def test_what_to_buy_next_is_said() -> None:
    """With prices of resources the text names the one that saves most for each USD per hour."""
    instance = tight(40, 2)
    prices = {"cpu": 0.04, "gpu": 2.0, "memory_gib": 0.005}
    result = clusterplan.solve(instance.model_copy(update={"prices_usd_per_hour": prices}), "exact")
    assert result.prices is not None
    best = max(prices, key=lambda name: result.prices[name] / prices[name])
    assert f"buy {best} next" in result.message


def test_a_time_limit_leaves_a_plan_and_a_bound() -> None:
    """Stopped at once, `exact` still returns what it has, and says what stopped it."""
    instance = tight(300, 3)
    result = clusterplan.solve(instance, "exact", SolveOptions(time_limit_s=1e-6))
    assert result.limit == "time"
    assert result.status == "feasible"
    assert result.gap is not None


def test_warm_start_is_kept_where_nothing_better_is_found() -> None:
    """A given plan counts as a first plan."""
    instance = tight(50, 4)
    best = clusterplan.solve(instance, "exact")
    start = tuple(entry.model_dump() for entry in best.plan)
    again = clusterplan.solve(instance, "exact", SolveOptions(warm_start=start, time_limit_s=1e-6))
    assert again.objective == best.objective


@pytest.mark.parametrize("solver", ["brute-force", "milp:highs", "cp-sat"])
def test_the_answers_of_other_methods_are_certified_too(solver: str) -> None:
    """The check proves what they claim, bounds and infeasibility, from prices of our own."""
    for seed in range(40):
        instance = random_allocation(seed)
        result = clusterplan.solve(instance, solver)
        if result.status == "optimal":
            assert result.certified_gap <= 1e-6, seed
        else:
            assert clusterplan.verify(instance, result).confirmed, seed


@pytest.mark.parametrize("price", [9e307, 1e100, 1e99, 1e-99, 5e-324])
@pytest.mark.parametrize("makespan", [False, True])
def test_absurd_prices_prove_nothing(price: float, makespan: bool) -> None:
    """Prices that overflow or underflow certify no more than the optimum, whatever the cutoff."""
    small = measured("a", (10, {"g": 0.6}), (5, {"g": 0.7}))
    wide = measured("b", (10, {"g": 2}), (5, {"g": 6}))
    objective = "makespan" if makespan else "total_completion_time"
    instance = allocation({"g": 8}, [small, wide], objective=objective)
    best = optimum(instance).objective
    formulation = AllocationFormulation(instance)
    for cutoff in (None, 1e6, 1e100, best * 1.001):
        found = formulation.certified_bounds({"prices": {"g": price}, "cutoff": cutoff})[0]
        assert found is None or found <= best


def test_a_certificate_that_proves_too_much_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    """A certified bound above the plan's value is never quietly taken for the value."""
    instance = tight(20, 1)
    result = clusterplan.solve(instance, "exact")
    monkeypatch.setattr(AllocationFormulation, "certified_bounds", lambda *_: (math.inf,))
    assert any("would prove" in fault for fault in clusterplan.verify(instance, result).faults)


def test_integrality_alone_can_make_it_infeasible() -> None:
    """Three jobs of 0.6 do not fit into two resources of 1, though their sum does."""
    jobs = [measured(f"j{k}", (10, {"a": 0.6}), (10, {"b": 0.6})) for k in range(3)]
    result = clusterplan.solve(allocation({"a": 1, "b": 1}, jobs), "exact")
    assert result.status == "infeasible"
    spare = [
        measured(f"j{k}", *((10, {r: need}) for r, need in (("a", 0.6), ("b", 0.6), ("c", 0.1))))
        for k in range(3)
    ]
    roomy = allocation({"a": 1, "b": 1, "c": 0.1, "unused": 5}, spare)
    assert clusterplan.solve(roomy, "exact").objective == optimum(roomy).objective


@pytest.mark.parametrize("gap", [0.0, 1e-6])
def test_demands_of_very_different_size_are_kept(gap: float) -> None:
    """A job of 1e9 units beside jobs of 0.9 units: small coefficients must not be lost."""
    jobs = [
        measured("big", (10, {"g": 1e9, "h": 0.6}), (10, {"g": 2e9})),
        measured("m", (10, {"h": 0.6}), (10, {"h": 0.7})),
        *[measured(f"s{k}", (1, {"g": 0.9}), (1 + (k % 5) / 10, {"g": 0})) for k in range(50)],
    ]
    result = clusterplan.solve(allocation({"g": 2e9, "h": 1}, jobs), "exact", SolveOptions(gap=gap))
    assert result.objective == pytest.approx(79.2)
    assert result.certified_gap <= 1e-6


@pytest.mark.parametrize("penalty", [1e6, 1e12, 1e15])
def test_huge_penalties_do_not_blur_small_times(penalty: float) -> None:
    """Six optional jobs in three bins; staying unplaced costs up to 1e15 s, the optimum is 13 s."""
    bins = [(6, 2, 2, 1), (24, 2, 3, 1), (7, 5, 5, 1), (23, 1, 8, 2), (6, 5, 5, 3), (24, 5, 1, 3)]
    jobs = [
        measured(
            f"o{k}",
            *[(seconds, {f"b{b}": float(size)}) for b, seconds in enumerate(times)],
            optional=True,
            unplaced_s=penalty,
        )
        for k, (size, *times) in enumerate(bins)
    ]
    result = clusterplan.solve(allocation({"b0": 30, "b1": 30, "b2": 30}, jobs), "exact")
    assert (result.status, result.objective) == ("optimal", 13.0)


@pytest.mark.parametrize("solver", ["exact", "lagrangian"])
def test_a_makespan_leaves_nothing_idle_that_helps(solver: str) -> None:
    """Only the slowest job decides the makespan; the others still get what is left, and optional ones run."""
    slow = measured("slow", (100, {"g": 1}))
    quick = measured("quick", (50, {"g": 1}), (10, {"g": 2}))
    spare = measured("spare", (60, {"g": 1}), optional=True, unplaced_s=90)
    result = clusterplan.solve(allocation({"g": 4}, [slow, quick, spare], objective="makespan"), solver)
    assert (result.status, result.objective) == ("optimal", 100)
    assert result.to_frame()["completion_s"].tolist() == pytest.approx([100, 10, 60])


def test_a_configuration_that_nobody_can_afford_does_not_blur_the_others() -> None:
    """One costs 20,000 times the optimum, and a demand is a millionth of another: proven and certified."""
    dear, cheap = ring({"cpu": 0}, [0, 1e5, 0, 0], name="dear"), ring({"cpu": 1.2}, [3, 0, 0, 0])
    small = ring({"cpu": 1e-6}, [2, 1, 1, 0], workers={"min": 2, "max": 3})
    jobs = [
        {"name": "a", "remaining_steps": 2, "variants": [dear, cheap]},
        {"name": "b", "remaining_steps": 2, "variants": [small]},
    ]
    result = clusterplan.solve(allocation({"cpu": 1.200002}, jobs), "exact")
    assert result.status == "optimal"
    assert result.objective == pytest.approx(11.0)
    assert result.objectives[0].certified_gap == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("objective", ["total_completion_time", "makespan"])
def test_the_bound_of_brute_force_is_certified(objective: str) -> None:
    """The certificate proves its optimum, up to the margin of a cutoff; a bound above it is not proven."""
    instance = generate_allocation(4, 2, 0.6, seed=4).model_copy(update={"objective": objective})
    formulation = AllocationFormulation(instance)
    outcome = AllocationBruteForce().solve(formulation, SolveOptions(), Clock(None))
    optimum = outcome.bounds[0]
    certify(formulation, outcome, Clock(None))
    assert formulation.certified_bounds(outcome.certificate)[0] == pytest.approx(optimum, rel=1e-8)
    outcome.bounds = (1.1 * optimum,)
    certify(formulation, outcome, Clock(None))
    proven = formulation.certified_bounds(outcome.certificate)[0]
    assert proven <= optimum


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


def either(gpu: float, cpu: float) -> AllocationFormulation:
    """Return four jobs that need two GPUs, or two CPUs, each."""
    jobs = [measured(name, (1, {"gpu": 2}), (1, {"cpu": 2})) for name in "abcd"]
    return AllocationFormulation(allocation({"gpu": gpu, "cpu": cpu}, jobs))


def test_the_least_missing_capacity_is_named() -> None:
    """Two units are missing; relative to what there is, two CPUs are fewer than two GPUs."""
    formulation = either(2, 4)
    assert formulation.elementary_infeasibility() is None
    found = ALLOCATION.diagnose(formulation, None, Clock(None))
    assert found.reasons == ("cpu: 2 more than the 4 there are would be needed",)
    assert found.remedies == ("raise cpu to 6",)


def test_what_is_known_is_kept_and_a_feasible_instance_misses_nothing() -> None:
    """The elastic model is only solved where nothing is known."""
    known = either(1, 1).elementary_infeasibility()
    assert known is not None
    assert ALLOCATION.diagnose(either(1, 1), known, Clock(None)) is known
    assert ALLOCATION.diagnose(either(4, 4), None, Clock(None)) is None
