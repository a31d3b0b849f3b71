"""The loops of the dual for rigid jobs, against the loops of the check, which are other code."""

from __future__ import annotations

import numpy as np
import pytest

from clusterplan.formulations.scheduling.check.one_job import least_at_once, least_interrupted
from clusterplan.solvers.scheduling import dual_kernels


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("at_once", [False, True])
def test_costs_are_those_of_the_check_and_belong_to_what_is_used(seed: int, at_once: bool) -> None:
    """ω (C − r), and what is used at its price, is the cost; what is used is the work."""
    rng = np.random.default_rng(seed)
    count, cells = 40, 30
    edges = np.append(0.0, np.cumsum(rng.exponential(5, cells - 1)))
    price = rng.exponential(1, (cells, 2)) * (rng.random((cells, 1)) < 0.8)
    price[-1] = 0
    arrival, work = rng.uniform(0, edges[-1] * 1.1, count), rng.exponential(8, count)
    weight, demand = rng.uniform(0, 2, count), rng.integers(0, 4, (count, 2)).astype(float)
    used, found = np.zeros((cells, 2)), np.zeros((2, count))
    loop = dual_kernels.rigid_nonpreemptive if at_once else dual_kernels.rigid_preemptive
    for begin in range(2):
        loop(edges, price, arrival, work, weight, demand, begin, 2, used, found)
    check = least_at_once if at_once else least_interrupted
    checked = check(edges, price, arrival, work, weight, np.arange(count + 1), demand, np.ones(count))
    assert found[0] == pytest.approx(checked, rel=1e-9, abs=1e-9)
    assert (found[1] >= work * (1 - 1e-12)).all()
    assert weight @ found[1] + float((used * price).sum()) == pytest.approx(found[0].sum(), rel=1e-9)
    assert used.sum(axis=0) == pytest.approx(work @ demand, rel=1e-9)
