"""The multiple-choice knapsack: its columns, dual prices and Lagrangian bounds, and meet in the middle."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.optimize import linprog
from small_models import best_choice, random_knapsack

from clusterplan.formulations.allocation.formulation import AllocationFormulation
from clusterplan.instances.allocation.generate import generate_allocation
from clusterplan.instances.common.arrays import Ints
from clusterplan.solvers.allocation import lagrangian
from clusterplan.solvers.allocation.lagrangian import (
    MultipleChoice,
    best_prices,
    knapsack_bound,
    makespan_bound,
)
from clusterplan.solvers.allocation.meet_in_the_middle import (
    HalfProblem,
    PartialChoices,
    best_of_pairs,
    best_pair,
    better_choices,
    nearest_choices,
    sample_uses,
)
from clusterplan.solvers.backends.highs import CuttingPlaneModel
from clusterplan.solvers.common.base import Clock


def relaxation(problem: MultipleChoice) -> float | None:
    """Return the value of the linear relaxation; None where it has no solution."""
    one = np.zeros((problem.jobs, len(problem.cost)))
    one[np.repeat(np.arange(problem.jobs), np.diff(problem.start)), np.arange(len(problem.cost))] = 1
    found = linprog(problem.cost, problem.demand.T, problem.limit, one, np.ones(problem.jobs))
    return float(found.fun) if found.status == 0 else None


@pytest.mark.parametrize("sampled", [False, True])
def test_best_prices_reach_the_linear_relaxation(sampled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Strong duality, with and without a first box from a sample; no solution means an unbounded dual."""
    if sampled:
        monkeypatch.setattr(lagrangian, "JOBS_PER_SAMPLED_JOB", 2)
        monkeypatch.setattr(lagrangian, "FEWEST_JOBS_SAMPLED", 4)
    bounded = 0
    for seed in range(80):
        problem = random_knapsack(seed)
        dual, value = best_prices(problem, Clock(None)), relaxation(problem)
        assert (dual.prices >= 0).all()
        if value is None:
            assert dual.unbounded
        else:
            bounded += 1
            assert dual.bound == pytest.approx(value, rel=1e-6, abs=1e-6)
    assert bounded > 20


