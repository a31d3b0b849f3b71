"""What counting proves, by hand.

The fewest servers by volume: by hand, and never above what enumeration finds.
"""

from __future__ import annotations

import random
from typing import Any

import pytest
from placements import job, placement, server

import clusterplan
from clusterplan.formulations.consolidation.check.bounds import elementary_bounds, elementary_infeasibility
from clusterplan.formulations.consolidation.check.classes import CheckedCluster
from clusterplan.formulations.consolidation.cluster_data import ClusterData
from clusterplan.formulations.consolidation.formulation import ConsolidationFormulation
from clusterplan.instances.consolidation.instance import ConsolidationInstance


def test_the_value_is_bounded_by_a_fractional_knapsack() -> None:
    """Of five GPUs the denser job takes two, and the other three of its four."""
    jobs = [job("dense", 2, value=6), job("thin", 4, value=4), job("never", 9, value=100)]
    checked = CheckedCluster.of(placement(["value", "traffic"], [server(gpu=5)], jobs))
    assert elementary_bounds(checked) == (9.0, 0.0)


def test_a_speed_above_one_may_be_won() -> None:
    """Slowdown is at least what all jobs win together at their best."""
    jobs = [job("a", value=2, speed_by_servers={1: 1.5}), job("b", value=2, speed_by_servers={1: 0.5})]
    assert elementary_bounds(CheckedCluster.of(placement(["slowdown"], [server(gpu=2)], jobs))) == (-1.0,)


def test_jobs_that_overfill_a_resource_together() -> None:
    """Each fits, both do not; without must_place nothing is wrong."""
    jobs = [job("a", 2, must_place=True), job("b", 2, must_place=True)]
    found = elementary_infeasibility(ClusterData(placement(["value"], [server(gpu=3)], jobs)))
    assert found is not None
    assert found.reasons == ("gpu: jobs that must be placed need 4; 3 are free",)
    free = [{**asked, "must_place": False} for asked in jobs]
    assert elementary_infeasibility(ClusterData(placement(["value"], [server(gpu=3)], free))) is None


def fewest(made: ConsolidationInstance, *values: float) -> float | None:
    """Return the bound on the last objective."""
    return elementary_bounds(CheckedCluster.of(made), values or None)[-1]


def test_the_largest_servers_are_counted_first() -> None:
    """Nine GPUs: five and three do not hold them, four more do."""
    servers = [server("a", gpu=5), server("b", gpu=3), server("c", gpu=4), server("d", gpu=1)]
    jobs = [job(f"j{k}", 3, must_place=True) for k in range(3)]
    assert fewest(placement(["servers"], servers, jobs)) == 2
    jobs.append(job("more", must_place=True))
    assert fewest(placement(["servers"], servers, jobs)) == 3


def test_each_resource_counts() -> None:
    """One server has the GPUs, and only two have the memory."""
    servers = [server(name, gpu=8, memory=4) for name in "abc"]
    jobs = [job("j", 5, {"gpu": 1, "memory": 1}, must_place=True)]
    assert fewest(placement(["servers"], servers, jobs)) == 2


def test_jobs_of_a_gpu_model_need_servers_of_it() -> None:
    """Two small servers of the model and the largest of the others; together they would fit on one."""
    small = [{**server(f"s{k}", gpu=1), "gpu_model": "T4"} for k in range(3)]
    large = [{**server(f"l{k}", gpu=8), "gpu_model": "A10"} for k in range(3)]
    jobs = [job("t", 2, gpu_model="T4", must_place=True), job("any", 6, must_place=True)]
    assert fewest(placement(["servers"], [*small, *large], jobs)) == 3


def test_optional_jobs_count_as_far_as_the_value_needs_them() -> None:
    """A value of seven needs the dear job and, of the cheap one, what is missing; the free one never."""
    servers = [server(f"n{k}", gpu=2) for k in range(6)]
    jobs = [job("dear", 2, value=6), job("cheap", 4, value=4), job("free", 4, value=0)]
    made = placement(["value", "servers"], servers, jobs)
    assert fewest(made) == 0
    assert [fewest(made, value, 9.0) for value in (0.0, 4.0, 6.0, 7.0, 10.0)] == [0, 1, 1, 2, 3]
    backwards = placement(["servers", "value"], servers, jobs)
    assert elementary_bounds(CheckedCluster.of(backwards), (3.0, 10.0))[0] == 0


def test_a_server_is_needed_for_what_asks_for_nothing() -> None:
    """A task without a demand is on a server, too."""
    made = placement(["servers"], [server(gpu=2)], [job("j", demand={"gpu": 0}, must_place=True)])
    assert fewest(made) == 1


@pytest.mark.parametrize("must", [0.0, 0.4, 1.0])
def test_no_plan_needs_fewer_servers(must: float) -> None:
    """Whichever feasible plan gives the value, the best plan keeps the bound."""
    reached = 0
    for seed in range(8):
        draw = random.Random(seed)
        unlike = [round(draw.uniform(0.1, 2), 3) for _ in range(4)]
        servers: list[dict[str, Any]] = [
            {
                **server(f"n{k}", gpu=draw.choice([2, 3.5]), cpu=draw.choice([2, 4.7])),
                "gpu_model": draw.choice("AB"),
            }
            for k in range(3)
        ]
        jobs = [
            job(
                f"j{k}", draw.randint(1, 2), {"gpu": draw.choice(unlike), "cpu": draw.choice(unlike)},
                must_place=draw.random() < must, value=draw.randint(0, 3), gpu_model=draw.choice([None, "A"]),
            )
            for k in range(3)
        ]  # fmt: skip
        made = placement(["value", "servers"], servers, jobs)
        best = clusterplan.solve(made, solver="brute-force")
        if best.plan is None:
            continue
        for solver in ("brute-force", "best-fit"):
            values = [record.value for record in clusterplan.solve(made, solver=solver).objectives]
            if values:
                known = [value for value in values if value is not None]
                bound = ConsolidationFormulation(made).certified_bounds(None, known)[1]
                assert bound is not None
                value = best.objectives[1].value
                assert value is not None
                assert bound <= value, seed
                reached += bound == value
    assert reached > 2


@pytest.mark.parametrize(("jobs", "like"), [(1, ""), (3, " and 2 jobs like it")])
def test_jobs_that_never_fit_are_named_once(jobs: int, like: str) -> None:
    listed = [job(f"j{k}", demand={"gpu": 8}, must_place=True) for k in range(jobs)]
    found = elementary_infeasibility(ClusterData(placement(["value"], [server(gpu=4)], listed)))
    assert found is not None
    assert found.reasons[0].startswith(f"job 'j0'{like} must be placed, but ")
