"""Configurations and servers together: bounds, plans, warm starts, and one decided after the other."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from joint_brute_force import optimum, random_joint

import clusterplan
from clusterplan.formulations.allocation.formulation import AllocationFormulation
from clusterplan.formulations.allocation.splits import remote_tasks
from clusterplan.instances.allocation.generate import generate_allocation
from clusterplan.instances.allocation.instance import AllocationInstance
from clusterplan.instances.common.errors import OptionError
from clusterplan.solvers.allocation.joint import dual_of, joint_dual, piece_functions
from clusterplan.solvers.allocation.placement_search import ABSENT
from clusterplan.solvers.allocation.placements import MAX_PIECES, Placements
from clusterplan.solvers.allocation.pool_then_pack import OnPools
from clusterplan.solvers.common.base import Clock
from clusterplan.solvers.registry import solvers_for
from clusterplan.solvers.run import find_plan

OF_POOLS = [solver.name for solver in solvers_for("allocation") if isinstance(solver, OnPools)]


def cluster(jobs: int, gpus: int = 3, **fields: Any) -> AllocationInstance:
    """Return jobs whose one worker takes so many GPUs, on two servers of 4."""
    built = clusterplan.Allocation("small").add_server("s", {"gpu": 4, "cpu": 16}, count=2)
    for j in range(jobs):
        speed = {1: 1.0, 2: 1.9}
        built.add_job(f"job-{j}", speed, 100.0, per_worker={"gpu": gpus}, **fields)
    return built.build()


@pytest.mark.parametrize("units", range(2, 13))
def test_no_pieces_that_fit_are_worth_more_than_a_server(units: int) -> None:
    """Of every dual feasible function, over all pieces of a server of so many units."""
    pieces = [
        sizes
        for count in range(1, units + 1)
        for sizes in itertools.combinations_with_replacement(range(1, units + 1), count)
        if sum(sizes) <= units
    ]
    for function in piece_functions(np.array([units])):
        assert max(sum(function[size - 1] for size in sizes) for sizes in pieces) <= 1 + 1e-12


def test_prices_of_pieces_raise_the_bound_where_pieces_pack_badly() -> None:
    """Two jobs of 3 GPUs fill two servers of 4, so that no job has two workers."""
    formulation = AllocationFormulation(cluster(2))
    pooled = dual_of(formulation.configurations, Clock(None))
    dual = joint_dual(formulation, pooled, Clock(None))
    assert pooled.bound < 200 - 1e-6
    assert dual.bound == pytest.approx(200.0)
    result = clusterplan.solve(formulation.instance)
    assert (result.status, result.objective) == ("optimal", pytest.approx(200.0))
    assert result.objectives[0].certified_bound == pytest.approx(200.0)


def test_servers_without_gpus_leave_the_bound_of_equal_ones_as_it_is() -> None:
    """Pieces of GPUs are priced as if servers with CPUs alone were not there."""
    rows = [server.model_dump(exclude_none=True) for server in cluster(2).servers]
    beside = {"name": "cpu", "capacity": {"cpu": 16}, "count": 2}
    formulation = AllocationFormulation(cluster(2).replace(servers=[*rows, beside]))
    dual = joint_dual(formulation, dual_of(formulation.configurations, Clock(None)), Clock(None))
    assert dual.bound == pytest.approx(200.0)


def test_what_does_not_fit_in_pieces_is_proven_infeasible() -> None:
    """Three workers of 3 GPUs take 9 of 10 GPUs, but a server of 5 holds one of them."""
    built = clusterplan.Allocation("tight").add_server("s", {"gpu": 5}, count=2)
    for j in range(3):
        built.add_job(f"job-{j}", {1: 1.0}, 100.0, per_worker={"gpu": 3})
    instance = built.build()
    result = clusterplan.solve(instance)
    assert (result.status, clusterplan.verify(instance, result).ok) == ("infeasible", True)


def test_pieces_that_fit_on_few_servers_are_proven_infeasible() -> None:
    """Two workers of 3 GPUs want the only server that has so many, and six others have 2 each."""
    built = (
        clusterplan.Allocation("mixed").add_server("large", {"gpu": 4}).add_server("s", {"gpu": 2}, count=6)
    )
    for j in range(2):
        built.add_job(f"job-{j}", {1: 1.0}, 100.0, per_worker={"gpu": 3})
    instance = built.build()
    result = clusterplan.solve(instance)
    assert (result.status, clusterplan.verify(instance, result).ok) == ("infeasible", True)


@pytest.mark.parametrize("others", [0, 1])
def test_a_job_whose_pieces_fit_nowhere_together_is_proven_infeasible(others: int) -> None:
    """Three pieces of 3 GPUs on two servers of 5: no configuration is left once pieces have prices."""
    built = clusterplan.Allocation("alone").add_server("s", {"gpu": 5}, count=2)
    built.add_job("wide", {3: 1.0}, 100.0, per_worker={"gpu": 3})
    for j in range(others):
        built.add_job(f"small-{j}", {1: 1.0}, 100.0)
    instance = built.build()
    result = clusterplan.solve(instance)
    assert (result.status, clusterplan.verify(instance, result).ok) == ("infeasible", True)


def test_jobs_on_more_servers_than_the_search_tries_stay_whole() -> None:
    """Where they run now, and in a plan to start from."""
    built = clusterplan.Allocation("wide").add_server("s", {"gpu": 1}, count=MAX_PIECES + 6)
    placement = {f"s-{k}": {"workers": 1} for k in range(MAX_PIECES + 2)}
    now = {"variant": "default", "workers": len(placement), "placement": placement}
    built.add_job("a", {len(placement): 10.0, 10: 5.0}, 1000.0, current=now, restart_s=500)
    start = [{"job": "a", **now}]
    for options in ({}, {"warm_start": start}):
        result = clusterplan.solve(built, **options)
        assert (result.status, result.objective) == ("optimal", pytest.approx(100.0))


def test_jobs_without_a_placement_are_counted() -> None:
    """Where no plan is found and none is proven impossible: 2.5 GPUs are 2 whole units of a piece."""
    built = clusterplan.Allocation("halves").add_server("s", {"gpu": 4}, count=2)
    for j in range(3):
        built.add_job(f"job-{j}", {1: 1.0}, 100.0, per_worker={"gpu": 2.5})
    result = clusterplan.solve(built)
    assert result.status == "unknown"
    assert "1 of 3 jobs" in str(result.message)


@pytest.mark.parametrize(
    "seeds", [range(30), *(pytest.param(range(k, k + 90), marks=pytest.mark.slow) for k in (30, 120, 210))]
)
def test_bounds_and_plans_stand_beside_brute_force(seeds: range) -> None:
    """Over all splits, by formula and measured: no bound is above the optimum, what is proven is optimal."""
    proven = 0
    for seed in seeds:
        instance, best = random_joint(seed), optimum(random_joint(seed))
        for solver in ("exact", "optimus", "pool-then-pack"):
            result = clusterplan.solve(instance, solver, seed=seed)
            if best is None:
                assert result.plan is None, seed
                continue
            record = result.objectives[0]
            for bound in (record.bound, record.certified_bound):
                assert bound is None or bound <= best * (1 + 1e-9), seed
            assert result.status != "infeasible"
            assert record.value is None or record.value >= best * (1 - 1e-9), seed
            if result.status == "optimal":
                proven += solver == "exact"
                assert record.value == pytest.approx(best), seed
    assert proven >= len(seeds) / 4


@pytest.mark.parametrize("shapes", [1, 3])
@pytest.mark.parametrize("running", [0.0, 0.5])
def test_plans_on_generated_servers_are_near_a_certified_bound(shapes: int, running: float) -> None:
    """And no other way is better than the bound."""
    instance = generate_allocation(12, servers=9, shapes=shapes, seed=2, running_share=running)
    result = clusterplan.solve(instance, time_limit_s=20.0)
    record = result.objectives[0]
    assert record.certified_gap is not None
    assert record.certified_gap <= 0.05
    assert clusterplan.verify(instance, result).ok
    for solver in ("lagrangian", "optimus", "pool-then-pack"):
        other = clusterplan.solve(instance, solver)
        assert other.plan is None or other.objective >= record.certified_bound * (1 - 1e-9)


def test_the_same_seed_gives_the_same_plan() -> None:
    """Also where the search does not close the gap."""
    instance = generate_allocation(10, servers=7, seed=5)
    first, second = (clusterplan.solve(instance, "lagrangian", seed=3) for _ in range(2))
    assert first.plan == second.plan


def test_a_running_job_moves_only_where_that_pays() -> None:
    """Its restart takes longer than what is saved on one server, or not."""
    speed = {"model": "table", "rows": [{"workers": 2, "servers": k, "steps_per_s": 3 - k} for k in (1, 2)]}
    for restart_s, servers in ((10.0, 1), (90.0, 2)):
        built = clusterplan.Allocation("moves").add_server("s", {"gpu": 4}, count=2)
        now = {
            "variant": "default",
            "workers": 2,
            "placement": {"s-0": {"workers": 1}, "s-1": {"workers": 1}},
        }
        built.add_job("a", speed, 100.0, current=now, restart_s=restart_s)
        result = clusterplan.solve(built)
        (entry,) = result.plan
        assert (len(entry.placement), result.status) == (servers, "optimal")
        assert entry.completion_s == pytest.approx(min(50 + restart_s, 100.0))


def test_optimus_takes_the_fewest_servers_and_equal_pieces() -> None:
    """As theorem 1; the search may do better with others."""
    built = clusterplan.Allocation("theorem").add_server("s", {"gpu": 4, "cpu": 16}, count=2)
    theta = [0.0, 0.0, 1.0, 0.0, 0.0]
    speed = {"model": "ps_sync", "theta": theta, "batch": 1}
    tasks = {"per_worker": {"gpu": 1}, "per_ps": {"cpu": 1}, "workers": (6, 6), "ps": (2, 2)}
    built.add_job("a", speed, 10.0, **tasks)
    instance = built.build()
    (equal,), (best,) = (clusterplan.solve(instance, solver).plan for solver in ("optimus", "exact"))
    assert [(at.ps, at.workers) for at in equal.placement.values()] == [(1, 3), (1, 3)]
    _, *pieces = np.array(AllocationFormulation(instance).servers.pieces(best.placement)).T
    assert remote_tasks(*pieces) == 2
    assert (equal.completion_s, best.completion_s) == pytest.approx((15.0, 10.0))


@pytest.mark.parametrize("name", OF_POOLS)
def test_methods_of_pools_refuse_servers(name: str) -> None:
    """And say what can be taken in their place."""
    with pytest.raises(OptionError, match="take exact, optimus or pool-then-pack"):
        clusterplan.solve(cluster(1), name)


def test_a_quick_plan_on_servers_refutes_a_claim_that_there_is_none() -> None:
    """Methods of pools are passed over."""
    found = find_plan(AllocationFormulation(cluster(2)), patience_s=10.0)
    assert found is not None
    assert found.method == "lagrangian"


@pytest.mark.parametrize("name", ["optimus", "pool-then-pack"])
def test_methods_of_servers_refuse_pools(name: str) -> None:
    """They have nothing to place jobs on."""
    pooled = clusterplan.Allocation("pool", gpu=4).add_job("a", {1: 1.0}, 10.0)
    with pytest.raises(OptionError, match="pooled resources"):
        clusterplan.solve(pooled, name)


def test_states_and_plans_are_the_same() -> None:
    """A plan becomes a state and a plan again, and what servers have left is never negative."""
    instance = generate_allocation(8, servers=6, shapes=3, seed=1, running_share=0.4)
    formulation = AllocationFormulation(instance)
    plan = clusterplan.solve(instance, "lagrangian").plan
    placements = Placements(formulation, plan)
    rows = formulation.indices_of(plan)
    candidates = placements.candidates(rows, np.arange(len(rows) + 1), np.zeros(0))
    state = placements.state_of(plan, candidates, np.arange(len(rows)))
    assert placements.plan_of(state, rows) == plan
    assert (state.free >= 0).all()
    assert not (state.chosen == ABSENT).any()


@pytest.fixture(scope="module")
def earlier() -> tuple[AllocationInstance, Any]:
    """Return an instance and its plan."""
    instance = generate_allocation(6, servers=6, seed=4)
    return instance, clusterplan.solve(instance, "lagrangian").plan


def test_from_a_warm_start_the_result_is_no_worse(earlier: tuple[AllocationInstance, Any]) -> None:
    """Whatever the time limit."""
    instance, plan = earlier
    value = AllocationFormulation(instance).evaluate(plan)[0]
    result = clusterplan.solve(instance, "exact", warm_start=plan, time_limit_s=0.2)
    assert result.objective <= value * (1 + 1e-12)


def test_jobs_that_ended_are_dropped_and_new_ones_are_placed(earlier: tuple[AllocationInstance, Any]) -> None:
    """A new job starts in its smallest configuration, on servers with room."""
    instance, plan = earlier
    formulation = AllocationFormulation(instance)
    adapted = formulation.adapted([*plan[2:], plan[0].model_copy(update={"job": "ended"})])
    assert [entry.job for entry in adapted] == [job.name for job in instance.jobs]
    smallest = adapted[0]
    assert (smallest.ps, smallest.workers) == (1, 1)
    assert sum(at.ps + at.workers for at in smallest.placement.values()) == 2


def test_a_warm_start_without_room_for_a_new_job_is_left_out() -> None:
    """The search begins with nothing then."""
    instance = cluster(2)
    placement = {"s-0": {"workers": 1}, "s-1": {"workers": 1}}
    full = {"job": "job-0", "variant": "default", "workers": 2, "placement": placement}
    result = clusterplan.solve(instance, warm_start=[full])
    assert (result.status, len(result.plan)) == ("optimal", 2)


def test_a_job_on_a_server_that_is_gone_is_placed_anew(earlier: tuple[AllocationInstance, Any]) -> None:
    """Others stay where they are."""
    instance, plan = earlier
    formulation = AllocationFormulation(instance)
    first = next(iter(plan[0].placement))
    moved = plan[0].model_copy(update={"placement": {"gone": plan[0].placement[first], **plan[0].placement}})
    adapted = formulation.adapted([moved, *plan[1:]])
    assert "gone" not in adapted[0].placement
    assert adapted[1:] == formulation.choices(plan)[1:]
