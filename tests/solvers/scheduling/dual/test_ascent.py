"""The ascent: it finds the best prices of traces whose best schedule is known, and looks at the clock."""

from __future__ import annotations

import numpy as np
import pytest

from clusterplan.formulations.common.clock import Clock
from clusterplan.formulations.scheduling.check.price_bound import price_bound
from clusterplan.formulations.scheduling.formulation import SchedulingFormulation
from clusterplan.instances.scheduling.generate import generate_scheduling
from clusterplan.instances.scheduling.instance import SchedulingInstance
from clusterplan.solvers.common.options import SolveOptions
from clusterplan.solvers.scheduling.dual.ascent import TimePrices, best_prices
from clusterplan.solvers.scheduling.methods import POLICIES


def climbed(instance: SchedulingInstance, clock: Clock) -> tuple[float, TimePrices]:
    """Return the value of SRSF's schedule, and the best prices."""
    formulation = SchedulingFormulation(instance)
    policy = next(policy for policy in POLICIES if policy.name == "srsf")
    plan = policy.solve(formulation, SolveOptions(), Clock()).plan
    assert plan is not None
    value = formulation.evaluate(plan)[0]
    return value, best_prices(instance, formulation.segments(plan), value, clock)


def test_equal_jobs_on_one_gpu_are_nearly_closed() -> None:
    """Ten jobs of a second each: the best mean is 5.5, and only the grid keeps prices from proving it."""
    document = {
        "schema_version": 1,
        "name": "ten",
        "resources": {"gpu": 1.0},
        "jobs": [{"name": f"j{k}", "duration_s": 1.0, "demand": {"gpu": 1}} for k in range(10)],
    }
    instance = SchedulingInstance.model_validate(document)
    value, found = climbed(instance, Clock())
    assert value == 5.5
    # A fluid of all jobs ends half a second earlier on average.
    assert 4.9 < price_bound(instance, found.grid) <= 5.5
    assert found.bound <= found.estimate <= 5.6


def test_a_cluster_that_is_never_full_is_optimal() -> None:
    """Without prices every job runs when it comes."""
    value, found = climbed(generate_scheduling(30, 1_000, load=0.05), Clock())
    assert found.bound == pytest.approx(value)
    assert found.evaluations == 1


def test_several_resources_get_prices_where_they_bind() -> None:
    """Of GPUs and memory only the memory is short."""
    rng = np.random.default_rng(0)
    jobs = [
        {
            "name": f"j{k}",
            "arrival_s": float(k),
            "duration_s": float(rng.integers(5, 30)),
            "demand": {"gpu": 1, "mem": 4},
        }
        for k in range(40)
    ]
    resources = {"gpu": 100.0, "mem": 16.0}
    document = {"schema_version": 1, "name": "mem", "resources": resources, "jobs": jobs}
    instance = SchedulingInstance.model_validate(document)
    value, found = climbed(instance, Clock())
    assert price_bound(instance, found.grid) > 0.9 * value
    assert found.grid.price[:, 1].sum() > 0
    assert found.grid.price[:, 0].sum() < 1e-3 * found.grid.price[:, 1].sum()


def test_without_time_it_has_the_elementary_bound() -> None:
    """One evaluation at no price is always made."""
    instance = generate_scheduling(50, 8, load=1.5)
    value, found = climbed(instance, Clock(0.0))
    assert found.evaluations == 1
    assert not found.grid.price.any()
    assert 0 < found.bound < value
