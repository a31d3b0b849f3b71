"""The loops of the dual for malleable jobs, against the loops of the check and those for rigid jobs."""

from __future__ import annotations

import numpy as np
import pytest

from clusterplan.formulations.scheduling.check.one_job import least_interrupted
from clusterplan.solvers.scheduling import dual_kernels


@pytest.mark.parametrize("seed", range(5))
def test_costs_are_those_of_the_check_and_belong_to_what_is_used(seed: int) -> None:
    """With menus of several sizes, some of whose configurations are useless."""
    rng = np.random.default_rng(seed)
    count, cells = 30, 25
    edges = np.append(0.0, np.cumsum(rng.exponential(5, cells - 1)))
    price = rng.exponential(1, (cells, 2)) * (rng.random((cells, 1)) < 0.8)
    price[-1] = 0
    first = np.append(0, np.cumsum(rng.integers(1, 6, count)))
    owner = np.repeat(np.arange(count), np.diff(first))
    speed = rng.uniform(0.5, 3, first[-1])
    speed = speed[np.lexsort((speed, owner))]
    usage = rng.integers(1, 5, (first[-1], 2)).astype(float)
    arrival, work = rng.uniform(0, edges[-1] * 1.1, count), rng.exponential(12, count)
    weight = rng.uniform(0.1, 2, count)
    used, found = np.zeros((cells, 2)), np.zeros((2, count))
    for begin in range(2):
        columns = (arrival, work, weight, first, usage, speed)
        dual_kernels.malleable_preemptive(edges, price, *columns, begin, 2, used, found)
    checked = least_interrupted(edges, price, arrival, work, weight, first, usage, speed)
    assert found[0] == pytest.approx(checked, rel=1e-9, abs=1e-9)
    assert weight @ found[1] + float((used * price).sum()) == pytest.approx(found[0].sum(), rel=1e-9)


def test_jobs_with_one_configuration_of_speed_one_are_rigid_jobs() -> None:
    """Costs, ends and use are the same."""
    rng = np.random.default_rng(1)
    count, cells = 20, 20
    edges = np.arange(cells) * 4.0
    price = np.append(rng.exponential(1, cells - 1), 0.0)[:, None]
    arrival, work = rng.uniform(0, 50, count), rng.exponential(8, count)
    weight, demand = np.ones(count), rng.integers(1, 4, (count, 1)).astype(float)
    results = []
    for loop, more in (
        (dual_kernels.rigid_preemptive, (demand,)),
        (dual_kernels.malleable_preemptive, (np.arange(count + 1), demand, np.ones(count))),
    ):
        used, found = np.zeros((cells, 1)), np.zeros((2, count))
        loop(edges, price, arrival, work, weight, *more, 0, 1, used, found)
        results.append((used, found))
    assert results[0][0] == pytest.approx(results[1][0], abs=1e-9)
    assert results[0][1] == pytest.approx(results[1][1])
