"""Allocation: evaluation, violations, MILP model and grids of clusters."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pulp
import pytest
from allocation_instances import allocation, ring
from hypothesis import given, settings
from hypothesis import strategies as st
from random_instances import random_allocation

import clusterplan
from clusterplan.formulations.allocation.cluster_grids import ClusterGrid, cluster_grid_of
from clusterplan.formulations.allocation.configurations import UNPLACED
from clusterplan.formulations.allocation.formulation import (
    AllocationFormulation,
    infeasible_job_reasons,
)
from clusterplan.formulations.allocation.kind import ALLOCATION
from clusterplan.formulations.common.frontier import Interval, intervals, proven_error
from clusterplan.instances.allocation.generate import generate_allocation
from clusterplan.instances.allocation.instance import AllocationInstance
from clusterplan.instances.common.speed import PsAsync, PsSync, RingAllreduce, SpeedTable


def test_speed_models_by_hand() -> None:
    """Each formula gives the step time that the papers' equations give."""
    sync = PsSync(model="ps_sync", theta=(1, 2, 3, 4, 5), batch=8)
    assert float(sync.step_time_s(2, 4)) == 1 * 8 / 4 + 2 + 3 * 4 / 2 + 4 * 4 + 5 * 2
    asynchronous = PsAsync(model="ps_async", theta=(1, 2, 3, 4))
    assert float(asynchronous.step_time_s(2, 4)) == (1 + 2 * 4 / 2 + 3 * 4 + 4 * 2) / 4
    ring = RingAllreduce(model="ring_allreduce", theta=(1, 2, 3, 4), batch=8)
    assert float(ring.step_time_s(0, 4)) == 8 / 4 + 2 + 3 * 3 / 4 + 4 * 3
    table = SpeedTable.model_validate(
        {"model": "table", "rows": [{"workers": 2, "steps_per_s": 4}, {"workers": 1, "steps_per_s": 2.5}]}
    )
    assert [(row.workers, row.steps_per_s) for row in table.sorted_rows()] == [(1, 2.5), (2, 4)]


def instance(**job: Any) -> AllocationInstance:
    """Return one job that may have 1 to 9 workers on three GPUs, without parameter servers."""
    variants = [ring({"gpu": 1}, [6, 0, 0, 0], 9)]
    return allocation(
        {"gpu": 3}, [{"name": "j", "remaining_steps": 12, "weight": 2, "variants": variants} | job]
    )


def test_menu_by_hand() -> None:
    """Times, weights, restarts, deadlines and capacities shape the menu as the page says."""
    configs = AllocationFormulation(instance()).configurations
    assert configs.workers.tolist() == [1, 2, 3]
    assert configs.time_s.tolist() == [72, 36, 24]
    assert configs.cost.tolist() == [144, 72, 48]
    current = {"variant": "v", "workers": 2}
    assert AllocationFormulation(instance(restart_s=5, current=current)).configurations.time_s.tolist() == [
        77,
        36,
        29,
    ]
    assert AllocationFormulation(instance(restart_s=5)).configurations.time_s.tolist() == [77, 41, 29]
    assert AllocationFormulation(instance(deadline_s=36)).configurations.workers.tolist() == [2, 3]
    optional = AllocationFormulation(instance(deadline_s=36, optional=True, unplaced_s=99)).configurations
    assert optional.variant.tolist() == [0, 0, UNPLACED]
    assert optional.time_s.tolist() == [36, 24, 99]


def test_objectives_by_hand() -> None:
    """Weights count in the total and not in the makespan."""
    one = instance()
    assert clusterplan.solve(one).objective == 48
    assert clusterplan.solve(one.model_copy(update={"objective": "makespan"})).objective == 24


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6), data=st.data())
def test_more_capacity_never_hurts(seed: int, data: st.DataObject) -> None:
    """Raising a capacity never raises the optimum."""
    made = random_allocation(seed)
    before = clusterplan.solve(made, "milp:highs")
    resource = data.draw(st.sampled_from(sorted(made.resources)))
    more = {**made.resources, resource: made.resources[resource] + 2}
    after = clusterplan.solve(made.model_copy(update={"resources": more}), "milp:highs")
    if before.objective is not None:
        assert after.objective is not None
        assert after.objective <= before.objective * (1 + 1e-6)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6), order=st.randoms())
def test_order_and_scale_change_nothing(seed: int, order: Any) -> None:
    """Shuffled jobs have the same optimum; demands and capacities in other units too."""
    made = random_allocation(seed)
    document = made.document()
    order.shuffle(document["jobs"])
    document["resources"] = {r: 4 * amount for r, amount in document["resources"].items()}
    document["prices_usd_per_hour"] = {r: p / 4 for r, p in document["prices_usd_per_hour"].items()}
    for job in document["jobs"]:
        for variant in job["variants"]:
            for key in ("worker_demand", "ps_demand"):
                variant[key] = {r: 4 * amount for r, amount in variant[key].items()}
    before = clusterplan.solve(made, "milp:highs")
    after = clusterplan.solve(clusterplan.parse_instance(document), "milp:highs")
    assert after.status == before.status
    if before.objective is not None:
        assert after.objective == pytest.approx(before.objective, rel=1e-6)


