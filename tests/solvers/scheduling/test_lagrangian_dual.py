"""The Lagrangian dual of a trace: evaluation, ascent and loops."""

from __future__ import annotations

import numpy as np
import pytest
from malleable_instances import plan_by

from clusterplan.formulations.common.clock import Clock
from clusterplan.formulations.scheduling.certificate import PriceGrid
from clusterplan.formulations.scheduling.check.price_bound import (
    nonpreemptive_cost_bounds,
    preemptive_cost_bounds,
    price_bound,
)
from clusterplan.formulations.scheduling.formulation import SchedulingFormulation
from clusterplan.formulations.scheduling.plan import SegmentTable
from clusterplan.instances.scheduling.generate import generate_scheduling
from clusterplan.instances.scheduling.instance import SchedulingInstance
from clusterplan.solvers.scheduling import dual_kernels, lagrangian_dual
from clusterplan.solvers.scheduling.lagrangian_dual import (
    TimeDual,
    TimePrices,
    best_prices,
    initial_prices,
    time_grid,
)
from clusterplan.solvers.scheduling.policy_solvers import POLICIES


def climbed(instance: SchedulingInstance, clock: Clock) -> tuple[float, TimePrices]:
    """Return the value of SRSF's schedule, and the best prices."""
    formulation = SchedulingFormulation(instance)
    plan = plan_by(formulation, "srsf")
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


def schedule_of(instance: SchedulingInstance) -> SegmentTable:
    """Return the schedule of the first policy."""
    formulation = SchedulingFormulation(instance)
    return formulation.segments(plan_by(formulation, POLICIES[0].name))


def test_the_grid_spans_the_schedule_and_has_the_times_of_events() -> None:
    """Large traces have more cells than small ones."""
    sizes = []
    for jobs in (5, 200):
        plain = generate_scheduling(jobs, 8, load=1.2)
        middle = float(plain.table().arrival_s.max() / 2)
        instance = plain.replace(events=[{"at_s": middle, "change": {"gpu": 1.0}}])
        segments = schedule_of(instance)
        edges = time_grid(instance, segments)
        assert (np.diff(edges) > 0).all()
        assert (edges[0], edges[-1]) == (0, segments.completion_s.max())
        assert middle in edges
        sizes.append(len(edges))
    assert sizes[0] < sizes[1]


def test_prices_by_delay_nearly_close_a_queue() -> None:
    """Many jobs that are there at once, on one GPU: the prices are the best but for the grid."""
    jobs = [{"name": f"j{k}", "duration_s": float(k + 1), "demand": {"gpu": 1}} for k in range(60)]
    document = {"schema_version": 1, "name": "queue", "resources": {"gpu": 1.0}, "jobs": jobs}
    instance = SchedulingInstance.model_validate(document)
    formulation = SchedulingFormulation(instance)
    plan = plan_by(formulation, "srsf")
    segments, value = formulation.segments(plan), formulation.evaluate(plan)[0]
    edges = time_grid(instance, segments)
    dual = TimeDual(instance, edges)
    for price in initial_prices(instance, segments, edges, dual.capacity)[0:5:4]:
        assert 0.99 * value < dual.evaluate(price).value <= value


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


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("name", ["rigid_preemptive", "rigid_nonpreemptive", "malleable_preemptive"])
def test_costs_are_those_of_the_check_and_belong_to_what_is_used(name: str, seed: int) -> None:
    """ω (C − r), and what is used at its price, is the cost; what rigid jobs use is their work.

    With menus of several sizes, some of whose configurations are useless.
    """
    rng = np.random.default_rng(seed)
    count, cells, malleable = 40, 30, name == "malleable_preemptive"
    edges = np.concatenate([[0.0], np.cumsum(rng.exponential(5, cells - 1)), [np.inf]])
    price = rng.exponential(1, (cells, 2)) * (rng.random((cells, 1)) < 0.8)
    price[-1] = 0
    first = np.append(0, np.cumsum(rng.integers(1, 6 if malleable else 2, count)))
    speed = rng.uniform(0.5, 3, first[-1]) if malleable else np.ones(count)
    speed = speed[np.lexsort((speed, np.repeat(np.arange(count), np.diff(first))))]
    usage = rng.integers(int(malleable), 5, (first[-1], 2)).astype(float)
    arrival, work = rng.uniform(0, edges[-2] * 1.1, count), rng.exponential(8, count)
    weight, used, found = rng.uniform(0, 2, count), np.zeros((cells, 2)), np.zeros((2, count))
    columns = (arrival, work, weight, *((first, usage, speed) if malleable else (usage,)))
    cell = np.searchsorted(edges, arrival, side="right") - 1
    for begin in range(2):
        getattr(dual_kernels, name)(edges, price, cell, *columns, begin, 2, used, found)
    check = nonpreemptive_cost_bounds if name == "rigid_nonpreemptive" else preemptive_cost_bounds
    checked = check(edges, price, arrival, work, weight, first, usage, speed)
    assert found[0] == pytest.approx(checked, rel=1e-9, abs=1e-9)
    assert weight @ found[1] + float((used * price).sum()) == pytest.approx(found[0].sum(), rel=1e-9)
    if not malleable:
        assert (found[1] >= work * (1 - 1e-12)).all()
        assert used.sum(axis=0) == pytest.approx(work @ usage, rel=1e-9)
