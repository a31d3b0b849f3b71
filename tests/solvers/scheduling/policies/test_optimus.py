"""Marginal gains by hand.

Optimal allocations at every interval, against all there are.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from malleable_instances import random_trace

from clusterplan.formulations.scheduling.formulation import SchedulingFormulation
from clusterplan.instances.common.arrays import Floats
from clusterplan.instances.scheduling.instance import SchedulingInstance
from clusterplan.solvers.common.base import Clock
from clusterplan.solvers.common.result import SolveOptions
from clusterplan.solvers.registry import find_solver
from clusterplan.solvers.scheduling.engine import Engine
from clusterplan.solvers.scheduling.policies.optimus import Optimus, OptimusExact, proven_allocation
from clusterplan.solvers.scheduling.policy_solvers import plan_of


def instance(*jobs: dict[str, Any], gpus: int = 4) -> SchedulingInstance:
    """Return malleable jobs on GPUs."""
    rows = [{"name": "abcdef"[k], "demand": {"gpu": 1}, **job} for k, job in enumerate(jobs)]
    return SchedulingInstance.model_validate(
        {"name": "t", "resources": {"gpu": gpus, "cpu": 4}, "jobs": rows}
    )


def first(there: SchedulingInstance, **settings: Any) -> dict[str, str]:
    """Return what each job gets at first."""
    plan = plan_of(there, Engine(there, Optimus(1000.0, **settings)).run())
    assert SchedulingFormulation(there).violations(plan) == []
    return {entry.job: entry.configuration for entry in plan if entry.start_s == 0}


def test_the_larger_gain_comes_first() -> None:
    """Each has one GPU; the second saves a 60 − 40 s and b 100 − 50 s. Then a saves 20 s and b 10."""
    a = {"work": 60, "speeds": {1: 1, 2: 1.5, 3: 2}}
    b = {"work": 100, "speeds": {1: 1, 2: 2, 3: 2.5}}
    assert first(instance(a, b, gpus=3)) == {"a": "1", "b": "2"}
    assert first(instance(a, b, gpus=4)) == {"a": "2", "b": "2"}


def test_a_gain_is_counted_by_gpu() -> None:
    """From one GPU to four saves 60 s, 20 s for each; from one to two 25 s."""
    a = {"work": 80, "speeds": {1: 1, 4: 4}}
    b = {"work": 50, "speeds": {1: 1, 2: 2}}
    assert first(instance(a, b, gpus=5)) == {"a": "1", "b": "2"}
    assert first(instance(a, b, gpus=6)) == {"a": "4", "b": "2"}


def test_what_gains_nothing_is_not_given() -> None:
    """Three GPUs are no faster than two, so the fourth is not tried either."""
    a = {"work": 60, "speeds": {1: 1, 2: 2, 3: 2, 4: 3}}
    assert first(instance(a)) == {"a": "2"}


def test_weights_count() -> None:
    """The gain of the second job is the larger one with its weight."""
    a = {"work": 60, "speeds": {1: 1, 2: 2}}
    assert first(instance(a, {**a, "weight": 3}, gpus=3)) == {"a": "1", "b": "2"}


@pytest.mark.parametrize(("admission", "served"), [("arrival", {"a", "b"}), ("shortest", {"b", "c"})])
def test_who_is_served_where_not_all_can_be(admission: str, served: set[str]) -> None:
    """Who came first, or whose work is done soonest."""
    jobs = [{"work": work, "speeds": {1: 1, 2: 2}} for work in (60, 50, 10)]
    assert first(instance(*jobs, gpus=2), admission=admission).keys() == served


def test_speeds_may_count_in_place_of_times() -> None:
    """Both are twice as fast on two GPUs: it saves the long job more time, but the short one ends sooner."""
    jobs = [{"work": work, "speeds": {1: 1, 2: 2}} for work in (60, 10)]
    assert first(instance(*jobs, gpus=3)) == {"a": "2", "b": "1"}
    assert first(instance(*jobs, gpus=3), aim="speeds") == {"a": "1", "b": "2"}
    # Without a power of the time that is left only the gain of speed counts.
    jobs[0]["speeds"] = {1: 1, 2: 2.1}
    assert first(instance(*jobs, gpus=3), aim="speeds", power=0.0) == {"a": "2", "b": "1"}


def value(menus: list[tuple[float, Floats, Floats]], chosen: list[int], there: Floats) -> float:
    """Return the weighted times of a choice, infinite if it does not fit."""
    used = np.sum([usage[k] for (_, _, usage), k in zip(menus, chosen, strict=True)], axis=0)
    if (used > there).any():
        return np.inf
    return sum(float(weight * times[k]) for (weight, times, _), k in zip(menus, chosen, strict=True))


@pytest.mark.parametrize("seed", range(12))
def test_allocations_are_the_best_of_all(seed: int) -> None:
    """Of four jobs with up to four configurations on two resources; and proven."""
    rng = np.random.default_rng(seed)
    menus = []
    for _ in range(4):
        count = int(rng.integers(1, 5))
        usage = np.arange(1.0, count + 1)[:, None] * np.array([1.0, float(rng.integers(0, 3))])
        menus.append((float(rng.integers(0, 4)), rng.uniform(1, 50, count), usage))
    there = np.sum([usage[0] for _, _, usage in menus], axis=0) + rng.integers(0, 5, 2)
    chosen, proven = proven_allocation(menus, there)
    every = itertools.product(*(range(len(times)) for _, times, _ in menus))
    best = min(value(menus, list(one), there) for one in every)
    assert proven
    assert value(menus, chosen, there) == pytest.approx(best, rel=1e-6)


def test_no_interval_is_worse_than_by_marginal_gains() -> None:
    """And some is better: both policies decide on the same jobs, and the times that are left are compared."""
    better = 0

    class Both(OptimusExact):
        def enlarged(self, jobs, rows, free):  # type: ignore[no-untyped-def]
            nonlocal better
            mine = super().enlarged(jobs, rows, free)
            greedy = super(OptimusExact, self).enlarged(jobs, rows, free)
            view = self.view
            left = [float(view.weight[jobs] @ (view.left[jobs] / view.speed[one])) for one in (mine, greedy)]
            assert left[0] <= left[1] * (1 + 2e-6)
            better += left[0] < left[1] * (1 - 1e-3)
            return mine

    for seed in range(12):
        Engine(random_trace(3 * seed, 8), Both(5.0, reacts=True)).run()
    assert better > 0


def test_it_says_how_many_allocations_are_proven() -> None:
    """All of them."""
    solver = find_solver("optimus-exact", "scheduling")
    options = SolveOptions(method_options={"interval_s": 10})
    message = solver.solve(SchedulingFormulation(random_trace(6)), options, Clock()).message
    assert message is not None
    done, _, of, *rest = message.split()
    assert done == of != "0"
    assert " ".join(rest) == "allocations are proven optimal"