@pytest.mark.parametrize("start", ["near", "none", "far", "tiny"])
def test_the_search_reaches_the_same_bound_from_any_prices(
    start: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Boxes around earlier prices grow and shrink; jobs and items that are left out change nothing."""
    monkeypatch.setattr(lagrangian, "JOBS_PER_SAMPLED_JOB", 2)
    monkeypatch.setattr(lagrangian, "FEWEST_JOBS_SAMPLED", 4)
    compared = 0
    for seed in range(60):
        problem = random_knapsack(seed)
        cold = best_prices(problem, Clock(None))
        if cold.unbounded:
            continue
        noise = np.random.default_rng(seed).uniform(0.9, 1.1, len(problem.limit))
        factor = {"near": noise, "none": 0 * noise, "far": 1e100 * noise, "tiny": 1e-300 * noise}[start]
        cuts = [factor * prices for prices in cold.cuts]
        warm = best_prices(problem, Clock(None), start=cuts)
        assert warm.bound == pytest.approx(cold.bound, rel=1e-8, abs=1e-8)
        assert warm.bound == pytest.approx(knapsack_bound(problem, warm.prices), rel=1e-9, abs=1e-9)
        assert np.array_equal(warm.cuts[0], warm.prices)
        compared += 1
    assert compared > 15


def test_the_smallest_box_of_a_level_holds_all_prices_with_a_better_bound() -> None:
    """Of random cuts it is that of a linear programme, a little wider."""
    for seed in range(30):
        rng = np.random.default_rng(seed)
        model, size = CuttingPlaneModel(), int(rng.integers(1, 4))
        model.slopes = list(rng.normal(size=(12, size)))
        model.constants = list(rng.uniform(1, 2, 12))
        low, high = np.zeros(size), np.full(size, 5.0)
        least, most = model.level_box(np.zeros(size), 0.5, low, high)
        for r in range(size):
            ends = [
                linprog(
                    sign * np.eye(size)[r],
                    -np.array(model.slopes),
                    np.array(model.constants) - 0.5,
                    bounds=(0, 5),
                )
                for sign in (1, -1)
            ]
            assert [least[r], most[r]] == pytest.approx([ends[0].fun, -ends[1].fun], abs=1e-4)
            assert least[r] <= ends[0].fun + 1e-12
            assert most[r] >= -ends[1].fun - 1e-12


def test_jobs_with_one_item_left_are_a_constant() -> None:
    """The bound of what is left, and of the constant, is that of the whole at any prices."""
    for seed in range(40):
        problem = random_knapsack(seed)
        rng = np.random.default_rng(seed)
        keep = rng.random(len(problem.cost)) < 0.5
        keep[problem.start[:-1]] = True
        rest, whole = problem.undecided(keep), problem.only(keep)
        prices = rng.uniform(0, 3, len(problem.limit))
        bounds = [
            each.constant + each.least_costs(prices).sum() - prices @ each.limit for each in (rest, whole)
        ]
        assert bounds[0] == pytest.approx(bounds[1])
        assert (rest.counts[1:] > 1).all()


def test_without_time_there_are_prices_all_the_same() -> None:
    """They are a valid, if weak, bound."""
    problem = next(p for p in map(random_knapsack, range(100)) if relaxation(p) is not None)
    dual = best_prices(problem, Clock(0.0))
    assert dual.bound <= float(relaxation(problem) or 0.0) + 1e-9


@pytest.mark.parametrize("jobs_at_once", [1, 2, 4096])
def test_choices_and_reduced_costs_are_those_of_loops(
    jobs_at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many jobs are evaluated at once."""
    monkeypatch.setattr(lagrangian, "JOBS_AT_ONCE", jobs_at_once)
    for seed in range(50):
        problem = random_knapsack(seed)
        prices = np.random.default_rng(seed).uniform(0, 5, len(problem.limit))
        value = [float(c + prices @ a) for c, a in zip(problem.cost, problem.demand, strict=True)]
        least, chosen = problem.choose(prices)
        reduced = problem.reduced_costs(prices)
        assert problem.least_costs(prices).tolist() == least.tolist()
        for j in range(problem.jobs):
            own = range(int(problem.start[j]), int(problem.start[j + 1]))
            assert least[j] == pytest.approx(min(value[k] for k in own))
            assert chosen[j] in own
            assert value[chosen[j]] == pytest.approx(least[j])
            assert [reduced[k] for k in own] == pytest.approx([value[k] - least[j] for k in own], abs=1e-9)


def test_a_bound_is_plain_arithmetic_and_below_the_optimum() -> None:
    """For any prices; negative ones count as 0."""
    for seed in range(100):
        problem = random_knapsack(seed)
        prices = np.random.default_rng(seed).uniform(-1, 10, len(problem.limit))
        positive = np.maximum(prices, 0)
        plain = problem.choose(positive)[0].sum() - positive @ problem.limit
        bound = knapsack_bound(problem, prices)
        assert bound == pytest.approx(plain, rel=1e-9, abs=1e-6)
        assert bound <= best_choice(problem)[0]


def test_a_makespan_bound_without_prices_is_the_slowest_job_alone() -> None:
    """And with prices at least as much."""
    configs = AllocationFormulation(generate_allocation(6, 2, 0.9, seed=2)).configurations
    alone = max(configs.time_s[configs.of(j)].min() for j in range(configs.jobs))
    assert makespan_bound(configs, np.zeros(2)) == alone
    assert makespan_bound(configs, 1 / configs.limit) >= alone


def worst_choice(problem: MultipleChoice) -> Ints | None:
    """Return the dearest choice that keeps the limits; None without one."""
    jobs = (range(a, b) for a, b in itertools.pairwise(problem.start.tolist()))
    choices = [np.array(items) for items in itertools.product(*jobs)]
    return max((items for items in choices if problem.fits(items)), key=problem.value, default=None)


def test_the_best_choice_is_found_from_the_worst() -> None:
    """Every choice that is yielded keeps the limits and is better; the last is the best there is."""
    improved = 0
    for seed in range(60):
        problem = random_knapsack(seed)
        items = worst_choice(problem)
        if items is None:
            continue
        prices = best_prices(problem, Clock()).prices
        for better in better_choices(problem, prices, items, Clock(), seed):
            assert problem.fits(better)
            assert problem.value(better) < problem.value(items)
            assert (np.searchsorted(problem.start, better, side="right") - 1).tolist() == [
                *range(problem.jobs)
            ]
            items, improved = better, improved + 1
        assert problem.value(items) == pytest.approx(best_choice(problem)[0])
    assert improved > 20


def test_jobs_that_are_not_free_keep_their_items() -> None:
    """The best choice is the best of those that share these items with the incumbent."""
    compared = 0
    for seed in range(40):
        problem, rng = random_knapsack(seed), np.random.default_rng(seed)
        items = worst_choice(problem)
        if items is None:
            continue
        free = rng.random(problem.jobs) < 0.6
        prices = best_prices(problem, Clock()).prices
        found, everywhere = best_of_pairs(problem, prices, items, free, 4096, rng, Clock())
        assert everywhere == free.all()
        kept = np.repeat(free, np.diff(problem.start))
        kept[items] = True
        value = problem.value(items if found is None else found)
        assert value == pytest.approx(best_choice(problem.only(kept))[0])
        assert found is None or (found[~free] == items[~free]).all()
        compared += found is not None
    assert compared > 10


def test_an_expired_clock_ends_the_search() -> None:
    """Without time nothing is looked at."""
    problem = random_knapsack(3)
    items = np.asarray(problem.start[:-1])
    assert list(better_choices(problem, np.ones(len(problem.limit)), items, Clock(0.0), None)) == []


def random_half(seed: int) -> HalfProblem:
    """Return nine items of up to five jobs, which take some of three limits."""
    rng = np.random.default_rng(seed)
    reduced = np.sort(rng.integers(0, 8, 9)).astype(float)
    return HalfProblem(np.arange(100, 109), rng.integers(0, 5, 9), reduced, rng.normal(size=(9, 3)))


def all_within(half: HalfProblem, most: float) -> set[tuple[int, ...]]:
    """Return the sets of places of different jobs whose reduced costs add up to at most this."""
    sizes = range(len(half.items) + 1)
    places = itertools.chain.from_iterable(itertools.combinations(range(len(half.items)), n) for n in sizes)
    return {
        s
        for s in places
        if len(set(half.owner[list(s)])) == len(s) and math.fsum(half.reduced[list(s)]) <= most
    }


def places_of(listed: PartialChoices) -> list[tuple[int, ...]]:
    """Return the places of each partial choice, in order."""
    return [tuple(sorted(row[row >= 0].tolist())) for row in listed.chosen]


@pytest.mark.parametrize("seed", range(8))
def test_every_partial_choice_within_a_reduced_cost_is_listed_once(seed: int) -> None:
    """The list holds what enumeration finds, with sums and uses."""
    half = random_half(seed)
    listed = nearest_choices(half, 10.0, np.zeros(3), np.ones(3), 1000)
    found = places_of(listed)
    assert listed.complete
    assert len(found) == len(set(found))
    assert set(found) == all_within(half, 10.0)
    for row, chosen in enumerate(found):
        assert listed.reduced[row] == pytest.approx(half.reduced[list(chosen)].sum())
        assert listed.use[row] == pytest.approx(half.beyond[list(chosen)].sum(axis=0))


@pytest.mark.parametrize("seed", range(8))
def test_a_list_that_is_too_short_holds_the_nearest(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is left out is no nearer to the point than what is held; a limit counts by its price."""
    half, point, prices = random_half(seed), np.array([1.0, -1.0, 0.5]), np.array([2.0, 1.0, 0.0])
    whole = nearest_choices(half, 12.0, point, prices, 1000)
    module = "clusterplan.solvers.allocation.meet_in_the_middle"
    longest = len(whole.reduced) // 3
    monkeypatch.setattr(f"{module}.LONGEST_LIST", longest)
    short = nearest_choices(half, 12.0, point, prices, 1000)
    assert not short.complete
    assert 0 < len(short.reduced) <= longest
    distance = {
        chosen: float((((use - point) * prices) ** 2).sum())
        for chosen, use in zip(places_of(whole), whole.use, strict=True)
    }
    held = places_of(short)
    left_out = [far for chosen, far in distance.items() if chosen not in held]
    assert max(distance[chosen] for chosen in held) <= min(left_out) + 1e-12


def test_the_sample_tells_how_many_there_are() -> None:
    """Up to the gap where there are few; else a reduced cost up to which there are about as many as asked."""
    few = random_half(1)
    assert sample_uses(few, 5.0, 4096)[0] == 5.0
    rng = np.random.default_rng(0)
    many = HalfProblem(np.arange(300), np.arange(300), np.sort(rng.random(300)), rng.normal(size=(300, 2)))
    for size in (4096, 60_000):
        most, use = sample_uses(many, 100.0, size)
        count = len(nearest_choices(many, most, np.zeros(2), np.ones(2), 4 * size).reduced)
        assert size / 3 < count < 3 * size
        assert use.shape == (use.shape[0], 2)
        assert 2000 < len(use) <= 4096


@pytest.mark.parametrize("limits", [1, 2, 3, 6])
def test_the_best_pair_is_that_of_all_pairs(limits: int) -> None:
    """The grid leaves out no pair that counts; nothing is found that is no better than asked for."""
    rng = np.random.default_rng(limits)
    found = 0
    for _ in range(30):
        one, other = (
            PartialChoices(
                np.full((60, 1), -1, dtype=np.int32),
                rng.random(60),
                rng.integers(-3, 4, (60, limits)).astype(float),
                True,
            )
            for _ in range(2)
        )
        slack, prices = rng.integers(-2, 3, limits).astype(float), rng.random(limits)
        prices[rng.random(limits) < 0.2] = 0.0
        left = slack - one.use[:, None, :] - other.use[None, :, :]
        worth = one.reduced[:, None] + other.reduced[None, :] + left @ prices
        worth[(left < 0).any(axis=2)] = math.inf
        gap = float(rng.choice([1.0, 50.0]))
        pair = best_pair(one, other, slack, prices, gap, Clock())
        if pair is None:
            assert worth.min() >= gap - 1e-9
            continue
        found += 1
        assert worth[pair] == pytest.approx(worth.min())
        assert best_pair(one, other, slack, prices, worth.min() - 1e-9, Clock()) is None
    assert found > 10