def test_the_configurations_keep_their_older_name_for_solvers_of_other_packages() -> None:
    """Plug-ins were told of `menu`."""
    formulation = AllocationFormulation(generate_allocation(3, seed=1))
    assert formulation.menu is formulation.configurations


def explain_instance(gpus: float = 3, speed: dict[str, Any] | None = None, **job: Any) -> AllocationInstance:
    """Return one job that takes two GPUs for each of 2 to 4 workers, and 6/w seconds."""
    variant = ring({"gpu": 2}, [6, 0, 0, 0]) | {"workers": {"min": 2, "max": 4}}
    if speed:
        variant = {"name": "v", "worker_demand": {"gpu": 2}, "speed": speed}
    return allocation({"gpu": gpus}, [{"name": "j", "remaining_steps": 1, "variants": [variant], **job}])


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        (explain_instance(), "needs at least 4 gpu, 1 more than the 3 there are"),
        (explain_instance(deadline_s=1), "takes at least 1.5 s; its deadline of 1 s is earlier"),
        (
            explain_instance(gpus=4, deadline_s=1.5),
            "needs at least 8 gpu, 4 more than the 4 there are to keep its deadline of 1.5 s",
        ),
        (
            explain_instance(3, {"model": "table", "rows": [{"workers": 2, "steps_per_s": 1}]}),
            "needs at least 4 gpu, 1 more than the 3 there are",
        ),
    ],
)
def test_the_reason_is_what_is_short(made: AllocationInstance, reason: str) -> None:
    """For every variant of the job."""
    assert infeasible_job_reasons(AllocationFormulation(made), 0) == [f"job 'j', variant 'v': {reason}"]


@pytest.mark.parametrize("seed", range(8))
def test_an_optimal_plan_is_a_feasible_point_of_its_value(seed: int) -> None:
    """Every constraint holds at the encoded plan, the expression has its value, and decoding returns it."""
    instance = random_allocation(seed)
    best = clusterplan.solve(instance, "brute-force")
    if best.plan is None:
        return
    formulation = AllocationFormulation(instance)
    model = ALLOCATION.milp_model(formulation)
    plan = formulation.parse_plan([entry.model_dump() for entry in best.plan])
    for variable, value in model.encode(plan).items():
        variable.varValue = value
    for constraint in model.problem.constraints():
        assert constraint.valid(1e-6)
    assert pulp.value(model.objectives[0].expression) == pytest.approx(best.objective)
    decoded = model.decode(lambda variable: float(variable.varValue))
    assert formulation.finish(decoded) == formulation.finish(plan)


def grid() -> ClusterGrid:
    """Return a grid of scaled clusters."""
    return cluster_grid_of(generate_allocation(3, 1, 0.5, seed=1), "fixed", {"cpu": 1.0}, None)


def test_the_error_is_the_largest_distance_of_a_value_from_the_bound_above_it() -> None:
    """Below the middle there is no plan; above it the value 10 has the bound 8 of the last step."""
    clusters = grid()
    last = clusters.last
    middle = clusters.at_most(last / 2)
    below = clusters.previous(middle)
    bounds = {below: math.inf, middle: 9.5, last: 8.0}
    assert proven_error(clusters, {middle: 10.0}, bounds) == pytest.approx(0.2)
    assert proven_error(clusters, {middle: 10.0, last: 8.0}, bounds) == pytest.approx(0.2)
    above = clusters.next(middle)
    assert proven_error(clusters, {middle: 10.0, above: 8.0}, bounds) == pytest.approx(0.05)


def test_without_a_proof_that_cheaper_clusters_have_no_plan_there_is_no_error() -> None:
    """The error is unknown, not large."""
    clusters = grid()
    assert proven_error(clusters, {clusters.last: 8.0}, {clusters.last: 8.0}) is None
    below = clusters.previous(clusters.last)
    assert proven_error(clusters, {clusters.last: 8.0}, {clusters.last: 8.0, below: math.inf}) == 0


def test_intervals_cover_the_grid_without_overlap() -> None:
    """Each ends at a step with a bound, and the next begins one step above."""
    clusters = grid()
    middle = clusters.at_most(clusters.last / 2)
    found = intervals(clusters, {middle: 10.0}, {middle: 9.0, clusters.last: 8.0})
    assert [part.high for part in found] == [middle, clusters.last]
    assert found[0].low == 0
    assert found[1].low == clusters.next(middle)
    assert found[1].point == middle
    assert found[0].point is None


def test_a_bound_above_a_value_contradicts_it() -> None:
    """Rounding does not."""
    one = Fraction(1)
    assert Interval(one, one, one, 10.0, 10.1).contradicts
    rounded = Interval(one, one, one, 10.0, 10.0 * (1 + 1e-12))
    assert not rounded.contradicts
    assert rounded.error == 0
