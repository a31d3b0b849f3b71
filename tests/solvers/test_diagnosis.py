"""Infeasible is a result that says which resource, how much is missing, and what would help."""

from __future__ import annotations

from allocation_instances import allocation, measured
from device_instances import job, placement, server
from staging_instances import half_serial

import clusterplan
from clusterplan.instances.common.base import Instance


def reasons(instance: Instance, solver: str = "auto") -> str:
    """Return why the instance has no plan, after checking that this is what the result says."""
    result = clusterplan.solve(instance, solver)
    assert result.status == "infeasible"
    assert clusterplan.verify(instance, result).ok
    return " | ".join([*result.diagnosis.reasons, *result.diagnosis.remedies])


def test_a_job_larger_than_the_cluster() -> None:
    """The job, the resource and the missing amount are named."""
    text = reasons(allocation({"gpu": 4, "cpu": 9}, [measured("j0", (10, {"gpu": 6, "cpu": 1}))]))
    assert "'j0'" in text
    assert "6 gpu, 2 more than the 4 there are" in text
    assert "cpu" not in text


def test_jobs_that_are_too_large_together() -> None:
    """The resource that the smallest configurations overfill is named with what it needs."""
    text = reasons(allocation({"gpu": 4}, [measured(name, (10, {"gpu": 3})) for name in "ab"]))
    assert "need 6, 2 more than the 4 there are" in text
    assert "raise gpu to at least 6" in text


def test_a_deadline_that_nothing_meets() -> None:
    """The deadline is named."""
    late = measured("j", (10, {"gpu": 1}), deadline_s=5)
    assert "deadline of 5 s" in reasons(allocation({"gpu": 4}, [late]))


def test_a_conflict_of_resources_that_counting_does_not_see() -> None:
    """Each resource alone would do; the relaxed model says what is missing of both together."""
    jobs = [measured(name, (1, {"gpu": 2, "cpu": 1}), (1, {"cpu": 2, "gpu": 1})) for name in "ab"]
    text = reasons(allocation({"gpu": 2, "cpu": 2}, jobs))
    assert "more than the 2 there are would be needed" in text


def staging(floor: float) -> Instance:
    """Return two layers of one second on one type with two units, and a floor of the throughput."""
    layer = {"compute_s": {"t": 1.0}, "compute_parallel": 1.0}
    types = [{"name": "t", "price_usd_per_hour": 1, "limit": 2, "memory_gib": 2}]
    layers = [{"name": "a", **layer}, {"name": "b", **layer}]
    return half_serial(types=types, layers=layers, throughput_floor_samples_per_s=floor)


def test_a_floor_that_a_layer_cannot_reach() -> None:
    """The layers and the highest throughput that no plan exceeds are named."""
    text = reasons(staging(3))
    assert "layer 'a': at most 2 samples/s" in text
    assert "no floor above 2 samples/s" in text


def test_a_floor_that_only_the_whole_plan_misses() -> None:
    """The highest throughput that the limits allow is computed."""
    assert "the highest throughput within the limits is 1 samples/s, and the floor is 1.5" in reasons(
        staging(1.5)
    )


def test_must_place_jobs_that_do_not_go_together() -> None:
    """The result says how many fit and which to leave out."""
    jobs = [job(name, 1, {"gpu": 2}, must_place=True) for name in "abc"]
    text = reasons(placement(["value"], [{**server(gpu=3), "count": 2}], jobs))
    assert "2 of the 3 jobs that must be placed" in text


def test_a_must_place_job_that_never_fits() -> None:
    """The resource of the largest server that is short is named."""
    instance = placement(["value"], [server(gpu=4)], [job("j", 1, {"gpu": 8}, must_place=True)])
    assert "needs 8 gpu; the largest server has 4 (4 gpu)" in reasons(instance)
