"""Optimal allocations at every interval, against all there are."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from malleable_instances import random_trace

from clusterplan.formulations.scheduling.formulation import SchedulingFormulation
from clusterplan.instances.common.arrays import Floats
from clusterplan.solvers.common.base import Clock
from clusterplan.solvers.common.options import SolveOptions
from clusterplan.solvers.registry import KINDS, find_solver
from clusterplan.solvers.scheduling.policies.optimus_exact import OptimusExact, allocation_by
from clusterplan.solvers.scheduling.rounds import RoundEngine

ALLOCATE = allocation_by(KINDS["allocation"].exact, "allocation")


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
    chosen, proven = ALLOCATE(menus, there)
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
            seen = self.seen
            left = [float(seen.weight[jobs] @ (seen.left[jobs] / seen.speed[one])) for one in (mine, greedy)]
            assert left[0] <= left[1] * (1 + 2e-6)
            better += left[0] < left[1] * (1 - 1e-3)
            return mine

    for seed in range(12):
        RoundEngine(random_trace(3 * seed, 8), Both(ALLOCATE, 5.0, reacts=True)).run()
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
