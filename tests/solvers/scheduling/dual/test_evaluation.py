"""The dual function: concave with the supergradients that it gives, and the value that the check finds."""

from __future__ import annotations

import numpy as np
import pytest

from clusterplan.formulations.scheduling.certificate import PriceGrid
from clusterplan.formulations.scheduling.check.price_bound import price_bound
from clusterplan.instances.scheduling.generate import generate_scheduling
from clusterplan.solvers.scheduling import lagrangian_dual
from clusterplan.solvers.scheduling.lagrangian_dual import TimeDual


@pytest.mark.parametrize("malleable", [False, True])
@pytest.mark.parametrize("preemption", ["free", "none"])
def test_tangents_lie_above_the_function(preemption: str, malleable: bool) -> None:
    """L(μ) ≤ L(λ) + g·(μ − λ) for all pairs of prices, and L is what the check says."""
    instance = generate_scheduling(25, 8, load=1.5, malleable=malleable).replace(preemption=preemption)
    rng = np.random.default_rng(0)
    edges = np.linspace(0, instance.table().arrival_s.max() * 1.5, 40)
    dual = TimeDual(instance, edges)
    prices = [rng.exponential(0.5, (39, 1)) for _ in range(6)]
    found = [dual.evaluate(price) for price in prices]
    for price, there in zip(prices, found, strict=True):
        certified = price_bound(instance, PriceGrid(edges, np.vstack([price, [[0.0]]])))
        assert certified <= there.value
        assert certified == pytest.approx(there.value, rel=1e-6)
        for other, here in zip(prices, found, strict=True):
            tangent = here.value + float((here.excess * (price - other)).sum()) / dual.total_weight
            assert there.value <= tangent + 1e-9 * abs(tangent)


def test_threads_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """But the order of sums."""
    monkeypatch.setattr(lagrangian_dual, "JOBS_OF_A_THREAD", 10)
    instance = generate_scheduling(60, 8, load=1.5)
    edges = np.linspace(0, instance.table().arrival_s.max(), 30)
    price = np.full((29, 1), 0.3)
    one, two = (TimeDual(instance, edges, threads).evaluate(price) for threads in (1, 2))
    assert one.value == pytest.approx(two.value, rel=1e-12)
    assert one.excess == pytest.approx(two.excess, rel=1e-9, abs=1e-6)


def test_capacity_follows_events_inside_cells() -> None:
    """Unit-seconds of each cell, before the first time too."""
    instance = generate_scheduling(5, 4).replace(events=[{"at_s": 3.0, "change": {"gpu": -2.0}}])
    dual = TimeDual(instance, np.array([0.0, 2.0, 5.0, 6.0]))
    assert dual.capacity[:, 0].tolist() == [8, 4 + 4, 2]
